//! Everything that a conversion knows before it writes a byte.

use crate::architecture::{Concerns, Wishes, concerns, translate_model};
use crate::contract::{Finding, Quality, Standing, judge_layout};
use crate::engine::Engine;
use crate::expression::making::{Making, Piece};
use crate::layout::edits::{Edits, Understood};
use crate::layout::{Collector, Layout, Segment};
use crate::open::long_values;
use crate::open::{GivenOption, OpenOptions, OpenedModel, check_options, format_of, open, option_values};
use crate::plan::Plan;
use crate::plan::coverage::{Restated, account};
use crate::plan::narrow;
use crate::plan::packed::Packed;
use crate::plan::quantize::Planned;
use crate::plan::rename::{Renaming, rename};
use crate::plan::request::ConvertOptions;
use crate::plan::stated_types;
use crate::plan::workings::Workings;
use crate::plan::{carries, token_rows};
use crate::registry::Format;
use apr_sdk::{DType, Error, ErrorKind, LayoutRequest, Model, Result, Writer};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Where a model goes, as far as planning cares.
pub struct Output<'a> {
    /// Its format.
    pub format: &'a Format,
    /// What the writer is asked.
    pub request: LayoutRequest,
    /// Whether it may be several files, whatever they are called.
    pub takes_many: bool,
    /// Its path as the user will know it.
    pub shown: String,
}

/// The source of a conversion, opened as its options say.
pub struct Sourced {
    /// The source.
    pub source: OpenedModel,
    /// How it was opened.
    options: OpenOptions,
    /// What is left of the renaming that was asked for.
    renaming: Renaming,
    /// Whether the reader left tensors out.
    left_by_reader: bool,
}

impl Sourced {
    /// Opens the source. `look` says that payload will be read: then account of it is kept.
    ///
    /// # Errors
    /// Whatever opening raises.
    pub fn open(engine: &Engine, options: &ConvertOptions, look: bool) -> Result<Sourced> {
        let mut open_options = OpenOptions {
            from: options.from.clone(),
            options: options.options.clone(),
            bare: options.bare,
            witnessed: look,
        };
        let mut renaming = options.renaming.clone();
        let own_prefix = own_prefix(engine, &options.input, &open_options, &mut renaming)?;
        let left_by_reader = own_prefix.is_some();
        open_options.options.extend(own_prefix);
        let source = open(engine, &options.input, &open_options)?;
        Ok(Sourced { source, options: open_options, renaming, left_by_reader })
    }
}

/// Everything that is known before a byte is written.
pub struct Prepared<'a> {
    /// The source.
    pub source: OpenedModel,
    /// The model as it will be written.
    pub model: Model,
    /// Where it goes.
    pub output: Output<'a>,
    /// The target's writer.
    pub writer: Arc<dyn Writer>,
    /// Its answer.
    pub layout: Layout,
    /// What will be done, but for the list of the tensors.
    pub plan: Plan,
    /// How each tensor of `model` is made.
    pub workings: Workings,
    /// What the architecture's table says of each tensor of `model`.
    pub concerns: Concerns,
    /// What is wrong with shapes, and does not stop the work.
    pub findings: Vec<Finding>,
    /// The source's tensors that are asked for, where some are left out, by their names or by the reader.
    pub selected: Option<Vec<usize>>,
    /// Numbers of the source's files, without folders.
    pub inputs: Vec<u32>,
}

/// Changes a copy of the source's model into the one to be written, and says how each of its tensors is made.
pub type Remake<'r> = dyn Fn(&OpenedModel, &mut Model) -> Result<Vec<Making>> + 'r;

/// Lets the target's writer lay the source out, as `remake` makes it. `look` says whether payload may be read to find out
/// which types hold it; without it, the workings are for a plan.
///
/// # Errors
/// Whatever planning raises; nothing was written then.
pub fn prepare<'a>(
    engine: &'a Engine,
    options: &ConvertOptions,
    sourced: Sourced,
    mut output: Output<'a>,
    remake: &Remake<'_>,
    look: bool,
) -> Result<Prepared<'a>> {
    let Sourced { mut source, options: open_options, renaming, left_by_reader } = sourced;
    let target = output.format;
    check_options(&engine.registry, &[engine.registry.format(&source.format)?, target], &options.options)?;
    output.request.options = option_values(target, &options.options, |spec| spec.write)?;
    let inputs = numbers_of_files(&source);
    let all = source.files.all();
    output.request.inputs = inputs.iter().filter_map(|&n| all.get(n as usize)).map(|f| f.len).collect();
    output.request.versions = versions(engine, &source, target);
    // What cannot be written is a matter of the source and the target: the message names the source.
    let of_source = |e: Error| e.in_file(options.input.display().to_string());
    // Of the whole source: what a selection leaves may not show it any more.
    let packed = Packed::of_selected(engine, &options.input, &open_options, &source);
    if let Some(packed) = &packed {
        packed.check(&source.model, target, options).map_err(of_source)?;
    }
    let arch = if packed.is_some() { Some("none") } else { options.arch.as_deref() };
    let mut model = source.model.clone();
    let kept = rename(&mut model, &renaming).map_err(of_source)?;
    let selected = kept.clone().or_else(|| left_by_reader.then(|| (0..source.model.tensors.len()).collect()));
    let called = called(&source.model, &model, kept.as_deref());
    let mut notes: Vec<String> = std::mem::take(&mut model.notes);
    let mut warnings = Vec::new();
    let writer = target.writer()?;
    let mut edits = Edits::new(engine.places.as_ref(), &options.set, &options.unset)?;
    let understood = edits.in_source(engine, &source, &mut model, target)?;
    let not_understood = understand_tokenizer(engine, &source, understood, &mut model, target)?;
    source.forget_idle_readers();
    let wishes = Wishes {
        arch,
        required: options.wants_architecture,
        precision: options.quantization.precision,
        foreign: options.foreign,
    };
    let translation =
        translate_model(engine, &mut model, target, writer.as_ref(), wishes, &|bytes| source.fetch(bytes))
            .map_err(of_source)?;
    notes.extend(translation.notes);
    warnings.extend(translation.warnings);
    if let Some(error) = not_understood {
        // A model that is translated whole must not lose it; elsewhere its files or keys may still be carried as they are.
        if target.manifest.carries.tokenizer_core && translation.makings.is_some() {
            return Err(of_source(error.hint("pass --arch none to write the tensors alone")));
        }
        notes.push(format!("not carried: the tokenizer, which is not understood: {}", error.message()));
    }
    // Such keys belong to an architecture's.
    let untranslated = target.manifest.carries.tokenizer_core && translation.makings.is_none();
    if untranslated && model.tokenizer.take().is_some() && model.foreign_of(target.id()).is_none() {
        notes.push("not carried: the tokenizer, since names are not translated".to_owned());
    }
    let ledger = translation.ledger;
    let is_translated = translation.makings.is_some();
    let mut rowless = Vec::new();
    if is_translated && model.tokenizer.is_some() && target.manifest.carries.token_rows {
        let concerns = concerns(engine, &model, arch).map_err(of_source)?;
        if let Some((tokens, warning)) =
            token_rows::fit(&source, &mut model, &concerns, target).map_err(of_source)?
        {
            rowless = tokens;
            warnings.push(warning);
        }
    }
    let mut makings = match (translation.makings, kept) {
        (Some(makings), kept) => kept.iter().fold(makings, |makings, kept| of_kept(makings, kept)),
        (None, kept) => {
            let makings = remake(&source, &mut model).map_err(of_source)?;
            kept.map_or(Ok(makings), |kept| {
                kept.iter().map(|&number| Making::copy(number, &source.model.tensors[number])).collect()
            })?
        }
    };
    // By name: what follows may add tensors, and leave some out.
    let named = |(number, dtype): &(usize, DType)| (model.tensors[*number].name.clone(), *dtype);
    let narrow_if_exact: Vec<_> = translation.narrow_if_exact.iter().map(named).collect();
    if !options.quantization.is_nothing() {
        let concerns = concerns(engine, &model, arch).map_err(of_source)?;
        let writer = (!is_translated).then_some(writer.as_ref());
        let planned = Planned { engine, source: &source, target, writer, concerns: &concerns };
        let said = planned.apply(&options.quantization, &mut model, &mut makings).map_err(of_source)?;
        notes.extend(said.notes);
        warnings.extend(said.warnings);
    }
    // What becomes something else anyway needs no look.
    let numbers: HashMap<&str, usize> = match narrow_if_exact.len() {
        0 => HashMap::new(),
        _ => model.tensors.iter().enumerate().map(|(number, tensor)| (&*tensor.name, number)).collect(),
    };
    let as_it_was = |(name, dtype): (String, DType)| {
        let number = *numbers.get(name.as_str())?;
        (model.tensors[number].dtype == makings[number].source_dtype).then_some((number, dtype))
    };
    let wanted: Vec<_> = narrow_if_exact.into_iter().filter_map(as_it_was).collect();
    notes.extend(narrow::apply(engine, &source, &mut model, &makings, &wanted, look)?);
    stated_types::follow(&mut model, &makings, target);
    notes.extend(edits.in_target(engine, &source, &mut model, target, &output.request)?);
    let restated = Restated {
        engine,
        source: &source.format,
        target,
        tokenizer: model.tokenizer.is_some(),
        card: model.model_card.is_some(),
    };
    let restates = |format: &str, file: &str, key: &str| restated.has(format, file, key, ledger.as_ref());
    notes.extend(carries::prune(&mut model, target, options.foreign, &restates));
    carries::check(&model, target, engine.registry.formats(), packed.is_none()).map_err(of_source)?;
    if let Some(packed) = &packed {
        let (note, warning) = packed.word(&model);
        notes.push(note);
        warnings.extend(warning);
    }
    long_values::check(engine, &source, &model)?;
    let mut coverage =
        account(&source.model, called.as_deref(), &model, &makings, ledger.as_ref(), &restates)
            .map_err(of_source)?;
    coverage.dropped_tokens = rowless;
    notes.extend(ledger.is_some().then(|| coverage.missed()).flatten());
    let workings =
        Workings::new(makings, &model, &source.model, &engine.registry, !look).map_err(of_source)?;
    let mut collector = Collector::new(&engine.registry, &source, &model, &output.request)
        .asked(&options.options, options.arch.as_deref() == Some("none"))
        .casting(packed.is_none());
    writer.layout(&model, &output.request, &mut collector).map_err(of_source)?;
    let layout = collector.finish()?;
    let concerns = concerns(engine, &model, arch).map_err(of_source)?;
    let findings = check_layout(&layout, &model, &concerns, options.quality()).map_err(of_source)?;
    notes.extend(carries::name_after(&mut model, target, &layout.files[layout.entry].name));
    if !output.takes_many && layout.files.len() > 1 {
        check_companions(&layout, &output.request.file_name)?;
    }
    let mut plan = Plan {
        schema: "apr.plan/1",
        input: options.input.display().to_string(),
        from: source.format.clone(),
        output: output.shown.clone(),
        to: target.id().to_owned(),
        files: Vec::new(),
        bytes: 0,
        payload_memory: 0,
        tensors: Vec::new(),
        coverage,
        notes,
        warnings,
    };
    plan.describe(&layout, &workings, engine.crew.width());
    Ok(Prepared {
        source,
        model,
        output,
        writer,
        layout,
        plan,
        workings,
        concerns,
        findings,
        selected,
        inputs,
    })
}

/// Compares shapes and sizes with what the contract says; gives what is wrong and may be.
///
/// # Errors
/// Failed for the first that stops the work.
fn check_layout(
    layout: &Layout,
    model: &Model,
    concerns: &Concerns,
    quality: Quality,
) -> Result<Vec<Finding>> {
    let mut bytes = vec![None; model.tensors.len()];
    for placed in layout.files.iter().flat_map(|file| &file.segments) {
        if let Segment::Payload { tensor } = placed.segment
            && let Some(known) = bytes.get_mut(tensor)
        {
            *known = Some(placed.len);
        }
    }
    let findings = judge_layout(model, concerns, &|number| bytes[number], quality);
    match findings.iter().find(|finding| finding.standing == Standing::Error) {
        Some(finding) => Err(finding.error()),
        None => Ok(findings),
    }
}

/// `--prefix` as an option of the source's format, if that has one of the name: what lies below a path may be hidden there,
/// and what lies elsewhere may keep the file from opening as a whole.
fn own_prefix(
    engine: &Engine,
    input: &Path,
    options: &OpenOptions,
    renaming: &mut Renaming,
) -> Result<Option<GivenOption>> {
    if renaming.prefix.is_none() {
        return Ok(None);
    }
    let format = format_of(engine, input, options)?;
    if !format.manifest.options.iter().any(|option| option.name == "prefix" && option.read) {
        return Ok(None);
    }
    Ok(renaming.prefix.take().map(|prefix| (Some(format.id().to_owned()), "prefix".to_owned(), prefix)))
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

/// What each tensor of the source is called after a renaming, if there was one; `None` for one that was left.
fn called(source: &Model, renamed: &Model, kept: Option<&[usize]>) -> Option<Vec<Option<String>>> {
    let kept = kept?;
    let mut called = vec![None; source.tensors.len()];
    for (&number, tensor) in kept.iter().zip(&renamed.tensors) {
        called[number] = Some(tensor.name.clone());
    }
    Some(called)
}

/// Has the source's tokenizer understood, if the target holds one and is not the source's own format; gives why not.
///
/// # Errors
/// Whatever reading raises.
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

/// A model of one file may have others beside it, if their names say whose they are: `model.x` and `model.x.data`.
fn check_companions(layout: &Layout, file_name: &str) -> Result<()> {
    let own = |name: &str| {
        name == file_name
            || name.strip_prefix(file_name).is_some_and(|rest| rest.starts_with('.') && !rest.contains('/'))
    };
    if layout.files[layout.entry].name == file_name && layout.files.iter().all(|file| own(&file.name)) {
        return Ok(());
    }
    let message = format!("the output is {} files, and its name is that of one", layout.files.len());
    Err(Error::invalid_argument(message).hint("give a folder: apr convert IN OUT/ --to FORMAT"))
}

fn numbers_of_files(source: &OpenedModel) -> Vec<u32> {
    let files = source.files.all();
    (0u32..).zip(&files).filter(|(_, f)| !f.is_folder()).map(|(n, _)| n).collect()
}

/// Names and versions of the program and of the plugins involved.
pub fn versions(engine: &Engine, source: &OpenedModel, target: &Format) -> Vec<(String, String)> {
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
