//! Operations in which NaN or infinite values arise: what they read has none.

use super::sites::{Sites, result_name};
use crate::tapped::Tapped;
use apr_engine::hints;
use apr_sdk::{Operation, Result, Slice, escape};
use std::collections::{BTreeMap, HashMap};

/// Where values stop being finite.
pub(super) struct Origins {
    /// For each value, true if all its elements are finite.
    finite: HashMap<u32, bool>,
    /// Keys and values of each state, true if all that was stored is finite.
    states: HashMap<u32, bool>,
    /// What arises in each stage, in words.
    arisen: BTreeMap<usize, Vec<String>>,
}

/// The most places that are named.
const NAMED: usize = 3;

impl Origins {
    /// Finds those of the last step.
    pub(super) fn of(model: &mut Tapped<'_>, sites: &Sites) -> Result<Origins> {
        let built = model.built;
        let mut origins = Origins { finite: HashMap::new(), states: HashMap::new(), arisen: BTreeMap::new() };
        for (number, operation) in built.program.operations.iter().enumerate() {
            let reads = operation.reads();
            let mut given = origins.are_finite(&reads);
            if let Operation::Append(append) = operation {
                origins.states.insert(append.state, given);
            }
            if let Operation::Attention(attention) = operation {
                given &= origins.states.get(&attention.state).copied().unwrap_or(true);
            }
            for slice in operation.writes() {
                let rows = model.read(&slice)?;
                let broken = rows.elements.iter().filter(|element| !element.is_finite()).count();
                *origins.finite.entry(slice.value).or_insert(true) &= broken == 0;
                if broken == 0 || !given {
                    continue;
                }
                let tensors: Vec<&str> =
                    operation.weights().into_iter().filter_map(|weight| model.tensor(weight)).collect();
                let from = match tensors.is_empty() {
                    true => String::new(),
                    false => format!(" (with `{}`)", escape(&tensors.join("`, `"), 200)),
                };
                let all = rows.elements.len();
                let remark = format!(
                    "`{}` has {broken} of {all} values that are NaN or infinite, from finite inputs{from}",
                    escape(result_name(built, operation), 80)
                );
                let hint = match operation {
                    Operation::Attention(_) => hints::SOFTMAX,
                    _ => hints::NOT_FINITE,
                };
                let remark = hint.told(&remark);
                origins.arisen.entry(sites.at(number).stage).or_default().push(remark);
                break;
            }
        }
        Ok(origins)
    }

    /// True if every one of the values is finite.
    pub(super) fn are_finite(&self, slices: &[Slice]) -> bool {
        slices.iter().all(|slice| self.finite.get(&slice.value).copied().unwrap_or(true))
    }

    /// True if all that a state holds is finite.
    pub(super) fn is_state_finite(&self, state: u32) -> bool {
        self.states.get(&state).copied().unwrap_or(true)
    }

    /// Takes what arises in a stage.
    pub(super) fn take(&mut self, stage: usize) -> Vec<String> {
        let mut remarks = self.arisen.remove(&stage).unwrap_or_default();
        let more = remarks.len().saturating_sub(NAMED);
        remarks.truncate(NAMED);
        if more > 0 {
            remarks.push(format!("{more} more such places"));
        }
        remarks
    }
}
