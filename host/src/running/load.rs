//! Loads a model for running: translated into the form that its table computes in, quantized if asked, prepared by
//! a backend, and compiled.

use super::backend::{Backend, Chosen, choose};
use super::facts::{Facts, Found, cache_bytes, step_bytes};
use super::file_watch::Watched;
use super::images::{Images, Place};
use super::key::key;
use super::memory::{self, Needs};
use super::rows::{CountedRows, HeldRows, Reading, TensorRows, matrix};
use super::suggestions::Suggested;
use super::weight_values::WeightValues;
use crate::host::Host;
use crate::threads::Team;
use apr_engine::architecture::{
    Decoder, Roles, decoder, decoder_rows, explain_lone, in_dialect, refuse_adapter, tensor_specs,
};
use apr_engine::expression::PlannedTensor;
use apr_engine::open::OpenedModel;
use apr_engine::planned::PlannedModel;
use apr_engine::planned::quantization::Quantization;
use apr_engine::types::quantize::TypeChooser;
use apr_inference::program::{Built, Output, Request, TensorShape, WeightOf, build};
use apr_inference::runner::{Parts, Runner};
use apr_inference::trace::{MeasuredProgram, Probes, measure};
use apr_sdk::{
    Architecture, Bytes, DType, Device, Error, ImageSpec, Mask, MatrixSpec, Memory, OpSpec, Options, Pooling,
    Result, Rows, SessionLimits, Support, Weight,
};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Positions that a context has unless the user says otherwise, if the model was trained for at least so many.
const CONTEXT: u32 = 8192;
/// Tokens of a prompt that are computed together.
const ROWS: u32 = 512;
/// The same where every intermediate result keeps its rows.
const TAPPED_ROWS: u32 = 64;

/// The purpose for which a model is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Logits for the next token.
    #[default]
    Logits,
    /// One vector for a text, pooled as the model says, or the mean where it does not say, of length 1.
    Embedding,
    /// The last hidden state of each token.
    Hidden,
    /// Logits, or the last hidden state of each token of a model that has no head.
    Any,
}

/// Options for loading a model.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The architecture that the user named.
    pub arch: Option<String>,
    /// The backend.
    pub backend: Backend,
    /// The number of its device.
    pub device: u32,
    /// The backend's own options.
    pub options: Options,
    /// Number of threads that compute.
    pub threads: usize,
    /// Positions that there is room for; `None` for what the model was trained for, but at most `usual_context`.
    pub context: Option<u32>,
    /// See `context`.
    pub usual_context: u32,
    /// Sequences that there is room for, each with the whole context.
    pub sequences: u32,
    /// The type of keys and values: F32, F16 or Q8_0.
    pub cache: DType,
    /// The recipe to quantize with while loading.
    pub quantize: Option<String>,
    /// True if weights in blocks are loaded as F32, with which no backend rounds activations.
    pub as_floats: bool,
    /// The purpose.
    pub wanted: Wanted,
    /// The folder where prepared weights are kept for the next time.
    pub keep_images: Option<PathBuf>,
    /// True if intermediate results can be read.
    pub taps: bool,
    /// True if the program measures its results, or, on a device that cannot do that, they can be read.
    pub measures: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            arch: None,
            backend: Backend::Auto,
            device: 0,
            options: Options::new(),
            threads: 1,
            context: None,
            usual_context: CONTEXT,
            sequences: 1,
            cache: DType::F16,
            quantize: None,
            as_floats: false,
            wanted: Wanted::Logits,
            keep_images: None,
            taps: false,
            measures: false,
        }
    }
}

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

/// A model in the dialect in which its table computes.
pub(super) struct Translated<'a> {
    pub(super) host: &'a Host,
    pub(super) opened: &'a OpenedModel,
    architecture: Architecture,
    dialect: String,
    tensors: Vec<PlannedTensor>,
    by_name: HashMap<String, usize>,
    warnings: Vec<String>,
    notes: Vec<String>,
}

fn by_name(tensors: &[PlannedTensor]) -> HashMap<String, usize> {
    tensors.iter().enumerate().map(|(number, one)| (one.tensor.name.clone(), number)).collect()
}

impl<'a> Translated<'a> {
    fn new(
        host: &'a Host,
        opened: &'a OpenedModel,
        rows: &str,
        arch: Option<&str>,
    ) -> Result<Translated<'a>> {
        let there = in_dialect(host, opened, rows, arch)?;
        let architecture = Architecture { id: there.architecture, config: Bytes::from(there.config) };
        Ok(Translated {
            host,
            opened,
            architecture,
            dialect: rows.to_owned(),
            by_name: by_name(&there.tensors),
            tensors: there.tensors,
            warnings: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Gives weights the types that the user wants.
    fn choose_types(&mut self, decoder: &Decoder, options: &LoadOptions) -> Result<()> {
        let host = self.host;
        let opened = self.opened;
        if let Some(recipe) = &options.quantize {
            // Recipes count layers, and know nothing of those that are not computed.
            let all = decoder.layers.iter().map(|layer| &layer.roles).chain([&decoder.roles]);
            let used: HashSet<&str> = all.flat_map(Roles::all).map(|(_, name, _)| name).collect();
            let mut tensors = std::mem::take(&mut self.tensors);
            tensors.retain(|one| used.contains(one.tensor.name.as_str()));
            let mut rest = opened.model.clone();
            rest.architecture = Some(self.architecture.clone());
            rest.dialect.clone_from(&self.dialect);
            let mut planned = PlannedModel::new(rest, tensors);
            let specs = tensor_specs(host, planned.model(), Some(&self.architecture.id))?;
            let target = host.registry.format(&opened.format)?;
            let chooser = TypeChooser { engine: host, target, writer: None, specs: &specs };
            let wishes = Quantization {
                recipe: Some(recipe.clone()),
                allow_requantize: true,
                ..Quantization::default()
            };
            let choice = chooser.apply(&wishes, &mut planned)?;
            self.warnings.extend(choice.warnings);
            self.notes.extend(choice.notes);
            self.tensors = planned.into_tensors();
            self.by_name = by_name(&self.tensors);
        }
        if options.as_floats {
            for one in self.tensors.iter_mut().filter(|one| one.tensor.dtype.is_block()) {
                one.retype(DType::F32, &host.registry);
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Result<&PlannedTensor> {
        let number = self.by_name.get(name).copied();
        number.map(|number| &self.tensors[number]).ok_or_else(|| {
            Error::plugin("a program refers to a tensor that is not in the model").tensor(name)
        })
    }

    /// The elements of a small tensor.
    fn floats(&self, name: &str) -> Result<Vec<f32>> {
        /// Elements: factors of a rotation and gains, never a matrix.
        const MOST: u64 = 1 << 20;
        let planned = self.find(name)?;
        let elements = apr_sdk::checked_elements(&planned.tensor.shape)?;
        if elements > MOST {
            let message = format!("{elements} elements are too many for a table of RoPE factors");
            return Err(Error::unsupported(message).tensor(name));
        }
        let mut floats = planned.clone();
        floats.retype(DType::F32, &self.host.registry);
        let rows = TensorRows::new(self.host, self.opened, &floats)?;
        let mut bytes = vec![0; usize::try_from(elements * 4).unwrap_or(0)];
        rows.read(0, &mut bytes)?;
        let (elements, _) = bytes.as_chunks::<4>();
        Ok(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn build(&self, decoder: &Decoder, options: &LoadOptions, context: u32) -> Result<Built> {
        let output = match self.meant(decoder, options.wanted) {
            Wanted::Logits | Wanted::Any => Output::Logits,
            Wanted::Embedding => {
                Output::Hidden { pooling: decoder.output.pooling.unwrap_or(Pooling::MEAN), normalize: true }
            }
            Wanted::Hidden => Output::Hidden { pooling: Pooling::OUTPUTS, normalize: false },
        };
        build(&Request {
            decoder,
            tensors: &|name| {
                let tensor = &self.find(name).ok()?.tensor;
                Some(TensorShape { dtype: tensor.dtype, shape: tensor.shape.clone() })
            },
            floats: &|name| self.floats(name),
            cache: options.cache,
            output,
            context,
            taps: options.taps,
        })
    }

    /// The purpose that a model can serve, where the user left that to it.
    fn meant(&self, decoder: &Decoder, wanted: Wanted) -> Wanted {
        let has_head = decoder.roles.name("output").is_some_and(|name| self.find(name).is_ok());
        // What reads a whole text at once and has no output of its own makes vectors.
        let is_encoder = !has_head && decoder.layers.iter().any(|layer| layer.attention.mask == Mask::FULL);
        match wanted {
            Wanted::Any if is_encoder => Wanted::Hidden,
            Wanted::Any => Wanted::Logits,
            stated => stated,
        }
    }

    /// The matrix of each weight that a program names.
    fn matrices(&self, built: &Built) -> Result<Vec<MatrixSpec>> {
        let mut matrices = Vec::with_capacity(built.weights.len());
        for weight in &built.weights {
            matrices.push(match weight {
                WeightOf::Tensor(name) => matrix(&self.find(name)?.tensor)?,
                WeightOf::Literal { columns, .. } => MatrixSpec::new(DType::F32, 1, u64::from(*columns))?,
            });
        }
        Ok(matrices)
    }

    /// Has a device prepare all weights, on all threads; says whether they were kept from last time.
    fn prepare(
        &self,
        built: &Built,
        specs: &[MatrixSpec],
        device: &dyn Device,
        mut images: Images,
    ) -> Result<(Vec<Weight>, bool, crate::storage::mapping::Watch)> {
        // The largest first, so that threads end together.
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(specs[*number].bytes()));
        let weights: Vec<Mutex<Option<Weight>>> = specs.iter().map(|_| Mutex::new(None)).collect();
        let total = specs.iter().fold(0u64, |all, spec| all.saturating_add(spec.bytes()));
        let reading = Reading::new(self.host.progress.as_ref(), total);
        self.host.crew.run(order.len(), &|_, at| {
            let number = order[at];
            let mut place = Place { images: &images, number };
            let weight = match images.ready {
                true => device.adopt(&specs[number], images.take(number)?)?,
                false => {
                    self.prepare_one(&built.weights[number], &specs[number], device, &mut place, &reading)?
                }
            };
            *weights[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(weight);
            Ok(())
        })?;
        let kept = images.ready;
        // Images of a model that changed meanwhile are those of no model.
        self.opened.files.refuse_changed()?;
        images.finish(self.host.crew.as_ref())?;
        let weights =
            weights.into_iter().filter_map(|w| w.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok((weights.collect(), kept, images.watch()))
    }

    fn prepare_one(
        &self,
        of: &WeightOf,
        spec: &MatrixSpec,
        device: &dyn Device,
        place: &mut Place<'_>,
        reading: &Reading<'_>,
    ) -> Result<Weight> {
        match of {
            WeightOf::Tensor(name) => {
                let rows = TensorRows::new(self.host, self.opened, self.find(name)?)?;
                let rows = CountedRows { rows: &rows, reading, name };
                device.prepare(spec, &rows, place).map_err(|error| error.tensor(name))
            }
            WeightOf::Literal { values, .. } => device.prepare(spec, &HeldRows::vector(values), place),
        }
    }
}
