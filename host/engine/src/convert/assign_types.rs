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
        if request.versions.is_none() {
            add_versions(&mut context, &planned, ledger.as_ref());
        }
        Ok(Typed { context, planned, ledger, rowless })
    }
}

/// Adds the plugins whose table translated the model, and whose quantizers may make its values, to the versions that are
/// recorded.
fn add_versions(context: &mut PlanContext<'_>, planned: &PlannedModel, ledger: Option<&Ledger>) {
    let registry = &context.engine.registry;
    let table = ledger.and_then(|ledger| registry.table_provider(ledger.table()));
    let mut tensors = planned.tensors();
    let is_coded = tensors.any(|(_, tensor, computation)| {
        let is_block = tensor.dtype.is_block() || computation.expression.stored_dtype().is_block();
        computation.is_packed() || is_block && computation.is_retyped(tensor)
    });
    for plugin in registry.plugins() {
        let Some(manifest) = plugin.manifest.as_ref().filter(|_| plugin.state.is_ok()) else { continue };
        let is_table = table.is_some_and(|table| std::ptr::eq(table, plugin));
        if is_table || is_coded && !manifest.quantizers.is_empty() {
            let version = (format!("plugin {}", manifest.id), manifest.version.clone());
            if !context.output.request.versions.contains(&version) {
                context.output.request.versions.push(version);
            }
        }
    }
}
