//! The checklist's points with their verdicts, as a table.

use apr_engine::verify::checklist::{Judged, Verdict};
use apr_sdk::escape;
use std::fmt;

/// A table of points.
#[derive(Debug)]
pub struct Table<'a> {
    /// The points, by number.
    pub points: &'a [Judged],
    /// True if the table says how each point was measured, and what to do.
    pub detail: bool,
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Warn => "warn",
        Verdict::Fail => "fail",
        Verdict::NotApplicable => "not applicable",
        Verdict::NotMeasured => "not measured",
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Judged { number, title, verdict, reason, measured, help } in self.points {
            write!(f, "{number:>3}  {title:18} {}", word(*verdict))?;
            if self.detail || *verdict != Verdict::Pass {
                write!(f, ": {}", escape(reason, 1000))?;
            }
            writeln!(f)?;
            if self.detail {
                writeln!(f, "     measured: {measured}")?;
                if matches!(verdict, Verdict::Warn | Verdict::Fail) {
                    writeln!(f, "     help: {help}")?;
                }
            }
        }
        let count = |wanted: &[Verdict]| self.points.iter().filter(|p| wanted.contains(&p.verdict)).count();
        writeln!(
            f,
            "structure: {} of {} measured points pass, {} not applicable, {} not measured",
            count(&[Verdict::Pass]),
            count(&[Verdict::Pass, Verdict::Warn, Verdict::Fail]),
            count(&[Verdict::NotApplicable]),
            count(&[Verdict::NotMeasured])
        )
    }
}
