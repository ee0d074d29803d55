//! The selected tensors of the source under their requested names, with edited keys: the second stage.

use super::edits::{Edits, Understood};
use super::open::Opened;
use super::output::{Output, Shards};
use crate::architecture::{Removed, prune_layers};
use crate::engine::Engine;
use crate::layout::carries::Casting;
use crate::open::schemes::Unpacked;
use crate::open::stored_sums::refuse_uncomputed;
use crate::open::{OpenedModel, check_options, check_write_options, option_values};
use crate::packed::Packed;
use crate::planned::coverage::Fate;
use crate::planned::record::OptionRecord;
use crate::planned::request::{Request, VerifyMode};
use crate::registry::Format;
use crate::select::source_names::take;
use crate::wording::n_of;
use apr_sdk::{Error, ErrorKind, Model, Result, Writer};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// The context of every stage after the first.
pub struct PlanContext<'a> {
    /// The context: plugins, workers, paths.
    pub engine: &'a Engine,
    /// The user's request.
    pub request: &'a Request,
    /// True if payload may be read while planning.
    pub look: bool,
    /// The model to convert.
    pub source: Arc<OpenedModel>,
    /// The output that the model is written to.
    pub output: Output<'a>,
    /// The target's writer.
    pub writer: Arc<dyn Writer>,
    /// The evidence that weights are packed.
    pub(super) packed: Option<Packed>,
    /// Metadata changes that are still to be made.
    pub(super) edits: Edits,
    /// Lines for the summary.
    pub(super) notes: Vec<String>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
    /// The selected tensors of the source, if some are left out by name or by the reader.
    pub(super) selected: Option<Vec<usize>>,
    /// Numbers of the source's files, excluding folders.
    pub(super) inputs: Vec<u32>,
    /// The fate of each tensor of the source, if any is left out or renamed.
    pub(super) fates: Option<Vec<Fate>>,
}

impl PlanContext<'_> {
    /// Adds the source's path to an error: whether a model can be written depends on both source and target.
    pub(super) fn of_source(&self, error: Error) -> Error {
        of_source(self.request, error)
    }

    /// The flags that would give tensors types that the target holds.
    pub(super) fn casting(&self) -> Casting {
        match (&self.packed, &self.source.unpacked) {
            (Some(_), _) => Casting::No,
            (None, Some(_)) if self.request.quantization.dequantize.is_some() => Casting::Beside,
            (None, Some(_)) => Casting::WithValues,
            (None, None) => Casting::Plain,
        }
    }

    /// The architecture that the user named. For packed weights, none.
    pub(super) fn arch(&self) -> Option<&str> {
        if self.packed.is_some() { Some("none") } else { self.request.arch.as_deref() }
    }
}

/// The selected tensors, and the source's keys after the user's edits.
pub struct Selected<'a> {
    pub(super) context: PlanContext<'a>,
    pub(super) model: Model,
    /// The former index of each tensor of `model`, if any was left out or renamed.
    pub(super) kept: Option<Vec<usize>>,
    /// The tensors that the user's patterns leave out.
    pub(super) removed: Vec<Removed>,
    /// The reason why its tokenizer was not understood.
    pub(super) not_understood: Option<Error>,
}

impl<'a> Selected<'a> {
    /// Selects and renames tensors, and edits keys of the source.
    ///
    /// # Errors
    /// InvalidArgument for unknown options, names and keys; any error from looking at the source.
    pub fn new(
        engine: &'a Engine,
        request: &'a Request,
        opened: Opened<'a>,
        mut output: Output<'a>,
    ) -> Result<Selected<'a>> {
        let Opened { source, probed, options: open_options, renaming, left_by_reader, .. } = &opened;
        let mut source = Arc::clone(source);
        let left_by_reader = *left_by_reader;
        let renaming = renaming.clone();
        let look = open_options.witnessed;
        let target = output.format;
        let own = engine.registry.format(&source.format)?;
        check_options(&engine.registry, &[own, target], &request.options)?;
        check_write_options(&engine.registry, own, target, &request.options)?;
        output.request.options = option_values(target, &request.options, |spec| spec.write)?;
        let inputs = numbers_of_files(&source);
        let all = source.files.all();
        output.request.inputs = inputs.iter().filter_map(|&n| all.get(n as usize)).map(|f| f.len).collect();
        let versions = request.versions.clone();
        output.request.versions = versions.unwrap_or_else(|| versions_of(engine, &source, target));
        output.request.source = source.files.facts(true);
        // For the whole source: a selection may no longer show it.
        let mut packed = Packed::of_selected(probed, open_options, &source);
        let mut unpacked = Vec::new();
        if let Some(known) = &packed
            && let Some(values) =
                values_of(engine, request, target, &opened, known).map_err(|e| of_source(request, e))?
        {
            source = values;
            packed = None;
            unpacked = source.unpacked.iter().flat_map(Unpacked::lines).collect();
        }
        drop(opened);
        if request.verify != VerifyMode::Off {
            refuse_uncomputed(&source)?;
        }
        let mut model = source.model.clone();
        output.request.record = record(engine, request, output.shards, &mut model, &source)?;
        let mut pruned = None;
        let taken = if request.prune_layers.is_empty() {
            take(&mut model, &renaming, &request.choice, None)
        } else {
            take(
                &mut model,
                &renaming,
                &request.choice,
                Some(&mut |model| {
                    let arch = if packed.is_some() { Some("none") } else { request.arch.as_deref() };
                    let (fates, change) = without_layers(engine, model, arch, request)?;
                    pruned = Some(change);
                    Ok(fates)
                }),
            )
        };
        let (kept, fates, removed) = match taken.map_err(|e| of_source(request, e))? {
            Some(taken) => (Some(taken.kept), Some(taken.fates), taken.removed),
            None => (None, None, Vec::new()),
        };
        let selected =
            kept.clone().or_else(|| left_by_reader.then(|| (0..source.model.tensors.len()).collect()));
        let mut notes = std::mem::take(&mut model.notes);
        notes.extend(unpacked);
        if output.request.source.iter().any(|(name, fact)| name == "verified" && fact == "no") {
            notes.push("source: not verified: it was compared with no digest of it".to_owned());
        }
        let writer = target.writer()?;
        let mut edits = Edits::new(engine.places.as_ref(), &request.set, &request.unset)?;
        if let Some((keys, note)) = pruned {
            keys.iter().try_for_each(|(key, text)| edits.add("--prune-layers", key, text))?;
            notes.push(note);
        }
        let understood = edits.in_source(engine, &source, &mut model, target);
        let understood = understood.map_err(|e| of_source(request, e))?;
        let not_understood = understand_tokenizer(engine, &source, understood, &mut model, target)?;
        let warnings = Vec::new();
        let mut context = PlanContext {
            engine,
            request,
            look,
            source,
            output,
            writer,
            packed,
            edits,
            notes,
            warnings,
            selected,
            inputs,
            fates,
        };
        // If it serves several outputs, the others may still need the readers.
        if let Some(source) = Arc::get_mut(&mut context.source) {
            source.forget_idle_readers();
        }
        Ok(Selected { context, model, kept, removed, not_understood })
    }
}

/// Adds the source's path to an error.
pub(super) fn of_source(request: &Request, error: Error) -> Error {
    error.in_file(request.input.display().to_string())
}

/// The source with the values of its packed weights, if the request needs them.
fn values_of(
    engine: &Engine,
    request: &Request,
    target: &Format,
    opened: &Opened<'_>,
    packed: &Packed,
) -> Result<Option<Arc<OpenedModel>>> {
    let Some(need) = packed.needs_values(&engine.registry, &opened.source.model, target, request) else {
        return Ok(None);
    };
    let understood = opened.unpacked(engine)?.ok_or_else(|| packed.refusal(&need))?;
    // What no plugin knows is still no weight.
    if let Some(left) = Packed::of(&understood) {
        return Err(left.refusal(&need));
    }
    packed.refuse_cast(&need)?;
    Ok(Some(understood))
}

/// Changes of keys, each with its new value, and a line for the summary.
type KeyChanges = (Vec<(String, String)>, String);

/// The fates of a model's tensors without the layers that `--prune-layers` names, and the changes of the keys that speak of
/// them.
///
/// # Errors
/// As [`prune_layers`]; InvalidArgument with an importance matrix, whose names are those of all layers.
fn without_layers(
    engine: &Engine,
    model: &Model,
    arch: Option<&str>,
    request: &Request,
) -> Result<(Vec<Fate>, KeyChanges)> {
    if request.quantization.importance.is_some() {
        let message = "--imatrix and --prune-layers cannot be used together: the matrix covers all layers";
        let hint = "prune first, then make an importance matrix of the result and quantize with that";
        return Err(Error::invalid_argument(message).hint(hint));
    }
    let pruned = prune_layers(engine, model, arch, &request.prune_layers)?;
    let layers: Vec<String> = request.prune_layers.iter().map(u64::to_string).collect();
    let rule: Arc<str> = format!("--prune-layers {}", layers.join(",")).into();
    let gone = n_of(pruned.names.iter().filter(|name| name.is_none()).count(), "tensor");
    let left = pruned.layers - layers.len() as u64;
    let note = format!("left out: {gone} ({rule}): {} layers become {left}", pruned.layers);
    let fates = pruned.names.into_iter().map(|name| match name {
        Some(name) => Fate::Called(name),
        None => Fate::Left(Arc::clone(&rule)),
    });
    Ok((fates.collect(), (pruned.keys, note)))
}

/// Has the source's tokenizer read, if the target holds one and is not of the source's format; returns why it
/// was not understood.
///
/// # Errors
/// Any error from reading.
fn understand_tokenizer(
    engine: &Engine,
    source: &OpenedModel,
    understood: Understood,
    model: &mut Model,
    target: &Format,
) -> Result<Option<Error>> {
    let carries = &target.manifest.carries;
    if !(carries.tokenizer || carries.tokenizer_core) || source.format == target.id() {
        return Ok(None);
    }
    match understood.tokenizer.unwrap_or_else(|| source.tokenizer(engine)) {
        Ok(tokenizer) => model.tokenizer = tokenizer,
        Err(error) if [ErrorKind::Unsupported, ErrorKind::Malformed].contains(&error.kind()) => {
            return Ok(Some(error));
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

fn numbers_of_files(source: &OpenedModel) -> Vec<u32> {
    let files = source.files.all();
    (0u32..).zip(&files).filter(|(_, f)| !f.is_folder()).map(|(n, _)| n).collect()
}

/// Names and versions of the program and of the plugins of both formats.
fn versions_of(engine: &Engine, source: &OpenedModel, target: &Format) -> Vec<(String, String)> {
    let mut versions = vec![("apr".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    let formats =
        engine.registry.formats().iter().filter(|f| f.id() == source.format || f.id() == target.id());
    for format in formats {
        if let Some(manifest) = &engine.registry.plugins()[format.plugin].manifest {
            let entry = (format!("plugin {}", manifest.id), manifest.version.clone());
            if !versions.contains(&entry) {
                versions.push(entry);
            }
        }
    }
    versions
}

/// What formats that record where a model came from are told beside inputs and versions, as JSON. A model with other
/// tensors leaves the record of its source among those before it; with the same, it keeps that record.
fn record(
    engine: &Engine,
    request: &Request,
    shards: Shards,
    model: &mut Model,
    source: &OpenedModel,
) -> Result<String> {
    let options = OptionRecord::of(engine, request, shards.size, shards.tensors)?;
    let mut record = Map::new();
    if !options.keeps_the_tensors()
        && let Some(bytes) = model.provenance.take()
    {
        let bytes = source.fetch(&bytes)?;
        let last = serde_json::from_slice(bytes.inline().unwrap_or_default());
        let last: Json = last.map_err(|e| {
            of_source(request, Error::malformed(format!("the record of where it came from is not JSON: {e}")))
        })?;
        record.insert("before".to_owned(), before(last));
    }
    let options = serde_json::to_value(&options)
        .map_err(|e| Error::plugin(format!("the options cannot be recorded: {e}")))?;
    if options.as_object().is_some_and(|options| !options.is_empty()) {
        record.insert("options".to_owned(), options);
    }
    Ok(if record.is_empty() { String::new() } else { Json::Object(record).to_string() })
}

/// A record behind all that it names before it, oldest first: a list, which does not nest deeper with each.
fn before(mut last: Json) -> Json {
    let earlier = last.as_object_mut().and_then(|last| last.remove("before"));
    let mut all = match earlier {
        Some(Json::Array(earlier)) => earlier,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    all.push(last);
    Json::Array(all)
}
