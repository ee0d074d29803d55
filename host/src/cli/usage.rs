//! The parser's complaints as errors of our own form: what, and the way out.

use crate::cli::planned_verbs;
use apr_sdk::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;
use std::path::Path;

/// Words of other programs, and the commands that do here what they do there.
const HABITS: &[(&str, &str)] = &[
    ("benchmark", "apr bench MODEL"),
    ("cat", "apr tensors MODEL NAME"),
    ("compare", "apr diff A B"),
    ("complete", "apr run MODEL PROMPT --raw"),
    ("dump", "apr tensors MODEL"),
    ("embed", "apr run MODEL TEXT --embed"),
    ("formats", "apr plugins list"),
    ("generate", "apr run MODEL PROMPT"),
    ("info", "apr inspect MODEL"),
    ("kl-divergence", "apr perplexity MODEL --kl-base FILE"),
    ("list", "apr tensors MODEL"),
    ("ls", "apr tensors MODEL"),
    ("metadata", "apr inspect MODEL"),
    ("quant", "apr convert IN OUT --quantize Q4_K_M"),
    ("requantize", "apr convert IN OUT --quantize Q4_K_M --allow-requantize"),
    ("show", "apr inspect MODEL"),
    ("tokenize", "apr tokenizer MODEL --encode TEXT"),
    ("version", "apr --version"),
];

/// A complaint about the arguments as an error; exit 2. `verb` is the one that was typed, if it is one.
pub fn from_clap(error: &clap::Error, verb: Option<&str>) -> Error {
    // `--set <KEY=VALUE>`: the name says enough.
    let arg = first(error, ContextKind::InvalidArg);
    let arg = arg
        .split_once(" <")
        .filter(|_| arg.starts_with('-'))
        .map_or(arg.as_str(), |(name, _)| name)
        .to_owned();
    let value = first(error, ContextKind::InvalidValue);
    let message = match error.kind() {
        ErrorKind::UnknownArgument => format!("unknown argument `{arg}`"),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command `{}`", first(error, ContextKind::InvalidSubcommand))
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("`{arg}` requires a value"),
        ErrorKind::InvalidValue => format!("invalid value `{value}` for `{arg}`"),
        ErrorKind::ValueValidation => match error.source() {
            Some(source) => format!("invalid value for `{arg}`: {source}"),
            None => format!("invalid value `{value}` for `{arg}`"),
        },
        ErrorKind::MissingRequiredArgument => {
            let missing = all(error, ContextKind::InvalidArg);
            let missing: Vec<String> = missing.iter().map(|argument| said(argument)).collect();
            format!("missing: {}", missing.join(", "))
        }
        ErrorKind::ArgumentConflict => {
            let prior = all(error, ContextKind::PriorArg);
            if prior.first().is_none_or(|prior| *prior == arg) {
                format!("`{arg}` is given more than once")
            } else {
                format!("`{arg}` and `{}` cannot be used together", prior.join("`, `"))
            }
        }
        ErrorKind::MissingSubcommand => "missing command".to_owned(),
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8".to_owned(),
        _ => first_line(error),
    };
    Error::invalid_argument(message).hint(way_out(error, verb))
}

/// The words of this kind that the parser gives with an error.
fn all(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    error.get(kind).map(words).unwrap_or_default()
}

fn first(error: &clap::Error, kind: ContextKind) -> String {
    all(error, kind).into_iter().next().unwrap_or_default()
}

/// The argument that was probably meant, else those that are possible, else where to read.
fn way_out(error: &clap::Error, verb: Option<&str>) -> String {
    let unknown = first(error, ContextKind::InvalidSubcommand);
    if let Some((_, command)) = HABITS.iter().find(|(word, _)| verb.is_none() && *word == unknown) {
        return format!("run `{command}`");
    }
    if verb.is_none() && !unknown.is_empty() && Path::new(&unknown).exists() {
        return format!("specify a command before the path: apr inspect {unknown}");
    }
    let mut suggested = all(error, ContextKind::SuggestedArg);
    suggested.extend(all(error, ContextKind::SuggestedSubcommand));
    suggested
        .retain(|word| verb.is_some() || planned_verbs::VERBS.iter().all(|(planned, _)| planned != word));
    let possible = all(error, ContextKind::ValidValue);
    if !possible.is_empty() {
        return format!("use one of {}", possible.join(", "));
    }
    // The parser gives the most likely one last.
    if let Some(best) = suggested.last() {
        return format!("try `{best}`");
    }
    let usage = error.get(ContextKind::Usage).map(|usage| usage.to_string()).unwrap_or_default();
    let usage = usage.trim().trim_start_matches("Usage: ");
    if error.kind() == ErrorKind::MissingRequiredArgument && usage.starts_with("apr ") && !usage.contains('|')
    {
        return format!("run `{usage}`; see `{} --help`", command(usage));
    }
    match verb {
        // A verb of a verb has a help of its own.
        Some(verb) if usage.starts_with(&format!("apr {verb} ")) => {
            format!("run `{} --help`", command(usage))
        }
        Some(verb) => format!("run `apr {verb} --help`"),
        None => "run `apr --help`".to_owned(),
    }
}

/// The words of a usage line before its arguments: `apr rosetta verify`.
fn command(usage: &str) -> String {
    let words = usage.split_whitespace();
    let words = words.take_while(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
    words.collect::<Vec<_>>().join(" ")
}

/// A missing argument in words: of several of which one is enough, the parser says `<--one <A>|--two <B>>`.
fn said(argument: &str) -> String {
    let several = argument.strip_prefix('<').and_then(|inner| inner.strip_suffix('>'));
    match several.filter(|inner| inner.contains('|')) {
        Some(several) => format!("one of {}", several.replace('|', ", ")),
        None => argument.to_owned(),
    }
}

fn words(value: &ContextValue) -> Vec<String> {
    match value {
        ContextValue::String(word) => vec![word.clone()],
        ContextValue::Strings(words) => words.clone(),
        other => vec![other.to_string()],
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
