//! The type of each tensor, and the tensors of scales that come with it: the fourth stage.

use super::selected::PlanContext;
use super::translated::Translated;
use crate::architecture::{Ledger, tensor_specs};
use crate::plan::coverage::Dropped;
use crate::plan::packed::{exact, unscaled};
use crate::plan::planned_model::PlannedModel;
use crate::plan::quantize::TypeChooser;
use crate::plan::{narrow, stated_types};
use apr_sdk::Result;

/// The model with the types it is written in.
pub struct Typed<'a> {
    pub(super) course: PlanContext<'a>,
    pub(super) planned: PlannedModel,
    pub(super) ledger: Option<Ledger>,
    pub(super) rowless: Vec<Dropped>,
}

impl<'a> Typed<'a> {
    /// Gives tensors the requested types. `look` says whether payload may be read to find out which types
    /// hold it.
    ///
    /// # Errors
    /// InvalidArgument for unknown types, or types that change nothing; any error from reading and the
    /// quantizers.
    pub fn new(translated: Translated<'a>, look: bool) -> Result<Typed<'a>> {
        let Translated { mut course, mut planned, ledger, rowless } = translated;
        let (engine, options, target) = (course.engine, course.options, course.output.format);
        if !options.quantization.is_nothing() {
            let known = planned.with_model(|model| tensor_specs(engine, model, course.arch()));
            let specs = known.map_err(|e| course.of_source(e))?;
            let writer = ledger.is_none().then_some(course.writer.as_ref());
            let choosing = TypeChooser { engine, target, writer, specs: &specs };
            let said = choosing.apply(&options.quantization, &mut planned);
            let said = said.map_err(|e| course.of_source(e))?;
            course.notes.extend(said.notes);
            course.warnings.extend(said.warnings);
        }
        course.notes.extend(narrow::apply(engine, &course.source, &mut planned, look)?);
        let exact =
            exact::choose(engine, (&course.source, look), &mut planned, target, &options.quantization);
        course.notes.extend(exact.map_err(|e| course.of_source(e))?);
        stated_types::follow(&mut planned, target);
        // `--dequantize` says itself what it leaves; of codes that have scales, a note says that they are copied.
        if options.quantization.dequantize.is_none() && course.packed.is_none() {
            let dialect = &planned.rest().dialect;
            course.warnings.extend(unscaled::warning(&planned.tensors, dialect, target));
        }
        Ok(Typed { course, planned, ledger, rowless })
    }
}
