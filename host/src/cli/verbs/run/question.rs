//! The question to the model, and its form.

use crate::cli::verbs::running::prompt::{has_template, message, of_chat, of_text, of_whole_text};
use crate::cli::verbs::tokenizer::text::{Text, read};
use apr_host::running::Embedding;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};
use std::io::{self, IsTerminal};
use std::path::Path;

/// The flags that say it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of the prompt")]
pub struct QuestionArgs {
    /// Prompt for the model; - for stdin
    #[arg(value_name = "PROMPT", help_heading = None::<&'static str>)]
    prompt: Option<String>,
    /// The same as PROMPT
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "PROMPT",
        conflicts_with = "prompt_file",
        allow_hyphen_values = true
    )]
    prompt_flag: Option<String>,
    /// Read the prompt from FILE
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    prompt_file: Option<String>,
    /// Continue these token ids, such as 1,15043,29892, and print those of the answer: needs no tokenizer
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        value_parser = parse_id,
        conflicts_with_all = ["prompt", "prompt_flag", "prompt_file", "raw", "chat", "system", "template"]
    )]
    ids: Option<Vec<u32>>,
    /// Continue the prompt as it is, without the chat template
    #[arg(long, aliases = ["no-template", "no-conversation"])]
    raw: bool,
    /// Use the chat template; fail if the model has none
    #[arg(long, alias = "conversation", conflicts_with = "raw")]
    chat: bool,
    /// Instructions for the model, as the conversation's first message
    #[arg(long, aliases = ["system-prompt", "sys"], value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Use the chat template of this name
    #[arg(long, value_name = "NAME", conflicts_with = "raw")]
    template: Option<String>,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_id(text: &str) -> std::result::Result<u32, String> {
    text.trim().parse().map_err(|_| format!("expected token ids such as 1,15043, found `{text}`"))
}

/// The question to the model.
pub struct Question {
    text: String,
    form: Form,
}

/// The text's role for the model.
enum Form {
    /// A message, if there is a template.
    Either,
    /// A text to continue.
    Text,
    /// A message of the user.
    Chat { system: Option<String>, template: Option<String> },
}

impl QuestionArgs {
    /// The file that the prompt is in.
    pub fn file(&self) -> Option<&Path> {
        self.prompt_file.as_deref().map(Path::new)
    }

    /// The argument in the prompt's place, and the text of the flags, for a verb to which the former is something else.
    ///
    /// # Errors
    /// As [`read`].
    pub fn beside(&self) -> Result<(Option<&str>, Option<String>)> {
        let text = match (&self.prompt_flag, &self.prompt_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(file)) if file == "-" => Some(read(&Text::Stdin)?),
            (None, Some(file)) => Some(read(&Text::File(file.clone()))?),
            (None, None) => None,
        };
        Ok((self.prompt.as_deref(), text))
    }

    /// The ids that stand for a prompt.
    pub fn ids(&self) -> Option<&[u32]> {
        self.ids.as_deref()
    }

    /// Reads the prompt.
    ///
    /// # Errors
    /// InvalidArgument if there is none; as [`read`].
    pub fn read(&self) -> Result<Question> {
        if self.prompt.is_some() && (self.prompt_flag.is_some() || self.prompt_file.is_some()) {
            return Err(Error::invalid_argument("the prompt is given twice")
                .hint("specify one of PROMPT, --prompt and --file"));
        }
        let typed = self.prompt.as_ref().or(self.prompt_flag.as_ref());
        let text = match (typed, &self.prompt_file) {
            (Some(text), _) if text != "-" => text.clone(),
            (None, Some(file)) => read(&Text::File(file.clone()))?,
            (None, None) if io::stdin().is_terminal() => {
                return Err(Error::invalid_argument("missing prompt")
                    .hint("run `apr run MODEL PROMPT`, or `apr chat MODEL` for a conversation"));
            }
            // The line's end is the shell's, not the user's.
            _ => read(&Text::Stdin)?.trim_end_matches(['\n', '\r']).to_owned(),
        };
        if text.is_empty() {
            return Err(Error::invalid_argument("the prompt is empty").hint("specify a text to answer"));
        }
        let form = match () {
            () if self.raw => Form::Text,
            () if self.chat || self.system.is_some() || self.template.is_some() => {
                Form::Chat { system: self.system.clone(), template: self.template.clone() }
            }
            () => Form::Either,
        };
        Ok(Question { text, form })
    }
}

impl Question {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tokens of the text in the form in which the model makes vectors of texts.
    ///
    /// # Errors
    /// As [`of_whole_text`].
    pub fn embedded(&self, tokens: &Tokens, way: &Embedding) -> Result<Vec<u32>> {
        let mut text = format!("{}{}", way.prompt, self.text);
        if way.lower_case {
            // Character by character, as tokenizers do it.
            text = text.chars().flat_map(char::to_lowercase).collect();
        }
        of_whole_text(tokens, &text)
    }

    /// Its tokens.
    ///
    /// # Errors
    /// Unsupported if a template is wanted and there is none; as [`of_chat`] and [`of_text`].
    pub fn tokens(&self, tokens: &Tokens) -> Result<Vec<u32>> {
        let user = message("user", &self.text);
        match &self.form {
            Form::Chat { .. } if !has_template(tokens) => {
                Err(Error::unsupported("the model has no chat template")
                    .hint("pass --raw to continue the prompt as plain text, or use a model trained to chat"))
            }
            Form::Chat { system, template } => {
                let system = system.as_ref().map(|text| message("system", text));
                let messages: Vec<_> = system.into_iter().chain([user]).collect();
                of_chat(tokens, template.as_deref(), &messages)
            }
            Form::Either if has_template(tokens) => of_chat(tokens, None, &[user]),
            Form::Either | Form::Text => of_text(tokens, &self.text),
        }
    }
}
