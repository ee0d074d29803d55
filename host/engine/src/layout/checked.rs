//! The model as it may be written: the target's keys, what it does not carry, what it cannot hold, and where everything of
//! the source went. The fifth stage.

use super::selected::Course;
use super::typed::Typed;
use crate::open::long_values;
use crate::plan::carries;
use crate::plan::coverage::{Coverage, Restated, account};
use crate::plan::planned::Planned;
use apr_sdk::Result;

/// The model as it may be written.
pub struct Checked<'a> {
    pub(super) course: Course<'a>,
    pub(super) planned: Planned,
    pub(super) coverage: Coverage,
}

impl<'a> Checked<'a> {
    /// Changes keys of the target, takes out what it does not carry, and refuses what it cannot hold.
    ///
    /// # Errors
    /// Unsupported for what the target cannot hold; Failed for a tensor of the source that nothing uses and no rule drops;
    /// InvalidArgument for keys that there are not.
    pub fn new(typed: Typed<'a>) -> Result<Checked<'a>> {
        let Typed { mut course, mut planned, ledger, rowless } = typed;
        let (engine, options, target) = (course.engine, course.options, course.output.format);
        let Course { source, output, edits, .. } = &mut course;
        let request = &output.request;
        let notes = planned.with_model(|model| edits.in_target(engine, source, model, target, request))?;
        course.notes.extend(notes);
        let source = &course.source;
        let restated = Restated {
            engine,
            source: &source.format,
            target,
            tokenizer: planned.rest().tokenizer.is_some(),
            card: planned.rest().model_card.is_some(),
        };
        let restates = |format: &str, file: &str, key: &str| restated.has(format, file, key, ledger.as_ref());
        course.notes.extend(carries::prune(planned.rest_mut(), target, options.foreign, &restates));
        let packed = course.packed.as_ref();
        let checked = planned.with_model(|model| {
            carries::check(model, target, engine.registry.formats(), packed.is_none())?;
            Ok(packed.map(|packed| packed.word(model)))
        });
        if let Some((note, warning)) = checked.map_err(|e| course.of_source(e))? {
            course.notes.push(note);
            course.warnings.extend(warning);
        }
        long_values::check(engine, source, planned.rest())?;
        let called = course.called.as_deref();
        let account = account(&source.model, called, &planned, ledger.as_ref(), &restates);
        let mut coverage = account.map_err(|e| course.of_source(e))?;
        coverage.dropped_tokens = rowless;
        course.notes.extend(ledger.is_some().then(|| coverage.missed()).flatten());
        Ok(Checked { course, planned, coverage })
    }
}
