//! NVIDIA Model Optimizer: NVFP4, MXFP4, FP8, INT8 and int4, announced in the configuration or in `hf_quant_config.json` alone.
//!
//! | codes `X.weight` | scales `X.weight_scale` | value |
//! | --- | --- | --- |
//! | NVFP4: U8 [.., out, in / 2], the lower bits first | E4M3 [.., out, in / 16], and `X.weight_scale_2` F32: one, or one for each matrix | code * (scale * scale 2) |
//! | MXFP4: U8 [.., out, in / 2] | U8 [.., out, in / 32] | code * 2^(scale - 127) |
//! | int4 (W4A16, W4A8): U8 [.., out / 2, in], rows 2r and 2r + 1, signed | floats [.., out, in / group_size] | code * scale |
//! | FP8, INT8: [.., out, in] | one, one for each row, or for blocks | code * scale |
//!
//! Stacked experts `X` have `X_weight_scale`, `X_weight_scale_2` and the like. Those of Llama 4 and gpt-oss are `[experts, in, out]`,
//! and packed along `in`: codes U8 [experts, in / 2, out], scales [experts, in / 16, out].
//!
//! Where there is `X.pre_quant_scale` `[in]`, activations are multiplied by it, and so is each column here. `weight_scale_2` beside
//! int4 is the scale of a second step, FP8, which is not stored.
//!
//! Sources: `quant_utils.py` and `unified_export_hf.py` in `modelopt/torch/export/` of Model Optimizer 0.47; `conversion/base.py` of llama.cpp for NVFP4.

mod stated;

use self::stated::Stored::{self, Fp8, Int4, Int8, Mxfp4, Mxfp8, Nvfp4};
use self::stated::{LOW_RANK, WIDE_ACTIVATIONS};
use crate::fp8::boxes;
use crate::model::{Found, Model, matrices};
use crate::scaled::{Arranged, Global, Grid};
use crate::scheme::{Scheme, States};
use crate::slices::Slices;
use apr_sdk::{DType, Error, ExactType, PackedRows, PackedTensor, Result, StoredTensor};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "modelopt", states: States::Config(stated::is_ours), understand };

/// Types of scales.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Scales of activations and of the KV cache.
const UNUSED: [&str; 6] =
    [".input_scale", ".k_scale", ".v_scale", ".q_scale", ".output_scale", ".prob_output_scale"];

/// What scales are called: the ending of a weight's name, which those of its other tensors take the place of, and what they
/// begin with. The others are those of stacked experts.
const NAMES: [(&str, &str); 3] = [(".weight", "."), ("", "_"), ("_weight", "_")];

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = stated::config(model);
    let mut is_any = false;
    for (at, scales, base) in model.ending("weight_scale") {
        let of = |(ending, begin): &(&str, &'static str)| {
            let name = base.strip_suffix(begin)?;
            Some((name, *begin, model.find(&format!("{name}{ending}"))))
        };
        let all = || NAMES.iter().filter_map(of);
        let Some((name, begin, number)) =
            all().find(|(.., number)| number.is_some()).or_else(|| all().next())
        else {
            continue;
        };
        let beside = |other: &str| model.find(&format!("{name}{begin}{other}"));
        let second = beside("weight_scale_2");
        let Some(number) = number else {
            if config.is_some() && found.is_free(at) {
                let message = format!("its codes are missing: expected `{base}weight`");
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
        let stores = config.as_ref().map(|config| config.stores(name)).transpose();
        let stores = stores.map_err(|error| error.tensor(&codes.name))?.flatten();
        let is_svd = config.as_ref().is_some_and(|config| config.algorithm(name) == Some(LOW_RANK));
        if let Some(part) = beside("svdquant_lora_a").or_else(|| is_svd.then_some(number)) {
            let message = format!("modelopt weights with a low-rank part ({LOW_RANK}) are not supported");
            return Err(Error::unsupported(message).tensor(&model.tensor(part).name));
        }
        let columns = beside("pre_quant_scale");
        let module = Module { model, number, codes, at, scales, second, columns };
        if let Some(stores) = stores.filter(|stores| module.stored() != Some(*stores)) {
            let algorithm = config.as_ref().and_then(|config| config.algorithm(name)).unwrap_or_default();
            return Err(module.contradicts(algorithm, stores));
        }
        if let (Some(config), Some(stored)) = (&config, module.stored()) {
            config.check_group(name, stored).map_err(|error| error.tensor(&codes.name))?;
        }
        let input = beside("input_scale").map(|number| (number, false));
        let weight = module.weight(config.as_ref().and_then(|config| config.group(name)))?;
        found.add_factored(model, weight, input)?;
        if config.as_ref().is_some_and(|config| config.algorithm(name) == Some(WIDE_ACTIVATIONS)) {
            found.wide_activations();
        }
        if let Some(second) = second.filter(|second| found.is_free(*second)) {
            found.unused(model, second, "the scale of a second step, which is not stored")?;
        }
    }
    if let Some(config) = &config {
        found.lost(model, &[".pre_quant_scale", ".weight_scale_2"], ".weight")?;
        for (number, codes) in model.tensors() {
            let name = codes.name.strip_suffix(".weight").unwrap_or(&codes.name);
            // Experts are stacked, and may lack that ending.
            let is_weight = name != codes.name || codes.shape.len() > 2;
            let is_left = of_bytes(codes.dtype) && codes.shape.len() > 1 && found.is_free(number);
            if is_left && is_weight && !config.is_excluded(name) {
                let message = "its scales are missing: expected `weight_scale`";
                return Err(Error::malformed(message).tensor(&codes.name));
            }
        }
    }
    if is_any {
        for (number, tensor) in model.tensors() {
            let is_scale = UNUSED.iter().any(|ending| tensor.name.ends_with(ending))
                || tensor.name.ends_with("_input_scale");
            if found.is_free(number) && is_scale {
                found.unused(model, number, "a scale of activations or of the KV cache")?;
            }
        }
        if config.is_none() {
            found.note(
                "no configuration states the packing scheme: NVFP4 is assumed from `weight_scale_2` \
                 and types",
            );
        }
    }
    Ok(())
}

fn of_bytes(dtype: DType) -> bool {
    [DType::U8, DType::I8, DType::F8_E4M3].contains(&dtype)
}

/// A packed module.
struct Module<'a> {
    model: &'a Model<'a>,
    number: usize,
    codes: &'a StoredTensor,
    at: usize,
    scales: &'a StoredTensor,
    second: Option<usize>,
    columns: Option<usize>,
}

/// How its rows are packed.
struct Known {
    rows: PackedRows,
    /// Types that hold them.
    exact: Vec<ExactType>,
    /// What is said of it.
    about: String,
    /// Matrices, and rows and columns of each.
    sizes: [u64; 3],
    /// Whether the weight has the columns for its rows.
    is_turned: bool,
    /// How many rows are best read together.
    panel: u64,
}

impl Module<'_> {
    fn misfit(&self) -> Error {
        let (scales, codes) = (self.scales, self.codes);
        let message = format!(
            "its shape {:?} and type {} do not match {:?} of {}, the type of `{}`",
            scales.shape, scales.dtype, codes.shape, codes.dtype, codes.name
        );
        Error::malformed(message).tensor(&scales.name)
    }

    /// What the types of its codes and scales are those of.
    fn stored(&self) -> Option<Stored> {
        match (self.codes.dtype, self.scales.dtype) {
            (DType::U8, DType::F8_E4M3) => Some(Nvfp4),
            (DType::U8, DType::U8 | DType::F8_E8M0) => Some(Mxfp4),
            (DType::U8, dtype) if FLOATS.contains(&dtype) => Some(Int4),
            (DType::I8, _) => Some(Int8),
            (DType::F8_E4M3, DType::U8 | DType::F8_E8M0) => Some(Mxfp8),
            (DType::F8_E4M3, _) => Some(Fp8),
            _ => None,
        }
    }

    /// An error for codes of which the configuration says that they are others.
    fn contradicts(&self, algorithm: &str, stores: Stored) -> Error {
        let Some(own) = self.stored() else { return self.misfit() };
        let algorithm: String = algorithm.chars().take(80).collect();
        let (own, stores) = (own.name(), stores.name());
        let message = format!(
            "the configuration states `{}` (`quant_algo`), which stores {stores}, but its codes are those of {own}",
            algorithm.escape_debug()
        );
        Error::malformed(message).tensor(&self.codes.name)
    }

    fn weight(&self, group: Option<&Json>) -> Result<PackedTensor> {
        let (stacked, out, stored) = matrices(self.codes)?;
        let sizes = (stacked, out, stored);
        let mut parts = vec![(self.number, "codes".to_owned()), (self.at, "scales".to_owned())];
        let known = match self.stored() {
            Some(Nvfp4) => self.pairs(sizes, 16, group, &mut parts)?,
            Some(Mxfp4) => self.pairs(sizes, 32, group, &mut parts)?,
            Some(Int4) => self.int4(sizes, group, &mut parts)?,
            Some(Int8 | Fp8 | Mxfp8) => self.whole(sizes, &mut parts)?,
            None => return Err(self.misfit()),
        };
        let [stacked, out, row_len] = known.sizes;
        let (shape, strides) = match known.is_turned {
            true => (vec![stacked, row_len, out], vec![out * row_len, 1, row_len]),
            false if self.codes.shape.len() == 2 => (vec![out, row_len], Vec::new()),
            false => (vec![stacked, out, row_len], Vec::new()),
        };
        let name = self.codes.name.clone();
        Ok(PackedTensor {
            name,
            shape,
            strides,
            dtype: self.model.dtype(DType::BF16),
            about: format!("modelopt {}", known.about),
            rows: known.rows,
            parts,
            panel: known.panel,
            exact: known.exact,
        })
    }

    /// The factors of columns, if there are any.
    fn columns(&self, row_len: u64, parts: &mut Vec<(usize, String)>) -> Result<Option<DType>> {
        let Some(at) = self.columns else { return Ok(None) };
        let tensor = self.model.tensor(at);
        if tensor.shape != [row_len] || !FLOATS.contains(&tensor.dtype) {
            let message = format!("it is {:?} of {}, expected {row_len} floats", tensor.shape, tensor.dtype);
            return Err(Error::malformed(message).tensor(&tensor.name));
        }
        parts.push((at, "factors of columns".to_owned()));
        Ok(Some(tensor.dtype))
    }

    /// An error if the configuration states another length of groups than shapes say, or a length that is none. Asked of weights in
    /// groups alone: for these a positive number is written, and nothing for others.
    fn stated(&self, stated: Option<&Json>, group: u64) -> Result<()> {
        let Some(stated) = stated.filter(|stated| stated.as_u64() != Some(group)) else { return Ok(()) };
        let message = match stated.as_u64() {
            Some(1..) => {
                format!("its scales are for groups of {group}, but the configuration states {stated}")
            }
            _ => {
                format!(
                    "the configuration's `group_size` is {stated}, which is not a number of columns: the \
                     scales are for {group}"
                )
            }
        };
        Err(Error::malformed(message).tensor(&self.scales.name))
    }

    /// Pairs of floats of four bits.
    fn pairs(
        &self,
        (stacked, out, stored): (u64, u64, u64),
        group: u64,
        stated: Option<&Json>,
        parts: &mut Vec<(usize, String)>,
    ) -> Result<Known> {
        let columns_of = |bytes: u64| bytes.checked_mul(2).filter(|n| n.is_multiple_of(group));
        let fits = |out: u64, bytes: u64, is_turned: bool| {
            let row_len = columns_of(bytes)?;
            let (lead, _) = self.codes.shape.split_last_chunk::<2>()?;
            let sides = if is_turned { [row_len / group, out] } else { [out, row_len / group] };
            (self.scales.shape == [lead, &sides[..]].concat()).then_some((out, row_len, is_turned))
        };
        // Only experts may be turned: a shape of scales is never both.
        let turned = || if self.codes.shape.len() == 3 { fits(stored, out, true) } else { None };
        let found = fits(out, stored, false).or_else(turned);
        let (out, row_len, is_turned) = found.ok_or_else(|| self.misfit())?;
        self.stated(stated, group)?;
        let scales = if group == 16 { DType::F8_E4M3 } else { DType::F8_E8M0 };
        let mut grid = Grid::new(DType::F4_E2M1, scales, (1, group), (out, stacked * out, row_len));
        if is_turned {
            grid.arranged = Arranged::Columns;
        }
        if group == 16 {
            let missing = || {
                Error::malformed("its second scale is missing: expected `weight_scale_2`")
                    .tensor(&self.codes.name)
            };
            let second = self.second.ok_or_else(missing)?;
            let tensor = self.model.tensor(second);
            let n = tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            let n = n.filter(|n| (*n == 1 || *n == stacked) && FLOATS.contains(&tensor.dtype)).ok_or_else(
                || {
                    let message = format!(
                        "it is {:?} of {}, expected one float or {stacked}",
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
        Ok(Known {
            rows: grid.packed(),
            exact: grid.exact(),
            about: format!("{what}, groups of {group}"),
            sizes: [stacked, out, row_len],
            is_turned,
            panel: grid.panel(),
        })
    }

    /// Codes of a byte.
    fn whole(
        &self,
        (stacked, out, row_len): (u64, u64, u64),
        parts: &mut Vec<(usize, String)>,
    ) -> Result<Known> {
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
        let (rows, exact, about) = (grid.packed(), grid.exact(), what.to_owned());
        Ok(Known { rows, exact, about, sizes: [stacked, out, row_len], is_turned: false, panel: 1 })
    }

    /// Signed integers of four bits, whose pairs lie in neighbouring rows.
    fn int4(
        &self,
        (stacked, half, row_len): (u64, u64, u64),
        stated: Option<&Json>,
        parts: &mut Vec<(usize, String)>,
    ) -> Result<Known> {
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
        let (exact, about) = (slices.exact(), format!("int4, groups of {group}"));
        let (rows, sizes) = (slices.packed(), [stacked, out, row_len]);
        Ok(Known { rows, exact, about, sizes, is_turned: false, panel: 1 })
    }
}
