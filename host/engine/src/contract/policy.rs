//! The user's policy for findings, and their summary.

use super::finding::{Finding, Severity};
use apr_sdk::escape;

/// The user's policy, from the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Findings that would be warnings are errors (`--strict`).
    pub strict: bool,
    /// Findings that would be errors are recorded, and the work continues (`--relaxed`, `--force`).
    pub relaxed: bool,
    /// Infinities and NaN are cast like other values (`--allow-nonfinite`).
    pub allow_nonfinite: bool,
}

impl Quality {
    /// Adds `--force`, which continues after findings that would be errors, unless `--strict` is on.
    #[must_use]
    pub fn forced(self, force: bool) -> Quality {
        Quality { relaxed: self.relaxed || force && !self.strict, ..self }
    }

    /// Returns whether a cast continues after values that are not finite.
    pub fn passes_nonfinite(self) -> bool {
        self.allow_nonfinite || self.relaxed
    }

    /// The severity of a finding: `grave` if it is an error by default, `allowed` if the user allowed it.
    pub fn severity(self, grave: bool, allowed: bool) -> Severity {
        match (grave, allowed || self.relaxed) {
            (true, true) => Severity::PassedOver,
            (true, false) => Severity::Error,
            (false, _) if self.strict => Severity::Error,
            (false, _) => Severity::Warning,
        }
    }
}

/// Summarizes findings for people: one line per code, with the figures of the first tensor.
pub fn summary(findings: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut told: Vec<(&str, Severity)> = Vec::new();
    for finding in findings {
        let group = (finding.code, finding.severity);
        if told.contains(&group) {
            continue;
        }
        told.push(group);
        let same = findings.iter().filter(|other| (other.code, other.severity) == group).count();
        let more = match same {
            1 => String::new(),
            2 => "; and one more tensor".to_owned(),
            n => format!("; and {} more tensors", n - 1),
        };
        let passed = if finding.severity == Severity::PassedOver { "ignored: " } else { "" };
        let name = escape(&finding.tensor, 120);
        let Finding { message, code, .. } = finding;
        lines.push(format!("{passed}`{name}`: {message} [{code}]{more}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_s_wishes_decide() {
        let plain = Quality::default();
        let relaxed = Quality { relaxed: true, ..plain };
        let strict = Quality { strict: true, ..plain };
        assert_eq!(plain.severity(false, false), Severity::Warning);
        assert_eq!(plain.severity(true, false), Severity::Error);
        assert_eq!(plain.severity(true, true), Severity::PassedOver);
        assert_eq!(relaxed.severity(true, false), Severity::PassedOver);
        assert_eq!(relaxed.severity(false, false), Severity::Warning);
        assert_eq!(strict.severity(false, false), Severity::Error);
        // Replacing an output with --force does not cancel --strict.
        assert_eq!(strict.forced(true).severity(false, false), Severity::Error);
        assert_eq!(strict.forced(true).severity(true, false), Severity::Error);
        assert_eq!(plain.forced(true), relaxed);
        assert_eq!(plain.forced(false), plain);
    }

    #[test]
    fn findings_of_one_code_are_told_together() {
        let findings = [("a", "X"), ("b", "Y"), ("c", "X"), ("d", "X")].map(|(tensor, code)| Finding {
            tensor: tensor.to_owned(),
            role: None,
            code,
            severity: Severity::Warning,
            message: "m".to_owned(),
        });
        assert_eq!(summary(&findings), ["`a`: m [X]; and 2 more tensors", "`b`: m [Y]"]);
    }
}
