//! The way back from the target's dialect: what of the source it would not restore.

use super::{Journey, Wishes};
use crate::architecture::translate::{Made, Passage, Translated, translate};
use crate::expression::{Measure, PlannedTensor, measure};
use apr_sdk::manifest::DialectRule;
use apr_sdk::{Result, Tensor, escape};

impl Journey<'_> {
    /// The first place where the names or shapes that a conversion back gives differ from the source's, in words;
    /// `None` if it restores them all, or if the target does not keep the source's own keys, and so promises nothing.
    pub(super) fn lost_order(
        &self,
        passage: &Passage<'_>,
        translated: &Translated,
        wishes: Wishes<'_>,
    ) -> Option<String> {
        let is_whole = passage.removed.is_empty() && wishes.precision.is_none();
        // Where the table's own names are the source's, files keep the spelling they have.
        let is_translated = !self.table.is_own(self.from) && self.is_preferred();
        if !is_whole || !is_translated || !self.carries_foreign(wishes.foreign) {
            return None;
        }
        let called: Vec<Tensor> = translated.tensors.iter().map(Made::declaration).collect();
        let tensors: Vec<Tensor> =
            called.iter().map(|tensor| self.table.own_tensor(self.to, tensor)).collect();
        let back = translate(&Passage {
            table: passage.table,
            scope: passage.scope,
            tensors: &tensors,
            called: &called,
            removed: &[],
            from: self.to,
            to: self.from,
            tokens: passage.tokens,
            keep_order: true,
        });
        let back = match back {
            Ok(back) => back.tensors,
            Err(error) => return Some(format!("its tensors: {}", error.message())),
        };
        let sources = passage.called;
        if let Some(lost) = sources.get(back.len()) {
            return Some(format!("`{}`", escape(&lost.name, 120)));
        }
        if let Some(added) = back.get(sources.len()) {
            return Some(format!("the number of tensors: `{}` would be added", escape(&added.name, 120)));
        }
        let pairs = sources.iter().zip(&back);
        let mut different =
            pairs.filter(|(source, made)| source.name != made.name || source.shape != made.shape);
        different.next().map(|(source, made)| match source.name == made.name {
            true => format!("the shape of `{}`", escape(&source.name, 120)),
            false => format!(
                "the order of tensors: `{}` would take the place of `{}`",
                escape(&made.name, 120),
                escape(&source.name, 120)
            ),
        })
    }

    /// A tensor whose values a conversion back would not restore to the bit, in words; `None` if it restores all.
    ///
    /// # Errors
    /// Any error from reading.
    pub(super) fn lost_values(
        &self,
        changed: &[&PlannedTensor],
        wishes: Wishes<'_>,
    ) -> Result<Option<String>> {
        if !self.stored.look || !wishes.may_keep_names() || wishes.precision.is_some() {
            // The run itself counts them.
            return Ok(None);
        }
        let mut changed: Vec<PlannedTensor> = changed.iter().map(|planned| (*planned).clone()).collect();
        // Small ones first: norms and decays decide at once, and matrices are rarely read.
        changed.sort_by_key(|planned| planned.expression.byte_len().unwrap_or(u64::MAX));
        if let Some(selected) = self.stored.selected {
            changed.iter_mut().for_each(|planned| planned.expression.renumber(selected));
        }
        let batch = self.engine.crew.width().max(1);
        for some in changed.chunks(batch) {
            let asked: Vec<Measure<'_>> =
                some.iter().map(|planned| Measure::IsUndone(&planned.expression)).collect();
            let undone = measure(self.engine, self.stored.source, &asked)?;
            if let Some((planned, _)) = some.iter().zip(undone).find(|(_, undone)| !undone) {
                let words = planned.expression.words().join(", ");
                return Ok(Some(format!("every value of `{}` ({words})", escape(&planned.tensor.name, 120))));
            }
        }
        Ok(None)
    }

    /// Whether the target merely prefers its dialect.
    fn is_preferred(&self) -> bool {
        matches!(self.target.manifest.dialect, DialectRule::Prefers(_))
    }
}
