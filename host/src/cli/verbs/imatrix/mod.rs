//! `apr imatrix`: which columns of a model's weights matter for a text?

mod collect;
mod report;
mod show;
mod sums_so_far;

use crate::cli::context::Context;
use crate::cli::flags::open_args::OpenArgs;
use crate::cli::output::verb_report::{Report, boxed};
use crate::cli::verbs::running::args::ModelArgs;
use apr_sdk::{Error, Result};
use std::path::PathBuf;

/// Collect the importance matrix of a model over texts, for quantizing
///
/// Computes what llama-imatrix computes: for each column of each weight the sum of
/// the squares of what it is multiplied with, over windows of 512 tokens of the
/// texts (--context). `apr convert --imatrix` and llama-quantize read the file.
/// Every weight of a layer is covered, experts each by itself; with
/// --process-output so is the output, unless it is the embedding too.
///
/// The file is written every --save-every windows and at the end; --resume goes
/// on where it was written last. --in-file adds earlier files, and without a
/// MODEL only merges them.
///
/// Examples:
///   apr imatrix model-f16.gguf calibration.txt -o imatrix.gguf
///   apr imatrix model/ a.txt b.txt -o imatrix.gguf --chunks 100
///   apr imatrix model-f16.gguf calibration.txt -o imatrix.gguf --resume
///   apr imatrix --in-file a.gguf --in-file b.gguf -o both.gguf
///   apr imatrix show imatrix.gguf
///   apr convert model-f16.gguf model-q4.gguf --quantize Q4_K_M --imatrix imatrix.gguf
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("context", |arg| arg.help("Number of tokens of a window [default: 512, or as many as the model was trained with]")))]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "MODEL", required_unless_present = "in_file")]
    file: Option<PathBuf>,
    /// Texts: files in UTF-8, or - for stdin
    #[arg(value_name = "TEXT")]
    texts: Vec<PathBuf>,
    /// Importance matrix to write
    #[arg(short = 'o', long, alias = "output-file", value_name = "FILE", required = true)]
    output: Option<PathBuf>,
    /// Form of the file: gguf or dat [default: by its extension, else gguf]
    #[arg(long, value_name = "FORM")]
    output_format: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Add the importance matrix in FILE; may be repeated
    #[arg(long, value_name = "FILE")]
    in_file: Vec<PathBuf>,
    /// Go on with the same texts where the file was written last
    #[arg(long, conflicts_with_all = ["in_file", "from_chunk", "force"])]
    resume: bool,
    /// Write the file after every N windows; 0 for only at the end
    #[arg(long, alias = "output-frequency", value_name = "N", default_value_t = 10)]
    save_every: usize,
    /// Maximum number of windows of all texts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    chunks: Option<i64>,
    /// Leave out the first N windows
    #[arg(long, alias = "chunk", value_name = "N", default_value_t = 0)]
    from_chunk: usize,
    /// Cover the output too
    #[arg(long)]
    process_output: bool,
    /// Recognize special tokens that the texts spell out
    #[arg(long)]
    parse_special: bool,
    /// A text, as llama.cpp names it
    #[arg(short = 'f', long = "file", value_name = "FILE", hide = true)]
    llama_file: Vec<PathBuf>,
    /// Leave out the perplexity, which `apr perplexity` measures
    #[arg(long, hide = true)]
    no_ppl: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
    /// How the model is loaded.
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Show(show::Args),
}

/// Collects, merges or shows.
///
/// # Errors
/// As the actions; InvalidArgument for a model without a text.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    if let Some(Action::Show(show)) = &args.action {
        return show::run(show, context).map(boxed);
    }
    let texts = args.texts.iter().chain(&args.llama_file).cloned().collect();
    match &args.file {
        Some(model) => collect::run(args, model, texts, context).map(boxed),
        None => collect::merge_files(args, context).map(boxed),
    }
}

impl Args {
    fn output(&self) -> Result<&PathBuf> {
        let missing = || Error::invalid_argument("there is no file to write").hint("pass --output FILE");
        self.output.as_ref().ok_or_else(missing)
    }

    /// Windows at most; llama.cpp's −1 stands for all.
    fn most(&self) -> usize {
        self.chunks.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX)
    }
}
