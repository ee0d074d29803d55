//! Reads a model and reports what a conversion would find in it.

use super::finding::Finding;
use super::judge::{judge_layout, judge_tensor};
use super::policy::Quality;
use super::report::ContractReport;
use super::rules::Kind;
use super::statistics::StatisticsBuilder;
use crate::architecture::{TensorSpec, tensor_specs};
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use apr_sdk::{Error, Result};
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
    opened.will_read_payload()?;
    let looked = Mutex::new(looked);
    engine.crew.run(model.tensors.len(), &|_, number| {
        let examined = findings_of_tensor(engine, opened, specs.of(number), number, quality)?;
        let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        match examined {
            Examined::No(why) => looked.leave_out(&model.tensors[number].name, &why),
            Examined::Yes { by_scales, findings } => {
                looked.saw(by_scales);
                // A finding that would stop a conversion is merely reported here.
                drop(looked.note(number, findings));
            }
        }
        Ok(())
    })?;
    opened.files.refuse_changed()?;
    let mut looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    looked.not_looked.sort();
    looked.sort();
    Ok(looked)
}

/// The result of examining one tensor.
#[derive(Clone, Debug)]
pub enum Examined {
    /// Its type is not examined, for this reason.
    No(Error),
    /// It was examined.
    Yes {
        /// True if only the scales of its blocks were.
        by_scales: bool,
        /// The problems with its values.
        findings: Vec<Finding>,
    },
}

/// Examines the values of tensor number `number` of an opened model, by the rules and by what `spec` expects.
///
/// # Errors
/// Any error from reading; Cancelled.
pub fn findings_of_tensor(
    engine: &Engine,
    opened: &OpenedModel,
    spec: &TensorSpec,
    number: usize,
    quality: Quality,
) -> Result<Examined> {
    let tensor = &opened.model.tensors[number];
    let kind = Kind::of(spec.role.as_deref(), tensor);
    let builder = match StatisticsBuilder::new(tensor, kind == Kind::Embedding) {
        Ok(builder) => builder,
        Err(why) => return Ok(Examined::No(why)),
    };
    let mut at = 0;
    read::stream(engine, opened, number, &mut |bytes| {
        builder.see(at, bytes);
        at += bytes.len() as u64;
        Ok(())
    })?;
    let findings = judge_tensor(&tensor.name, kind, spec, false, &builder.build()?, quality);
    Ok(Examined::Yes { by_scales: builder.by_scales(), findings })
}
