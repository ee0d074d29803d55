//! `apr completions`: how does a shell learn what to complete?

use crate::cli::context::Context;
use crate::cli::flags::declared_flags;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::parser;
use apr_host::host::Host;
use apr_sdk::{Error, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};
use clap_complete::Shell;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Print a completion script for a shell
///
/// Examples:
///   apr completions bash > ~/.local/share/bash-completion/completions/apr
///   apr completions zsh > ~/.zfunc/_apr
///   apr completions fish > ~/.config/fish/completions/apr.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// A script. JSON: `shell` and `script`.
#[derive(Debug, Serialize)]
pub struct Script {
    shell: String,
    script: String,
}

/// Generates the script from the parser's own definitions and what the plugins that are there declare.
///
/// # Errors
/// Io if the generator's output is not text; that is a bug.
pub fn run(args: &Args, context: &Context) -> Result<Script> {
    let mut bytes = Vec::new();
    let all = declared_flags::find(context.globals.clone());
    let mut command = face(&parser::command_with(&all), &Values::of(&context.host()));
    clap_complete::generate(args.shell, &mut command, "apr", &mut bytes);
    let script =
        String::from_utf8(bytes).map_err(|_| Error::io("the completion script is not valid UTF-8"))?;
    Ok(Script { shell: args.shell.to_string(), script })
}

/// The values of flags that plugins decide, each with what it is.
struct Values {
    recipes: Vec<PossibleValue>,
    read: Vec<PossibleValue>,
    written: Vec<PossibleValue>,
    architectures: Vec<PossibleValue>,
    types: Vec<PossibleValue>,
}

fn value(name: &str, help: &str) -> PossibleValue {
    PossibleValue::new(name.to_owned()).help(help.to_owned())
}

impl Values {
    fn of(host: &Host) -> Values {
        let quantizers = host.registry.quantizers();
        let formats = host.registry.formats().iter().map(|format| &format.manifest);
        let read = formats.clone().filter(|manifest| manifest.reads);
        let written = formats.filter(|manifest| manifest.writes);
        // One that cannot say what it has is left out: a script is no place for complaints.
        let recipes = quantizers.iter().flat_map(|quantizer| quantizer.recipes().unwrap_or_default());
        let types = quantizers.iter().flat_map(|quantizer| quantizer.dtypes().unwrap_or_default());
        let tables = host.tables().all().filter(|table| !table.is_base);
        Values {
            recipes: recipes.map(|recipe| value(&recipe.name, &recipe.about)).collect(),
            read: read.map(|manifest| value(&manifest.id, &manifest.name)).collect(),
            written: written.map(|manifest| value(&manifest.id, &manifest.name)).collect(),
            architectures: tables
                .map(|table| value(&table.id, &table.name))
                .chain([value("none", "names, rows and metadata as stored")])
                .collect(),
            types: types.map(|dtype| PossibleValue::new(dtype.name().to_owned())).collect(),
        }
    }

    /// Those of a flag; none where anything may stand.
    fn of_flag(&self, long: &str) -> Vec<PossibleValue> {
        match long {
            "quantize" => self.recipes.clone(),
            "from" => self.read.clone(),
            "to" => self.written.clone(),
            "arch" => self.architectures.clone(),
            "output-tensor-type" | "token-embedding-type" => self.types.clone(),
            "precision" => ["f32", "f16", "bf16", "f64", "f8_e4m3", "f8_e5m2"].map(PossibleValue::new).into(),
            "dequantize" => ["f32", "f16", "bf16"].map(PossibleValue::new).into(),
            _ => Vec::new(),
        }
    }
}

/// The visible part of a command: neither hidden flags and verbs, nor what is only planned; flags with the values that
/// they take here.
fn face(command: &Command, values: &Values) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(about)
        .args(arguments.map(|arg| shown(arg, values)))
        .subcommands(verbs.map(|verb| face(verb, values)))
}

fn shown(arg: &Arg, values: &Values) -> Arg {
    let mut shown = Arg::new(arg.get_id().clone())
        .action(arg.get_action().clone())
        .global(arg.is_global_set())
        .help(arg.get_help().cloned().unwrap_or_default())
        .value_hint(arg.get_value_hint());
    if let Some(short) = arg.get_short() {
        shown = shown.short(short);
    }
    if let Some(long) = arg.get_long() {
        shown = shown.long(long.to_owned());
    }
    if let Some(aliases) = arg.get_visible_aliases() {
        shown = shown.visible_aliases(aliases.into_iter().map(str::to_owned));
    }
    if let Some(count) = arg.get_num_args() {
        shown = shown.num_args(count);
    }
    let own = arg.get_long().map_or(Vec::new(), |long| values.of_flag(long));
    let possible = if own.is_empty() { arg.get_possible_values() } else { own };
    match possible.is_empty() || !arg.get_action().takes_values() {
        true => shown,
        false => shown.value_parser(PossibleValuesParser::new(possible)),
    }
}

impl Report for Script {
    fn json(&self) -> Result<Json> {
        with_schema("apr.completions/1", self)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.script)
    }
}
