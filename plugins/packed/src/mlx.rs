//! MLX: codes in words of 32 bits, row by row, with scales and biases of groups; and the micro-scaled floats of its other modes.
//!
//! ```text
//! X.weight  U32 [.., out, in * bits / 32]    each row one string of bits, the first element in the lowest ones
//! X.scales  [.., out, in / group_size]       the model's type; U8 in the other modes
//! X.biases  likewise; only in mode affine
//!
//! affine  code * scale + bias, 2, 3, 4, 5, 6 or 8 bits          mxfp8  E4M3 * 2^(scale - 127), groups of 32
//! mxfp4   E2M1 * 2^(scale - 127), groups of 32                   nvfp4  E2M1 * E4M3, groups of 16
//! ```
//!
//! The configuration has `quantization`: `bits`, `group_size` and `mode` for all, and for modules that differ an object under
//! their name. Experts are stacked (`switch_mlp.up_proj`).
//!
//! Sources: `mlx/ops.cpp` (`quantize`, `dequantize`) of mlx 0.32; `utils.py` of mlx-lm.

use crate::affine::Groups;
use crate::model::{Config, Found, Model, matrices};
use crate::scaled::Grid;
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, ExactType, PackedRows, PackedTensor, Result, StoredTensor};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "MLX", states: States::Config(is_ours), understand };

/// The types of scales in mode affine.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The length of groups unless something says another.
const USUAL_GROUP: u64 = 64;

/// How a module is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Affine,
    Mxfp4,
    Mxfp8,
    Nvfp4,
}

impl Mode {
    /// Its name, bits, and length of groups, which are given in all modes but the first.
    fn facts(self) -> (&'static str, u64, u64) {
        match self {
            Mode::Affine => ("affine", 4, USUAL_GROUP),
            Mode::Mxfp4 => ("mxfp4", 4, 32),
            Mode::Mxfp8 => ("mxfp8", 8, 32),
            Mode::Nvfp4 => ("nvfp4", 4, 16),
        }
    }

    const ALL: [Mode; 4] = [Mode::Affine, Mode::Mxfp4, Mode::Mxfp8, Mode::Nvfp4];
}

/// Its configurations name no method, but bits and groups.
fn is_ours(config: &Config<'_>) -> bool {
    let is_place = ["quantization", "quantization_config"].contains(&config.key);
    is_place && config.text("quant_method").is_none() && config.number("bits").is_some()
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.configs.iter().find(|config| is_ours(config));
    for (number, codes, name) in model.ending(".weight") {
        if codes.dtype != DType::U32 || codes.shape.len() < 2 || !found.is_free(number) {
            continue;
        }
        let Some(scales) = model.find(&format!("{name}.scales")).filter(|at| found.is_free(*at)) else {
            if config.is_some() {
                let message = "its scales are missing: expected `scales`";
                return Err(Error::malformed(message).tensor(&codes.name));
            }
            continue;
        };
        let module = Module { model, name, number, codes, at: scales, scales: model.tensor(scales) };
        let (mode, bits, group) = match config {
            Some(config) => module.configured(config)?,
            None => {
                found.note(format!(
                    "no configuration states the packing scheme: MLX is assumed from types and names, with \
                     groups of {USUAL_GROUP} where shapes are ambiguous"
                ));
                module.guessed()?
            }
        };
        found.add(model, module.weight(mode, bits, group)?)?;
    }
    if config.is_some() {
        found.lost(model, &[".scales", ".biases"], ".weight")?;
        if let Some((_, scales, _)) = model.ending(".scales").find(|(number, ..)| found.is_free(*number)) {
            let message = "its codes are missing: there is no `weight` of type U32";
            return Err(Error::malformed(message).tensor(&scales.name));
        }
    }
    Ok(())
}

/// A packed module.
struct Module<'a> {
    model: &'a Model<'a>,
    name: &'a str,
    number: usize,
    codes: &'a StoredTensor,
    at: usize,
    scales: &'a StoredTensor,
}

impl Module<'_> {
    /// Mode, bits and length of groups as the configuration states them.
    fn configured(&self, config: &Config<'_>) -> Result<(Mode, u64, u64)> {
        let own = config.json.get(self.name).filter(|own| own.is_object()).unwrap_or(&config.json);
        let name = own.get("mode").and_then(serde_json::Value::as_str).unwrap_or("affine");
        let mode = Mode::ALL.into_iter().find(|mode| mode.facts().0 == name).ok_or_else(|| {
            let message =
                format!("mode `{name}` of MLX is not supported: expected affine, mxfp4, mxfp8 or nvfp4");
            Error::unsupported(message).tensor(&self.codes.name)
        })?;
        let (_, bits, group) = mode.facts();
        let number = |key: &str, usual: u64| match own.get(key).filter(|value| !value.is_null()) {
            Some(value) => value.as_u64().ok_or_else(|| config.wrong(key, "is not an integer")),
            None => Ok(usual),
        };
        Ok((mode, number("bits", bits)?, number("group_size", group)?))
    }

    /// The same by types and shapes. Floats are told by what shares a scale; integers leave it open.
    fn guessed(&self) -> Result<(Mode, u64, u64)> {
        let wrong =
            || Error::malformed("its scales do not match it in any mode of MLX").tensor(&self.codes.name);
        let (words, groups) = (self.codes.shape.last(), self.scales.shape.last());
        let bits = words.and_then(|words| words.checked_mul(32)).zip(groups.filter(|groups| **groups > 0));
        let (all, groups) = bits.ok_or_else(wrong)?;
        let of_group = all / groups;
        if FLOATS.contains(&self.scales.dtype) {
            let fits =
                |group: &u64| of_group % group == 0 && [2, 3, 4, 5, 6, 8].contains(&(of_group / group));
            let group = [USUAL_GROUP, 32, 128].into_iter().find(fits).ok_or_else(wrong)?;
            return Ok((Mode::Affine, of_group / group, group));
        }
        let modes = Mode::ALL[1..].iter().map(|mode| (*mode, mode.facts()));
        let mode = modes.into_iter().find(|(_, (_, bits, group))| bits * group == of_group);
        mode.map(|(mode, (_, bits, group))| (mode, bits, group)).ok_or_else(wrong)
    }

    fn weight(&self, mode: Mode, bits: u64, group: u64) -> Result<PackedTensor> {
        let (codes, scales) = (self.codes, self.scales);
        let wrong = |message: String| Error::malformed(message).tensor(&codes.name);
        let is_known = match mode {
            Mode::Affine => [2, 3, 4, 5, 6, 8].contains(&bits) && [16, 32, 64, 128].contains(&group),
            _ => (bits, group) == (mode.facts().1, mode.facts().2),
        };
        if !is_known {
            return Err(wrong(format!(
                "mode {} does not have {bits} bits in groups of {group}",
                mode.facts().0
            )));
        }
        let (stacked, out, words) = matrices(codes)?;
        let row_bits = words.checked_mul(32).ok_or_else(|| wrong("its shape is too large".to_owned()))?;
        let row_len = row_bits / bits;
        if row_len * bits != row_bits || !row_len.is_multiple_of(group) {
            let message =
                format!("rows of {words} words cannot hold codes of {bits} bits in groups of {group}");
            return Err(wrong(message));
        }
        let mut shape = codes.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = row_len;
        }
        let mut of_scales = shape.clone();
        if let Some(last) = of_scales.last_mut() {
            *last = row_len / group;
        }
        let fits = |part: &StoredTensor, dtypes: &[DType]| {
            if part.shape == of_scales && dtypes.contains(&part.dtype) {
                return Ok(());
            }
            let message = format!(
                "it is {:?} of {}, expected {of_scales:?} for {bits} bits in groups of {group}",
                part.shape, part.dtype
            );
            Err(Error::malformed(message).tensor(&part.name))
        };
        let mut parts = vec![(self.number, "codes".to_owned()), (self.at, "scales".to_owned())];
        let rows = stacked * out;
        let (packed, exact, about) = if mode == Mode::Affine {
            fits(scales, &FLOATS)?;
            let biases = self.model.find(&format!("{}.biases", self.name));
            let biases =
                biases.ok_or_else(|| wrong("its biases are missing: expected `biases`".to_owned()))?;
            let tensor = self.model.tensor(biases);
            fits(tensor, &FLOATS)?;
            parts.push((biases, "biases".to_owned()));
            let bits = u32::try_from(bits).unwrap_or(8);
            let (is_signed, is_transposed, is_interleaved) = (false, false, false);
            let scales = (scales.dtype, tensor.dtype);
            let groups = Groups {
                bits,
                unit: 4,
                group,
                scales,
                is_signed,
                is_transposed,
                is_interleaved,
                rows,
                row_len,
            };
            (groups.packed(), groups.exact(), format!("MLX, {bits} bits, groups of {group}"))
        } else {
            fits(scales, &[DType::U8])?;
            let (packed, exact) = floats(mode, (out, rows, row_len));
            (packed, exact, format!("MLX {}, groups of {group}", mode.facts().0))
        };
        Ok(PackedTensor {
            name: codes.name.clone(),
            shape,
            strides: Vec::new(),
            dtype: self.model.dtype(scales.dtype),
            about,
            rows: packed,
            parts,
            panel: 1,
            exact,
        })
    }
}

/// The layout of micro-scaled floats.
fn floats(mode: Mode, sizes: (u64, u64, u64)) -> (PackedRows, Vec<ExactType>) {
    let (codes, scales) = match mode {
        Mode::Nvfp4 => (DType::F4_E2M1, DType::F8_E4M3),
        Mode::Mxfp8 => (DType::F8_E4M3, DType::F8_E8M0),
        _ => (DType::F4_E2M1, DType::F8_E8M0),
    };
    let mut grid = Grid::new(codes, scales, (1, mode.facts().2), sizes);
    grid.unit = 4;
    (grid.packed(), grid.exact())
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::StoredModel;

    fn understood(words: u64, groups: u64, dtype: DType) -> Vec<String> {
        let tensor = |name: &str, dtype, columns| StoredTensor {
            name: name.to_owned(),
            dtype,
            shape: vec![2, columns],
        };
        let mut stored = StoredModel::default();
        stored.tensors = vec![tensor("a.weight", DType::U32, words), tensor("a.scales", dtype, groups)];
        if dtype != DType::U8 {
            stored.tensors.push(tensor("a.biases", dtype, groups));
        }
        let Ok(model) = Model::new(&stored) else { return Vec::new() };
        let mut found = Found::new(&model);
        let result = understand(&model, &mut found);
        let found = found.finish();
        assert!(result.is_ok() && found.notes.len() == 1, "{result:?}");
        found.packed.into_iter().map(|weight| format!("{} {:?}", weight.about, weight.shape)).collect()
    }

    #[test]
    fn what_is_not_announced_is_told_by_shapes() {
        assert_eq!(understood(16, 2, DType::BF16), ["MLX, 4 bits, groups of 64 [2, 128]"]);
        assert_eq!(understood(12, 2, DType::F16), ["MLX, 3 bits, groups of 64 [2, 128]"]);
        assert_eq!(understood(8, 2, DType::U8), ["MLX mxfp4, groups of 32 [2, 64]"]);
        assert_eq!(understood(16, 2, DType::U8), ["MLX mxfp8, groups of 32 [2, 64]"]);
        assert_eq!(understood(8, 4, DType::U8), ["MLX nvfp4, groups of 16 [2, 64]"]);
    }
}
