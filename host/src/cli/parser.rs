//! The parser: the verbs' own definitions, and around them what is planned and what every help page ends with.

use crate::cli::Cli;
use crate::cli::Verb;
use crate::cli::flags::declared_flags::{self, Declared};
use crate::cli::output::exit_code::EXIT_CODES;
use crate::cli::planned_verbs;
use crate::cli::usage;
use crate::cli::verbs::version;
use apr_sdk::{Error, Result};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// The request that the arguments make.
pub enum Parsed {
    /// Help or a version: a text that needs no work.
    Text(String),
    /// The same for someone who typed nothing that could be done: on stderr, exit 2.
    Usage(String),
    /// A verb.
    Verb(Box<Cli>),
}

/// The whole parser: help, completions, manual pages and parsing all come from it.
pub fn command() -> Command {
    command_with(&[])
}

/// The parser with the flags that formats declare.
pub fn command_with(all: &[Declared]) -> Command {
    let version = Arg::new("version").short('V').long("version").action(ArgAction::SetTrue);
    let command = planned_verbs::declare(declared_flags::add(Cli::command(), all))
        .arg(version.help("Print the version, target and plugin interface version"))
        .subcommand_required(false)
        .arg_required_else_help(true);
    let verbs: Vec<_> = planned_verbs::VERBS.iter().map(|(name, _)| *name).collect();
    let planned = format!("Not implemented yet (exit 4): {}", verbs.join(", "));
    with_exit_codes(command).after_help(planned.clone()).after_long_help(format!("{planned}\n\n{EXIT_CODES}"))
}

fn with_exit_codes(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = command.after_long_help(EXIT_CODES);
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_exit_codes))
}

/// Understands the arguments.
///
/// # Errors
/// InvalidArgument with a suggestion; Unsupported for what is planned.
pub fn parse(args: Vec<OsString>) -> Result<Parsed> {
    if let [_, only] = &args[..]
        && (only == "--version" || only == "-V")
    {
        // Before the parser is built: this must cost nothing.
        return Ok(Parsed::Text(version::text()));
    }
    // Plugins are looked for only if they can matter: a flag that is not ours, or help that lists theirs.
    let first = match_args(command(), &args);
    let (all, matches) = match first {
        Ok(matches) if planned_verbs::refuse(&matches).is_ok() => (Vec::new(), matches),
        Err(error) if !matters_to_plugins(error.kind()) => return not_a_verb(&error, &args),
        _ => {
            let globals = declared_flags::globals(command(), &args);
            let all = declared_flags::find(globals.clone());
            match match_args(command_with(&all), &args) {
                Ok(matches) => (all, matches),
                Err(error) => {
                    if error.kind() == ErrorKind::UnknownArgument {
                        declared_flags::check_named(globals)?;
                    }
                    return not_a_verb(&error, &args);
                }
            }
        }
    };
    if matches.get_flag("version") {
        let text = if matches.get_flag("json") { version::json() } else { version::text() };
        return Ok(Parsed::Text(text));
    }
    planned_verbs::refuse(&matches)?;
    if matches.subcommand_name().is_none() {
        return Err(Error::invalid_argument("missing command").hint("run `apr --help` to list the commands"));
    }
    let mut cli = Cli::from_arg_matches(&matches)
        .map_err(|error| usage::from_clap(&error, matches.subcommand_name()))?;
    if let Some(open) = cli.verb.open_args() {
        open.options.extend(declared_flags::given(&all, &matches));
    }
    if let Verb::Inspect(inspect) = &mut cli.verb
        && inspect.report.is_none()
    {
        inspect.report = declared_flags::given_report(&all, &matches);
    }
    Ok(Parsed::Verb(Box::new(cli)))
}

fn match_args(command: Command, args: &[OsString]) -> std::result::Result<ArgMatches, clap::Error> {
    command.try_get_matches_from(args)
}

fn matters_to_plugins(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnknownArgument | ErrorKind::DisplayHelp)
}

/// Help, or a complaint.
fn not_a_verb(error: &clap::Error, args: &[OsString]) -> Result<Parsed> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(Parsed::Usage(text)),
        _ if error.use_stderr() => {
            let known = command();
            let mut words = args.iter().skip(1).filter_map(|word| word.to_str());
            Err(usage::from_clap(error, words.find(|word| known.find_subcommand(word).is_some())))
        }
        _ => Ok(Parsed::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::TypeId;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    fn each(command: &Command, check: &mut dyn FnMut(&Command, &str), path: &str) {
        check(command, path);
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            each(verb, check, &format!("{path} {}", verb.get_name()));
        }
    }

    #[test]
    fn every_verb_and_argument_has_help() {
        let mut command = command();
        command.build();
        each(
            &command,
            &mut |verb, path| {
                let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && !about.ends_with('.'), "{path}: {about:?}");
                for arg in verb.get_arguments() {
                    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                    assert!(!help.is_empty() && !help.ends_with('.'), "{path} {}: {help:?}", arg.get_id());
                }
            },
            "apr",
        );
    }

    #[test]
    fn every_verb_that_works_shows_examples_and_exit_codes() {
        for verb in command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let help = verb.clone().render_long_help().to_string();
            assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{}", verb.get_name());
            assert!(help.find("Examples:") < help.find("Usage:"), "{}: examples come first", verb.get_name());
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        command().debug_assert();
    }
    /// Arguments of a verb that take a value, other than those whose values are words, as `run --logits-out`.
    fn paths(words: &[String]) -> BTreeSet<String> {
        let mut arguments = BTreeSet::new();
        let mut command = command();
        command.build();
        let mut collect = |verb: &Command, path: &str| {
            let path = path.trim_start_matches("apr").trim_start();
            // A global one is every verb's, but listed once.
            let own = verb.get_arguments().filter(|arg| path.is_empty() || !arg.is_global_set());
            for arg in own.filter(|arg| !is_planned(arg) && arg.get_action().takes_values()) {
                let values = arg.get_value_names().unwrap_or_default().join(" ");
                let name = arg.get_long().map_or_else(|| values.clone(), |long| format!("--{long}"));
                // Whichever name it has, a path is none of the words.
                let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                if is_path || !words.contains(&values) {
                    arguments.insert(format!("{path} {name}").trim_start().to_owned());
                }
            }
        };
        each(&command, &mut collect, "apr");
        arguments
    }

    /// Returns whether an argument is planned: it is refused before it does anything.
    fn is_planned(arg: &Arg) -> bool {
        arg.is_hide_set() && ["planned-", "rest"].iter().any(|id| arg.get_id().as_str().starts_with(id))
    }

    fn texts(value: &toml::Value) -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_argument_that_takes_a_path_is_said_to_read_or_to_write() {
        let listed: toml::Table = include_str!("../../../tests/hostile/paths.toml").parse().unwrap();
        let reads = texts(&listed["reads"]);
        let either = texts(&listed["either"]);
        let mut said = reads.clone();
        for list in ["tensors", "names", "servers"] {
            said.extend(texts(&listed[list]));
        }
        for case in ["writes", "makes"].iter().flat_map(|kind| listed[*kind].as_array().unwrap()) {
            let arguments = texts(&case["arguments"]);
            let command = format!(" {} ", case["command"].as_str().unwrap());
            for (verb, _) in arguments.iter().filter_map(|argument| argument.rsplit_once(' ')) {
                let flags = reads.iter().filter_map(|read| read.strip_prefix(verb)?.strip_prefix(" --"));
                let tries = |flag: &str| command.contains(&format!(" --{flag} "));
                let is_tried = |flag: &str| {
                    tries(flag) || either.iter().any(|one| one == flag) && either.iter().any(|one| tries(one))
                };
                let left_out: Vec<_> =
                    flags.filter(|flag| case.get("reads").is_some() && !is_tried(flag)).collect();
                assert!(left_out.is_empty(), "{arguments:?}: also try what {left_out:?} reads");
            }
            said.extend(arguments);
        }
        let has: BTreeSet<String> = said.iter().cloned().collect();
        assert_eq!(has.len(), said.len(), "an argument is listed twice");
        let paths = paths(&texts(&listed["words"]));
        let missing: Vec<_> = paths.difference(&has).collect();
        let gone: Vec<_> = has.difference(&paths).collect();
        let remedy = "list them in tests/hostile/paths.toml, those that write with a command that tries it";
        assert!(missing.is_empty(), "arguments that may be paths: {missing:#?}: {remedy}");
        assert!(gone.is_empty(), "there are no such arguments: {gone:?}");
    }
}
