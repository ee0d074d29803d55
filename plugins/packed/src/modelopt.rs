//! NVIDIA Model Optimizer: NVFP4, MXFP4, FP8, INT8 and int4, announced in the configuration or in `hf_quant_config.json` alone.
//!
//! | codes `X.weight` | scales `X.weight_scale` | value |
//! | --- | --- | --- |
//! | NVFP4: U8 [.., out, in / 2], the lower bits first | E4M3 [.., out, in / 16], and `X.weight_scale_2` F32: one, or one for each matrix | code * (scale * scale 2) |
//! | MXFP4: U8 [.., out, in / 2] | U8 [.., out, in / 32] | code * 2^(scale - 127) |
//! | int4 (W4A16, W4A8): U8 [.., out / 2, in], rows 2r and 2r + 1, signed | floats [.., out, in / group_size] | code * scale |
//! | FP8, INT8: [.., out, in] | one, one for each row, or for blocks | code * scale |
//!
//! Where there is `X.pre_quant_scale` `[in]`, activations are multiplied by it, and so is each column here. `weight_scale_2` beside
//! int4 is the scale of a second step, FP8, which is not stored.
//!
//! Sources: `modelopt/torch/export/quant_utils.py` of Model Optimizer 0.39; `conversion/base.py` of llama.cpp for NVFP4.

use crate::fp8::boxes;
use crate::model::{Config, Found, Model, matrices};
use crate::scaled::{Global, Grid};
use crate::scheme::Scheme;
use crate::slices::Slices;
use apr_sdk::{DType, Error, ExactType, PackedRows, PackedTensor, Result, StoredTensor};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "modelopt", understand };

/// Types of scales.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Scales of activations and of the KV cache.
const UNUSED: [&str; 6] =
    [".input_scale", ".k_scale", ".v_scale", ".q_scale", ".output_scale", ".prob_output_scale"];

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = config(model);
    let mut is_any = false;
    for (at, scales, name) in model.ending(".weight_scale") {
        let number = model.find(&format!("{name}.weight"));
        let second = model.find(&format!("{name}.weight_scale_2"));
        let Some(number) = number else {
            if config.is_some() && found.is_free(at) {
                let message = "its codes are missing: there is no `weight` beside it";
                return Err(Error::malformed(message).tensor(&scales.name));
            }
            continue;
        };
        let codes = model.tensor(number);
        let is_packed =
            of_bytes(codes.dtype) && codes.shape.len() > 1 && found.is_free(number) && found.is_free(at);
        // Without announcement, two scales say NVFP4.
        let is_nvfp4 = codes.dtype == DType::U8 && scales.dtype == DType::F8_E4M3 && second.is_some();
        if !is_packed || (config.is_none() && !is_nvfp4) {
            continue;
        }
        is_any = true;
        let columns = model.find(&format!("{name}.pre_quant_scale"));
        let module = Module { model, name, number, codes, at, scales, second, columns };
        let input = model.find(&format!("{name}.input_scale")).map(|number| (number, false));
        let weight = module.weight(config.as_ref().and_then(|config| config.group(name)))?;
        found.add_factored(model, weight, input)?;
        if let Some(second) = second.filter(|second| found.is_free(*second)) {
            found.unused(model, second, "the scale of a second step, which is not stored")?;
        }
    }
    if let Some(config) = &config {
        for (number, codes, name) in model.ending(".weight") {
            let is_left = of_bytes(codes.dtype) && codes.shape.len() > 1 && found.is_free(number);
            if is_left && !config.is_excluded(name) {
                let message = "its scales are missing: there is no `weight_scale` beside it";
                return Err(Error::malformed(message).tensor(&codes.name));
            }
        }
    }
    if is_any {
        for (number, tensor) in model.tensors() {
            if found.is_free(number) && UNUSED.iter().any(|ending| tensor.name.ends_with(ending)) {
                found.unused(model, number, "a scale of activations or of the KV cache")?;
            }
        }
        if config.is_none() {
            found.note("no configuration says NVFP4: `weight_scale_2` and the types beside it do");
        }
    }
    Ok(())
}

fn of_bytes(dtype: DType) -> bool {
    [DType::U8, DType::I8, DType::F8_E4M3].contains(&dtype)
}

/// What the configuration says, in either of its forms.
struct Stated<'a> {
    json: &'a Json,
}

fn config<'a>(model: &'a Model<'_>) -> Option<Stated<'a>> {
    let is_method =
        |config: &Config<'_>| config.text("quant_method").is_some_and(|name| name.starts_with("modelopt"));
    model.configs.iter().find_map(|config| {
        let inner = config.json.get("quantization").filter(|inner| inner.get("quant_algo").is_some());
        match inner {
            Some(json) => Some(Stated { json }),
            None => is_method(config).then_some(Stated { json: &config.json }),
        }
    })
}

impl Stated<'_> {
    /// The length of groups that is stated for a module.
    fn group(&self, name: &str) -> Option<u64> {
        let own = self.json.get("quantized_layers").and_then(|layers| layers.get(name));
        own.unwrap_or(self.json).get("group_size").and_then(Json::as_u64)
    }

    /// Whether a module is among those that are not packed. A `*` stands for any text.
    fn is_excluded(&self, name: &str) -> bool {
        let lists =
            ["exclude_modules", "ignore"].into_iter().filter_map(|key| self.json.get(key)?.as_array());
        lists.flatten().filter_map(Json::as_str).any(|pattern| matches(pattern, name))
    }
}

/// Whether a pattern with stars is a name, or the beginning of its modules.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return name.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    left.ends_with(last)
}

/// A packed module.
struct Module<'a> {
    model: &'a Model<'a>,
    name: &'a str,
    number: usize,
    codes: &'a StoredTensor,
    at: usize,
    scales: &'a StoredTensor,
    second: Option<usize>,
    columns: Option<usize>,
}

/// How its rows are packed, which types hold them, and what is said of it.
type Known = (PackedRows, Vec<ExactType>, String);

impl Module<'_> {
    fn misfit(&self) -> Error {
        let (scales, codes) = (self.scales, self.codes);
        let message = format!(
            "its shape {:?} and type {} do not fit {:?} of {}, which is `{}`",
            scales.shape, scales.dtype, codes.shape, codes.dtype, codes.name
        );
        Error::malformed(message).tensor(&scales.name)
    }

    fn weight(&self, group: Option<u64>) -> Result<PackedTensor> {
        let (stacked, out, stored) = matrices(self.codes)?;
        let sizes = (stacked, out, stored);
        let mut parts = vec![(self.number, "codes".to_owned()), (self.at, "scales".to_owned())];
        let ((rows, exact, about), shape) = match (self.codes.dtype, self.scales.dtype) {
            (DType::U8, DType::F8_E4M3) => self.pairs(sizes, 16, group, &mut parts)?,
            (DType::U8, DType::U8 | DType::F8_E8M0) => self.pairs(sizes, 32, group, &mut parts)?,
            (DType::U8, dtype) if FLOATS.contains(&dtype) => self.int4(sizes, group, &mut parts)?,
            (DType::I8 | DType::F8_E4M3, _) => self.whole(sizes, &mut parts)?,
            _ => return Err(self.misfit()),
        };
        Ok(PackedTensor {
            name: format!("{}.weight", self.name),
            shape: if self.codes.shape.len() == 2 { shape[1..].to_vec() } else { shape.to_vec() },
            strides: Vec::new(),
            dtype: self.model.dtype(DType::BF16),
            about: format!("modelopt {about}"),
            rows,
            parts,
            panel: 1,
            exact,
        })
    }

    /// The factors of columns, if there are any.
    fn columns(&self, row_len: u64, parts: &mut Vec<(usize, String)>) -> Result<Option<DType>> {
        let Some(at) = self.columns else { return Ok(None) };
        let tensor = self.model.tensor(at);
        if tensor.shape != [row_len] || !FLOATS.contains(&tensor.dtype) {
            let message =
                format!("it is {:?} of {}, and {row_len} floats are needed", tensor.shape, tensor.dtype);
            return Err(Error::malformed(message).tensor(&tensor.name));
        }
        parts.push((at, "factors of columns".to_owned()));
        Ok(Some(tensor.dtype))
    }

    /// An error if groups are stated to be of another length than shapes say.
    fn stated(&self, stated: Option<u64>, group: u64) -> Result<()> {
        match stated {
            Some(stated) if stated != group && stated > 0 => {
                let message =
                    format!("its scales are for groups of {group}, and the configuration says {stated}");
                Err(Error::malformed(message).tensor(&self.scales.name))
            }
            _ => Ok(()),
        }
    }

    /// Pairs of floats of four bits.
    fn pairs(
        &self,
        (stacked, out, stored): (u64, u64, u64),
        group: u64,
        stated: Option<u64>,
        parts: &mut Vec<(usize, String)>,
    ) -> Result<(Known, [u64; 3])> {
        let row_len = stored.checked_mul(2).ok_or_else(|| self.misfit())?;
        let (lead, last) = self.scales.shape.split_at(self.scales.shape.len().saturating_sub(1));
        let fits = lead == &self.codes.shape[..self.codes.shape.len() - 1] && last == [row_len / group];
        if !fits || !row_len.is_multiple_of(group) {
            return Err(self.misfit());
        }
        self.stated(stated, group)?;
        let scales = if group == 16 { DType::F8_E4M3 } else { DType::F8_E8M0 };
        let mut grid = Grid::new(DType::F4_E2M1, scales, (1, group), (out, stacked * out, row_len));
        if group == 16 {
            let missing =
                || Error::malformed("its second scale is missing: `weight_scale_2`").tensor(&self.codes.name);
            let second = self.second.ok_or_else(missing)?;
            let tensor = self.model.tensor(second);
            let n = tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            let n = n.filter(|n| (*n == 1 || *n == stacked) && FLOATS.contains(&tensor.dtype)).ok_or_else(
                || {
                    let message = format!(
                        "it is {:?} of {}, and one float is needed, or {stacked}",
                        tensor.shape, tensor.dtype
                    );
                    Error::malformed(message).tensor(&tensor.name)
                },
            )?;
            (grid.global, grid.globals) = ((Global::Times, tensor.dtype), n);
            parts.push((second, "scale of scales".to_owned()));
        }
        grid.columns = self.columns(row_len, parts)?;
        let what = if group == 16 { "NVFP4" } else { "MXFP4" };
        Ok(((grid.packed(), grid.exact(), format!("{what}, groups of {group}")), [stacked, out, row_len]))
    }

    /// Codes of a byte.
    fn whole(
        &self,
        (stacked, out, row_len): (u64, u64, u64),
        parts: &mut Vec<(usize, String)>,
    ) -> Result<(Known, [u64; 3])> {
        let (codes, scales) = (self.codes.dtype, self.scales.dtype);
        let is_micro = scales == DType::U8 || scales == DType::F8_E8M0;
        if !is_micro && !FLOATS.contains(&scales) {
            return Err(self.misfit());
        }
        let blocks = if is_micro { (1, 32) } else { (128, 128) };
        // Stacked experts with a scale for each row; for square ones it would be open which side is meant.
        let is_by_row = stacked > 1 && self.scales.shape == [stacked, out] && out != row_len;
        let by_shape = || boxes(self.scales, (stacked, out, row_len), Some(blocks));
        let of_scale = if is_by_row { Some((1, row_len)) } else { by_shape() };
        let of_scale = of_scale.ok_or_else(|| self.misfit())?;
        let scales = if is_micro { DType::F8_E8M0 } else { scales };
        let mut grid = Grid::new(codes, scales, of_scale, (out, stacked * out, row_len));
        if of_scale == (stacked * out, row_len) {
            grid.matrix_rows = stacked * out;
        }
        grid.columns = self.columns(row_len, parts)?;
        let what = if codes == DType::I8 { "INT8" } else { "FP8" };
        Ok(((grid.packed(), grid.exact(), what.to_owned()), [stacked, out, row_len]))
    }

    /// Signed integers of four bits, whose pairs lie in neighbouring rows.
    fn int4(
        &self,
        (stacked, half, row_len): (u64, u64, u64),
        stated: Option<u64>,
        parts: &mut Vec<(usize, String)>,
    ) -> Result<(Known, [u64; 3])> {
        let out = half.checked_mul(2).ok_or_else(|| self.misfit())?;
        let rows = stacked.checked_mul(out).filter(|rows| rows.checked_mul(row_len).is_some());
        let rows = rows.ok_or_else(|| self.misfit())?;
        let groups = match (&self.scales.shape[..], stacked) {
            ([rows, groups], 1) if *rows == out => *groups,
            ([matrices, rows, groups], _) if (*matrices, *rows) == (stacked, out) => *groups,
            _ => return Err(self.misfit()),
        };
        if groups == 0 || !row_len.is_multiple_of(groups) || row_len == 0 {
            return Err(self.misfit());
        }
        let group = row_len / groups;
        self.stated(stated, group)?;
        let columns = self.columns(row_len, parts)?;
        let slices = Slices {
            bits: 4,
            unit: 1,
            element: 1,
            fields: 2,
            is_high_first: false,
            words: 0,
            group,
            is_across: false,
            scales: self.scales.dtype,
            zeros: None,
            zero: 8,
            flip: 8,
            is_divisor: false,
            columns,
            rows,
            row_len,
        };
        let about = format!("int4, groups of {group}");
        Ok(((slices.packed(), slices.exact(), about), [stacked, out, row_len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_modules() {
        assert!(matches("lm_head", "lm_head") && !matches("lm_head", "lm_head2"));
        assert!(matches("model.layers.0", "model.layers.0.mlp") && matches("*.router*", "model.0.router.x"));
        assert!(
            matches("model.*.gate", "model.1.mlp.gate") && !matches("model.*.gate", "model.1.mlp.gate_proj")
        );
    }
}
