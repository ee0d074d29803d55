//! Types that hold every value of packed weights: what a conversion writes if the user names no type.

use crate::engine::Engine;
use crate::expression::{Expression, PlannedTensor, part_bytes};
use crate::open::OpenedModel;
use crate::planned::quantization::Quantization;
use crate::planned::{PlannedModel, TensorHandle};
use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::manifest::DialectRule;
use apr_sdk::{
    DType, Error, Factored, HeldRows, PackedRows, PackedWeight, Payload, Result, Tensor, checked_payload_len,
    escape,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows whose scales are judged at once.
const ROWS: u64 = 4096;

/// Gives each packed weight a type that holds every value of it exactly, unless the user said what it becomes: if that is a
/// type of floats, only blocks come before it. With `look`, what decides is read; without, a type that may do is taken to do.
///
/// # Errors
/// Unsupported if a weight has no such type in the target, with what to do; any error from reading and the schemes.
pub fn choose(
    engine: &Engine,
    source: &OpenedModel,
    look: bool,
    planned: &mut PlannedModel,
    target: &Format,
    wishes: &Quantization,
) -> Result<Vec<String>> {
    if wishes.dequantize.is_some() || wishes.has_recipe() {
        return Ok(Vec::new());
    }
    let mut judge = Judge { engine, source, look, known: HashMap::new() };
    let mut chosen = Vec::<Chosen>::new();
    let mut refused = Vec::new();
    // Its dialect has names for scales, too.
    let has_scales = match &target.manifest.dialect {
        DialectRule::Always(want) | DialectRule::Requires(want) => *want == planned.model().dialect,
        _ => false,
    };
    let mut beside: Vec<(TensorHandle, PlannedTensor)> = Vec::new();
    for handle in planned.computations().handles() {
        let tensor = planned.tensor(handle);
        let computation = &planned.computations()[handle];
        if !computation.is_packed() {
            continue;
        }
        let expression = &computation.expression;
        let (about, stored) = stored(expression)?;
        let factored = if has_scales { judge.factored(tensor, expression, target) } else { Ok(None) };
        let (dtype, blocks) = match factored.map_err(|e| e.tensor(&tensor.name))? {
            Some(factored) => {
                beside.extend(factored.scales.into_iter().map(|scale| (handle, scale)));
                (factored.dtype, Some(factored.blocks))
            }
            None => match judge.type_of(tensor, expression, target).map_err(|e| e.tensor(&tensor.name))? {
                // What is no block has the type of floats that the user named.
                choice
                    if wishes.precision.is_some()
                        && choice.as_ref().is_none_or(|(_, blocks)| blocks.is_none()) =>
                {
                    continue;
                }
                Some(choice) => choice,
                None => {
                    let bytes = checked_payload_len(DType::BF16, &tensor.shape)?;
                    refused.push((tensor.name.clone(), about, bytes));
                    continue;
                }
            },
        };
        match blocks {
            Some(blocks) => planned.change(handle, dtype, |_| blocks),
            None => planned.retype(handle, dtype, &engine.registry, None),
        }
        let bytes = planned.tensor(handle).payload_len()?;
        push(&mut chosen, Chosen { about, dtype, n: 1, before: stored, after: bytes });
    }
    let all = refused.len() + chosen.iter().map(|of| of.n).sum::<usize>();
    if let Some((name, about, _)) = refused.first() {
        let bytes: u64 = refused.iter().map(|(.., bytes)| bytes).sum();
        let message = format!(
            "{} of {all} packed weights have values that no type in {} can represent exactly ({})",
            refused.len(),
            target.manifest.name,
            escape(about, 160)
        );
        // Both have two bytes.
        let mut narrow =
            [DType::BF16, DType::F16].into_iter().filter(|to| engine.registry.holds(target, *to));
        let rounding = narrow.next().map_or(String::new(), |to| {
            let to = to.name().to_lowercase();
            format!("--dequantize {to} to round their true values ({bytes} bytes for these), ")
        });
        let hint = format!(
            "pass {rounding}--dequantize f32 to keep their true values, or --quantize RECIPE to quantize them again"
        );
        return Err(Error::unsupported(message).tensor(name).hint(hint));
    }
    planned.insert_behind(beside);
    Ok(chosen.iter().map(Chosen::said).collect())
}

/// Adds a weight to those packed alike.
fn push(chosen: &mut Vec<Chosen>, weight: Chosen) {
    match chosen.iter_mut().find(|of| of.about == weight.about && of.dtype == weight.dtype) {
        Some(of) => {
            of.n += weight.n;
            of.before += weight.before;
            of.after += weight.after;
        }
        None => chosen.push(weight),
    }
}

/// Weights packed alike that become the same type.
struct Chosen {
    about: String,
    dtype: DType,
    n: usize,
    before: u64,
    after: u64,
}

impl Chosen {
    fn said(&self) -> String {
        let Chosen { about, dtype, n, before, after } = self;
        let about = escape(about, 160);
        let many = if *n == 1 { "becomes" } else { "become" };
        let n = n_of(*n, "weight");
        format!(
            "{n} of {about} {many} {dtype}, which represents every value exactly: {before} bytes become \
             {after}"
        )
    }
}

/// The scheme of a packed tensor, in words, and the size in bytes of its share of the parts.
fn stored(expression: &Expression) -> Result<(String, u64)> {
    let mut about = String::new();
    let mut bytes = 0u64;
    for part in expression.parts() {
        let Some(packed) = part.packed() else { continue };
        let weight = &packed.weight;
        about.clone_from(&weight.tensor.about);
        let mut of_parts = 0u64;
        for part in &weight.parts {
            of_parts = of_parts.saturating_add(part.payload_len()?);
        }
        let all = weight.tensor.rows.rows.saturating_mul(weight.tensor.rows.row_len).max(1);
        let share = part.byte_len()? / u64::from(part.dtype().require()?.block_bytes);
        bytes = bytes.saturating_add(
            u64::try_from(u128::from(of_parts) * u128::from(share) / u128::from(all)).unwrap_or(u64::MAX),
        );
    }
    Ok((about, bytes))
}

/// Blocks that hold a tensor's values but for factors.
struct FactoredBlocks {
    /// The type of the blocks.
    dtype: DType,
    /// The expression that computes them.
    blocks: Expression,
    /// The factors, with one number or one for each expert: `NAME.scale`, and `NAME.input_scale` for activations.
    scales: Vec<PlannedTensor>,
}

/// Decides which types hold a weight's values.
struct Judge<'a> {
    engine: &'a Engine,
    source: &'a OpenedModel,
    look: bool,
    /// Earlier decisions: several tensors may be parts of one weight.
    known: HashMap<(usize, DType), bool>,
}

impl Judge<'_> {
    /// The type for a tensor, and its blocks if it is a block type; `None` if there is none.
    fn type_of(
        &mut self,
        tensor: &Tensor,
        expression: &Expression,
        target: &Format,
    ) -> Result<Option<(DType, Option<Expression>)>> {
        let parts = expression.parts();
        let weights: Vec<&Arc<PackedWeight>> =
            parts.iter().filter_map(|part| Some(&part.packed()?.weight)).collect();
        let Some(first) = weights.first().filter(|_| weights.len() == parts.len()) else { return Ok(None) };
        for exact in &first.tensor.exact {
            let dtype = exact.dtype;
            let blocks = match dtype.is_block() {
                false => None,
                true => {
                    let Some(decoder) = self.engine.registry.find_quantizer(dtype) else { continue };
                    // Rows of the tensor must be whole blocks.
                    let Some(blocks) = expression.repacked_from(dtype, &decoder, false) else { continue };
                    if checked_payload_len(dtype, &tensor.shape).is_err() {
                        continue;
                    }
                    Some(blocks)
                }
            };
            if self.engine.registry.holds(target, dtype) && self.all_hold(&weights, dtype)? {
                return Ok(Some((dtype, blocks)));
            }
        }
        // F32 is what they are computed in.
        Ok((tensor.dtype == DType::F32).then_some((DType::F32, None)))
    }

    /// Blocks that hold a tensor's values but for factors, and the factors. `None` if there are no such blocks, or all
    /// factors are 1.
    ///
    /// Source: `ModelBase._repack_nvfp4` and `_flush_nvfp4_experts` in `conversion/base.py` of llama.cpp.
    fn factored(
        &self,
        tensor: &Tensor,
        expression: &Expression,
        target: &Format,
    ) -> Result<Option<FactoredBlocks>> {
        let Some(base) = tensor.name.strip_suffix(".weight") else { return Ok(None) };
        let parts = expression.parts();
        let weights: Vec<&Arc<PackedWeight>> =
            parts.iter().filter_map(|part| Some(&part.packed()?.weight)).collect();
        let all: Vec<&Factored> = weights.iter().filter_map(|weight| weight.factored.as_ref()).collect();
        // One weight, or one for each expert.
        let is_of_one = parts.len() == 1 && tensor.shape.len() == 2;
        let is_of_experts = tensor.shape.len() == 3 && tensor.shape[0] == parts.len() as u64;
        let Some(dtype) = all.first().map(|factored| factored.dtype) else { return Ok(None) };
        let is_alike = all.len() == parts.len() && all.iter().all(|factored| factored.dtype == dtype);
        let has_inputs = all.iter().filter(|factored| factored.input.is_some()).count();
        let fits = is_alike && (is_of_one || is_of_experts) && [0, all.len()].contains(&has_inputs);
        let is_needed = all.iter().any(|factored| factored.factor != 1.0);
        let Some(decoder) = self.engine.registry.find_quantizer(dtype).filter(|_| fits && is_needed) else {
            return Ok(None);
        };
        let Some(blocks) = expression.repacked_from(dtype, &decoder, true) else { return Ok(None) };
        if !self.engine.registry.holds(target, dtype) || checked_payload_len(dtype, &tensor.shape).is_err() {
            return Ok(None);
        }
        for weight in &weights {
            let Some(factored) = &weight.factored else { return Ok(None) };
            if !self.rows_hold(weight, &factored.rows, dtype, &factored.evidence)? {
                return Ok(None);
            }
        }
        let factors: Vec<f32> = all.iter().map(|factored| factored.factor).collect();
        let factors = scales(format!("{base}.scale"), &factors);
        let inputs: Vec<f32> = all.iter().filter_map(|factored| factored.input).collect();
        let inputs = scales(format!("{base}.input_scale"), &inputs);
        Ok(Some(FactoredBlocks { dtype, blocks, scales: factors.into_iter().chain(inputs).collect() }))
    }

    fn all_hold(&mut self, weights: &[&Arc<PackedWeight>], dtype: DType) -> Result<bool> {
        for weight in weights {
            let key = (Arc::as_ptr(weight).addr(), dtype);
            let holds = match self.known.get(&key) {
                Some(known) => *known,
                None => {
                    let holds = self.holds(weight, dtype)?;
                    self.known.insert(key, holds);
                    holds
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a type holds all values of a weight.
    fn holds(&self, weight: &PackedWeight, dtype: DType) -> Result<bool> {
        let Some(exact) = weight.tensor.exact.iter().find(|exact| exact.dtype == dtype) else {
            return Ok(false);
        };
        self.rows_hold(weight, &weight.tensor.rows, dtype, &exact.evidence)
    }

    /// Returns whether a type holds all values of a weight's rows, or of them without a factor.
    fn rows_hold(
        &self,
        weight: &PackedWeight,
        packed: &PackedRows,
        dtype: DType,
        evidence: &[usize],
    ) -> Result<bool> {
        if evidence.is_empty() || !self.look {
            return Ok(true);
        }
        let schemes = weight.schemes()?;
        let files = &self.source.files;
        let mut parts = vec![Vec::new(); weight.parts.len()];
        let step = ROWS.max(weight.tensor.panel);
        let mut at = 0;
        while at < packed.rows {
            self.engine.check_cancelled()?;
            let rows = at..(at + step).min(packed.rows);
            let ranges = schemes.ranges(&weight.tensor.rows, rows.clone())?;
            for &number in evidence {
                let Some((range, part)) = ranges.get(number).zip(weight.parts.get(number)) else {
                    return Err(Error::plugin("returned the positions of rows in too few parts"));
                };
                let held = &mut parts[number];
                let bytes = part_bytes(&|at, out| files.read_at(at.file, at.offset, out), part, range, held);
                bytes.map_err(|e| files.show(e.tensor(&part.name)))?;
            }
            let held: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            if !schemes.holds(packed, &HeldRows { rows: rows.clone(), parts: &held }, dtype)? {
                return Ok(false);
            }
            at = rows.end;
        }
        Ok(true)
    }
}

/// The tensor of these scales, unless all are 1.
fn scales(name: String, numbers: &[f32]) -> Option<PlannedTensor> {
    if numbers.iter().all(|number| (number - 1.0).abs() < 1e-6) {
        return None;
    }
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let shape = vec![numbers.len() as u64];
    let tensor = Tensor { name, dtype: DType::F32, shape, payload: Payload::Sequential };
    Some(PlannedTensor::new(tensor, Expression::fill(DType::F32, &bytes)))
}
