//! The same validator on reading: what a loader does before anything computes with a tensor.

use super::judge::{judge_layout, judge_tensor};
use super::looked::Looked;
use super::policy::Quality;
use super::rules::Kind;
use super::tally::Tally;
use super::validated::{ValidatedEmbedding, ValidatedVector, ValidatedWeight, Validator};
use crate::architecture::concerns;
use crate::engine::Engine;
use crate::expression::payload;
use crate::open::OpenedModel;
use apr_sdk::Result;
use std::sync::{Mutex, PoisonError};

/// Tensor number `number` of an opened model as a token embedding of `[vocabulary, hidden]`. Its payload is read once.
///
/// # Errors
/// What reading raises; Failed, with the code of the rule, if it breaks one.
pub fn validated_embedding(
    engine: &Engine,
    opened: &OpenedModel,
    number: usize,
    [vocabulary, hidden]: [u64; 2],
) -> Result<ValidatedEmbedding> {
    let validator = Validator::embedding(&opened.model.tensors[number], vocabulary, hidden)?;
    feed(engine, opened, number, &validator)?;
    validator.finish()
}

/// The same as a weight of `[out, in]`, in this role.
///
/// # Errors
/// As [`validated_embedding`].
pub fn validated_weight(
    engine: &Engine,
    opened: &OpenedModel,
    number: usize,
    role: Option<&str>,
    [out_size, in_size]: [u64; 2],
) -> Result<ValidatedWeight> {
    let validator = Validator::weight(&opened.model.tensors[number], role, out_size, in_size)?;
    feed(engine, opened, number, &validator)?;
    validator.finish()
}

/// The same as a vector.
///
/// # Errors
/// As [`validated_embedding`].
pub fn validated_vector(
    engine: &Engine,
    opened: &OpenedModel,
    number: usize,
    len: u64,
) -> Result<ValidatedVector> {
    let validator = Validator::vector(&opened.model.tensors[number], len)?;
    feed(engine, opened, number, &validator)?;
    validator.finish()
}

fn feed<V>(engine: &Engine, opened: &OpenedModel, number: usize, validator: &Validator<V>) -> Result<()> {
    let mut at = 0;
    payload::stream(engine, opened, number, &mut |bytes| {
        validator.see(at, bytes);
        at += bytes.len() as u64;
        Ok(())
    })
}

/// Looks at every tensor of an opened model, tensors side by side on all threads: what a conversion would find in what it
/// copies. Nothing stops at a finding.
///
/// # Errors
/// What reading raises; Cancelled.
pub fn findings_of(
    engine: &Engine,
    opened: &OpenedModel,
    arch: Option<&str>,
    quality: Quality,
) -> Result<Looked> {
    let model = &opened.model;
    let concerns = concerns(engine, model, arch)?;
    let mut looked = Looked::default();
    let mut tensors = model.tensors.iter().enumerate().peekable();
    for finding in judge_layout(model, &concerns, &|_| None, quality) {
        // They come in the order of the tensors, of which one may have several.
        while tensors.next_if(|(_, tensor)| tensor.name != finding.tensor).is_some() {}
        let number = tensors.peek().map_or(0, |(number, _)| *number);
        drop(looked.note(number, vec![finding]));
    }
    let looked = Mutex::new(looked);
    engine.crew.run(model.tensors.len(), &|_, number| {
        let (tensor, concern) = (&model.tensors[number], concerns.of(number));
        let kind = Kind::of(concern.role.as_deref(), tensor);
        let tally = match Tally::new(tensor, kind == Kind::Embedding) {
            Ok(tally) => tally,
            Err(why) => {
                let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
                looked.leave_out(&tensor.name, &why);
                return Ok(());
            }
        };
        let mut at = 0;
        payload::stream(engine, opened, number, &mut |bytes| {
            tally.see(at, bytes);
            at += bytes.len() as u64;
            Ok(())
        })?;
        let found = judge_tensor(&tensor.name, kind, concern, false, &tally.facts()?, quality);
        let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.saw(tally.by_scales());
        // What stops a conversion is only told here.
        drop(looked.note(number, found));
        Ok(())
    })?;
    let mut looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    looked.not_looked.sort();
    looked.sort();
    Ok(looked)
}
