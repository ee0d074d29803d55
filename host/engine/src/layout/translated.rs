//! The model in the dialect that its target wants, as tensors that are made of the source's: the third stage.

use super::selected::{Course, Selected};
use crate::architecture::{Ledger, Wishes, tensor_specs, translate_model};
use crate::expression::making::{Making, Piece, copies};
use crate::open::OpenedModel;
use crate::plan::coverage::Dropped;
use crate::plan::planned::Planned;
use crate::plan::token_rows;
use apr_sdk::{Model, Result};

/// Changes a copy of the source's model into the one to be written, and says how each of its tensors is made.
pub type Remake<'r> = dyn Fn(&OpenedModel, &mut Model) -> Result<Vec<Making>> + 'r;

/// The model in the dialect that its target wants, or as it was where that has none.
pub struct Translated<'a> {
    pub(super) course: Course<'a>,
    pub(super) planned: Planned,
    /// What was done with each key and tensor, if names were translated.
    pub(super) ledger: Option<Ledger>,
    /// Tokens that were left out.
    pub(super) rowless: Vec<Dropped>,
}

impl<'a> Translated<'a> {
    /// Translates names, rows and keys, if the target wants another dialect.
    ///
    /// # Errors
    /// Unsupported where no table leads to a dialect that is required; Malformed for a model that lacks what its
    /// architecture has.
    pub fn new(selected: Selected<'a>) -> Result<Translated<'a>> {
        Translated::of(selected, &|source, _| copies(&source.model))
    }

    /// The same, but a model whose names are not translated is made as `remake` says. For tests of what tables do not ask for.
    ///
    /// # Errors
    /// As [`Translated::new`]; what `remake` raises.
    pub fn of(selected: Selected<'a>, remake: &Remake<'_>) -> Result<Translated<'a>> {
        let Selected { mut course, mut model, kept, not_understood } = selected;
        let (options, target) = (course.options, course.output.format);
        let wishes = Wishes {
            arch: course.arch(),
            required: options.wants_architecture,
            precision: options.quantization.precision,
            foreign: options.foreign,
        };
        let fetch = |bytes: &_| course.source.fetch(bytes);
        let writer = course.writer.as_ref();
        let translation = translate_model(course.engine, &mut model, target, writer, wishes, &fetch);
        let translation = translation.map_err(|e| course.of_source(e))?;
        course.notes.extend(translation.notes);
        course.warnings.extend(translation.warnings);
        let is_translated = translation.makings.is_some();
        if let Some(error) = not_understood {
            // A model that is translated whole must not lose it; elsewhere its files or keys may still be carried as they are.
            if target.manifest.carries.tokenizer_core && is_translated {
                return Err(course.of_source(error.hint("pass --arch none to write the tensors alone")));
            }
            let message = error.message();
            course.notes.push(format!("not carried: the tokenizer, which is not understood: {message}"));
        }
        // Such keys belong to an architecture's.
        let untranslated = target.manifest.carries.tokenizer_core && !is_translated;
        if untranslated && model.tokenizer.take().is_some() && model.foreign_of(target.id()).is_none() {
            course.notes.push("not carried: the tokenizer, since names are not translated".to_owned());
        }
        let mut rowless = Vec::new();
        if is_translated && model.tokenizer.is_some() && target.manifest.carries.token_rows {
            let fitted = tensor_specs(course.engine, &model, course.arch())
                .and_then(|specs| token_rows::fit(&course.source, &mut model, &specs, target));
            if let Some((tokens, warning)) = fitted.map_err(|e| course.of_source(e))? {
                rowless = tokens;
                course.warnings.push(warning);
            }
        }
        let makings = match (translation.makings, kept) {
            (Some(makings), kept) => kept.iter().fold(makings, |makings, kept| of_kept(makings, kept)),
            (None, kept) => {
                let source = &course.source;
                let makings = remake(source, &mut model).map_err(|e| course.of_source(e))?;
                kept.map_or(Ok(makings), |kept| {
                    kept.iter().map(|&number| Making::copy(number, &source.model.tensors[number])).collect()
                })?
            }
        };
        let mut planned = Planned::pair(model, makings).map_err(|e| course.of_source(e))?;
        for (number, dtype) in translation.narrow_if_exact {
            if let Some(tensor) = planned.tensors.get_mut(number) {
                tensor.narrow_if_exact = Some(dtype);
            }
        }
        Ok(Translated { course, planned, ledger: translation.ledger, rowless })
    }
}

/// Makings that count the tensors that were kept, counting those of the source.
fn of_kept(mut makings: Vec<Making>, kept: &[usize]) -> Vec<Making> {
    for piece in makings.iter_mut().flat_map(|making| &mut making.pieces) {
        if let Piece::Box { tensor, .. } = piece
            && let Some(&number) = kept.get(*tensor)
        {
            *tensor = number;
        }
    }
    makings
}
