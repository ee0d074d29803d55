//! Loads a model for running: translated into the form that its table computes in, quantized if asked, prepared by
//! a backend, and compiled.

use super::backend::{Chosen, choose};
use super::facts::{Facts, Found, cache_bytes, step_bytes};
use super::file_watch::Watched;
use super::images::Images;
use super::key::key;
use super::memory::{self, Needs};
use super::options::{LoadOptions, Wanted};
use super::suggestions::Suggested;
use super::translated::Translated;
use super::weight_values::WeightValues;
use crate::host::Host;
use crate::threads::Team;
use apr_engine::architecture::{Decoder, decoder, decoder_rows, explain_lone, refuse_adapter};
use apr_engine::open::OpenedModel;
use apr_inference::program::Built;
use apr_inference::runner::{Parts, Runner};
use apr_inference::trace::{MeasuredProgram, Probes, measure};
use apr_sdk::{
    DType, Device, Error, ImageSpec, Mask, MatrixSpec, Memory, OpSpec, Result, SessionLimits, Support, Weight,
};
use std::path::Path;
use std::sync::Arc;

/// Tokens of a prompt that are computed together.
const ROWS: u32 = 512;
/// The same where every intermediate result keeps its rows.
const TAPPED_ROWS: u32 = 64;

/// A loaded model.
pub struct Loaded {
    /// The runner.
    pub runner: Runner,
    /// The program that was compiled.
    pub built: Built,
    /// The facts found out while loading.
    pub facts: Facts,
    /// The device that holds the weights, for further programs over them.
    pub device: Box<dyn Device>,
    /// The weights that the program names, on that device.
    pub weights: Vec<Weight>,
    /// The matrix of each weight.
    pub specs: Vec<MatrixSpec>,
    /// The way in which results are seen.
    pub probes: Probes,
}

/// Loads a model.
///
/// # Errors
/// Unsupported for a model that no table computes, or no device runs; Failed for one that does not fit into memory;
/// InvalidArgument for options that do not fit it; any error from reading, translating, quantizing and the backend.
pub fn load(host: &Host, opened: &OpenedModel, options: &LoadOptions) -> Result<Loaded> {
    load_with_values(host, opened, options).map(|(loaded, _)| loaded)
}

/// Loads a model, and gives access to the values of its weights.
///
/// # Errors
/// As [`load`].
pub fn load_with_values<'a>(
    host: &'a Host,
    opened: &'a OpenedModel,
    options: &LoadOptions,
) -> Result<(Loaded, WeightValues<'a>)> {
    // What is wrong with a model that changed meanwhile is just that.
    let loaded = loaded(host, opened, options);
    loaded.or_else(|error| opened.files.refuse_changed().and(Err(error))).map_err(|error| {
        match error.file() {
            Some(_) => error,
            None => error.in_file(opened.path.display().to_string()),
        }
    })
}

fn loaded<'a>(
    host: &'a Host,
    opened: &'a OpenedModel,
    options: &LoadOptions,
) -> Result<(Loaded, WeightValues<'a>)> {
    refuse_adapter(&opened.model, &host.registry)?;
    let arch = options.arch.as_deref();
    let explained = |error| explain_lone(host, &opened.model, arch, error);
    let rows = decoder_rows(host, &opened.model, arch).map_err(explained)?;
    let mut model = Translated::new(host, opened, &rows, arch).map_err(explained)?;
    let shapes: Vec<(String, Vec<u64>)> =
        model.tensors.iter().map(|one| (one.tensor.name.clone(), one.tensor.shape.clone())).collect();
    let decoder = decoder(host, &opened.model, arch, &shapes).map_err(explained)?;
    opened.will_read_payload()?;
    model.choose_types(&decoder, options)?;
    let context = context_of(&decoder, options, &mut model.warnings)?;
    model.warnings.extend(long_factors(&decoder, context));
    let mut built = model.build(&decoder, options, context)?;
    let specs = model.matrices(&built)?;
    let seat = Seat::new(host, options, &built, &specs)?;
    let mut probes = if options.taps { Probes::Taps } else { Probes::None };
    let mut program = built.program.clone();
    if options.measures && seat.measures()? {
        let measured = MeasuredProgram::new(&built.program)?;
        program = measured.program.clone();
        probes = Probes::Measured(measured);
    } else if options.measures {
        built = model.build(&decoder, &LoadOptions { taps: true, ..options.clone() }, context)?;
        program = built.program.clone();
        probes = Probes::Taps;
    }
    let step = rows_of_a_step(&built, options, &probes, context);
    let needs = Needs {
        weights: seat.images.iter().fold(0u64, |all, image| all.saturating_add(image.bytes)),
        caches: cache_bytes(&built, context).saturating_mul(options.sequences.into()),
        // A text that takes more is not known yet.
        step: step_bytes(&program, step.min(ROWS)),
    };
    seat.check_room(needs)?;
    let images = seat.images(&mut model, &built, options.keep_images.as_deref())?;
    let (weights, kept, watch) = model.prepare(&built, &specs, seat.device.as_ref(), images)?;
    let limits = SessionLimits::new(step, options.sequences, context);
    let session = seat.device.compile(&program.to_bytes()?, &weights, &limits)?;
    let team = Team::new(options.threads, Arc::clone(&host.cancel));
    let width =
        usize::try_from(built.output).ok().and_then(|n| built.program.values.get(n)).map_or(0, |v| v.width);
    let hidden = (model.meant(&decoder, options.wanted) != Wanted::Logits).then_some(built.output);
    let threads = apr_sdk::Workers::width(&team);
    let session = Box::new(Watched::new(session, watch));
    let runner = Runner::new(Parts {
        session,
        workers: Arc::new(team),
        rows: step,
        context,
        sequences: options.sequences,
        width,
        whole: is_whole(&built),
        hidden,
    });
    let warnings = std::mem::take(&mut model.warnings);
    let notes = std::mem::take(&mut model.notes);
    let suggested = Suggested::of(opened.model.model_card.as_ref().and_then(|card| card.inline()));
    let found = Found {
        image_bytes: needs.weights,
        cache_bytes: needs.caches,
        own_memory: seat.memory.is_some(),
        images_were_kept: kept,
        threads,
        suggested,
        warnings,
        notes,
    };
    let facts = Facts::new(&decoder, &built, &specs, seat.chosen, found);
    let loaded = Loaded { runner, built, facts, specs, probes, device: seat.device, weights };
    Ok((loaded, WeightValues::new(model)))
}

/// The device that runs a program, and the images of weights that it takes.
struct Seat {
    chosen: Chosen,
    device: Box<dyn Device>,
    images: Vec<ImageSpec>,
    /// The device's own memory, if it has some.
    memory: Option<Memory>,
}

impl Seat {
    fn new(host: &Host, options: &LoadOptions, built: &Built, specs: &[MatrixSpec]) -> Result<Seat> {
        let types: Vec<DType> = specs.iter().map(MatrixSpec::dtype).collect();
        let chosen = choose(&host.registry, &options.backend, options.device, &built.program, &types)?;
        let given = host.registry.kernel_options(&chosen.id, &options.options)?;
        let device = chosen.kernel.open(chosen.device, &given)?;
        let images = specs.iter().map(|spec| device.image(spec)).collect::<Result<_>>()?;
        let memory = Some(device.memory()?).filter(|memory| memory.total > 0);
        Ok(Seat { chosen, device, images, memory })
    }

    /// Returns whether the device can measure results.
    fn measures(&self) -> Result<bool> {
        let measure = measure();
        let (code, version) = measure.code();
        let asked = OpSpec { code, version, fields: &measure.fields(), weights: &[] };
        Ok(self.chosen.kernel.supports(self.chosen.device, &asked)? == Support::Yes)
    }

    /// Fails if what is needed does not fit.
    fn check_room(&self, needs: Needs) -> Result<()> {
        match &self.memory {
            Some(own) => memory::check(needs, memory::Place::Device, Some(own.free)),
            None => memory::check(needs, memory::Place::Host, memory::available()),
        }
    }

    /// Memory for the images, or those that `folder` keeps.
    fn images(&self, model: &mut Translated<'_>, built: &Built, folder: Option<&Path>) -> Result<Images> {
        if self.memory.is_some() {
            if folder.is_some() {
                let text =
                    "--cache-image has no effect: this device keeps prepared weights in its own memory";
                model.warnings.push(text.to_owned());
            }
            return Images::none();
        }
        let Some(folder) = folder else { return Images::new(&self.images) };
        let host = model.host;
        let key = key(model.opened, &model.tensors, built, &host.registry, &self.chosen.id, &self.images)?;
        Images::kept(folder, &key, &self.images, host.crew.as_ref(), &mut model.warnings)
    }
}

/// Returns whether each token sees all others, so that all must be there at once.
fn is_whole(built: &Built) -> bool {
    built.program.operations.iter().any(|operation| {
        matches!(operation, apr_sdk::Operation::Attention(attention) if attention.mask == Mask::FULL)
    })
}

/// The most tokens that are computed together.
fn rows_of_a_step(built: &Built, options: &LoadOptions, probes: &Probes, context: u32) -> u32 {
    // Hidden states of a text are read after one step.
    if is_whole(built) || matches!(options.wanted, Wanted::Embedding | Wanted::Hidden) {
        return context;
    }
    // Sequences that go on together have a row each, however short they are.
    context.min(if matches!(probes, Probes::Taps) { TAPPED_ROWS } else { ROWS }).max(options.sequences)
}

/// The remark on a rotation that is the one of long texts for short ones too, as in llama.cpp.
fn long_factors(decoder: &Decoder, context: u32) -> Option<String> {
    let mut ropes = decoder.layers.iter().filter_map(|layer| layer.attention.rope.as_ref());
    let original = ropes.find_map(|rope| rope.original).filter(|original| context > *original)?;
    Some(format!(
        "with a context of {context} tokens, the RoPE factors for long texts are used from the first token, \
         as in llama.cpp; transformers uses those for short texts up to {original} tokens: pass --context \
         {original} for the same logits"
    ))
}

/// The positions that there is room for.
fn context_of(decoder: &Decoder, options: &LoadOptions, warnings: &mut Vec<String>) -> Result<u32> {
    let trained = decoder.context;
    let usual = options.usual_context;
    let context = options.context.unwrap_or_else(|| trained.unwrap_or(usual).min(usual));
    if context == 0 {
        return Err(Error::invalid_argument("the context must be at least 1 token")
            .hint("pass --context 512 or more"));
    }
    if let Some(trained) = trained.filter(|trained| context > *trained) {
        warnings.push(format!(
            "the context of {context} tokens exceeds the {trained} that the model was trained with: expect \
             nonsense beyond them"
        ));
    }
    Ok(context)
}
