//! What is done to each tensor, in words: for a plan.

use crate::expression::Expression;
use apr_sdk::Result;
use std::borrow::Cow;
use std::collections::HashMap;

/// What is done to each tensor of a model, in words and in order. Of a million tensors few differ.
#[derive(Clone, Debug, Default)]
pub struct OpLists {
    /// For each tensor the number of its words.
    numbers: Vec<u32>,
    /// All words that differ.
    words: Vec<Vec<Cow<'static, str>>>,
    /// The numbers of those that are there.
    known: HashMap<Vec<Cow<'static, str>>, u32>,
}

impl OpLists {
    /// Adds those of the next tensor; `words` are the table's.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown.
    pub fn add(&mut self, expression: &Expression, words: Vec<String>) -> Result<()> {
        let mut ops: Vec<Cow<'static, str>> = Vec::new();
        for part in expression.parts() {
            ops.extend(part.access()?.name().map(Cow::from));
        }
        ops.sort_unstable();
        ops.dedup();
        ops.extend(words.into_iter().chain(expression.words()).map(Cow::from));
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

    /// Those of a tensor.
    pub fn ops(&self, number: usize) -> Vec<Cow<'static, str>> {
        let words = self.numbers.get(number).and_then(|&words| self.words.get(words as usize));
        words.cloned().unwrap_or_default()
    }
}
