//! Derived weights: a format says itself which of its tensors are codes, and how values are computed from them. Every format says
//! it in the same words ([`apr_sdk::Derived`]), and so this is one scheme for all.
//!
//! Sources: the operator DequantizeLinear of ONNX, versions 10 to 25; MatMulNBits and GatherBlockQuantized in
//! `docs/ContribOperators.md` of onnxruntime 1.32; `_rebuild_qtensor` in `torch/_utils.py` of PyTorch 2.15.

use crate::axes::{Along, Side, Spread, bits, check_zero, is_known, is_number, reach};
use crate::model::{Found, Model};
use crate::scheme::{Scheme, States};
use apr_sdk::{
    DType, DerivedNumbers, DerivedPacking, DerivedWeight, Error, PackedTensor, Result, StoredTensor,
};

/// The scheme.
pub static SCHEME: Scheme =
    Scheme { name: "the format's own description", states: States::Itself, understand };

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let Some(derived) = &model.derived else { return Ok(()) };
    if let Some(unknown) = derived.unknown.first() {
        let message = format!("{} uses it as codes, and {}", unknown.by, unknown.why);
        let hint = "convert the model from which it was quantized";
        return Err(Error::unsupported(message).tensor(&unknown.codes).hint(hint));
    }
    for weight in &derived.weights {
        let packed = weight_of(model, weight)?;
        found.add_sharing(model, packed)?;
    }
    for (name, what) in
        derived.weights.iter().flat_map(|weight| &weight.beside).zip(std::iter::repeat(BESIDE))
    {
        if let Some(number) = model.find(name).filter(|number| found.is_free(*number)) {
            found.unused(model, number, what)?;
        }
    }
    for name in &derived.unused {
        if let Some(number) = model.find(name).filter(|number| found.is_free(*number)) {
            found.unused(model, number, "a scale or zero point of values that are computed")?;
        }
    }
    Ok(())
}

/// What a tensor is whose numbers the description repeats.
const BESIDE: &str = "a scale or zero point of a weight that is unpacked";

/// The parts of a weight, and how codes, scales and zero points fit together.
struct Fit<'a> {
    model: &'a Model<'a>,
    weight: &'a DerivedWeight,
    codes: &'a StoredTensor,
    parts: Vec<(usize, String)>,
}

impl Fit<'_> {
    fn wrong(&self, what: String) -> Error {
        Error::malformed(what).tensor(&self.weight.name)
    }

    /// Scales or zero points: there must be so many, in one of these shapes. `row` is how many a row has where each row of
    /// them begins at a byte.
    fn side(&mut self, numbers: &DerivedNumbers, what: &str, shape: &[u64], row: u64) -> Result<Side> {
        let name = match numbers {
            DerivedNumbers::Tensor(name) => name,
            DerivedNumbers::Values(values) => {
                let len = shape.iter().product::<u64>();
                // One may stand for all.
                let is_for_all = self.weight.packing.is_some() && values.len() == 1;
                if values.len() as u64 != len && !is_for_all {
                    let have = values.len();
                    return Err(self.wrong(format!("it has {have} {what}, but its codes require {len}")));
                }
                return Ok(Side::Values(values.clone()));
            }
        };
        let codes = &self.weight.codes;
        let number = self.model.find(name);
        let number = number.ok_or_else(|| {
            self.wrong(format!("its {what} are missing: `{name}` is not a tensor of the model"))
        })?;
        let tensor = self.model.tensor(number);
        let mut wanted = shape.to_vec();
        let mut dtype = tensor.dtype;
        if row > 0 && dtype == DType::U8 {
            dtype = self.code();
            if let Some(last) = wanted.last_mut() {
                *last = row * bits(dtype) / 8;
            }
        }
        // Dimensions of 1 may be left out, and those of packed codes be in one.
        let long = |of: &[u64]| of.iter().copied().filter(|size| *size != 1).collect::<Vec<_>>();
        let is_flat = self.weight.packing.is_some() && tensor.shape == [wanted.iter().product::<u64>()];
        if long(&tensor.shape) != long(&wanted) && !is_flat {
            let message = format!(
                "the shape of its {what}, `{name}`, is {:?}, but the codes `{codes}` require {wanted:?}",
                tensor.shape
            );
            return Err(self.wrong(message));
        }
        if !is_number(dtype) {
            let message = format!("its {what}, `{name}`, have the unsupported type {dtype}");
            return Err(Error::unsupported(message).tensor(&self.weight.name));
        }
        self.parts.push((number, what.to_owned()));
        Ok(Side::Part(dtype))
    }

    /// The type of the codes.
    fn code(&self) -> DType {
        self.weight.packing.as_ref().map_or(self.codes.dtype, |packing| packing.codes)
    }

    /// Checks that packed codes fill their tensor; gives the codes of a stored row, and the zero points of one.
    fn packing(&self, packing: &DerivedPacking) -> Result<(u64, u64)> {
        let (codes, tensor) = (packing.codes, self.codes);
        if tensor.dtype != DType::U8 || ![DType::U2, DType::U4, DType::U8].contains(&codes) {
            let message =
                format!("codes of type {codes} cannot be stored in a tensor of type {}", tensor.dtype);
            return Err(Error::unsupported(message).tensor(&self.weight.name));
        }
        let each = 8 / bits(codes);
        let (row, block) = (packing.shape.last().copied().unwrap_or(0), self.weight.block.unwrap_or(0));
        let product = |of: &[u64]| of.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        let stored = product(&packing.shape[..packing.shape.len().saturating_sub(1)])
            .and_then(|rows| rows.checked_mul(packing.stored));
        let held = product(&tensor.shape).and_then(|bytes| bytes.checked_mul(each));
        let is_whole = stored.is_some() && stored == held && packing.stored.is_multiple_of(each);
        let last = packing.shape.len().checked_sub(1).and_then(|last| i64::try_from(last).ok());
        let is_last = self.weight.axis.is_some_and(|axis| axis == -1 || Some(axis) == last);
        let can_turn = !packing.is_transposed || packing.shape.len() > 1;
        if !is_whole || row > packing.stored || block == 0 || !is_last || !can_turn {
            return Err(self.wrong(format!(
                "the shape of its codes, `{}`, is {:?}, which cannot hold {:?} in rows of {}",
                self.weight.codes, tensor.shape, packing.shape, packing.stored
            )));
        }
        Ok((packing.stored, row.div_ceil(block).next_multiple_of(each)))
    }
}

fn weight_of(model: &Model<'_>, weight: &DerivedWeight) -> Result<PackedTensor> {
    let missing = || {
        let message = format!("its codes are missing: `{}` is not a tensor of the model", weight.codes);
        Error::malformed(message).tensor(&weight.name)
    };
    let number = model.find(&weight.codes).ok_or_else(missing)?;
    let codes = model.tensor(number);
    let mut fit = Fit { model, weight, codes, parts: vec![(number, "codes".to_owned())] };
    let code = fit.code();
    if !is_known(code) {
        let message = format!("its codes, `{}`, are of type {code}, which cannot hold codes", weight.codes);
        return Err(Error::unsupported(message).tensor(&weight.name));
    }
    let packing = weight.packing.as_ref().map(|packing| fit.packing(packing)).transpose()?;
    let shape = weight.packing.as_ref().map_or(&codes.shape, |packing| &packing.shape);
    let too_large = || Error::malformed("its shape is too large").tensor(&weight.name);
    let product =
        |of: &[u64]| of.iter().try_fold(1u64, |all, size| all.checked_mul(*size)).ok_or_else(too_large);
    // In bits, which must be countable too.
    product(&[shape.as_slice(), &[64]].concat())?;
    let mut along = (Along::All, 1, 1);
    let (mut of_scales, mut shared) = (Vec::new(), String::new());
    if let Some(axis) = weight.axis {
        let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        let from_start = if axis < 0 { axis + rank } else { axis };
        let at = usize::try_from(from_start).ok().filter(|at| *at < shape.len());
        let at = at.ok_or_else(|| {
            fit.wrong(format!(
                "its axis is {axis}, but its codes, `{}`, have {rank} dimensions",
                weight.codes
            ))
        })?;
        let (len, inner) = (shape[at], product(&shape[at + 1..])?);
        (of_scales, along, shared) = match weight.block {
            None => (vec![len], (Along::Axis, len, inner), format!(", a scale for each index of axis {at}")),
            Some(0) => return Err(fit.wrong("its blocks have 0 codes".to_owned())),
            Some(block) => {
                let mut of_scales = shape.clone();
                of_scales[at] = len.div_ceil(block);
                (
                    of_scales,
                    (Along::Blocks(block), len, inner),
                    format!(", groups of {block} along axis {at}"),
                )
            }
        };
    }
    let scales = fit.side(&weight.scales, "scales", &of_scales, 0)?;
    let zero_row = packing.map_or(0, |(_, zeros)| zeros);
    let zeros = weight.zeros.as_ref();
    let zeros = zeros.map(|zeros| fit.side(zeros, "zero points", &of_scales, zero_row)).transpose()?;
    // A zero point of zero is none.
    let is_none =
        |side: &Side| matches!(side, Side::Values(values) if values.iter().all(|zero| *zero == 0.0));
    let zeros = zeros.filter(|side| !is_none(side));
    if let Side::Values(values) = &scales
        && let Some(bad) = values.iter().find(|value| !value.is_finite())
    {
        return Err(fit.wrong(format!("a scale is {bad}, expected a finite number")));
    }
    if let Some(Side::Values(values)) = &zeros {
        values.iter().try_for_each(|zero| check_zero(code, *zero).map_err(|e| e.tensor(&weight.name)))?;
    }
    let row_len = shape.last().copied().unwrap_or(1);
    let rows = product(shape)?.checked_div(row_len).unwrap_or(0);
    let of_scale = match &scales {
        Side::Part(dtype) => *dtype,
        Side::Values(_) => DType::F32,
    };
    let usual = [DType::BF16, DType::F16];
    let dtype = if usual.contains(&of_scale) { of_scale } else { DType::F32 };
    let zero = if zeros.is_some() { ", zero points" } else { "" };
    let (along, len, inner) = along;
    let spread = Spread {
        codes: code,
        stored: packing.map_or(row_len, |(stored, _)| stored),
        // Zero points that are floats follow one another.
        stored_zeros: if zeros == Some(Side::Part(code)) { zero_row } else { 0 },
        scales,
        zeros,
        along,
        len,
        inner,
        rows,
        row_len,
    };
    let kind = if reach(code).is_some() { "" } else { "floats " };
    let mut packed = PackedTensor {
        name: weight.name.clone(),
        shape: shape.clone(),
        strides: Vec::new(),
        dtype,
        about: format!("{}, {kind}{code}{shared}{zero}", weight.by),
        exact: spread.exact(),
        rows: spread.packed(),
        parts: fit.parts,
        panel: 1,
    };
    if weight.packing.as_ref().is_some_and(|packing| packing.is_transposed) {
        transpose(&mut packed);
    }
    Ok(packed)
}

/// Exchanges rows and columns: the weight's are across the stored ones, and blocks along these are none of its own.
fn transpose(packed: &mut PackedTensor) {
    let strides = (0..packed.shape.len()).map(|at| packed.shape[at + 1..].iter().product());
    let mut strides: Vec<u64> = strides.collect();
    let n = strides.len();
    packed.shape.swap(n - 2, n - 1);
    strides.swap(n - 2, n - 1);
    packed.strides = strides;
    packed.exact.retain(|exact| !exact.dtype.is_block());
}
