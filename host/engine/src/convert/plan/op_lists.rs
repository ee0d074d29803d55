//! Lists the operations on each tensor, in words: for a plan.

use crate::expression::Expression;
use apr_sdk::Result;
use std::borrow::Cow;
use std::collections::HashMap;

/// The operations on each tensor of a model, in words and in order. Among a million tensors, few lists
/// differ.
#[derive(Clone, Debug, Default)]
pub struct OpLists {
    /// For each tensor, the index of its list.
    numbers: Vec<u32>,
    /// All distinct lists.
    words: Vec<Vec<Cow<'static, str>>>,
    /// The index of each list.
    known: HashMap<Vec<Cow<'static, str>>, u32>,
}

impl OpLists {
    /// Adds the list for the next tensor; `words` come from the table.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn add(&mut self, expression: &Expression, words: &[String]) -> Result<()> {
        let mut ops: Vec<Cow<'static, str>> = Vec::new();
        for part in expression.parts() {
            ops.extend(part.access()?.name().map(Cow::from));
        }
        ops.sort_unstable();
        ops.dedup();
        ops.extend(words.iter().cloned().chain(expression.words()).map(Cow::from));
        if ops.is_empty() {
            ops.push("copy".into());
        }
        let number = match self.known.get(&ops) {
            Some(number) => *number,
            None => {
                let next = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
                self.words.push(ops.clone());
                self.known.insert(ops, next);
                next
            }
        };
        self.numbers.push(number);
        Ok(())
    }

    /// The list for a tensor.
    pub fn ops(&self, number: usize) -> Vec<Cow<'static, str>> {
        let words = self.numbers.get(number).and_then(|&words| self.words.get(words as usize));
        words.cloned().unwrap_or_default()
    }
}
