//! Renders chat templates: turns messages into the text that a model continues, like transformers.

mod functions;
mod generator;
mod json;
mod python;
mod source;
mod strftime;

use apr_sdk::tokenizer::Parts;
use apr_sdk::{Error, Result, escape};
use functions::Refusal;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value as Json};

/// Bytes of a template. 1 MiB: the longest in use have some 20 KB.
pub const MAX_TEMPLATE: usize = 1 << 20;
/// Fuel of a template: 2^22 steps, where 64 bytes of output count as a step, so 256 MiB at most.
pub const FUEL: u64 = 1 << 22;

/// The input of a template.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The messages: a list of objects with `role` and `content`.
    pub messages: Vec<Json>,
    /// The tools that the model may call, if any.
    pub tools: Option<Vec<Json>>,
    /// True if the text ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Further variables, which some models' templates use.
    pub variables: Map<String, Json>,
    /// The current time for templates, in seconds since 1970; without it, a template that asks for the time
    /// fails.
    pub now: Option<i64>,
}

impl Conversation {
    /// The variables of a template, including the tokenizer's special tokens under transformers' names.
    fn variables(&self, tokenizer: &Parts) -> Map<String, Json> {
        let special = tokenizer.variables().into_iter();
        let mut all: Map<String, Json> = special.map(|(name, text)| (name, text.into())).collect();
        all.insert("messages".to_owned(), self.messages.iter().map(handed).collect());
        all.insert("tools".to_owned(), self.tools.clone().map_or(Json::Null, Json::Array));
        all.insert("documents".to_owned(), Json::Null);
        all.insert("add_generation_prompt".to_owned(), self.add_generation_prompt.into());
        all.extend(self.variables.clone());
        all
    }
}

/// The names of a message's reasoning; the first that is not null counts.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A message as transformers 5.23 hands it to templates (`apply_chat_template`, `_alias_reasoning_fields`): without what is null, and
/// its reasoning under the names that templates read: `reasoning_content`, and `thinking`, which gpt-oss reads, unless it is there.
fn handed(message: &Json) -> Json {
    let Some(fields) = message.as_object() else { return message.clone() };
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    let fields: Map<String, Json> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    let Some(reasoning) = REASONING.iter().find_map(|name| fields.get(*name)).cloned() else {
        return Json::Object(fields);
    };
    let mut all = Map::new();
    all.insert("thinking".to_owned(), reasoning.clone());
    all.extend(fields);
    all.insert("reasoning_content".to_owned(), reasoning);
    Json::Object(all)
}

/// The template called `name`, or the usual one: `tool_use` if there are tools, or `default`.
///
/// # Errors
/// NotFound if there is none, InvalidArgument for an unknown name.
pub fn choose<'t>(tokenizer: &'t Parts, name: Option<&str>, tools: bool) -> Result<&'t str> {
    let all = &tokenizer.chat_templates;
    let find = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str());
    if all.is_empty() {
        return Err(Error::unsupported("the model has no chat template")
            .hint("pass the text itself with `--encode`, or use a model trained to chat"));
    }
    match name {
        Some(name) => find(name).ok_or_else(|| {
            let message = format!("the model has no chat template `{}`", escape(name, 60));
            Error::invalid_argument(message).hint(format!("use one of {}", names(all)))
        }),
        None => {
            let usual = tools.then(|| find("tool_use")).flatten().or_else(|| find("default"));
            usual.ok_or_else(|| {
                let message = match all.len() {
                    1 => "the model's only chat template is not named `default`",
                    _ => "the model has several chat templates, but none is named `default`",
                };
                Error::invalid_argument(message)
                    .hint(format!("specify one with `--template`: {}", names(all)))
            })
        }
    }
}

fn names(templates: &[(String, String)]) -> String {
    let names = templates.iter().take(20).map(|(name, _)| format!("`{}`", escape(name, 60)));
    names.collect::<Vec<_>>().join(", ")
}

/// Renders a conversation.
///
/// # Errors
/// Malformed for an invalid template; InvalidArgument if the template refuses the conversation; LimitExceeded
/// if it takes too many steps or too much memory; Unsupported for features of other programs.
pub fn render(template: &str, tokenizer: &Parts, conversation: &Conversation) -> Result<String> {
    if template.len() > MAX_TEMPLATE {
        let n = template.len();
        return Err(Error::limit(format!(
            "the chat template has {n} bytes, more than the limit of {MAX_TEMPLATE}"
        ))
        .hint("get the model from a trusted source: no real template is this long"));
    }
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let mut environment = Environment::new();
    environment.set_syntax(syntax.map_err(|error| shown(&error))?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(python::methods::call);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    functions::add(&mut environment, conversation.now);
    generator::add(&mut environment);
    python::iterating::add(&mut environment);
    python::add(&mut environment);
    python::operators::add(&mut environment);
    let source = source::prepared(template);
    environment.add_template("chat", &source).map_err(|error| shown(&error))?;
    let template = environment.get_template("chat").map_err(|error| shown(&error))?;
    template
        .render(json::value_of(&Json::Object(conversation.variables(tokenizer))))
        .map_err(|error| shown(&error))
}

/// Converts an error of the library.
fn shown(error: &minijinja::Error) -> Error {
    if let Some(refusal) = Refusal::of(error) {
        return refusal.error();
    }
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    let what = format!("{line}{}", escape(&what, 300));
    match error.kind() {
        ErrorKind::OutOfFuel | ErrorKind::InvalidOperation | ErrorKind::SyntaxError if is_too_much(error) => Error::limit(format!("the chat template exceeds a limit: {what}"))
            .hint("shorten the messages, or check the template: it may loop or repeat a text endlessly"),
        ErrorKind::SyntaxError => Error::malformed(format!("the chat template is not valid Jinja: {what}"))
            .hint("replace the model's template, or render it with transformers and encode the result with `--encode`"),
        ErrorKind::TemplateNotFound
        | ErrorKind::BadInclude
        | ErrorKind::UnknownFilter | ErrorKind::UnknownFunction | ErrorKind::UnknownMethod | ErrorKind::UnknownTest => {
            Error::unsupported(format!("the chat template uses a feature that apr does not support: {what}"))
                .hint("render it with transformers and encode the result with `--encode`")
        }
        _ => Error::invalid_argument(format!("the chat template fails on these messages: {what}"))
            .hint("give each message a `role` and a `content`, and any other fields that the template \
                   requires"),
    }
}

/// Returns whether a template hit a limit: the library has an error kind for fuel only.
fn is_too_much(error: &minijinja::Error) -> bool {
    let detail = error.detail().unwrap_or_default();
    // A sum of too many values is a call of too many arguments once it is rewritten.
    let bounds = [
        "recursion limit",
        "too large",
        "too many elements",
        "nest too deep",
        "Too many arguments in function call",
    ];
    error.kind() == ErrorKind::OutOfFuel || bounds.iter().any(|bound| detail.contains(bound))
}
