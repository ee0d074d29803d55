//! The count of hints that a command told.

use apr_engine::hints::hint_of;
use apr_engine::wording::n_of;
use std::collections::BTreeMap;

/// Hints that were told, by number.
#[derive(Clone, Debug, Default)]
pub struct Told {
    errors: BTreeMap<u16, usize>,
    warnings: BTreeMap<u16, usize>,
}

impl Told {
    /// Counts an error, if it is a hint.
    pub fn error(&mut self, message: &str) {
        if let Some(hint) = hint_of(message) {
            *self.errors.entry(hint.number).or_default() += 1;
        }
    }

    /// Counts a warning, if it is a hint.
    pub fn warning(&mut self, message: &str) {
        if let Some(hint) = hint_of(message) {
            *self.warnings.entry(hint.number).or_default() += 1;
        }
    }

    /// The counts in a line: `1 error: JID-274; 2 warnings: JID-270, JID-272`; `None` if nothing was told.
    pub fn summary(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (counts, noun) in [(&self.errors, "error"), (&self.warnings, "warning")] {
            if counts.is_empty() {
                continue;
            }
            let ids: Vec<String> = counts
                .iter()
                .map(|(number, count)| match count {
                    1 => format!("JID-{number}"),
                    count => format!("JID-{number} ({count} times)"),
                })
                .collect();
            parts.push(format!("{}: {}", n_of(counts.values().sum(), noun), ids.join(", ")));
        }
        if parts.is_empty() {
            return None;
        }
        let first = self.errors.keys().chain(self.warnings.keys()).next().copied().unwrap_or_default();
        Some(format!("{}; see `apr explain JID-{first}`", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_counted_by_number() {
        let mut told = Told::default();
        assert_eq!(told.summary(), None);
        told.warning("no hint");
        told.warning("a loop (JID-270)");
        told.warning("another (JID-270)");
        told.error("NaN (JID-274)");
        assert_eq!(
            told.summary().unwrap(),
            "1 error: JID-274; 2 warnings: JID-270 (2 times); see `apr explain JID-274`"
        );
    }
}
