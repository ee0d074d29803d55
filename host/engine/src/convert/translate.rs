//! The model in the target's dialect, with tensors computed from the source's: the third stage.

use super::select::{PlanContext, Selected};
use crate::architecture::{Ledger, Stored, Translation, Wishes, incomplete, tensor_specs, translate_model};
use crate::expression::{Expression, PlannedTensor};
use crate::open::OpenedModel;
use crate::planned::PlannedModel;
use crate::planned::coverage::Dropped;
use crate::types::token_rows;
use apr_sdk::{ForeignPolicy, Result, Tensor};

/// The third stage as a function, which tests can substitute ([`Translated::made_of`]).
pub type Translate<'t> = dyn for<'a> Fn(Selected<'a>) -> Result<Translated<'a>> + 't;

/// Builds a model's planned tensors.
pub type Make<'m> = dyn Fn(&OpenedModel) -> Result<Vec<PlannedTensor>> + 'm;

/// The model in the target's dialect, or unchanged if the target has none.
pub struct Translated<'a> {
    pub(super) context: PlanContext<'a>,
    pub(super) planned: PlannedModel,
    /// The record of each key and tensor, if names were translated.
    pub(super) ledger: Option<Ledger>,
    /// Tokens that were dropped because the embedding has no row for them.
    pub(super) rowless: Vec<Dropped>,
}

impl<'a> Translated<'a> {
    /// Translates names, rows and keys, if the target wants another dialect.
    ///
    /// # Errors
    /// Unsupported if no table leads to a required dialect; Malformed for a model that lacks what its
    /// architecture has.
    pub fn new(selected: Selected<'a>) -> Result<Translated<'a>> {
        Translated::of(selected, None)
    }

    /// A model with the tensors that `make` returns and untranslated names. For tests of expressions that no
    /// table uses.
    ///
    /// # Errors
    /// As [`Translated::new`]; any error from `make`.
    pub fn made_of(selected: Selected<'a>, make: &Make<'_>) -> Result<Translated<'a>> {
        Translated::of(selected, Some(make))
    }

    fn of(selected: Selected<'a>, make: Option<&Make<'_>>) -> Result<Translated<'a>> {
        let Selected { mut context, mut model, kept, removed, not_understood } = selected;
        let request = context.request;
        let target = context.output.format;
        let wishes = Wishes {
            arch: context.arch(),
            required: request.wants_architecture,
            precision: request.quantization.precision,
            foreign: request.foreign,
            removed: &removed,
        };
        let stored = Stored { source: &context.source, selected: kept.as_deref(), look: context.look };
        let writer = context.writer.as_ref();
        let translation = match make {
            Some(_) => Ok(Translation::default()),
            None => translate_model(context.engine, &mut model, target, writer, wishes, stored),
        };
        let translation = translation.map_err(|e| context.of_source(e))?;
        let is_explained = !translation.notes.is_empty();
        context.notes.extend(translation.notes);
        context.warnings.extend(translation.warnings);
        let is_translated = translation.tensors.is_some();
        if !is_translated && !is_explained && context.arch() != Some("none") {
            context.warnings.extend(incomplete(context.engine, &context.source, context.arch()));
        }
        // What a translation states is the model itself, and not what only the source's format can say.
        let is_new = context.source.model.foreign_of(target.id()).is_none();
        let states_model = target.manifest.carries.tokenizer_core;
        if is_translated && is_new && states_model && context.output.request.foreign == ForeignPolicy::Drop {
            context.output.request.foreign = ForeignPolicy::Typed;
        }
        if let Some(error) = not_understood {
            // A fully translated model must not lose it; otherwise its files or keys may still be carried
            // unchanged.
            if target.manifest.carries.tokenizer_core && is_translated {
                return Err(context.of_source(error.hint("pass --arch none to write the tensors alone")));
            }
            let message = error.message();
            context
                .warnings
                .push(format!("not carried over: the tokenizer, which is not supported: {message}"));
        }
        // Such keys belong to an architecture's.
        let untranslated = target.manifest.carries.tokenizer_core && !is_translated;
        if untranslated && model.tokenizer.take().is_some() && model.foreign_of(target.id()).is_none() {
            context.notes.push("not carried over: the tokenizer, since names are not translated".to_owned());
        }
        let tensors = match (translation.tensors, make) {
            (Some(mut tensors), _) => {
                if let Some(kept) = &kept {
                    tensors.iter_mut().for_each(|tensor| tensor.expression.renumber(kept));
                }
                tensors
            }
            (None, Some(make)) => make(&context.source).map_err(|e| context.of_source(e))?,
            (None, None) => {
                let tensors = std::mem::take(&mut model.tensors);
                as_they_are(tensors, kept.as_deref()).map_err(|e| context.of_source(e))?
            }
        };
        let mut planned = PlannedModel::new(model, tensors);
        let mut rowless = Vec::new();
        if is_translated && planned.model().tokenizer.is_some() && target.manifest.carries.token_rows {
            let specs = tensor_specs(context.engine, planned.model(), context.arch());
            let fitted =
                specs.and_then(|specs| token_rows::fit(&context.source, &mut planned, &specs, target));
            if let Some((tokens, warning)) = fitted.map_err(|e| context.of_source(e))? {
                rowless = tokens;
                context.warnings.push(warning);
            }
        }
        let ledger = translation.ledger;
        Ok(Translated { context, planned, ledger, rowless })
    }
}

/// The tensors of the source, unchanged; `kept` has their indices there if some were left out.
fn as_they_are(tensors: Vec<Tensor>, kept: Option<&[usize]>) -> Result<Vec<PlannedTensor>> {
    let mut planned = Vec::with_capacity(tensors.len());
    for (at, tensor) in tensors.into_iter().enumerate() {
        let number = kept.map_or(Some(at), |kept| kept.get(at).copied()).unwrap_or(at);
        let expression = Expression::of(number, &tensor).map_err(|e| e.tensor(&tensor.name))?;
        planned.push(PlannedTensor::new(tensor, expression));
    }
    Ok(planned)
}
