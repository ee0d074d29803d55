//! A quantized model held against the model it was made from: the original gets the same types, tensor by tensor, and the
//! blocks are compared as they are computed. Nothing is written.

mod blocks;
mod comparison;

use crate::contract::Quality;
use crate::convert::output::Shards;
use crate::convert::run::{OutputWork, write};
use crate::convert::{LaidOut, Opened, Output, Translated};
use crate::diff::reproduction::MakeScratch;
use crate::engine::Engine;
use crate::layout::Segment;
use crate::open::OpenedModel;
use crate::planned::quantization::Quantization;
use crate::planned::request::{Request, VerifyMode};
use crate::registry::Format;
use crate::types::quantize::{ModelTypes, NearestRecipe, nearest_recipe};
use apr_sdk::manifest::DialectRule;
use apr_sdk::{Error, ForeignPolicy, Result, Tensor, escape};
use blocks::Tally;
use comparison::Comparison;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Share of equal blocks from which a tensor that differs by a step at most counts as rounded otherwise.
const ROUNDED: f64 = 0.999;
/// Steps that rounding may differ by: one, and the error of measuring it in F32.
const ONE_STEP: f64 = 1.001;

/// The models to hold against each other.
#[derive(Clone, Debug, Default)]
pub struct Derivation {
    /// The quantized model.
    pub quantized: PathBuf,
    /// The model that it is said to be made from.
    pub original: PathBuf,
    /// The file with the importance matrix, if there was one.
    pub importance: Option<PathBuf>,
    /// The architecture of the original; `none` keeps all names.
    pub arch: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Derived {
    /// The recipe whose types the quantized model has, or most of them.
    pub recipe: Option<NearestRecipe>,
    /// Each tensor of the quantized model, in its order.
    pub tensors: Vec<DerivedTensor>,
    /// Names of tensors that the original gives and the quantized model lacks.
    pub absent: Vec<String>,
}

/// A tensor of the quantized model, held against what the original gives.
#[derive(Clone, Debug, Serialize)]
pub struct DerivedTensor {
    /// The tensor's name.
    pub name: String,
    /// Its type's name.
    pub dtype: String,
    /// The judgement.
    pub verdict: Verdict,
    /// True if it was compared as made with the importance matrix.
    pub with_importance: bool,
    /// Number of blocks; of values, for a type that has none.
    pub blocks: u64,
    /// Number of these that are equal to the byte.
    pub equal: u64,
    /// The largest difference of a value, in steps of its block: the least distance between two values near it. `None` if
    /// nothing differs, or a value is not finite.
    pub steps: Option<f64>,
    /// The reason for which it cannot be judged.
    pub reason: Option<String>,
}

/// A judgement on a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every block is equal.
    Identical,
    /// At least 99.9 % of the blocks are equal, and no value differs by more than a step.
    Rounding,
    /// It was made otherwise, or from another model.
    Different,
    /// It cannot be made again here.
    NotJudged,
}

impl Derivation {
    /// Makes the quantized model's tensors again, without the importance matrix and with it, and compares.
    ///
    /// # Errors
    /// Any error from opening, planning and reading; Unsupported if no format here can hold the original as the quantized
    /// model is.
    pub fn judge(&self, engine: &Engine, scratch: &MakeScratch<'_>) -> Result<Derived> {
        let (quantized, types) = ModelTypes::read(engine, &self.quantized)?;
        let (format, recipe) = self.format(engine, &quantized, &types)?;
        let mut tensors = Vec::with_capacity(quantized.model.tensors.len());
        for tensor in &quantized.model.tensors {
            tensors.push(DerivedTensor::unjudged(tensor, "the original has no such tensor".to_owned()));
        }
        let mut absent = Vec::new();
        let with_matrix = self.importance.as_deref().map(Some);
        for importance in std::iter::once(None).chain(with_matrix) {
            absent = self.compare(engine, format, &quantized, importance, scratch, &mut tensors)?;
        }
        Ok(Derived { recipe, tensors, absent })
    }

    fn request(&self, importance: Option<&Path>, with_types: bool) -> Request {
        let quantization = Quantization {
            recipe_from: with_types.then(|| self.quantized.clone()),
            keep_impossible: true,
            allow_requantize: true,
            importance: importance.map(Path::to_owned),
            ..Quantization::default()
        };
        let quality = Quality { strict: false, relaxed: true, allow_nonfinite: true };
        Request {
            input: self.original.clone(),
            quantization,
            quality,
            arch: self.arch.clone(),
            verify: VerifyMode::Off,
            ..Request::default()
        }
    }

    fn output<'e>(&self, format: &'e Format) -> Result<Output<'e>> {
        Output::unplaced(format, &self.quantized, &self.original, Shards::default(), ForeignPolicy::Default)
    }

    /// The format in which the original gets the quantized model's names and rows, and the nearest recipe.
    fn format<'e>(
        &self,
        engine: &'e Engine,
        quantized: &OpenedModel,
        types: &ModelTypes,
    ) -> Result<(&'e Format, Option<NearestRecipe>)> {
        let dialect = &quantized.model.dialect;
        let own = engine.registry.format(&quantized.format)?;
        let is_of_dialect = |format: &&Format| match &format.manifest.dialect {
            DialectRule::Always(of) | DialectRule::Requires(of) | DialectRule::Prefers(of) => of == dialect,
            _ => false,
        };
        let others = engine.registry.formats().iter().filter(|format| format.id() != own.id());
        let mut refusal = None;
        for format in std::iter::once(own).chain(others.filter(is_of_dialect)).filter(|f| f.manifest.writes) {
            let request = self.request(None, false);
            let opened = Opened::new(engine, &request, false)?;
            let output = self.output(format)?;
            let planned = LaidOut::plan(engine, &request, opened, output, &|it| Translated::new(it), false);
            let laid_out = match planned {
                Ok(laid_out) => laid_out,
                Err(error) => {
                    refusal.get_or_insert(error);
                    continue;
                }
            };
            let mut placed = laid_out.layout.files.iter().flat_map(|file| &file.segments);
            let is_encoded =
                placed.any(|placed| matches!(placed.segment, Segment::Payload { encoded: Some(_), .. }));
            // Names that are no dialect's are compared as they are.
            let planned = &laid_out.model.dialect;
            let is_alike = planned == dialect || planned == "none" || dialect == "none";
            if is_alike && !is_encoded {
                let recipe = nearest_recipe(&engine.registry, &laid_out.model, &laid_out.specs, types)?;
                return Ok((format, recipe));
            }
        }
        let dialect = escape(dialect, 40);
        let message = format!("it cannot be written, uncompressed, with the names and rows of `{dialect}`");
        Err(refusal.unwrap_or_else(|| {
            let error = Error::unsupported(message).in_file(self.original.display().to_string());
            error.hint("convert it to the quantized model's format first, without compression")
        }))
    }

    /// Makes the tensors again and keeps, for each, the better of two comparisons; returns the names of those that the
    /// quantized model lacks.
    fn compare(
        &self,
        engine: &Engine,
        format: &Format,
        quantized: &OpenedModel,
        importance: Option<&Path>,
        scratch: &MakeScratch<'_>,
        tensors: &mut [DerivedTensor],
    ) -> Result<Vec<String>> {
        let request = self.request(importance, true);
        let opened = Opened::new(engine, &request, true)?;
        let output = self.output(format)?;
        let laid_out = LaidOut::plan(engine, &request, opened, output, &|it| Translated::new(it), true)?;
        let made: HashMap<&str, usize> =
            laid_out.model.tensors.iter().enumerate().map(|(n, tensor)| (tensor.name.as_str(), n)).collect();
        let there: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let planned = laid_out.model.tensors.iter().map(|tensor| &tensor.name);
        let absent = planned.filter(|name| !there.contains(name.as_str())).cloned().collect();
        let mut counterparts = HashMap::new();
        for (number, tensor) in quantized.model.tensors.iter().enumerate() {
            let Some(&made) = made.get(tensor.name.as_str()) else { continue };
            match not_comparable(tensor, &laid_out.model.tensors[made]) {
                None => {
                    counterparts.insert(made, number);
                }
                // A comparison without the matrix stands.
                Some(_) if tensors[number].blocks > 0 => {}
                Some(reason) => tensors[number] = DerivedTensor::unjudged(tensor, reason),
            }
        }
        let sink = Comparison::new(engine, &laid_out.layout, quantized, &counterparts, scratch)?;
        let work = OutputWork { laid_out: &laid_out, quality: request.quality, sink: &sink, earlier: None };
        write(engine, work)?;
        for (number, tally) in sink.finish() {
            let found = DerivedTensor::judged(&quantized.model.tensors[number], &tally, importance.is_some());
            if found.is_better_than(&tensors[number]) {
                tensors[number] = found;
            }
        }
        Ok(absent)
    }
}

/// The reason for which a tensor that was planned cannot be compared with the one that is there.
fn not_comparable(there: &Tensor, made: &Tensor) -> Option<String> {
    if there.shape != made.shape {
        return Some(format!("its shape is {:?} in the original", made.shape));
    }
    (there.dtype != made.dtype).then(|| {
        format!(
            "{} requires importance, or is not written by any plugin; it stays {}",
            there.dtype, made.dtype
        )
    })
}

impl DerivedTensor {
    fn unjudged(tensor: &Tensor, reason: String) -> DerivedTensor {
        DerivedTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name().to_owned(),
            verdict: Verdict::NotJudged,
            with_importance: false,
            blocks: 0,
            equal: 0,
            steps: None,
            reason: Some(reason),
        }
    }

    fn judged(tensor: &Tensor, tally: &Tally, with_importance: bool) -> DerivedTensor {
        #[allow(clippy::cast_precision_loss, reason = "a share")]
        let share = tally.equal as f64 / tally.blocks.max(1) as f64;
        let verdict = match tally.steps {
            _ if tally.equal == tally.blocks => Verdict::Identical,
            Some(steps) if share >= ROUNDED && steps <= ONE_STEP => Verdict::Rounding,
            _ => Verdict::Different,
        };
        DerivedTensor {
            verdict,
            with_importance,
            blocks: tally.blocks,
            equal: tally.equal,
            steps: tally.steps.filter(|_| verdict != Verdict::Identical),
            reason: None,
            ..DerivedTensor::unjudged(tensor, String::new())
        }
    }

    fn is_better_than(&self, other: &DerivedTensor) -> bool {
        other.verdict == Verdict::NotJudged || self.equal > other.equal
    }
}
