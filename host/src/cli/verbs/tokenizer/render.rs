//! `apr tokenizer --chat`: messages by the model's chat template.

use super::text::{Text, read};
use super::{Args, encode};
use crate::cli::output::verb_report::{Report, boxed, with_schema};
use apr_inference::template::Conversation;
use apr_sandbox::Tokens;
use apr_sdk::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::fmt;

/// What a chat is rendered with.
#[derive(Debug, clap::Args)]
pub struct RenderArgs {
    /// Use the chat template of this name
    #[arg(long, value_name = "NAME", requires = "chat")]
    template: Option<String>,
    /// Tools to offer to the model, as a JSON list
    #[arg(long, value_name = "JSON", requires = "chat")]
    tools: Option<Text>,
    /// Start the model's answer (the default)
    #[arg(long, requires = "chat", conflicts_with = "no_add_generation_prompt")]
    add_generation_prompt: bool,
    /// End after the last message
    #[arg(long, requires = "chat")]
    no_add_generation_prompt: bool,
    /// Set more template variables, as a JSON object: {"enable_thinking": false}
    #[arg(long, value_name = "JSON", requires = "chat")]
    chat_template_kwargs: Option<Text>,
}

/// A rendered chat. JSON: `text`.
#[derive(Debug, Serialize)]
struct Rendered {
    text: String,
    warnings: Vec<String>,
}

/// Renders the messages, and encodes them if ids are asked for.
///
/// # Errors
/// InvalidArgument for messages that are none; as `render` and `encode`.
pub fn run(args: &Args, chat: &Text, tokens: &Tokens, warnings: Vec<String>) -> Result<Box<dyn Report>> {
    let asked = &args.render;
    let tools = match &asked.tools {
        Some(text) => Some(list(
            parsed(text, &read(text)?, "tools")?,
            "tools",
            "write them as in --tools '[{\"type\": \"function\", ...}]'",
        )?),
        None => None,
    };
    let variables = asked.chat_template_kwargs.as_ref().map(|text| parsed(text, &read(text)?, "variables"));
    let variables = match variables.transpose()? {
        None => Map::new(),
        Some(Json::Object(map)) => map,
        Some(_) => {
            return Err(Error::invalid_argument("the template variables must be a JSON object")
                .hint("write them as in --chat-template-kwargs '{\"enable_thinking\": false}'"));
        }
    };
    let conversation = Conversation {
        messages: messages(chat)?,
        tools,
        add_generation_prompt: !asked.no_add_generation_prompt,
        variables,
        now: now()?,
    };
    let text = tokens.render(asked.template.as_deref(), &conversation).map_err(|error| args.placed(error))?;
    if !args.ids && !args.pieces {
        return Ok(boxed(Rendered { text, warnings }));
    }
    let ids = tokens.encode(&text, args.encoding()).map_err(|error| args.placed(error))?;
    encode::encoded(tokens, ids, args.pieces, warnings)
}

/// The JSON of an argument, which has this text.
fn parsed(argument: &Text, text: &str, what: &str) -> Result<Json> {
    serde_json::from_str(text).map_err(|error| {
        let error = Error::invalid_argument(format!("invalid JSON in the {what}: {error}"));
        match argument {
            Text::File(name) => error.in_file(name),
            Text::Typed(_) | Text::Stdin => error,
        }
    })
}

/// The messages: a JSON list of objects; a typed text that does not begin as one is a message of the user.
fn messages(chat: &Text) -> Result<Vec<Json>> {
    let text = read(chat)?;
    if matches!(chat, Text::Typed(_)) && !is_json(&text) {
        return Ok(vec![json!({"role": "user", "content": text})]);
    }
    list(parsed(chat, &text, "messages").map_err(|error| error.hint(FORM))?, "messages", FORM)
}

/// Returns whether a text begins as JSON does that messages are written in, or is a list: people ask nothing like that.
fn is_json(text: &str) -> bool {
    let begins = |text: &str, with: char, then: &[char]| {
        text.strip_prefix(with).is_some_and(|rest| rest.trim_start().starts_with(then))
    };
    let text = text.trim_start();
    begins(text, '[', &['{'])
        || begins(text, '{', &['\u{22}'])
        || serde_json::from_str::<Vec<Json>>(text).is_ok()
}

const FORM: &str = "write a list of messages: [{\"role\": \"user\", \"content\": \"Hello\"}]";

/// The objects of a list, or of an object that has nothing else (`{"messages": [...]}`, as servers take it).
fn list(json: Json, what: &str, form: &str) -> Result<Vec<Json>> {
    let inner = match json {
        Json::Object(mut map) if map.get(what).is_some_and(Json::is_array) => {
            map.remove(what).unwrap_or_default()
        }
        other => other,
    };
    match inner {
        Json::Array(items) if items.iter().all(Json::is_object) => Ok(items),
        _ => Err(Error::invalid_argument(format!("the {what} must be a JSON list of objects"))
            .hint(form.to_owned())),
    }
}

/// The date that templates take for today's.
fn now() -> Result<Option<i64>> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else { return Ok(None) };
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        Error::invalid_argument("SOURCE_DATE_EPOCH is not a valid number of seconds since 1970")
            .hint("set it to $(date +%s), or unset it")
    })
}

impl Report for Rendered {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tokenizer.chat/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn exact(&self) -> Option<&str> {
        Some(&self.text)
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)
    }
}
