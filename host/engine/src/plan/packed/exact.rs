//! Types that hold every value of packed weights: what a conversion writes if the user names no type.

use crate::engine::Engine;
use crate::expression::{Expression, PlannedTensor, part_bytes};
use crate::open::OpenedModel;
use crate::plan::planned_model::PlannedModel;
use crate::plan::quantize::Quantization;
use crate::registry::Format;
use crate::wording::n_of;
use apr_sdk::{DType, Error, Extent, HeldRows, PackedWeight, Result, checked_payload_len, escape};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows whose scales are judged at once.
const ROWS: u64 = 4096;

/// Gives each packed weight a type that holds every value of it exactly, unless the user said what it becomes. With
/// `look`, what decides is read; without, a type that may do is taken to do.
///
/// # Errors
/// Unsupported if a weight has no such type in the target, with what to do; any error from reading and the schemes.
pub fn choose(
    engine: &Engine,
    (source, look): (&OpenedModel, bool),
    planned: &mut PlannedModel,
    target: &Format,
    wishes: &Quantization,
) -> Result<Vec<String>> {
    let is_packed = |one: &PlannedTensor| one.expression.parts().iter().any(|part| part.packed().is_some());
    if wishes.dequantize.is_some() || wishes.has_recipe() {
        return Ok(Vec::new());
    }
    let mut judge = Judge { engine, source, look, known: HashMap::new() };
    let (mut chosen, mut refused) = (Vec::<Chosen>::new(), Vec::new());
    for one in planned.tensors.iter_mut().filter(|one| is_packed(one)) {
        let (about, stored) = stored(&one.expression)?;
        let Some((dtype, expression)) = judge.type_of(one, target).map_err(|e| e.tensor(&one.tensor.name))?
        else {
            refused.push((
                one.tensor.name.clone(),
                about,
                checked_payload_len(DType::BF16, &one.tensor.shape)?,
            ));
            continue;
        };
        match expression {
            Some(expression) => (one.tensor.dtype, one.expression) = (dtype, expression),
            None => one.retype(dtype, &engine.registry, None),
        }
        let bytes = one.tensor.payload_len()?;
        match chosen.iter_mut().find(|of| of.about == about && of.dtype == dtype) {
            Some(of) => (of.n, of.before, of.after) = (of.n + 1, of.before + stored, of.after + bytes),
            None => chosen.push(Chosen { about, dtype, n: 1, before: stored, after: bytes }),
        }
    }
    let all = refused.len() + chosen.iter().map(|of| of.n).sum::<usize>();
    if let Some((name, about, _)) = refused.first() {
        let bytes: u64 = refused.iter().map(|(.., bytes)| bytes).sum();
        let message = format!(
            "{} of {all} packed weights have values that no type of {} holds exactly ({})",
            refused.len(),
            target.manifest.name,
            escape(about, 160)
        );
        let hint = format!(
            "pass --dequantize bf16 to round their true values ({bytes} bytes for these), --dequantize f32 to keep them, or --quantize RECIPE to quantize them again"
        );
        return Err(Error::unsupported(message).tensor(name).hint(hint));
    }
    Ok(chosen.iter().map(Chosen::said).collect())
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
        let (about, many) = (escape(about, 160), if *n == 1 { "becomes" } else { "become" });
        let n = n_of(*n, "weight");
        format!(
            "{n} of {about} {many} {dtype}, which holds every value exactly: {before} bytes become {after}"
        )
    }
}

/// How a tensor is packed, and how many bytes its share of the parts has.
fn stored(expression: &Expression) -> Result<(String, u64)> {
    let (mut about, mut bytes) = (String::new(), 0u64);
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

/// Decides which types hold a weight's values.
struct Judge<'a> {
    engine: &'a Engine,
    source: &'a OpenedModel,
    look: bool,
    /// What was decided: several tensors may be parts of one weight.
    known: HashMap<(usize, DType), bool>,
}

impl Judge<'_> {
    /// The type for a tensor, and its blocks if it is a block type; `None` if there is none.
    fn type_of(
        &mut self,
        one: &PlannedTensor,
        target: &Format,
    ) -> Result<Option<(DType, Option<Expression>)>> {
        let parts = one.expression.parts();
        let weights: Vec<&Arc<PackedWeight>> =
            parts.iter().filter_map(|part| Some(&part.packed()?.weight)).collect();
        let Some(first) = weights.first().filter(|_| weights.len() == parts.len()) else { return Ok(None) };
        for exact in &first.tensor.exact {
            let dtype = exact.dtype;
            let made = match dtype.is_block() {
                false => None,
                true => {
                    let Some(decoder) = self.engine.registry.find_quantizer(dtype) else { continue };
                    // Rows of the tensor must be whole blocks.
                    let Some(made) = one.expression.repacked_from(dtype, &decoder) else { continue };
                    if checked_payload_len(dtype, &one.tensor.shape).is_err() {
                        continue;
                    }
                    Some(made)
                }
            };
            if self.is_carried(target, dtype) && self.all_hold(&weights, dtype)? {
                return Ok(Some((dtype, made)));
            }
        }
        // F32 is what they are computed in.
        Ok((one.tensor.dtype == DType::F32).then_some((DType::F32, None)))
    }

    /// Whether the target, and the format of its weights, hold a type.
    fn is_carried(&self, target: &Format, dtype: DType) -> bool {
        let parts = &target.manifest.parts;
        let mut of_weights = self
            .engine
            .registry
            .formats()
            .iter()
            .filter(|format| format.manifest.writes && parts.iter().any(|part| part == format.id()));
        target.manifest.carries.dtype(dtype.name())
            && (parts.is_empty() || of_weights.any(|format| format.manifest.carries.dtype(dtype.name())))
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

    /// Whether a type holds all values of a weight.
    fn holds(&self, weight: &PackedWeight, dtype: DType) -> Result<bool> {
        let Some(exact) = weight.tensor.exact.iter().find(|exact| exact.dtype == dtype) else {
            return Ok(false);
        };
        if exact.evidence.is_empty() || !self.look {
            return Ok(true);
        }
        let (schemes, packed) = (weight.schemes()?, &weight.tensor.rows);
        let read =
            |extent: Extent, out: &mut [u8]| self.source.files.read_at(extent.file, extent.offset, out);
        let mut parts = vec![Vec::new(); weight.parts.len()];
        let step = ROWS.max(weight.tensor.panel);
        let mut at = 0;
        while at < packed.rows {
            self.engine.check_cancelled()?;
            let rows = at..(at + step).min(packed.rows);
            let ranges = schemes.ranges(packed, rows.clone())?;
            for &number in &exact.evidence {
                let (Some(range), Some(part)) = (ranges.get(number), weight.parts.get(number)) else {
                    return Err(Error::plugin("says where rows lie in too few parts"));
                };
                let bytes = part_bytes(&read, part, range, &mut parts[number]);
                bytes.map_err(|e| self.source.files.show(e.tensor(&part.name)))?;
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
