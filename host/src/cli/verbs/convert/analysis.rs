//! `apr convert --analyze-source`: what is wrong with a model, before anything is written.

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::contract::{ContractReport, Quality, Severity, findings_of};
use apr_host::sizes::show_number_of;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;

/// The user's wishes about the model and about findings.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'a> {
    /// The architecture.
    pub arch: Option<&'a str>,
    /// The treatment of findings.
    pub quality: Quality,
}

/// The findings in the source. JSON: of `apr convert --analyze-source`: `input`, `from`, `tensors` (how many were
/// examined), `by_scales` (how many of those only by the scales of their blocks), `not_looked` (each `tensor`, `reason`),
/// `findings` (each `tensor`, `role`, `code`, `standing`, `message`), `ok`, `warnings`.
#[derive(Debug, Serialize)]
pub struct Analysis {
    input: String,
    from: String,
    #[serde(flatten)]
    looked: ContractReport,
    /// True if a conversion would go on.
    ok: bool,
    #[serde(skip)]
    warnings: Vec<String>,
}

impl Analysis {
    /// Opens the model and looks at every value of it.
    ///
    /// # Errors
    /// What opening and reading raised; findings are the report's verdict.
    pub fn of(open: &OpenArgs, input: &Path, wishes: Wishes<'_>, context: &Context) -> Result<Analysis> {
        let (host, opened) = host_and_model(open, input, context)?;
        let looked = findings_of(&host, &opened, wishes.arch, wishes.quality)?;
        let ok = looked.findings.iter().all(|finding| finding.severity != Severity::Error);
        Ok(Analysis {
            input: input.display().to_string(),
            from: opened.format.clone(),
            looked,
            ok,
            warnings: opened.warnings,
        })
    }
}

impl Report for Analysis {
    fn json(&self) -> Result<Json> {
        with_schema("apr.analysis/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        let first = self.looked.findings.iter().find(|finding| finding.severity == Severity::Error);
        first.map_or(Ok(()), |finding| Err(finding.error().in_file(self.input.clone())))
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.looked.findings {
            let standing = match finding.severity {
                Severity::Ok => "ok",
                Severity::Warning => "warning",
                Severity::PassedOver => "ignored",
                Severity::Error => "error",
            };
            let name = escape(&finding.tensor, 120);
            writeln!(f, "{standing:8} {name}: {} [{}]", escape(&finding.message, 1000), finding.code)?;
        }
        let ContractReport { tensors, by_scales, not_looked, findings, .. } = &self.looked;
        let looked = show_number_of(*tensors, "tensor");
        writeln!(
            f,
            "checked {looked} of {}: {}",
            escape(&self.input, 400),
            show_number_of(findings.len(), "finding")
        )?;
        if *by_scales > 0 {
            writeln!(f, "block scales only: {}", show_number_of(*by_scales, "tensor"))?;
        }
        let mut reasons: Vec<&str> = not_looked.iter().map(|one| one.reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in reasons {
            let of_reason = not_looked.iter().filter(|one| one.reason == reason).count();
            writeln!(f, "not checked: {} ({reason})", show_number_of(of_reason, "tensor"))?;
        }
        Ok(())
    }
}
