//! The type of each tensor, and the tensors of scales that come with it: the fourth stage.

use super::select::PlanContext;
use super::translate::Translated;
use crate::architecture::{Ledger, tensor_specs};
use crate::packed::exact;
use crate::planned::PlannedModel;
use crate::planned::coverage::Dropped;
use crate::types::quantize::TypeChooser;
use crate::types::{bare_integers, narrow, stated_types};
use apr_sdk::Result;

/// The model with the types it is written in.
pub struct Typed<'a> {
    pub(super) context: PlanContext<'a>,
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
        let Translated { mut context, mut planned, ledger, rowless } = translated;
        let PlanContext { engine, request, .. } = context;
        let target = context.output.format;
        if !request.quantization.is_nothing() {
            let specs = tensor_specs(engine, planned.model(), context.arch());
            let specs = specs.map_err(|e| context.of_source(e))?;
            let writer = ledger.is_none().then_some(context.writer.as_ref());
            let choosing = TypeChooser { engine, target, writer, specs: &specs };
            let remarks = choosing.apply(&request.quantization, &mut planned);
            let remarks = remarks.map_err(|e| context.of_source(e))?;
            context.notes.extend(remarks.notes);
            context.warnings.extend(remarks.warnings);
        }
        context.notes.extend(narrow::apply(engine, &context.source, &mut planned, look)?);
        let exact = exact::choose(engine, &context.source, look, &mut planned, target, &request.quantization);
        context.notes.extend(exact.map_err(|e| context.of_source(e))?);
        stated_types::follow(&mut planned, target);
        // `--dequantize` says itself what it leaves; of codes that have scales, a note says that they are copied.
        if request.quantization.dequantize.is_none() && context.packed.is_none() {
            context.warnings.extend(bare_integers::warning(&planned, target));
        }
        Ok(Typed { context, planned, ledger, rowless })
    }
}
