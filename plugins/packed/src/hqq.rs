//! HQQ: groups of any length along either axis of the flattened weight, with zero points that are floats.
//!
//! ```text
//! X.W_q    8 bits: U8; 4, 2, 1 bits: U8, the first half (quarter, eighth) of the groups in the uppermost bits; 3 bits: I32 with
//!          ten fields, the first tenth in bits 27 to 29; the groups are filled up to a multiple of ten
//!          `view_as_float`: the same bytes, seen as numbers of type F32, F16 or BF16
//! X.scale  axis 1: one for each group_size elements; axis 0: [1, n / group_size], the weight seen as [group_size, columns]
//! X.zero   likewise
//! X.shape, X.nbits, X.group_size, X.axis, ...   small tensors; what they lack is in the configuration
//!
//! value = (code - zero) * scale
//! ```
//!
//! What is stored beside a weight comes before the configuration: hqq takes a layer's whole state from there
//! (`HQQLinear.load_state_dict`). Where they differ, a note says so.
//!
//! Sources: `core/quantize.py` and `core/bitpack.py` of hqq 0.2.8; `quantizer_hqq.py` of transformers.

use crate::model::{Config, Found, Model};
use crate::scheme::{Scheme, States};
use crate::slices::Slices;
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor, escape};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "HQQ", states: States::Config(is_ours), understand };

/// Types of scales and zero points, and those that codes may be seen as.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Tensors that say how a weight is packed: their contents are read.
const READ: [&str; 6] = [".nbits", ".group_size", ".axis", ".shape", ".view_as_float", ".channel_wise"];

/// Tensors that values do not depend on.
const UNUSED: [&str; 9] = [
    ".packing",
    ".unpack_view_dtype",
    ".compute_dtype",
    ".optimize",
    ".round_zero",
    ".quant_zero",
    ".quant_scale",
    ".offload_meta",
    ".encoded_state_dict",
];

/// Another, which would make the list too long for a line.
const STORES: &str = ".stores_quant_config";

fn is_ours(config: &Config<'_>) -> bool {
    config.is_method(&["hqq"])
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.config(&["hqq"]);
    let mut differ: Vec<(Difference<'_>, usize, &str)> = Vec::new();
    for (number, codes, name) in model.ending(".W_q") {
        if !found.is_free(number) {
            continue;
        }
        let missing = |part: &str| Error::malformed(format!("its `{part}` is missing")).tensor(&codes.name);
        let scales = model.find(&format!("{name}.scale")).ok_or_else(|| missing("scale"))?;
        let zeros = model.find(&format!("{name}.zero")).ok_or_else(|| missing("zero"))?;
        let mut numbers = Vec::new();
        let mut is_read = true;
        for ending in READ {
            let Some(at) = model.find(&format!("{name}{ending}")) else { continue };
            match found.contents(model, at) {
                Some(bytes) => numbers.push((ending, whole_numbers(model.tensor(at), bytes)?)),
                None => is_read = false,
            }
        }
        if !is_read {
            continue;
        }
        let told = Told { name, codes, numbers, config };
        let weight = told.weight(model, (number, scales, zeros))?;
        found.add(model, weight)?;
        for (key, stored, configured) in told.differences() {
            match differ.iter_mut().find(|(of, ..)| *of == (key, stored, configured)) {
                Some((_, n, _)) => *n += 1,
                None => differ.push(((key, stored, configured), 1, name)),
            }
        }
        for ending in READ.iter().chain(&UNUSED).chain([&STORES]) {
            if let Some(at) = model.find(&format!("{name}{ending}")) {
                found.unused(model, at, "how the weight is packed")?;
            }
        }
        if config.is_none() {
            found.note(
                "no configuration states the packing scheme: HQQ is assumed from the names of codes, \
                 scales and zeros",
            );
        }
    }
    for ((key, stored, configured), n, first) in differ {
        let weights = if n == 1 { "weight" } else { "weights" };
        let first = escape(first, 120);
        found.note(format!(
            "`{key}` is {stored} for {n} {weights} of HQQ, such as `{first}`, but {configured} in the \
             configuration: the value stored with a weight takes precedence, as in hqq"
        ));
    }
    lost(model, found, config.is_some())
}

/// A key, what is stored beside a weight, and what the configuration says.
type Difference<'a> = (&'static str, i64, &'a Json);

/// Keys that both may state.
const STATED: [&str; 5] = ["nbits", "group_size", "axis", "view_as_float", "channel_wise"];

/// Fails for parts whose codes are gone. Scales of other layers may be called the same: those of HQQ are matrices, or
/// beside other parts of it.
///
/// # Errors
/// Malformed, with the tensor.
fn lost(model: &Model<'_>, found: &Found, is_announced: bool) -> Result<()> {
    const PARTS: [&str; 4] = [".scale", ".zero", ".nbits", ".group_size"];
    if !is_announced && model.ending(".W_q").next().is_none() {
        return Ok(());
    }
    for ending in PARTS {
        for (number, tensor, name) in model.ending(ending).filter(|(number, ..)| found.is_free(*number)) {
            let beside = |other: &str| model.find(&format!("{name}{other}")).is_some();
            let is_part = ![".scale", ".zero"].contains(&ending)
                || tensor.shape.len() == 2
                || PARTS.iter().chain(&READ).any(|other| *other != ending && beside(other));
            if is_part && !beside(".W_q") && !beside(".weight") {
                let message = format!("its codes are missing: expected `{name}.W_q`");
                return Err(Error::malformed(message).tensor(&model.tensor(number).name));
            }
        }
    }
    Ok(())
}

/// The whole numbers in a small tensor.
fn whole_numbers(tensor: &StoredTensor, bytes: &[u8]) -> Result<Vec<i64>> {
    match tensor.dtype {
        DType::U8 | DType::BOOL => Ok(bytes.iter().map(|byte| i64::from(*byte)).collect()),
        DType::I32 => Ok(bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect()),
        DType::I64 => Ok(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
        DType::F32 => bytes.as_chunks().0.iter().map(|b| bits_of(tensor, f32::from_le_bytes(*b))).collect(),
        other => {
            Err(Error::malformed(format!("its type is {other}, expected integers")).tensor(&tensor.name))
        }
    }
}

/// `nbits` may be stored as a float, and is 1.58 for two bits.
fn bits_of(tensor: &StoredTensor, value: f32) -> Result<i64> {
    let known = [1u8, 2, 3, 4, 5, 6, 8].into_iter().find(|bits| f32::from(*bits) == value);
    let known = known.or((value == 1.58).then_some(2));
    known.map(i64::from).ok_or_else(|| Error::malformed(format!("it is {value}")).tensor(&tensor.name))
}

/// What is said about a weight.
struct Told<'a> {
    name: &'a str,
    codes: &'a StoredTensor,
    numbers: Vec<(&'static str, Vec<i64>)>,
    config: Option<&'a Config<'a>>,
}

impl<'a> Told<'a> {
    fn wrong(&self, message: impl Into<String>) -> Error {
        Error::malformed(message).tensor(&self.codes.name)
    }

    fn stored(&self, ending: &str) -> Option<&[i64]> {
        self.numbers.iter().find(|(name, _)| *name == ending).map(|(_, numbers)| numbers.as_slice())
    }

    /// A number: as it is stored, or as the configuration says.
    fn number(&self, key: &str) -> Option<i64> {
        let stored = self.numbers.iter().find(|(name, _)| name[1..] == *key);
        match stored {
            Some((_, numbers)) => numbers.first().copied(),
            None => {
                let value = self.configured(key)?;
                value.as_i64().or_else(|| value.as_bool().map(i64::from))
            }
        }
    }

    /// Where the configuration says something else than what is stored.
    fn differences(&self) -> Vec<Difference<'a>> {
        let differs = |key: &&'static str| {
            let stored = self.stored(&format!(".{key}"))?.first().copied()?;
            let configured = self.configured(key)?;
            // 1.58 bits are stored as two.
            let as_float = || configured.as_f64().map(|value| if value == 1.58 { 2.0 } else { value });
            let is_same = match configured.as_bool() {
                Some(flag) => stored == i64::from(flag),
                None => {
                    as_float().is_some_and(|value| i32::try_from(stored).is_ok_and(|n| f64::from(n) == value))
                }
            };
            (!is_same).then_some((*key, stored, configured))
        };
        STATED.iter().filter_map(differs).collect()
    }

    /// What the configuration says: for modules whose name ends so, for one name of a linear layer, or for all.
    fn configured(&self, key: &str) -> Option<&'a Json> {
        let of = self.config?.json.get("quant_config")?;
        let mut objects = vec![of];
        if let Some(members) = of.as_object() {
            let fits = |(name, _): &(&String, &Json)| {
                let rest = self.name.strip_suffix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            objects.extend(members.iter().filter(fits).map(|(_, object)| object));
        }
        let of_weight =
            objects.iter().rev().filter_map(|object| object.get("weight_quant_params").or(Some(object)));
        of_weight.filter_map(|object| object.get(key)).find(|value| !value.is_null())
    }

    fn weight(
        &self,
        model: &Model<'_>,
        (number, scales, zeros): (usize, usize, usize),
    ) -> Result<PackedTensor> {
        let (scale, zero) = (model.tensor(scales), model.tensor(zeros));
        for part in [scale, zero] {
            if !FLOATS.contains(&part.dtype) {
                let message =
                    format!("its type is {}: quantized scales and zeros are not supported", part.dtype);
                return Err(Error::unsupported(message).tensor(&part.name));
            }
        }
        let bits = self.number("nbits").and_then(|bits| u32::try_from(bits).ok());
        let bits =
            bits.ok_or_else(|| self.wrong("the number of bits of its codes (`nbits`) is not stated"))?;
        let (unit, fields, dtypes): (u64, u64, &[DType]) = match bits {
            5 | 6 | 8 => (1, 1, &[DType::U8]),
            4 => (1, 2, &[DType::U8]),
            3 => (4, 10, &[DType::I32, DType::U32]),
            2 => (1, 4, &[DType::U8]),
            1 => (1, 8, &[DType::U8]),
            _ => return Err(self.wrong(format!("codes of {bits} bits are not supported"))),
        };
        let is_float = self.number("view_as_float") == Some(1);
        if !(if is_float { &FLOATS } else { dtypes }).contains(&self.codes.dtype) {
            let seen = if is_float { " seen as floats (`view_as_float`)" } else { "" };
            let dtype = self.codes.dtype;
            return Err(self.wrong(format!("its type {dtype} cannot hold codes of {bits} bits{seen}")));
        }
        let element: u64 = self.codes.dtype.require()?.block_bytes.into();
        let bytes = self.codes.shape.iter().try_fold(element, |all, size| all.checked_mul(*size));
        let words = bytes.ok_or_else(|| self.wrong("its shape is too large"))? / unit;
        let (rows, row_len) = self.shape(words.saturating_mul(fields))?;
        let all = rows * row_len;
        let group = match self.number("group_size") {
            _ if self.number("channel_wise") == Some(0) => all,
            Some(group) => u64::try_from(group)
                .ok()
                .filter(|group| *group > 0 && all.is_multiple_of(*group))
                .ok_or_else(|| self.wrong(format!("groups of {group} do not match {rows} by {row_len}")))?,
            None => row_len,
        };
        let is_across = self.number("axis").unwrap_or(1) == 0 && group < all;
        // The groups are the rows of what is packed along axis 1, and the columns along axis 0.
        let packed_rows = if is_across { group } else { all / group };
        let width = all / packed_rows.max(1);
        let fits = packed_rows.div_ceil(fields).checked_mul(width) == Some(words);
        if !fits || (bits != 3 && !packed_rows.is_multiple_of(fields)) {
            let message = format!(
                "its shape {:?} cannot hold {rows} by {row_len} codes of {bits} bits",
                self.codes.shape
            );
            return Err(self.wrong(message));
        }
        if !row_len.is_multiple_of((element / unit).max(1)) {
            let message = format!("rows of {row_len} codes do not start at a whole {}", self.codes.dtype);
            return Err(Error::unsupported(message).tensor(&self.codes.name));
        }
        for part in [scale, zero] {
            let len = part.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            if len != Some(all / group) {
                let message = format!(
                    "its shape is {:?}, expected {} values: one for {group}",
                    part.shape,
                    all / group
                );
                return Err(Error::malformed(message).tensor(&part.name));
            }
        }
        let slices = Slices {
            bits,
            unit,
            element,
            fields,
            is_high_first: true,
            words,
            group: if is_across { all / group } else { group },
            is_across,
            scales: scale.dtype,
            zeros: Some(zero.dtype),
            zero: 0,
            flip: 0,
            is_divisor: false,
            columns: None,
            rows,
            row_len,
        };
        let axis = u8::from(!is_across);
        Ok(PackedTensor {
            name: format!("{}.weight", self.name),
            shape: vec![rows, row_len],
            strides: Vec::new(),
            dtype: model.dtype(scale.dtype),
            about: format!("HQQ, {bits} bits, groups of {group} along axis {axis}"),
            exact: slices.exact(),
            rows: slices.packed(),
            parts: vec![
                (number, "codes".to_owned()),
                (scales, "scales".to_owned()),
                (zeros, "zero points".to_owned()),
            ],
            panel: 1,
        })
    }

    /// Rows and columns: as they are stored. `codes` are as many as there is room for.
    fn shape(&self, codes: u64) -> Result<(u64, u64)> {
        let shape =
            self.stored(".shape").ok_or_else(|| self.wrong("its shape is not stated: `shape` is missing"))?;
        let sizes: Option<Vec<u64>> =
            shape.iter().map(|size| u64::try_from(*size).ok().filter(|size| *size > 0)).collect();
        let wrong = || self.wrong(format!("its shape {shape:?} does not match {codes} codes"));
        match sizes.as_deref() {
            Some([rows, columns]) if rows.checked_mul(*columns).is_some_and(|all| all <= codes) => {
                Ok((*rows, *columns))
            }
            _ => Err(wrong()),
        }
    }
}
