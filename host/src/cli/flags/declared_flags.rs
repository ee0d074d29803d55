//! Flags that formats declare: an option of a plugin's manifest is `-O [format.]name=value`, and also `--name value`; a
//! report is `inspect --report ID`, and also `inspect --ID`.

use crate::cli::context::Context;
use crate::cli::flags::globals::Globals;
use crate::cli::flags::open_args::GivenOption;
use apr_sdk::{OptionKind, OptionSpec, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

/// The verbs that open a model and so take the flags of its format.
const VERBS: [&str; 9] =
    ["convert", "import", "export", "inspect", "scan", "tensors", "diff", "quality", "validate"];

/// Those of them that write one too.
const WRITING: [&str; 3] = ["convert", "import", "export"];

/// The verb that shows reports.
const REPORTING: &str = "inspect";

/// A flag and the formats that declare it.
pub struct Declared {
    flag: Flag,
    formats: Vec<String>,
}

/// The meaning of a flag.
#[derive(Clone)]
enum Flag {
    /// An option.
    Option(OptionSpec),
    /// A report: its id and its help.
    Report(String, String),
}

impl Declared {
    /// The flag's name.
    pub fn name(&self) -> &str {
        match &self.flag {
            Flag::Option(spec) => &spec.name,
            Flag::Report(id, _) => id,
        }
    }

    fn is_of(&self, verb: &str) -> bool {
        match &self.flag {
            Flag::Option(spec) => spec.read || WRITING.contains(&verb),
            Flag::Report(..) => verb == REPORTING,
        }
    }
}

/// Every option and report that a plugin which is there declares, in the order of names. Only manifests are read.
pub fn find(globals: Globals) -> Vec<Declared> {
    // A configuration that cannot be read is an error later, where it can be told.
    let Ok(context) = Context::new(globals) else { return Vec::new() };
    let mut all: Vec<Declared> = Vec::new();
    for format in context.registry().formats() {
        let options = format.manifest.options.iter().cloned().map(Flag::Option);
        let reports = format.manifest.reports.iter().cloned().map(|(id, help)| Flag::Report(id, help));
        for flag in options.chain(reports) {
            let mut new = Declared { flag, formats: vec![format.id().to_owned()] };
            match all.iter_mut().find(|declared| declared.name() == new.name()) {
                Some(declared) => {
                    declared.formats.append(&mut new.formats);
                    if let (Flag::Option(spec), Flag::Option(other)) = (&mut declared.flag, new.flag) {
                        spec.read |= other.read;
                    }
                }
                None => all.push(new),
            }
        }
    }
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}

/// Fails if a plugin that the user named is refused: its flags are unknown then.
///
/// # Errors
/// The refusal.
pub fn check_named(globals: Globals) -> Result<()> {
    // As in `find`.
    Context::new(globals).map_or(Ok(()), |context| context.check_named_plugins())
}

/// The global flags of arguments that are not understood as a whole yet.
pub fn globals(command: Command, args: &[std::ffi::OsString]) -> Globals {
    let matches = command.ignore_errors(true).try_get_matches_from(args);
    matches.ok().and_then(|matches| Globals::from_arg_matches(&matches).ok()).unwrap_or_default()
}

/// Adds the flags to the verbs that take them. A name that a verb has already stays the verb's own; `-O` reaches it.
pub fn add(mut command: Command, all: &[Declared]) -> Command {
    let global: Vec<_> =
        command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
    let mut free: Vec<_> = all.iter().filter(|declared| declared.name() != "help").collect();
    free.retain(|declared| !global.iter().any(|name| name == declared.name()));
    for verb in VERBS {
        for &declared in free.iter().filter(|declared| declared.is_of(verb)) {
            command = command.mut_subcommand(verb, |verb| {
                let taken = verb.get_arguments().any(|arg| arg.get_long() == Some(declared.name()));
                if taken { verb } else { verb.arg(flag(declared)) }
            });
        }
    }
    command
}

fn flag(declared: &Declared) -> Arg {
    let name = declared.name();
    let arg = Arg::new(id(name)).long(name.to_owned()).help_heading("Format options");
    let of = declared.formats.join(", ");
    let spec = match &declared.flag {
        Flag::Report(_, help) => {
            return arg.help(format!("Show a report ({of}): {help}")).action(ArgAction::SetTrue);
        }
        Flag::Option(spec) => spec,
    };
    let arg = arg.help(format!("{} ({of})", spec.help));
    match &spec.kind {
        // `--flag` is on; a value must be joined with `=`, or it would be taken for a path.
        OptionKind::Flag | OptionKind::Refuse => {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("true|false")
        }
        OptionKind::Choice(words) => arg.action(ArgAction::Append).value_name(words.join("|")),
        OptionKind::Integer => arg.action(ArgAction::Append).value_name("N"),
        _ => arg.action(ArgAction::Append).value_name("TEXT"),
    }
}

/// The options given by these flags, as if by `-O`.
pub fn given(all: &[Declared], matches: &ArgMatches) -> Vec<GivenOption> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let mut given = Vec::new();
    for declared in all.iter().filter(|declared| matches!(declared.flag, Flag::Option(_))) {
        if let Ok(Some(values)) = matches.try_get_many::<String>(&id(declared.name())) {
            given.extend(values.map(|value| (None, declared.name().to_owned(), value.clone())));
        }
    }
    given
}

/// The report that was asked for by its flag, as if by `--report`.
pub fn given_report(all: &[Declared], matches: &ArgMatches) -> Option<String> {
    let (_, matches) = matches.subcommand()?;
    let reports = all.iter().filter(|declared| matches!(declared.flag, Flag::Report(..)));
    let mut asked = reports
        .map(Declared::name)
        .filter(|name| matches.try_get_one::<bool>(&id(name)).is_ok_and(|flag| flag == Some(&true)));
    asked.next().map(str::to_owned)
}

/// The argument's id in the parser; prefixed, so that it cannot meet a verb's own.
fn id(name: &str) -> String {
    format!("declared-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parser;
    use apr_sdk::Manifest;

    fn declared() -> Vec<Declared> {
        let manifest = "id=toy\nversion=1\nlicense=MIT\nformats=toy\ntoy.roles=read write\n\
                        toy.option.order=both choice:big,little big Byte order\ntoy.option.safe-ish=read flag false Take care\n\
                        toy.option.json=read flag false Never seen\ntoy.option.sign=write text - By whom\n\
                        toy.report.keys=What there is\ntoy.report.json=Never seen";
        let toy = Manifest::parse(manifest).unwrap().formats.remove(0);
        let reports = toy.reports.into_iter().map(|(id, help)| Flag::Report(id, help));
        let flags = toy.options.into_iter().map(Flag::Option).chain(reports);
        flags.map(|flag| Declared { flag, formats: vec!["toy".into()] }).collect()
    }

    #[test]
    fn a_declared_report_is_a_flag_of_inspect_alone() {
        let all = declared();
        for (args, report) in [
            ("apr inspect a --keys", Some("keys".to_owned())),
            ("apr inspect a --json", None),
            ("apr convert a b", None),
        ] {
            assert_eq!(given_report(&all, &matches(args).unwrap()), report, "{args}");
        }
        assert!(matches("apr tensors a --keys").is_err());
    }

    fn matches(args: &str) -> clap::error::Result<ArgMatches> {
        parser::command_with(&declared()).try_get_matches_from(args.split(' '))
    }

    fn parse(args: &str) -> Vec<GivenOption> {
        given(&declared(), &matches(args).unwrap())
    }

    fn option(name: &str, value: &str) -> GivenOption {
        (None, name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_declared_option_is_a_flag_of_every_verb_that_opens() {
        assert_eq!(
            parse("apr convert a b --order big --safe-ish"),
            [option("order", "big"), option("safe-ish", "true")]
        );
        assert_eq!(parse("apr inspect --safe-ish a"), [option("safe-ish", "true")]);
        assert_eq!(parse("apr inspect --safe-ish=false a"), [option("safe-ish", "false")]);
        assert_eq!(parse("apr tensors a"), []);
    }

    #[test]
    fn an_option_of_writers_is_no_flag_of_verbs_that_only_read() {
        let all = declared();
        for (verb, takes) in [("inspect", false), ("diff", false), ("convert", true), ("export", true)] {
            let command = parser::command_with(&all);
            let verb = command.find_subcommand(verb).unwrap();
            assert_eq!(verb.get_arguments().any(|arg| arg.get_long() == Some("sign")), takes, "{verb}");
        }
    }

    #[test]
    fn verbs_keep_their_own_flags_and_planned_ones_give_way() {
        assert_eq!(parse("apr inspect a --json"), []);
        assert_eq!(parse("apr convert a b --sign key"), [option("sign", "key")]);
    }
}
