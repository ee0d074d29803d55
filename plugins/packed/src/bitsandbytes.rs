//! bitsandbytes: NF4 and FP4 in blocks of the flattened weight, and INT8 in rows.
//!
//! ```text
//! 4 bits  X                 U8 [ceil(n / 2), 1], or wider elements of the same bytes; the upper bits first
//!         X.absmax          F32 [blocks]; U8 if it is nested
//!         X.quant_map       F32 [16]: the values of codes
//!         X.nested_absmax   F32 [nested blocks], X.nested_quant_map F32 [256]
//!         X.quant_state.bitsandbytes__nf4 (or __fp4)    U8, JSON: shape, dtype, blocksize, nested_blocksize, nested_offset
//! 8 bits  M.weight I8 [out, in], M.SCB F32 [out], M.weight_format U8: 0 says rows
//!         value = code * SCB * (1 / 127)
//! ```
//!
//! Blocks ignore rows, as the package packs them and its generic and CUDA code reads them. Its kernels for the CPU begin blocks
//! anew where a row does not end with one (0.50.2), and disagree with that.
//!
//! The rows of INT8 are products rounded twice, in this order, and so of no type with a scale.
//!
//! Sources: `functional.py` (`QuantState`, `dequantize_4bit`), `_ops.py` (`int8_vectorwise_dequant`) and `nn/modules.py` of
//! bitsandbytes 0.50.

use crate::codebook::Blocks;
use crate::model::{Config, Found, Model, matrices};
use crate::scaled::Grid;
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor, escape};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "bitsandbytes", states: States::Config(is_ours), understand };

/// The states, and what their types are called.
const STATES: [(&str, &str); 2] =
    [(".quant_state.bitsandbytes__nf4", "NF4"), (".quant_state.bitsandbytes__fp4", "FP4")];

/// The name of the type of eight bits.
const INT8: &str = "INT8";

/// Older configurations name no method.
fn is_ours(config: &Config<'_>) -> bool {
    let loads = |key: &str| config.json.get(key).and_then(Json::as_bool) == Some(true);
    let is_older = config.text("quant_method").is_none() && (loads("load_in_4bit") || loads("load_in_8bit"));
    config.is_method(&["bitsandbytes"]) || is_older
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let is_announced = model.configs.iter().any(is_ours);
    let mut is_any = false;
    for (ending, kind) in STATES {
        for (state, tensor, name) in model.ending(ending) {
            is_any = true;
            check_configs(model, tensor, kind)?;
            let map = map_of(model, name).map(|map| (map, found.contents(model, map)));
            let Some(json) = found.contents(model, state) else { continue };
            if let Some((map, bytes)) = map {
                check_map(model, (map, bytes), kind)?;
            }
            let json: Json = serde_json::from_slice(json).map_err(|error| {
                Error::malformed(format!("its state is not valid JSON: {error}")).tensor(&tensor.name)
            })?;
            let state = State { number: state, tensor, json };
            state.check_kind(kind)?;
            found.add(model, four_bits(model, &state, (name, kind))?)?;
        }
    }
    for (at, scales, name) in model.ending(".SCB") {
        is_any = true;
        check_configs(model, scales, INT8)?;
        let format = model.find(&format!("{name}.weight_format"));
        if let Some(format) = format {
            match found.contents(model, format) {
                None => continue,
                Some([0, ..]) => found.unused(model, format, "the format of INT8: rows")?,
                Some(_) => {
                    let message =
                        "bitsandbytes INT8 is only supported in rows, but this is arranged for a device";
                    return Err(Error::unsupported(message).tensor(&model.tensor(format).name));
                }
            }
        }
        found.add(model, eight_bits(model, (at, scales), name)?)?;
    }
    for ending in [".absmax", ".nested_absmax"] {
        for (number, tensor, _) in model.ending(ending) {
            if is_announced && found.is_free(number) && !is_wanted(model, &tensor.name) {
                let message = "its state is missing: `quant_state.bitsandbytes__nf4` or `__fp4`";
                return Err(Error::malformed(message).tensor(&tensor.name));
            }
        }
    }
    if is_any && !is_announced {
        found.note(
            "no configuration states the packing scheme: bitsandbytes is assumed from the names of \
             states and scales",
        );
    }
    Ok(())
}

/// Fails for a weight of another type than a configuration states.
fn check_configs(model: &Model<'_>, tensor: &StoredTensor, kind: &str) -> Result<()> {
    for config in model.configs.iter().filter(|config| is_ours(config)) {
        let is = |key: &str, value: bool| config.json.get(key).and_then(Json::as_bool) == Some(value);
        let (own, other) =
            if kind == INT8 { ("load_in_8bit", "load_in_4bit") } else { ("load_in_4bit", "load_in_8bit") };
        let differ = |stated: String| {
            let message = format!("it is part of a weight of {kind}, but {stated}");
            Err(Error::malformed(message).in_file(config.file).tensor(&tensor.name))
        };
        if is(other, true) && !is(own, true) {
            return differ(format!("{} is true", config.place(other)));
        }
        // Beside eight bits this is only what is usual.
        let stated = config.text(TYPE).filter(|_| kind != INT8);
        if let Some(stated) = stated.filter(|stated| !stated.eq_ignore_ascii_case(kind)) {
            return differ(format!("{} is `{}`", config.place(TYPE), escape(stated, 40)));
        }
    }
    Ok(())
}

/// The key for the type of four bits.
const TYPE: &str = "bnb_4bit_quant_type";

/// The values of the codes of a weight of four bits.
fn map_of(model: &Model<'_>, name: &str) -> Option<usize> {
    let map = model.find(&format!("{name}.quant_map"))?;
    (model.tensor(map).dtype == DType::F32 && elements(model.tensor(map)) == Some(16)).then_some(map)
}

/// Fails for the values of the other type, which begin with another one: NF4 with -1, FP4 with 0.
fn check_map(model: &Model<'_>, (map, bytes): (usize, Option<&[u8]>), kind: &str) -> Result<()> {
    let first = bytes.and_then(|bytes| bytes.first_chunk()).map(|bytes| f32::from_le_bytes(*bytes));
    let of_map = match first {
        Some(-1.0) => "NF4",
        Some(0.0) => "FP4",
        _ => return Ok(()),
    };
    if of_map == kind {
        return Ok(());
    }
    let message = format!("its values are those of {of_map}, but the name of the weight's state says {kind}");
    Err(Error::malformed(message).tensor(&model.tensor(map).name))
}

/// Whether the weight that a tensor's name begins with has a state.
fn is_wanted(model: &Model<'_>, name: &str) -> bool {
    let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
    STATES.iter().any(|(ending, _)| model.find(&format!("{base}{ending}")).is_some())
}

/// The state of a weight of four bits.
struct State<'a> {
    number: usize,
    tensor: &'a StoredTensor,
    json: Json,
}

impl State<'_> {
    fn wrong(&self, key: &str) -> Error {
        Error::malformed(format!("its `{key}` is missing or invalid")).tensor(&self.tensor.name)
    }

    /// Fails if it states another type than its name.
    fn check_kind(&self, kind: &str) -> Result<()> {
        let stated = self.json.get("quant_type").and_then(Json::as_str);
        let Some(stated) = stated.filter(|stated| !stated.eq_ignore_ascii_case(kind)) else { return Ok(()) };
        let message = format!("its `quant_type` is `{}`, but its name says {kind}", escape(stated, 40));
        Err(Error::malformed(message).tensor(&self.tensor.name))
    }

    fn size(&self, key: &str) -> Result<u64> {
        let size = self.json.get(key).and_then(Json::as_u64).filter(|size| *size > 0);
        size.ok_or_else(|| self.wrong(key))
    }

    fn shape(&self) -> Result<Vec<u64>> {
        let shape = self.json.get("shape").and_then(Json::as_array);
        let shape: Option<Vec<u64>> = shape.and_then(|shape| shape.iter().map(Json::as_u64).collect());
        shape.filter(|shape| !shape.is_empty() && !shape.contains(&0)).ok_or_else(|| self.wrong("shape"))
    }

    fn dtype(&self) -> Option<DType> {
        match self.json.get("dtype")?.as_str()? {
            "bfloat16" => Some(DType::BF16),
            "float16" => Some(DType::F16),
            "float32" => Some(DType::F32),
            _ => None,
        }
    }

    /// The offset of a nested absmax. JSON has it with more digits than F32.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "bitsandbytes holds it in F32, and rounds it likewise"
    )]
    fn offset(&self) -> Result<f32> {
        let offset = self.json.get("nested_offset").and_then(Json::as_f64).map(|offset| offset as f32);
        offset.filter(|offset| offset.is_finite()).ok_or_else(|| self.wrong("nested_offset"))
    }
}

/// A tensor beside a weight, of a type and as many elements.
fn part(model: &Model<'_>, name: &str, ending: &str, dtypes: &[DType], len: u64) -> Result<usize> {
    let missing = || Error::malformed(format!("its `{ending}` is missing")).tensor(name);
    let number = model.find(&format!("{name}{ending}")).ok_or_else(missing)?;
    let tensor = model.tensor(number);
    if !dtypes.contains(&tensor.dtype) {
        let message = format!("its type {} is not valid for {ending}", tensor.dtype);
        return Err(Error::malformed(message).tensor(&tensor.name));
    }
    if elements(tensor) != Some(len) {
        let message = format!("its shape is {:?}, but `{name}` requires {len} elements", tensor.shape);
        return Err(Error::malformed(message).tensor(&tensor.name));
    }
    Ok(number)
}

fn elements(tensor: &StoredTensor) -> Option<u64> {
    tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size))
}

fn four_bits(model: &Model<'_>, state: &State<'_>, (name, kind): (&str, &str)) -> Result<PackedTensor> {
    let shape = state.shape()?;
    let all = shape
        .iter()
        .try_fold(1u64, |all, size| all.checked_mul(*size))
        .ok_or_else(|| state.wrong("shape"))?;
    let row_len = shape.last().copied().unwrap_or(1);
    let block = state.size("blocksize")?;
    let number = model.find(name).ok_or_else(|| {
        Error::malformed(format!("`{name}`, the weight it describes, is missing")).tensor(&state.tensor.name)
    })?;
    let codes = model.tensor(number);
    let unit = match codes.dtype {
        DType::U8 | DType::I8 => 1,
        DType::BF16 | DType::F16 => 2,
        DType::F32 => 4,
        other => return Err(Error::malformed(format!("its type {other} cannot hold codes")).tensor(name)),
    };
    if elements(codes) != Some(all.div_ceil(2).div_ceil(unit)) {
        let message = format!("its shape {:?} cannot hold the {all} codes of {shape:?}", codes.shape);
        return Err(Error::malformed(message).tensor(name));
    }
    let blocks = all.div_ceil(block);
    let is_nested = state.json.get("nested_blocksize").is_some_and(|size| !size.is_null());
    let floats = [DType::F32, DType::F16, DType::BF16];
    let types: &[DType] = if is_nested { &[DType::U8] } else { &floats };
    let absmax = part(model, name, ".absmax", types, blocks)?;
    let map = part(model, name, ".quant_map", &[DType::F32], 16)?;
    let mut parts =
        vec![(number, "codes"), (absmax, "absmax"), (map, "values of codes"), (state.number, "state")];
    let mut nested = None;
    if is_nested {
        let size = state.size("nested_blocksize")?;
        let absmax = part(model, name, ".nested_absmax", &[DType::F32], blocks.div_ceil(size))?;
        parts.push((absmax, "nested absmax"));
        parts.push((part(model, name, ".nested_quant_map", &[DType::F32], 256)?, "nested values"));
        nested = Some((size, state.offset()?));
    }
    let absmax = model.tensor(absmax).dtype;
    let layout = Blocks { block, unit, absmax, nested, rows: all / row_len, row_len };
    let how = if is_nested { ", nested absmax" } else { "" };
    Ok(PackedTensor {
        name: name.to_owned(),
        shape,
        strides: Vec::new(),
        dtype: state.dtype().unwrap_or_else(|| model.dtype(DType::BF16)),
        about: format!("bitsandbytes {kind}, blocks of {block}{how}"),
        rows: layout.packed(),
        parts: parts.into_iter().map(|(number, what)| (number, what.to_owned())).collect(),
        panel: 1,
        exact: Vec::new(),
    })
}

fn eight_bits(model: &Model<'_>, (at, scales): (usize, &StoredTensor), name: &str) -> Result<PackedTensor> {
    let name = format!("{name}.weight");
    let codes = model.find(&name).filter(|at| model.tensor(*at).dtype == DType::I8);
    let number = codes.ok_or_else(|| {
        Error::malformed(format!("its codes are missing: there is no `{name}` of type I8"))
            .tensor(&scales.name)
    })?;
    let codes = model.tensor(number);
    let (stacked, out, row_len) = matrices(codes)?;
    if scales.dtype != DType::F32 || stacked != 1 || elements(scales) != Some(out) {
        let message =
            format!("its shape {:?} or type {} does not match {:?}", scales.shape, scales.dtype, codes.shape);
        return Err(Error::malformed(message).tensor(&scales.name));
    }
    let mut grid = Grid::new(DType::I8, DType::F32, (1, row_len), (out, out, row_len));
    grid.factor = 1.0 / 127.0;
    Ok(PackedTensor {
        name,
        shape: codes.shape.clone(),
        strides: Vec::new(),
        dtype: model.dtype(DType::F16),
        about: "bitsandbytes INT8, a scale for each row".to_owned(),
        exact: grid.exact(),
        rows: grid.packed(),
        parts: vec![(number, "codes".to_owned()), (at, "scales".to_owned())],
        panel: 1,
    })
}
