//! Derived weights: a format says itself which of its tensors are codes, and how values are computed from them. Every format says
//! it in the same words ([`apr_sdk::Derived`]), and so this is one scheme for all.
//!
//! Sources: the operator DequantizeLinear of ONNX, versions 10 to 25; `_rebuild_qtensor` in `torch/_utils.py` of PyTorch 2.15.

use crate::axes::{Along, Side, Spread, check_zero, is_known, is_number, reach};
use crate::model::{Found, Model};
use crate::scheme::Scheme;
use apr_sdk::{DType, DerivedNumbers, DerivedWeight, Error, PackedTensor, Result, StoredTensor};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "the format's own description", understand };

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let Some(derived) = &model.derived else { return Ok(()) };
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

    /// Scales or zero points: there must be so many, in one of these shapes.
    fn side(&mut self, numbers: &DerivedNumbers, what: &str, shape: &[u64]) -> Result<Side> {
        let name = match numbers {
            DerivedNumbers::Tensor(name) => name,
            DerivedNumbers::Values(values) => {
                let len = shape.iter().product::<u64>();
                if values.len() as u64 != len {
                    let have = values.len();
                    return Err(self.wrong(format!("it has {have} {what}, and its codes need {len}")));
                }
                return Ok(Side::Values(values.clone()));
            }
        };
        let codes = &self.weight.codes;
        let number = self.model.find(name);
        let number = number.ok_or_else(|| {
            self.wrong(format!("its {what} are missing: `{name}` is no tensor of the model"))
        })?;
        let tensor = self.model.tensor(number);
        let is_single = |of: &[u64]| of.iter().all(|size| *size == 1);
        if tensor.shape != shape && !(is_single(&tensor.shape) && is_single(shape)) {
            let message = format!(
                "the shape of its {what}, `{name}`, is {:?}, and the codes `{codes}` need {shape:?}",
                tensor.shape
            );
            return Err(self.wrong(message));
        }
        if !is_number(tensor.dtype) {
            let message = format!("its {what}, `{name}`, are of type {}, which has none", tensor.dtype);
            return Err(Error::unsupported(message).tensor(&self.weight.name));
        }
        self.parts.push((number, what.to_owned()));
        Ok(Side::Part(tensor.dtype))
    }
}

fn weight_of(model: &Model<'_>, weight: &DerivedWeight) -> Result<PackedTensor> {
    let missing = || {
        let message = format!("its codes are missing: `{}` is no tensor of the model", weight.codes);
        Error::malformed(message).tensor(&weight.name)
    };
    let number = model.find(&weight.codes).ok_or_else(missing)?;
    let codes = model.tensor(number);
    let mut fit = Fit { model, weight, codes, parts: vec![(number, "codes".to_owned())] };
    if !is_known(codes.dtype) {
        let message = format!("its codes, `{}`, are of type {}, which holds none", weight.codes, codes.dtype);
        return Err(Error::unsupported(message).tensor(&weight.name));
    }
    let shape = &codes.shape;
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
            fit.wrong(format!("its axis is {axis}, and its codes, `{}`, have {rank}", weight.codes))
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
    let scales = fit.side(&weight.scales, "scales", &of_scales)?;
    let zeros = weight.zeros.as_ref().map(|zeros| fit.side(zeros, "zero points", &of_scales)).transpose()?;
    // A zero point of zero is none.
    let is_none =
        |side: &Side| matches!(side, Side::Values(values) if values.iter().all(|zero| *zero == 0.0));
    let zeros = zeros.filter(|side| !is_none(side));
    if let Side::Values(values) = &scales
        && let Some(bad) = values.iter().find(|value| !value.is_finite())
    {
        return Err(fit.wrong(format!("a scale is {bad}, not a finite number")));
    }
    if let Some(Side::Values(values)) = &zeros {
        values
            .iter()
            .try_for_each(|zero| check_zero(codes.dtype, *zero).map_err(|e| e.tensor(&weight.name)))?;
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
    let spread = Spread { codes: codes.dtype, scales, zeros, along, len, inner, rows, row_len };
    let kind = if reach(codes.dtype).is_some() { "" } else { "floats " };
    let shown = fit.codes.dtype;
    Ok(PackedTensor {
        name: weight.name.clone(),
        shape: shape.clone(),
        strides: Vec::new(),
        dtype,
        about: format!("{}, {kind}{shown}{shared}{zero}", weight.by),
        exact: spread.exact(),
        rows: spread.packed(),
        parts: fit.parts,
        panel: 1,
    })
}
