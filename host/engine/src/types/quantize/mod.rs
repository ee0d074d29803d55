//! Changes the types of a planned model's tensors as the user asked: casts, dequantizes, or quantizes by a
//! recipe of a quantizer plugin. Pure data; the pipeline does the work.

mod facts;
mod importance;
mod importance_sums;
mod model_types;
mod recognition;
mod row_scales;
mod target;
mod unaffected_tensors;

pub use importance::ImportanceMatrix;
pub use importance_sums::{read_sums, sums_file};
pub use model_types::ModelTypes;
pub use recognition::{NearestRecipe, nearest_recipe};
use target::Room;

use crate::architecture::{TensorSpecs, choices, is_float};
use crate::engine::Engine;
use crate::expression::{ColumnImportance, is_all_zero, row_len};
use crate::planned::quantization::Quantization;
use crate::planned::{PlannedModel, TensorHandle};
use crate::registry::{Format, Registry};
use crate::wording::n_of;
use apr_sdk::{
    Assignment, DType, DTypeChoice, DTypeKind, Error, Quantizer, Result, Tensor, Value, Writer, escape,
};
use std::sync::Arc;

/// Notes and warnings for the user about the chosen types.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    /// Lines for the summary.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The inputs that the choice of types depends on.
pub struct TypeChooser<'a> {
    /// The context: plugins and workers.
    pub engine: &'a Engine,
    /// The format to write.
    pub target: &'a Format,
    /// The target's writer, unless it has been asked for types already.
    pub writer: Option<&'a dyn Writer>,
    /// The architecture's facts about each tensor.
    pub specs: &'a TensorSpecs,
}

impl TypeChooser<'_> {
    /// Gives tensors of `model` the requested types; returns what was done, and what to warn about.
    ///
    /// # Errors
    /// InvalidArgument for a recipe that no plugin has, options it does not understand, an importance matrix
    /// that does not fit or is missing, and blocks that would become other blocks without consent; any error
    /// from the plugins.
    pub fn apply(&self, wishes: &Quantization, planned: &mut PlannedModel) -> Result<Remarks> {
        let mut remarks = Remarks::default();
        if let Some(dtype) = wishes.precision {
            self.cast(dtype, planned)?;
        }
        if let Some(dtype) = wishes.dequantize {
            for handle in planned.computations().handles() {
                if planned.computations()[handle].is_packed() || planned.tensor(handle).dtype.is_block() {
                    planned.retype(handle, dtype, &self.engine.registry, None);
                }
            }
        }
        remarks.warnings.extend(unaffected_tensors::warnings(wishes, planned)?);
        // A model with a single float type is a recipe of that name.
        if let Some(dtype) = wishes.dequantize.or(wishes.precision) {
            for quantizer in self.engine.registry.quantizers() {
                self.record(planned, quantizer.records(dtype.name())?);
            }
        }
        if wishes.has_recipe() {
            self.quantize(wishes, planned, &mut remarks)?;
        } else if wishes.importance.is_some() {
            let message = "an importance matrix was given, but nothing is quantized";
            return Err(Error::invalid_argument(message).hint("add --quantize TYPE"));
        }
        Ok(remarks)
    }

    /// Casts every float tensor, except where the target prefers another type.
    fn cast(&self, dtype: DType, planned: &mut PlannedModel) -> Result<()> {
        let Some(writer) = self.writer else { return Ok(()) };
        let facts: Vec<_> = planned
            .tensors()
            .map(|(handle, tensor, _)| facts::of_tensor(tensor, self.specs.of(handle.index())))
            .collect();
        let choices = choices(writer, &facts, Some(dtype))?;
        for (handle, choice) in planned.computations().handles().zip(choices) {
            let computation = &planned.computations()[handle];
            if !is_float(computation.expression.stored_dtype())
                || computation.is_retyped(planned.tensor(handle))
            {
                continue;
            }
            if let DTypeChoice::Cast(wanted) | DTypeChoice::NarrowIfExact(wanted) = choice {
                planned.retype(handle, wanted, &self.engine.registry, None);
            }
        }
        Ok(())
    }

    /// Puts the records for the target's format into its metadata.
    fn record(&self, planned: &mut PlannedModel, records: impl IntoIterator<Item = (String, String, Value)>) {
        let target = self.target.id();
        planned.with_rest(|rest| {
            for (_, key, value) in records.into_iter().filter(|(format, ..)| format == target) {
                if let Some(file) = rest.foreign_mut(target).files.first_mut() {
                    file.set(&key, value);
                }
            }
        });
    }

    fn quantize(
        &self,
        wishes: &Quantization,
        planned: &mut PlannedModel,
        Remarks { notes, warnings }: &mut Remarks,
    ) -> Result<()> {
        let registry = &self.engine.registry;
        let quantizers = registry.quantizers();
        if quantizers.is_empty() {
            let hint = registry.quantizer_hint("run `apr plugins list` to see what is available");
            return Err(Error::unsupported("no quantizer plugin is loaded").hint(hint));
        }
        let importance = match &wishes.importance {
            Some(path) => {
                let mut importance = ImportanceMatrix::read(self.engine, &quantizers, path)?;
                importance.choose(&wishes.include_weights, &wishes.exclude_weights)?;
                Some(importance)
            }
            None => None,
        };
        let mut tensors = Vec::with_capacity(planned.computations().len());
        let mut zeros = Vec::new();
        for (handle, tensor, _) in planned.tensors() {
            let mut facts = facts::of_tensor(tensor, self.specs.of(handle.index()));
            facts.has_importance = importance.as_ref().is_some_and(|i| i.telling(&facts).is_some());
            if !facts.has_importance && importance.as_ref().is_some_and(|i| i.of(&facts).is_some()) {
                zeros.push(tensor.name.clone());
            }
            tensors.push(facts);
        }
        if !zeros.is_empty() {
            warnings.push(name_some(&zeros, "its importance is 0 in every column and is ignored"));
        }
        let mut known = facts::of_model(planned.model());
        known.has_importance = importance.is_some();
        let assign = |quantizer: &dyn Quantizer, recipe: &str| {
            quantizer.assign(recipe, &tensors, &known, &wishes.options)
        };
        let chosen = if let Some(recipe) = &wishes.recipe {
            let (quantizer, recipe) = find_recipe(registry, recipe)?;
            let assigned = assign(quantizer.as_ref(), &recipe)?;
            Chosen { shown: format!("by {recipe}"), recipe: Some(recipe), assigned }
        } else if let Some(path) = &wishes.recipe_from {
            let (_, types) = ModelTypes::read(self.engine, path)?;
            let taken = types.assign(&quantizers, &tensors, wishes.keep_impossible)?;
            if taken.n_missing > 0 {
                let missing = n_of(taken.n_missing, "tensor");
                warnings.push(format!("{} have no type for {missing}, which keep theirs", types.shown()));
            }
            let recipe = types.recipe().map(str::to_owned);
            Chosen { shown: format!("with {}", types.shown()), recipe, assigned: taken.assigned }
        } else if let Some(target) = &wishes.target {
            let row_scales = self.target.manifest.carries.row_scales;
            let tensors = &planned.model().tensors;
            let room = Room { tensors, has_importance: importance.is_some(), row_scales };
            let (recipe, assigned) = target.choose(&quantizers, &room, &assign, notes)?;
            Chosen { shown: format!("by {recipe}"), recipe: Some(recipe), assigned }
        } else {
            return Ok(());
        };
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        let mut is_importance_used = false;
        let mut n_followed = 0;
        let mut n_kept = 0;
        for (handle, assignment) in planned.computations().handles().zip(chosen.assigned) {
            let facts = &tensors[handle.index()];
            let values = importance.as_ref().and_then(|importance| importance.telling(facts));
            let wanted = assignment.dtype;
            let taken = take(wishes, assignment, planned, handle, values, registry, &mut groups);
            is_importance_used |= taken.map_err(|e| e.tensor(&facts.name))?;
            let dtype = planned.tensor(handle).dtype;
            n_followed += usize::from(wanted == Some(dtype));
            n_kept += usize::from(dtype.is_block() && wanted.is_some_and(|wanted| wanted != dtype));
        }
        notes.extend(groups.into_iter().map(|(what, names)| name_some(&names, &what)));
        // Where most tensors keep the blocks they had, the file says of its mixture what it said before.
        if n_followed >= n_kept
            && let Some(recipe) = &chosen.recipe
        {
            for quantizer in &quantizers {
                self.record(planned, quantizer.records(recipe)?);
            }
        }
        if let Some(importance) = &importance {
            // A file that names a matrix must have been made with it.
            if is_importance_used {
                self.record(planned, importance.records.iter().cloned());
                notes.push(importance.summary(&tensors));
            } else {
                warnings.push(importance.unused(&tensors));
            }
        }
        notes.push(summary(&chosen.shown, planned));
        row_scales::add(self.target, planned)?;
        planned.with_rest(|rest| rest.recipe = chosen.recipe);
        Ok(())
    }
}

/// A type for each tensor, from a recipe or from another model.
struct Chosen {
    /// `by RECIPE`, or `with the types of FILE`.
    shown: String,
    /// The recipe's name, if one is known to give these types.
    recipe: Option<String>,
    /// The assignments, one for each tensor.
    assigned: Vec<Assignment>,
}

/// Gives one tensor the type that a recipe assigns; returns whether importance affects the result.
fn take(
    wishes: &Quantization,
    assignment: Assignment,
    planned: &mut PlannedModel,
    handle: TensorHandle,
    importance: Option<&Arc<[f32]>>,
    registry: &Registry,
    groups: &mut Vec<(String, Vec<String>)>,
) -> Result<bool> {
    let tensor = planned.tensor(handle);
    let Some(dtype) = assignment.dtype else {
        if let Some(note) = assignment.note {
            add_to_group(groups, note, &tensor.name);
        }
        return Ok(false);
    };
    let expression = &planned.computations()[handle].expression;
    let from = expression.stored_dtype();
    if expression.is_stored_as(dtype) {
        // Its bytes already are what they would become.
        planned.retype(handle, dtype, registry, None);
        return Ok(false);
    }
    if from.is_block() && (wishes.keep_quantization || tensor.dtype != from) {
        return Ok(false);
    }
    let is_lossless = registry.repacker((from, dtype)).is_some();
    if from.is_block() && dtype.is_block() && !is_lossless && !wishes.allow_requantize {
        let message = format!("it is already {from} and would be quantized again to {dtype}");
        return Err(Error::invalid_argument(message).hint(
            "convert the original, or pass --allow-requantize to quantize it anyway, or --keep-quantization \
             to keep such tensors as they are",
        ));
    }
    if assignment.needs_importance && importance.is_none() && wishes.keep_impossible {
        return Ok(false);
    }
    if assignment.needs_importance && importance.is_none() {
        let (message, hint) = match wishes.importance {
            Some(_) => (
                format!("{dtype} requires importance, but the matrix has none for this tensor"),
                "pass the matrix made for this model with --imatrix, or choose a larger type",
            ),
            None => (
                format!("{dtype} requires an importance matrix for this tensor"),
                "pass one with --imatrix FILE, or choose a larger type",
            ),
        };
        return Err(Error::invalid_argument(message).hint(hint));
    }
    if let Some(note) = assignment.note {
        add_to_group(groups, note, &tensor.name);
    }
    if is_integer(dtype) && from != dtype {
        planned.code(handle, dtype);
        return Ok(false);
    }
    if importance.is_none() && wishes.importance.is_some() && dtype.is_block() {
        let what = "quantized without importance: the matrix has none for it";
        add_to_group(groups, what.to_owned(), &tensor.name);
    }
    let Some(values) = importance.filter(|_| dtype.is_block()) else {
        planned.retype(handle, dtype, registry, None);
        return Ok(false);
    };
    let importance = of_columns(tensor, values)?;
    let mut matrices = values.chunks_exact(usize::try_from(row_len(tensor)).unwrap_or(usize::MAX).max(1));
    if let Some(n) = matrices.position(is_all_zero).filter(|_| assignment.needs_importance) {
        let message = format!("{dtype} requires importance, but that of matrix {n} is all zeros");
        return Err(Error::invalid_argument(message)
            .hint("make the importance matrix with more text, or choose a larger type"));
    }
    planned.retype(handle, dtype, registry, Some(&importance));
    // Lossless conversions between blocks need no importance.
    Ok(planned.computations()[handle].expression.is_encoded())
}

/// Adds a tensor to those that a note is about.
fn add_to_group(groups: &mut Vec<(String, Vec<String>)>, note: String, name: &str) {
    match groups.iter_mut().find(|(what, _)| *what == note) {
        Some((_, names)) => names.push(name.to_owned()),
        None => groups.push((note, vec![name.to_owned()])),
    }
}

/// The importance of a tensor's columns: as many values as a row has, for each matrix if it has three
/// dimensions.
fn of_columns(tensor: &Tensor, values: &Arc<[f32]>) -> Result<ColumnImportance> {
    let shape = &tensor.shape;
    let (matrices, rows) = match shape[..] {
        [matrices, ref rest @ .., _] if shape.len() > 2 => (matrices, rest.iter().product()),
        _ => (1, u64::MAX),
    };
    let want = row_len(tensor).checked_mul(matrices);
    if want != Some(values.len() as u64) {
        let have = values.len();
        let want = want.unwrap_or(u64::MAX);
        let message = format!("the importance matrix has {have} values for it, expected {want}");
        return Err(Error::invalid_argument(message).hint("use the matrix made for this model"));
    }
    Ok(ColumnImportance::new(Arc::clone(values), rows))
}

/// `` `a`, `b`, `c` and 4 more: what ``.
fn name_some(names: &[String], what: &str) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{}`", escape(name, 120))).collect();
    match names.len() - shown.len() {
        0 => format!("{}: {what}", shown.join(", ")),
        more => format!("{} and {more} more: {what}", shown.join(", ")),
    }
}

/// The proper name of a recipe, whose case the user may get wrong.
///
/// # Errors
/// InvalidArgument for a recipe that no plugin has; any error from the plugins.
pub fn recipe_name(registry: &Registry, wanted: &str) -> Result<String> {
    find_recipe(registry, wanted).map(|(_, name)| name)
}

/// The quantizer that offers a recipe, and the recipe's proper name.
fn find_recipe(registry: &Registry, wanted: &str) -> Result<(Arc<dyn Quantizer>, String)> {
    let mut known = Vec::new();
    if let Ok(number) = wanted.parse() {
        for quantizer in registry.quantizers() {
            if let Some(name) = numbered(quantizer.as_ref(), number)? {
                return Ok((quantizer, name));
            }
        }
    }
    for quantizer in registry.quantizers() {
        for recipe in quantizer.recipes()? {
            if recipe.name.eq_ignore_ascii_case(wanted) {
                return Ok((quantizer, recipe.name));
            }
            known.push(recipe.name);
        }
    }
    let is_number = wanted.bytes().all(|byte| byte.is_ascii_digit());
    let near = known.iter().filter(|_| !is_number).min_by_key(|name| {
        // Also accept names without separators.
        let [name, wanted] =
            [name.as_str(), wanted].map(|text| text.to_lowercase().replace(['_', '-', '.'], ""));
        (strsim::levenshtein(&name, &wanted), name.len().abs_diff(wanted.len()))
    });
    let hint = near.map_or(String::new(), |near| format!("did you mean {near}? "));
    let message = format!("no plugin has a recipe `{}`", escape(wanted, 80));
    let hint = format!("{hint}use one of {}", known.join(", "));
    Err(Error::invalid_argument(message).hint(registry.quantizer_hint(&hint)))
}

/// Finds a recipe by the number that it records in files, as llama-quantize accepts it; not every recipe has
/// one.
fn numbered(quantizer: &dyn Quantizer, number: u32) -> Result<Option<String>> {
    let mut recipes = Vec::new();
    for recipe in quantizer.recipes()? {
        let records = quantizer.records(&recipe.name)?;
        recipes.push((recipe.name, records));
    }
    recipes.retain(|(_, records)| !records.is_empty());
    let value = Value::from_u32(number);
    for (name, records) in &recipes {
        // A record that all recipes share names none of them.
        let mut numbered = records.iter().filter(|record| record.2 == value);
        if numbered.any(|record| !recipes.iter().all(|(_, records)| records.contains(record))) {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

/// `quantized by Q4_K_M: 120 tensors to Q4_K, 20 to Q6_K, 81 not quantized`.
fn summary(chosen: &str, planned: &PlannedModel) -> String {
    let mut counts: Vec<(DType, usize)> = Vec::new();
    let mut kept = 0;
    for (_, tensor, computation) in planned.tensors() {
        if !computation.is_retyped(tensor) || is_float(tensor.dtype) {
            kept += 1;
            continue;
        }
        match counts.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype) {
            Some((_, n)) => *n += 1,
            None => counts.push((tensor.dtype, 1)),
        }
    }
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut words: Vec<String> =
        counts.iter().map(|(dtype, n)| format!("{} to {dtype}", n_of(*n, "tensor"))).collect();
    words.push(format!("{kept} not quantized"));
    format!("quantized {chosen}: {}", words.join(", "))
}

fn is_integer(dtype: DType) -> bool {
    dtype.info().is_some_and(|info| info.kind == DTypeKind::Int)
}
