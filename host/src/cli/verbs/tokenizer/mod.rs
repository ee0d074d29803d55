//! `apr tokenizer`: how does a model read and write text?

mod check;
mod description;
mod encode;
mod render;
pub mod text;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::sandbox_worker::{Given, tokens_of, watch};
use apr_engine::open::check_options;
use apr_inference::generation::Decoder;
use apr_inference::tokens::Encoding;
use apr_sandbox::{Program, compare};
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Error, Result};
use std::path::PathBuf;
use text::{Text, read};

/// Encode and decode with a model's tokenizer, and render its chat template
///
/// Works with every format that holds a tokenizer. Without options, describes the
/// tokenizer. TEXT may be @FILE, or - for stdin; it is used exactly as it is,
/// including a trailing newline. Special tokens spelled out in it are recognized.
///
/// Examples:
///   apr tokenizer model.gguf
///   apr tokenizer model.gguf --encode 'Hello world' --pieces
///   apr tokenizer model/ --decode '15496 995'
///   apr tokenizer model.gguf --count @book.txt
///   apr tokenizer model.gguf --chat 'What is a token?'
///   apr tokenizer model/ --chat @messages.json --tools @tools.json --ids
///   apr tokenizer model.gguf --check model/ --text @corpus.txt
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group = clap::ArgGroup::new("action").args(["encode", "decode", "count", "chat", "check"]))]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the token ids of TEXT
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    encode: Option<Text>,
    /// Print the text of token ids: '1 2 3', '1,2,3' or '[1, 2, 3]'
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    decode: Option<Text>,
    /// Print the number of tokens in TEXT
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    count: Option<Text>,
    /// Render the chat template for a JSON list of messages, or for one user message
    #[arg(long, value_name = "MESSAGES", allow_hyphen_values = true)]
    chat: Option<Text>,
    /// Compare with the tokenizer of OTHER on --text; exit 5 if a token differs
    #[arg(long, value_name = "OTHER", requires = "text")]
    check: Option<PathBuf>,
    /// Text for --check to encode with both tokenizers
    #[arg(long, value_name = "TEXT", requires = "check", allow_hyphen_values = true)]
    text: Option<Text>,
    /// Print one token per line: its id, and its piece as spelled in the vocabulary
    #[arg(long, conflicts_with_all = ["decode", "count", "check"])]
    pieces: bool,
    /// Print the token ids of the rendered chat instead of its text
    #[arg(long, requires = "chat")]
    ids: bool,
    /// Do not add special tokens when encoding; omit them when decoding
    #[arg(long, conflicts_with = "add_special")]
    no_special: bool,
    /// Add special tokens such as BOS (the default, except with --chat)
    #[arg(long)]
    add_special: bool,
    /// Treat special tokens in TEXT as ordinary text
    #[arg(long, conflicts_with_all = ["decode"])]
    no_parse_special: bool,
    /// What a chat is rendered with.
    #[command(flatten)]
    render: render::RenderArgs,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

impl Args {
    /// The encoding of a text into tokens; a rendered chat says its special tokens itself.
    fn encoding(&self) -> Encoding {
        let add_special = if self.chat.is_some() { self.add_special } else { !self.no_special };
        Encoding { add_special, plain: self.no_parse_special }
    }

    fn placed(&self, error: Error) -> Error {
        error.in_file(self.file.display().to_string())
    }
}

/// Opens the model and does what is asked of its tokenizer.
///
/// # Errors
/// What opening raised; Unsupported for a model without a tokenizer; what the text, the ids or the template are wrong in.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let (host, opened) = host_and_model(&args.open, &args.file, context)?;
    let mut warnings = opened.warnings.clone();
    let given = Given::of(&host, &opened)?;
    given.warn(&mut warnings);
    let how = args.encoding();
    if let (Some(other), Some(text)) = (&args.check, &args.text) {
        let second = args.open.open(&host, other)?;
        check_options(&host.registry, &[host.registry.format(&second.format)?], &args.open.options)?;
        let other_given = Given::of(&host, &second)?;
        other_given.warn(&mut warnings);
        let both = [given.json, other_given.json];
        let names = [&args.file, other].map(|path| path.display().to_string());
        let compared = compare(Program::this()?, both, &read(text)?, how, watch(&host))?;
        return Ok(boxed(check::Checked::new(compared, names, warnings)));
    }
    if args.chat.is_none() && args.encode.is_none() && args.count.is_none() && args.decode.is_none() {
        let tokenizer = Tokenizer::from_json(&given.json).map_err(|error| args.placed(error))?;
        return Ok(boxed(description::Said::of(&opened, &tokenizer, warnings)));
    }
    let tokens = tokens_of(given, &host, &opened, context)?;
    if let Some(chat) = &args.chat {
        return render::run(args, chat, &tokens, warnings);
    }
    if let Some(text) = &args.encode {
        let ids = tokens.encode(&read(text)?, how).map_err(|error| args.placed(error))?;
        return encode::encoded(&tokens, ids, args.pieces, warnings);
    }
    if let Some(text) = &args.count {
        let text = read(text)?;
        let count = tokens.count(&text, how).map_err(|error| args.placed(error))?;
        return Ok(boxed(encode::Counted::new(count, &text, warnings)));
    }
    let ids = args.decode.as_ref().map(read).transpose()?.unwrap_or_default();
    let ids = text::ids(&ids)?;
    let text = tokens.decode(&ids, args.no_special).map_err(|error| args.placed(error))?;
    Ok(boxed(encode::Decoded::new(text, ids.len(), warnings)))
}
