//! Tensors that the user left out: they excuse what a table would miss, and cause an error where others
//! cannot be joined without them.

use super::passage::{Passage, Removed};
use super::places::{Outer, find_rule, outer_key, outer_places};
use apr_sdk::{Error, Result};
use std::collections::HashSet;

impl Removed {
    /// The groups that tensors were taken from: index of the rule, and numbers of its outer places.
    ///
    /// # Errors
    /// Any error from evaluating the table's conditions.
    pub(super) fn groups(passage: &Passage<'_>) -> Result<HashSet<(usize, Outer)>> {
        let mut groups = HashSet::new();
        for removed in passage.removed {
            if let Some(found) = find_rule(passage, &removed.tensor.name)? {
                let outer = outer_places(passage, &passage.table.rules[found.rule]);
                groups.insert((found.rule, outer_key(&found, &outer)));
            }
        }
        Ok(groups)
    }
}

/// The error for a missing tensor that would be joined with others; `name` is the table's.
pub(super) fn incomplete(passage: &Passage<'_>, name: String) -> Error {
    let Some(removed) = passage.removed.iter().find(|removed| removed.tensor.name == name) else {
        return Error::malformed("missing, but related tensors are present").tensor(name);
    };
    let message = format!("{} leaves it out, but keeps tensors that are joined with it", rule_of(removed));
    let hint = "keep either all or none of the tensors that are joined into one, or pass --arch none to \
                keep every name";
    Error::invalid_argument(message).tensor(name).hint(hint)
}

fn rule_of(removed: &Removed) -> &str {
    // A tensor that no pattern selects has no pattern to name.
    removed.rule.strip_prefix("no ").map_or(&removed.rule, |_| "--include")
}
