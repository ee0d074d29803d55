//! The format's own report on a file: what only its plugin can find.

use super::Finding;
use crate::contract::Severity;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::reports::{FormatReport, declares, of_opened};
use crate::verify::checklist::Stated;
use apr_sdk::{Error, Result};
use serde::Deserialize;
use serde_json::Value as Json;

/// The report of formats that can say more about a file than opening reveals.
const CHECK: &str = "check";

/// What the format's own report says.
#[derive(Default)]
pub struct OwnCheck {
    /// What it found, good or bad.
    pub findings: Vec<Finding>,
    /// Its verdicts on points of the checklist.
    pub stated: Vec<Stated>,
}

/// The parts of the report's document that are understood.
#[derive(Deserialize)]
struct Document {
    findings: Option<Vec<Found>>,
    #[serde(default)]
    points: Vec<Stated>,
}

#[derive(Deserialize)]
struct Found {
    severity: Severity,
    message: String,
}

/// Asks the format for its own report, if it has one.
///
/// # Errors
/// Any error from the report; Plugin, if its document is not as it must be.
pub fn own_check(engine: &Engine, opened: &OpenedModel) -> Result<OwnCheck> {
    if !declares(engine.registry.format(&opened.format)?, CHECK) {
        return Ok(OwnCheck::default());
    }
    let report = of_opened(engine, opened, CHECK)?;
    let document = serde_json::from_value(Json::Object(report.json.clone()));
    let document: Document =
        document.map_err(|e| Error::plugin(format!("the report `{CHECK}` of `{}`: {e}", opened.format)))?;
    let findings = document.findings.unwrap_or_else(|| lines(&report));
    let findings = findings.into_iter().map(|found| Finding {
        severity: found.severity,
        code: None,
        message: format!("{CHECK}: {}", found.message),
    });
    Ok(OwnCheck { findings: findings.collect(), stated: document.points })
}

/// The findings of a report without a list of them: its lines, all as good or bad as the whole.
fn lines(report: &FormatReport) -> Vec<Found> {
    let severity = if report.passed { Severity::Ok } else { Severity::Error };
    report.text.lines().map(|line| Found { severity, message: line.to_owned() }).collect()
}
