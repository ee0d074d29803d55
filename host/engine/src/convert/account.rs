//! The account of a source: every tensor and key of it is mapped, carried, restated or dropped by a named rule.

use crate::architecture::Ledger;
use crate::engine::Engine;
use crate::planned::coverage::{Account, Coverage, Fate};
use crate::planned::{Computation, TensorMap};
use crate::registry::Format;
use apr_sdk::manifest::{DialectRule, FormatManifest};
use apr_sdk::{Error, Model, Result};
use std::collections::HashSet;

/// Tells whether the output states a key (by format, file and key) in its own form.
pub type Restates<'a> = &'a dyn Fn(&str, &str, &str) -> bool;

/// Decides what an output states in its own form.
pub struct Restated<'a> {
    /// The context: formats and tables.
    pub engine: &'a Engine,
    /// The id of the source's format.
    pub source: &'a str,
    /// The format that is written.
    pub target: &'a Format,
    /// True if the model has a tokenizer that was understood.
    pub tokenizer: bool,
    /// True if the model has a card.
    pub card: bool,
}

impl Restated<'_> {
    /// Returns whether the output states the key of this format's file in its own form; `ledger` records what
    /// a translation did.
    pub fn has(&self, format: &str, file: &str, key: &str, ledger: Option<&Ledger>) -> bool {
        let Ok(format) = self.engine.registry.format(format) else { return false };
        let manifest = &format.manifest;
        if manifest.bookkeeping.iter().any(|own| own == key) {
            return true;
        }
        let Some(ledger) = ledger else { return false };
        // Formats that write tokenizers in their own form do so with cards.
        let writes = self.target.manifest.carries.tokenizer_core;
        let tokenizer = self.tokenizer && FormatManifest::speaks(&manifest.tokenizer_keys, file, key);
        let card = self.card && FormatManifest::speaks(&manifest.card_keys, file, key);
        // The configuration of another format that the model passed through.
        writes && (tokenizer || card) || self.is_other(manifest) && ledger.is_said(key)
    }

    fn is_other(&self, manifest: &FormatManifest) -> bool {
        let speaks = !matches!(manifest.dialect, DialectRule::Any);
        speaks && manifest.id != self.target.id() && manifest.id != self.source
    }
}

/// Accounts for everything of `source` in `planned`; `fates` is what became of the source's tensors, unless
/// all are taken unchanged, and `ledger` records what a translation did.
///
/// # Errors
/// Failed for a tensor that no output uses and no rule drops.
pub fn account(
    source: &Model,
    fates: Option<&[Fate]>,
    planned: &Model,
    computations: &TensorMap<Computation>,
    ledger: Option<&Ledger>,
    restates: Restates<'_>,
) -> Result<Coverage> {
    let mut coverage = Coverage::default();
    let mut used: HashSet<usize> = HashSet::new();
    for computation in computations {
        computation.expression.sources(&mut |source| used.extend(source.tensor));
    }
    let tensors = &mut coverage.tensors;
    tensors.total = source.tensors.len();
    for (number, tensor) in source.tensors.iter().enumerate() {
        let rule = match fates.and_then(|fates| fates.get(number)) {
            None => ledger.and_then(|ledger| ledger.dropped_tensor(&tensor.name)),
            Some(Fate::Called(name)) => ledger.and_then(|ledger| ledger.dropped_tensor(name)),
            Some(Fate::Left(rule)) => Some(&**rule),
        };
        match (rule, used.contains(&number)) {
            (Some(rule), false) => tensors.drop_by(&tensor.name, rule),
            (_, true) if ledger.is_some() => tensors.mapped.push(tensor.name.clone()),
            (_, true) => tensors.carried.push(tensor.name.clone()),
            // Callers that rebuild a model without a table answer for it.
            (None, false) if ledger.is_none() => tensors.drop_by(&tensor.name, "it was not requested"),
            (None, false) => {
                let message = "the output does not use it, and no rule drops it";
                let hint = "this is a bug in the architecture table: pass --drop NAME to leave the tensor \
                            out, or --arch none to keep every tensor";
                return Err(Error::failed(message).tensor(&tensor.name).hint(hint));
            }
        }
    }
    keys(source, planned, ledger, restates, &mut coverage.keys);
    Ok(coverage)
}

fn keys(
    source: &Model,
    planned: &Model,
    ledger: Option<&Ledger>,
    restates: Restates<'_>,
    keys: &mut Account,
) {
    for foreign in &source.foreign {
        let own = ledger.filter(|_| foreign.format == source.format);
        let kept = planned.foreign_of(&foreign.format).into_iter().flat_map(|kept| &kept.files);
        let kept: HashSet<&str> = kept.flat_map(|file| &file.typed).map(|(key, _)| key.as_str()).collect();
        for (at, file) in foreign.files.iter().enumerate() {
            for (key, _) in &file.typed {
                let name = if file.name.is_empty() { key.clone() } else { format!("{}: {key}", file.name) };
                keys.total += 1;
                // Only the first file has the architecture's configuration.
                let first = at == 0;
                match own {
                    Some(ledger) if first && ledger.is_used(key) => keys.mapped.push(name),
                    _ if kept.contains(key.as_str()) => keys.carried.push(name),
                    _ if restates(&foreign.format, &file.name, key) => keys.restated.push(name),
                    Some(ledger) => keys.drop_by(&name, &ledger.rule_of_key(first, key)),
                    None => keys.drop_by(
                        &name,
                        &format!("metadata of {}, which is not carried over", foreign.format),
                    ),
                }
            }
        }
    }
    // Keys of a canonical configuration belong to no format.
    let Some(architecture) = &source.architecture else { return };
    let stated = architecture.config.inline().and_then(|json| serde_json::from_slice(json).ok());
    let Some(serde_json::Value::Object(stated)) = stated else { return };
    for key in stated.keys() {
        keys.total += 1;
        match ledger {
            Some(ledger) if !ledger.is_known(key) => keys.drop_by(key, &ledger.unknown()),
            Some(_) => keys.mapped.push(key.clone()),
            None if planned.architecture.is_some() => keys.carried.push(key.clone()),
            None => keys.drop_by(key, "the output cannot hold a configuration"),
        }
    }
}
