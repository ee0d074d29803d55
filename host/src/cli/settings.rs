//! Settings and where each came from: flag, environment, user file, system file, built-in, in this order.

use crate::cli::flags::globals::{ColorWhen, Globals};
use crate::cli::folders::{self, Env};
use apr_host::storage::small_file::read_text;
use apr_sdk::{Error, ErrorKind, Result, escape};
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The file that holds for every user of the machine.
const SYSTEM_FILE: &str = "/etc/apr/config.toml";

/// The type of a setting.
enum Kind {
    Bool,
    Integer,
    Text,
    Choice(&'static [&'static str]),
    Words,
}

/// One row of the table of settings.
struct Spec {
    key: &'static str,
    kind: Kind,
    /// As TOML.
    built_in: &'static str,
    env: Option<&'static str>,
    help: &'static str,
}

macro_rules! specs {
    ($($key:literal, $kind:expr, $built_in:literal, $env:expr, $help:literal;)*) => {
        /// Every setting there is.
        const SPECS: &[Spec] = &[
            $(Spec { key: $key, kind: $kind, built_in: $built_in, env: $env, help: $help }),*
        ];
    };
}

specs! {
    "defaults.output_format", Kind::Choice(&["text", "json"]), "\"text\"", None, "what commands print";
    "defaults.color", Kind::Choice(&["auto", "always", "never", "true", "false"]), "\"auto\"", Some("APR_COLOR"), "when to use colors";
    "defaults.threads", Kind::Integer, "0", None, "number of threads; 0 uses one per CPU core";
    "defaults.progress", Kind::Choice(&["auto", "json", "plain", "none"]), "\"auto\"", None, "how progress is shown";
    "formats.prefer", Kind::Words, "[]", None, "formats to prefer if two recognize a file equally well (planned)";
    "backends.auto", Kind::Words, "[]", None, "installed compute backends that may be chosen automatically, like apr's own";
    "plugins.trusted_folders", Kind::Words, "[]", None, "absolute folders whose plugins may have a different owner";
    "inspect.max_tokens_display", Kind::Integer, "20", None, "number of items of a long list that inspect shows";
    "inspect.show_vocab", Kind::Bool, "true", None, "whether inspect shows the first tokens (planned)";
    "validate.strict", Kind::Bool, "false", None, "whether warnings of validate are errors";
    "validate.require_signature", Kind::Bool, "false", None, "whether to refuse unsigned files (planned)";
    "debug.drama_mode", Kind::Bool, "false", None, "whether debug presents a file as a play in acts (planned)";
    "debug.hex_limit", Kind::Integer, "256", None, "number of bytes that debug dumps (planned)";
    "cache.folder", Kind::Text, "\"\"", Some("APR_CACHE"), "where downloads are kept; empty for the folder of the hub's own client";
    "log.level", Kind::Choice(&["error", "warn", "info", "debug"]), "\"info\"", Some("APR_LOG_LEVEL"), "which plugin messages are shown";
}

/// One setting, resolved.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// `section.name`.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// The flag, variable or file it came from, or `built-in`.
    pub origin: String,
    /// Its purpose.
    pub help: &'static str,
}

/// Every setting, and the files that were read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In the table's order.
    pub all: Vec<Setting>,
    /// The configuration files that exist and were read, strongest first.
    pub files: Vec<PathBuf>,
    /// Warnings about what nobody understands in those files.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the files and applies environment and flags.
    ///
    /// # Errors
    /// NotFound for a named file that is not there; InvalidArgument for a file that is no TOML, or a value that its
    /// setting does not take.
    pub fn load(globals: &Globals, env: Env<'_>) -> Result<Settings> {
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        for (path, named) in candidates(globals, env) {
            if let Some(table) = read_file(&path, named)? {
                unknown_keys(&path, &table, &mut warnings);
                files.push((path, table));
            }
        }
        let all = SPECS.iter().map(|spec| resolve(spec, globals, env, &files)).collect::<Result<_>>()?;
        Ok(Settings { all, files: files.into_iter().map(|(path, _)| path).collect(), warnings })
    }

    /// The text of a setting; empty for any other kind.
    pub fn text(&self, key: &str) -> &str {
        self.find(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns whether a setting is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.find(key).and_then(Value::as_bool).unwrap_or_default()
    }

    /// The number of a setting.
    pub fn number(&self, key: &str) -> usize {
        self.find(key).and_then(Value::as_integer).and_then(|n| usize::try_from(n).ok()).unwrap_or_default()
    }

    /// The words of a setting.
    pub fn words(&self, key: &str) -> Vec<String> {
        let items = self.find(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn find(&self, key: &str) -> Option<&Value> {
        self.all.iter().find(|setting| setting.key == key).map(|setting| &setting.value)
    }
}

/// The files that may exist, strongest first, and whether the user named them. There is no file of the working folder:
/// a model's folder must not change what apr does.
fn candidates(globals: &Globals, env: Env<'_>) -> Vec<(PathBuf, bool)> {
    let named = globals
        .config
        .clone()
        .or_else(|| env("APR_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from));
    let first = match named {
        Some(path) => Some((path, true)),
        None => folders::config_home(env).map(|home| (home.join("apr").join("config.toml"), false)),
    };
    first.into_iter().chain([(PathBuf::from(SYSTEM_FILE), false)]).collect()
}

fn read_file(path: &Path, named: bool) -> Result<Option<Table>> {
    let shown = path.display().to_string();
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && !named => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::not_found("the configuration file does not exist")
                .in_file(shown)
                .hint("specify another file, or unset --config and APR_CONFIG"));
        }
        Err(error) => {
            return Err(
                error.hint("specify another file with --config, or use --config /dev/null to use none")
            );
        }
    };
    text.parse::<Table>().map(Some).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start as u64);
        Error::invalid_argument(format!("the configuration is not valid TOML: {}", error.message()))
            .in_file(shown)
            .at(at)
            .hint("run `apr config show` to list the settings")
    })
}

fn unknown_keys(path: &Path, table: &Table, warnings: &mut Vec<String>) {
    for (section, value) in table {
        let keys: Vec<String> = match value {
            Value::Table(fields) => fields.keys().map(|name| format!("{section}.{name}")).collect(),
            _ => vec![section.clone()],
        };
        for key in keys.iter().filter(|key| !SPECS.iter().any(|spec| spec.key == **key)) {
            let shown = escape(key, 80);
            warnings.push(format!(
                "{}: unknown setting `{shown}`: run `apr config show` to list the settings",
                path.display()
            ));
        }
    }
}

fn resolve(spec: &Spec, globals: &Globals, env: Env<'_>, files: &[(PathBuf, Table)]) -> Result<Setting> {
    let (origin, value) = origin_and_value(spec, globals, env, files)?;
    Ok(Setting { key: spec.key, value, origin, help: spec.help })
}

fn origin_and_value(
    spec: &Spec,
    globals: &Globals,
    env: Env<'_>,
    files: &[(PathBuf, Table)],
) -> Result<(String, Value)> {
    if let Some((flag, value)) = from_flag(spec.key, globals) {
        return Ok((flag.to_owned(), value));
    }
    if let Some((name, value)) = from_env(spec, env)? {
        return Ok((name, value));
    }
    let (section, name) = spec.key.split_once('.').unwrap_or((spec.key, ""));
    for (path, table) in files {
        if let Some(value) = table.get(section).and_then(|fields| fields.get(name)) {
            let value =
                checked(spec, value.clone()).map_err(|error| error.in_file(path.display().to_string()))?;
            return Ok((path.display().to_string(), value));
        }
    }
    let built_in = spec.built_in.parse::<Value>().unwrap_or(Value::Boolean(false));
    Ok(("built-in".to_owned(), built_in))
}

fn from_flag(key: &str, globals: &Globals) -> Option<(&'static str, Value)> {
    match key {
        "defaults.output_format" => globals.json.then(|| ("--json", Value::from("json"))),
        "defaults.color" => word_of(globals.color).map(|word| ("--color", Value::String(word))),
        "defaults.progress" => word_of(globals.progress).map(|word| ("--progress", Value::String(word))),
        "defaults.threads" => {
            let threads = i64::try_from(globals.threads?).ok()?;
            Some(("--threads", Value::Integer(threads)))
        }
        _ => None,
    }
}

fn word_of<V: ValueEnum>(value: Option<V>) -> Option<String> {
    value?.to_possible_value().map(|value| value.get_name().to_owned())
}

fn from_env(spec: &Spec, env: Env<'_>) -> Result<Option<(String, Value)>> {
    if spec.key == "defaults.color" {
        // Several variables speak of colors; `globals` knows their order.
        let when = word_of(ColorWhen::from_env(env));
        let name = ["APR_COLOR", "NO_COLOR", "CLICOLOR_FORCE"]
            .iter()
            .find(|n| env(n).is_some_and(|v| !v.is_empty()));
        return Ok(when.zip(name).map(|(when, name)| ((*name).to_owned(), Value::String(when))));
    }
    let Some(name) = spec.env else { return Ok(None) };
    let Some(text) = env(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    checked(spec, Value::String(text)).map(|value| Some((name.to_owned(), value)))
}

/// `value`, if the setting takes it.
fn checked(spec: &Spec, value: Value) -> Result<Value> {
    let (fits, takes) = match (&spec.kind, &value) {
        (Kind::Bool, value) => (value.is_bool(), "true or false".to_owned()),
        (Kind::Integer, value) => (value.as_integer().is_some_and(|n| n >= 0), "an integer".to_owned()),
        (Kind::Text, value) => (value.is_str(), "a text".to_owned()),
        (Kind::Words, Value::Array(items)) => {
            (items.iter().all(Value::is_str), "a list of strings".to_owned())
        }
        (Kind::Words, _) => (false, "a list of strings".to_owned()),
        (Kind::Choice(words), Value::String(word)) => (words.contains(&word.as_str()), words.join(", ")),
        // The specification writes `color = true`.
        (Kind::Choice(words), Value::Boolean(on)) if words.contains(&"true") => {
            return Ok(Value::from(if *on { "auto" } else { "never" }));
        }
        (Kind::Choice(words), _) => (false, words.join(", ")),
    };
    if fits {
        return Ok(value);
    }
    Err(Error::invalid_argument(format!(
        "the setting `{}` expects {takes}, found {}",
        spec.key,
        escape(&value.to_string(), 80)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, flags: Globals, vars: &[(&str, &str)]) -> Result<Settings> {
        let of = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("apr-settings-{of:?}.toml"));
        std::fs::write(&path, file).unwrap();
        let globals = Globals { config: Some(path.clone()), ..flags };
        let settings = Settings::load(&globals, &|name| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        });
        std::fs::remove_file(path).unwrap();
        settings
    }

    #[test]
    fn built_in_values_fit_their_own_kind() {
        for spec in SPECS {
            checked(spec, spec.built_in.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn flag_beats_environment_beats_file() {
        let file = "[defaults]\ncolor = false\nthreads = 3\n[formats]\nprefer = ['a', 'b']\n";
        let settings = load(file, Globals::default(), &[]).unwrap();
        assert_eq!((settings.text("defaults.color"), settings.number("defaults.threads")), ("never", 3));
        assert_eq!(settings.words("formats.prefer"), ["a", "b"]);
        let env = [("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")];
        let settings = load(file, Globals::default(), &env).unwrap();
        assert!(settings.all.iter().any(|s| s.key == "defaults.color" && s.origin == "NO_COLOR"));
        let flags = Globals { color: Some(ColorWhen::Always), threads: Some(9), ..Globals::default() };
        let settings = load(file, flags, &env).unwrap();
        assert_eq!((settings.text("defaults.color"), settings.number("defaults.threads")), ("always", 9));
    }

    #[test]
    fn refuses_values_of_another_kind_and_names_strangers() {
        assert!(load("[defaults]\nthreads = 'many'\n", Globals::default(), &[]).is_err());
        assert!(load("[defaults\n", Globals::default(), &[]).is_err());
        assert!(load("", Globals::default(), &[("APR_LOG_LEVEL", "loud")]).is_err());
        let settings = load("[defaults]\ncolour = true\n", Globals::default(), &[]).unwrap();
        assert!(settings.warnings[0].contains("unknown setting `defaults.colour`"));
    }
}
