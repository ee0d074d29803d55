//! The model as it may be written: with the user's names and the target's keys, without what the target does
//! not carry, refused if it holds something it cannot, and with an account of everything in the source. The
//! fifth stage.

use super::account::{Restated, account};
use super::assign_types::Typed;
use super::select::{PlanContext, of_source};
use crate::architecture::{TensorSpecs, tensor_specs};
use crate::layout::carries;
use crate::open::long_values;
use crate::packed::{old_names, wide_activations};
use crate::planned::coverage::Coverage;
use crate::planned::{Computation, TensorMap};
use crate::select::output_names;
use apr_sdk::{CheckedModel, Error, Result, Tensor};

/// The model as it may be written.
pub struct Checked<'a> {
    pub(super) context: PlanContext<'a>,
    pub(super) model: CheckedModel,
    /// The computation of each tensor of `model`.
    pub(super) computations: TensorMap<Computation>,
    /// The architecture table's facts about each tensor of `model`.
    pub(super) specs: TensorSpecs,
    pub(super) coverage: Coverage,
}

impl<'a> Checked<'a> {
    /// Refuses what the target cannot hold, changes its keys, and removes what it does not carry.
    ///
    /// # Errors
    /// Unsupported for what the target cannot hold; Failed for a tensor of the source that nothing uses and
    /// no rule drops; InvalidArgument for unknown keys and impossible new names.
    pub fn new(typed: Typed<'a>) -> Result<Checked<'a>> {
        let Typed { mut context, mut planned, ledger, rowless } = typed;
        let PlanContext { engine, request, .. } = context;
        let target = context.output.format;
        let edited =
            planned.with_rest(|rest| context.edits.rest_in_source(engine, &context.source, rest, target));
        edited.map_err(|e| context.of_source(e))?;
        // By the names that the table knows, before the user's.
        let specs = tensor_specs(engine, planned.model(), context.arch());
        let specs = specs.map_err(|e| context.of_source(e))?;
        let renamed = output_names::rename(&mut planned, &request.renames);
        let renamed = renamed.map_err(|e| context.of_source(e))?;
        context.notes.extend(output_names::notes(&renamed));
        wide_activations::list(&mut planned, &context.source, &renamed, target)?;
        let copies_codes = context.packed.is_some();
        let registry = &engine.registry;
        let old_names = copies_codes
            .then(|| old_names::forget_old_names(&mut planned, &context.source, registry))
            .flatten();
        let (model, computations) = planned.into_parts();
        let model = carries::checked(model, target, registry.formats(), context.casting());
        let mut model = model.map_err(|e| context.of_source(e))?;
        let PlanContext { source, output, edits, .. } = &mut context;
        let notes = edits.in_target(engine, source, &mut model, target, &output.request);
        let notes = notes.map_err(|e| of_source(request, e))?;
        context.notes.extend(notes);
        let source = &context.source;
        let restated = Restated {
            engine,
            source: &source.format,
            target,
            tokenizer: model.tokenizer.is_some(),
            card: model.model_card.is_some(),
        };
        let restates = |format: &str, file: &str, key: &str| restated.has(format, file, key, ledger.as_ref());
        if let Ok(format) = engine.registry.format(&source.format) {
            context.warnings.extend(carries::warn_of_lost_texts(&model, format, target, &restates));
        }
        let lost =
            model.with_rest(|rest| carries::prune(rest, &source.format, target, request.foreign, &restates));
        context.notes.extend(lost);
        if let Some((note, warning)) = context.packed.as_ref().map(|packed| packed.word(&model)) {
            // What is not carried over says nothing of the new names.
            if warning.is_none() && old_names.is_none() {
                let sound = refuse_misread(&context, &model.tensors, &computations);
                sound.map_err(|e| context.of_source(e))?;
            }
            context.notes.push(note);
            context.warnings.extend(old_names.or(warning));
        }
        long_values::check(engine, source, &model)?;
        let fates = context.fates.as_deref();
        let account = account(&source.model, fates, &model, &computations, ledger.as_ref(), &restates);
        let mut coverage = account.map_err(|e| context.of_source(e))?;
        coverage.dropped_tokens = rowless;
        coverage.renamed = renamed;
        context.notes.extend(ledger.is_some().then(|| coverage.missed()).flatten());
        Ok(Checked { context, model, computations, specs, coverage })
    }
}

/// Refuses names under which a packed weight would be read differently, or not as one: schemes find its tensors by name, and the
/// model's configuration may describe it by name.
fn refuse_misread(
    context: &PlanContext<'_>,
    tensors: &[Tensor],
    computations: &TensorMap<Computation>,
) -> Result<()> {
    let of_source = |computation: &Computation| computation.expression.source_tensor().unwrap_or(usize::MAX);
    let kept: Vec<usize> = computations.iter().map(of_source).collect();
    let source = &context.source;
    let is_renamed = |(tensor, number): (&Tensor, &usize)| {
        source.model.tensors.get(*number).is_some_and(|before| before.name != tensor.name)
    };
    if !tensors.iter().zip(&kept).any(is_renamed) {
        return Ok(());
    }
    let Some(weight) = source.misread(context.engine, tensors, &kept)? else { return Ok(()) };
    let message = "packed weights are found by name: under its new name, this one would be read differently, or not as \
                   a weight";
    let hint =
        "rename all of its tensors alike, or convert the values: --dequantize TYPE, or --quantize RECIPE";
    Err(Error::unsupported(message).tensor(weight).hint(hint))
}
