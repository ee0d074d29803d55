//! Verbs of the design that nobody has built yet: recognised by name, and refused with exit 4 rather than misread.

use apr_sdk::{Error, Result};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Verbs that are planned, and the question each will answer.
pub const VERBS: &[(&str, &str)] = &[
    ("quantize", "Shrink a model's weights"),
    ("merge", "Merge models into one"),
    ("lint", "Check a model against best practices"),
    ("debug", "Show a file's bytes and structure"),
    ("canary", "Compare a model's answers with recorded ones"),
    ("verify", "Verify a model's signature"),
    ("sign", "Sign a model"),
    ("encrypt", "Encrypt a model"),
    ("decrypt", "Decrypt a model"),
    ("serve", "Serve a model over HTTP"),
];

/// Planned verbs, and the commands that do meanwhile what most people want of them.
const MEANWHILE: &[(&str, &str)] =
    &[("quantize", "apr convert IN OUT --quantize Q4_K_M"), ("lint", "apr validate MODEL")];

/// The verbs that convert.
const CONVERTING: &[&str] = &["convert", "import", "export"];

/// Flags of [`CONVERTING`] that are planned; whether they take a value; what they will do.
const CONVERT_FLAGS: &[(&str, bool, &str)] = &[
    ("canonical", false, "Give tensors their canonical names"),
    ("prune", true, "Set small weights to zero"),
    ("prune-threshold", true, "Set weights smaller than this to zero"),
    ("prune-heads", true, "Remove attention heads"),
    ("sparse", true, "Store weights as sparse matrices"),
    ("lowrank", true, "Replace weights with low-rank factors"),
    ("rank", true, "Rank of the factors"),
    ("distill", true, "Distill into a smaller model"),
    ("quality-check", false, "Compare quality before and after"),
    ("max-drift", true, "Fail if the drift exceeds this"),
    ("canary", true, "Fail if recorded answers change"),
    ("encrypt", false, "Encrypt the output"),
    ("sign", true, "Sign the output"),
    ("passphrase-file", true, "Read the passphrase from this file"),
    ("opset", true, "Operator set of the output's graph"),
    ("pickle", true, "Pickle protocol of the output"),
    ("external-data", false, "Store weights next to the graph"),
    ("safe", false, "Refuse inputs that contain code"),
];

/// Flags of other verbs that are planned: verb, flag, whether it takes a value, what it will do.
const OTHER_FLAGS: &[(&str, &str, bool, &str)] = &[
    ("inspect", "vocab", false, "Show the vocabulary"),
    ("inspect", "filters", false, "Show the mel filterbank"),
    ("tensors", "canonical", false, "Show canonical names"),
    ("validate", "min-score", true, "Fail if the score is below this"),
    ("explain", "tensor", true, "Explain a tensor of a model"),
];

/// Adds every planned verb and flag, hidden, to the parser.
pub fn declare(mut command: Command) -> Command {
    for (name, about) in VERBS {
        let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        let verb = Command::new(*name).about(format!("{about} (planned)")).hide(true);
        command = command.subcommand(verb.arg(rest.help("Arguments").hide(true)));
    }
    for (verb, flag, value, help) in flags() {
        // What a plugin declares is no longer planned.
        let there = command
            .find_subcommand(verb)
            .is_none_or(|v| v.get_arguments().any(|a| a.get_long() == Some(flag)));
        if there {
            continue;
        }
        let action = if value { ArgAction::Append } else { ArgAction::SetTrue };
        let arg = Arg::new(id(flag)).long(flag).action(action).hide(true).help(format!("{help} (planned)"));
        command = command.mut_subcommand(verb, |verb| verb.arg(arg));
    }
    command
}

/// Refuses what is planned and was asked for.
///
/// # Errors
/// Unsupported, naming the verb or the flag.
pub fn refuse(matches: &ArgMatches) -> Result<()> {
    let Some((verb, given)) = matches.subcommand() else { return Ok(()) };
    if let Some((name, about)) = VERBS.iter().find(|(name, _)| *name == verb) {
        return Err(Error::unsupported(format!("`apr {name}` is not implemented yet: {}", lower(about)))
            .hint(match MEANWHILE.iter().find(|(planned, _)| planned == name) {
                Some((_, command)) => format!("run `{command}`"),
                None => "run `apr --help` to list the available commands".to_owned(),
            }));
    }
    for (_, flag, _, help) in flags().filter(|(of, ..)| *of == verb) {
        let there = given.try_contains_id(&id(flag)).is_ok();
        if there && given.value_source(&id(flag)) == Some(clap::parser::ValueSource::CommandLine) {
            return Err(Error::unsupported(format!("`--{flag}` is not implemented yet: {}", lower(help)))
                .hint(format!("run `apr {verb} --help` to list the available flags")));
        }
    }
    Ok(())
}

/// Every planned flag: verb, name, whether it takes a value, what it will do.
fn flags() -> impl Iterator<Item = (&'static str, &'static str, bool, &'static str)> {
    let convert = CONVERTING
        .iter()
        .flat_map(|verb| CONVERT_FLAGS.iter().map(|(flag, value, help)| (*verb, *flag, *value, *help)));
    convert.chain(OTHER_FLAGS.iter().copied())
}

/// The argument's id in the parser; prefixed, so that it cannot meet a real argument's.
fn id(flag: &str) -> String {
    format!("planned-{flag}")
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
