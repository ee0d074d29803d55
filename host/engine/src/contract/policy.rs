//! What the user wishes done with findings, and how they are told.

use super::judge::{Finding, Severity};
use apr_sdk::{Error, escape};

/// The user's wishes (design section 8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Findings that would be warnings stop the work (`--strict`).
    pub strict: bool,
    /// Findings that would stop the work are recorded, and it goes on (`--relaxed`, `--force`).
    pub relaxed: bool,
    /// Values that are not finite are cast like others (`--allow-nonfinite`).
    pub allow_nonfinite: bool,
}

impl Quality {
    /// The same with or without `--force`: it goes on over what would stop the work, unless `--strict` says otherwise.
    #[must_use]
    pub fn forced(self, force: bool) -> Quality {
        Quality { relaxed: self.relaxed || force && !self.strict, ..self }
    }

    /// Whether a cast goes on over values that are not finite.
    pub fn passes_nonfinite(self) -> bool {
        self.allow_nonfinite || self.relaxed
    }

    /// What becomes of a finding: `grave` is one that stops the work by itself, `allowed` one that the user allowed.
    pub fn severity(self, grave: bool, allowed: bool) -> Severity {
        match (grave, allowed || self.relaxed) {
            (true, true) => Severity::PassedOver,
            (true, false) => Severity::Error,
            (false, _) if self.strict => Severity::Error,
            (false, _) => Severity::Warning,
        }
    }
}

impl Finding {
    /// The error that it is, where it stops the work.
    pub fn error(&self) -> Error {
        let error = Error::failed(self.message.clone()).code(self.code).tensor(&self.tensor);
        error.hint("pass --relaxed to record it and go on")
    }
}

/// The findings in lines for people: those of one code together, with the first tensor's figures.
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
            2 => "; one more tensor likewise".to_owned(),
            n => format!("; {} more tensors likewise", n - 1),
        };
        let passed = if finding.severity == Severity::PassedOver { "ignored: " } else { "" };
        let (name, message, code) = (escape(&finding.tensor, 120), &finding.message, finding.code);
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
        // Replacing an output with --force does not take back --strict.
        assert_eq!(strict.forced(true).severity(false, false), Severity::Error);
        assert_eq!(strict.forced(true).severity(true, false), Severity::Error);
        assert_eq!(plain.forced(true), relaxed);
        assert_eq!(plain.forced(false), plain);
    }

    #[test]
    fn findings_of_one_code_are_told_together() {
        let finding = |tensor: &str, code| Finding {
            tensor: tensor.to_owned(),
            role: None,
            code,
            severity: Severity::Warning,
            message: "m".to_owned(),
        };
        let lines = summary(&[finding("a", "X"), finding("b", "Y"), finding("c", "X"), finding("d", "X")]);
        assert_eq!(lines, ["`a`: m [X]; 2 more tensors likewise", "`b`: m [Y]"]);
    }
}
