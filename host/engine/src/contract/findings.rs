//! Reads a model and reports what a conversion would find in it.

use super::judge::{judge_layout, judge_tensor};
use super::policy::Quality;
use super::report::ContractReport;
use super::rules::Kind;
use super::statistics::StatisticsBuilder;
use crate::architecture::tensor_specs;
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use apr_sdk::Result;
use std::sync::{Mutex, PoisonError};

/// Examines every tensor of an opened model, on all threads: reports what a conversion would find in the
/// tensors it copies. No finding stops it.
///
/// # Errors
/// Any error from reading; Cancelled.
pub fn findings_of(
    engine: &Engine,
    opened: &OpenedModel,
    arch: Option<&str>,
    quality: Quality,
) -> Result<ContractReport> {
    let model = &opened.model;
    let specs = tensor_specs(engine, model, arch)?;
    let mut looked = ContractReport::default();
    let mut tensors = model.tensors.iter().enumerate().peekable();
    for finding in judge_layout(model, &specs, &|_| None, quality) {
        // Findings come in the order of the tensors, each of which may have several.
        while tensors.next_if(|(_, tensor)| tensor.name != finding.tensor).is_some() {}
        let number = tensors.peek().map_or(0, |(number, _)| *number);
        drop(looked.note(number, vec![finding]));
    }
    let looked = Mutex::new(looked);
    engine.crew.run(model.tensors.len(), &|_, number| {
        let (tensor, spec) = (&model.tensors[number], specs.of(number));
        let kind = Kind::of(spec.role.as_deref(), tensor);
        let builder = match StatisticsBuilder::new(tensor, kind == Kind::Embedding) {
            Ok(builder) => builder,
            Err(why) => {
                let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
                looked.leave_out(&tensor.name, &why);
                return Ok(());
            }
        };
        let mut at = 0;
        read::stream(engine, opened, number, &mut |bytes| {
            builder.see(at, bytes);
            at += bytes.len() as u64;
            Ok(())
        })?;
        let found = judge_tensor(&tensor.name, kind, spec, false, &builder.build()?, quality);
        let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.saw(builder.by_scales());
        // A finding that would stop a conversion is merely reported here.
        drop(looked.note(number, found));
        Ok(())
    })?;
    let mut looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    looked.not_looked.sort();
    looked.sort();
    Ok(looked)
}
