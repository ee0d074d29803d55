//! `apr explain`: what does this code mean, and what can I do?

mod error_codes;

use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::explain::error_codes::{ENTRIES, Entry, find};
use apr_engine::hints::{self, Hint};
use apr_sdk::{Error, Result, escape};
use serde_json::{Value as Json, json};
use std::fmt;
use std::path::Path;

/// Explain the code of an error or a hint
///
/// Errors print their code in brackets, `error[E002]: …`; hints on what is
/// probably wrong end in theirs, `(JID-270)`. Without CODE, all codes are
/// listed. Explaining a model or a tensor is planned.
///
/// Examples:
///   apr explain E002
///   apr explain E_ABI_MAJOR
///   apr explain JID-270
///   apr explain
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Code, as printed
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// One code explained, or all of them listed. JSON: `codes`, each `code`, `title`, `meaning`, `causes`, `steps`, `built`.
#[derive(Debug)]
pub struct Explained(Vec<Explanation>);

/// What there is to say of a code.
#[derive(Debug)]
struct Explanation {
    code: String,
    title: &'static str,
    meaning: &'static str,
    causes: &'static [&'static str],
    steps: &'static [&'static str],
    built: bool,
}

impl From<&Entry> for Explanation {
    fn from(entry: &Entry) -> Explanation {
        Explanation {
            code: entry.code.to_owned(),
            title: entry.title,
            meaning: entry.meaning,
            causes: entry.causes,
            steps: entry.steps,
            built: entry.built,
        }
    }
}

impl From<Hint> for Explanation {
    fn from(hint: Hint) -> Explanation {
        Explanation {
            code: hint.id(),
            title: hint.title,
            meaning: hint.definition,
            causes: &[],
            steps: &[],
            built: true,
        }
    }
}

/// Looks the code up.
///
/// # Errors
/// InvalidArgument for an unknown code; Unsupported for a model, which is planned.
pub fn run(args: &Args) -> Result<Explained> {
    let Some(code) = &args.code else {
        let entries = ENTRIES.iter().map(Explanation::from);
        return Ok(Explained(entries.chain(hints::ALL.iter().copied().map(Explanation::from)).collect()));
    };
    if let Some(hint) = hints::ALL.iter().find(|hint| hint.id().eq_ignore_ascii_case(code)) {
        return Ok(Explained(vec![Explanation::from(*hint)]));
    }
    match find(code) {
        Some(entry) => Ok(Explained(vec![Explanation::from(entry)])),
        None if Path::new(code).exists() => {
            Err(Error::unsupported("explaining a model is not implemented yet")
                .in_file(code)
                .hint("run `apr inspect FILE`"))
        }
        // The specification has these very words.
        None => Err(Error::invalid_argument(format!("Unknown Error Code `{}`", escape(code, 80)))
            .hint("run `apr explain` to list the codes")),
    }
}

impl Report for Explained {
    fn json(&self) -> Result<Json> {
        let codes = self.0.iter().map(|entry| {
            json!({
                "code": entry.code,
                "title": entry.title,
                "meaning": entry.meaning,
                "causes": entry.causes,
                "steps": entry.steps,
                "built": entry.built,
            })
        });
        with_schema("apr.explain/1", &json!({ "codes": codes.collect::<Vec<_>>() }))
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [entry] = &self.0[..] {
            return one(f, entry);
        }
        let width = self.0.iter().map(|entry| entry.code.len()).max().unwrap_or(0);
        for entry in &self.0 {
            let planned = if entry.built { "" } else { " (planned)" };
            writeln!(f, "{:width$}  {}{planned}", entry.code, entry.title)?;
        }
        Ok(())
    }
}

fn one(f: &mut fmt::Formatter<'_>, entry: &Explanation) -> fmt::Result {
    writeln!(f, "{}: {}\n\n{}", entry.code, entry.title, entry.meaning)?;
    if !entry.built {
        writeln!(f, "The check that reports it is not implemented yet.")?;
    }
    if entry.causes.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nCommon causes:")?;
    entry.causes.iter().try_for_each(|cause| writeln!(f, "  - {cause}"))?;
    writeln!(f, "\nTroubleshooting:")?;
    entry.steps.iter().enumerate().try_for_each(|(n, step)| writeln!(f, "  {}. {step}", n + 1))
}
