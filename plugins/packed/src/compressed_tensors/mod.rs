//! compressed-tensors: what llm-compressor writes, in all its formats.
//!
//! | format | codes | value |
//! | --- | --- | --- |
//! | naive-, int-, float-quantized | `X.weight`, I8 or E4M3 | (code - `weight_zero_point`) * `weight_scale` |
//! | pack-quantized | `X.weight_packed`, I32 `[out, in * bits / 32]`, each code higher by half its range | likewise; `weight_zero_point` packed down the rows |
//! | nvfp4-pack-quantized | `X.weight_packed`, U8, pairs of E2M1 | code * `weight_scale` / `weight_global_scale` |
//! | mxfp4-pack-quantized, mxfp6-pack-quantized, mxfp8-quantized | pairs of E2M1, four of E2M3 in three bytes, or E4M3 | code * 2^(`weight_scale` - 127), for each 32 |
//!
//! One scale, or one for each row, group of columns or block. `config_groups` say which modules have how many bits; what
//! tensors a module has says the same, so the configuration is looked at for what they leave open: bits, groups, blocks.
//!
//! Source: compressed-tensors 0.20, `compressors/` and `quantization/lifecycle/forward.py`.

mod groups;
mod stated;

use crate::fp8::boxes;
use crate::model::{Config, Found, Model, matrices};
use crate::scaled::{Global, Grid};
use crate::scheme::{Scheme, States};
use crate::words::{self, Codes, Zeros};
use apr_sdk::{DType, Error, MOST_CONTENTS, PackedTensor, Result, StoredTensor};
use groups::{Groups, Weights};
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme =
    Scheme { name: "compressed-tensors", states: States::Config(is_ours), understand };

/// The formats. In others codes lie in another order, or only where they are not zero.
const FORMATS: [&str; 10] = [
    "dense",
    "naive-quantized",
    "int-quantized",
    "float-quantized",
    "pack-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp6-pack-quantized",
    "mxfp8-quantized",
    "mixed-precision",
];

/// The names of the method: its own, and that of the package that came before.
const METHODS: [&str; 2] = ["compressed-tensors", "sparseml"];

/// Older files have a key of their own, and no method.
pub fn is_ours(config: &Config<'_>) -> bool {
    let is_key = config.key.rsplit('.').next() == Some("compression_config");
    config.is_method(&METHODS) || is_key && config.text("quant_method").is_none()
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.configs.iter().find(|config| is_ours(config));
    if let Some(config) = config {
        let sparse = config.json.get("sparsity_config").and_then(|sparse| sparse.get("format")?.as_str());
        let groups = config.json.get("config_groups").and_then(Json::as_object).into_iter().flatten();
        let of_groups = groups.filter_map(|(_, group)| group.get("format")?.as_str());
        let formats = [config.text("format"), sparse].into_iter().flatten().chain(of_groups);
        let refused = formats.into_iter().find(|of| !FORMATS.contains(of));
        if let Some(format) = refused {
            let message = format!("compressed-tensors format `{format}` cannot be unpacked");
            return Err(Error::unsupported(message).in_file(config.file));
        }
    }
    let groups = config.map(groups::groups).transpose()?.unwrap_or_default();
    let mut is_any = false;
    for (number, codes, module) in model.ending(".weight_packed") {
        let weight = match codes.dtype {
            DType::I32 => in_words(model, found, (number, module), &groups, config)?,
            DType::U8 | DType::I8 => small_floats(model, (number, module), &groups)?,
            other => return Err(wrong(model, number, &format!("codes of type {other} are not supported"))),
        };
        let Some(weight) = weight else { continue };
        let input = model.find(&format!("{module}.input_global_scale")).map(|number| (number, true));
        found.add_factored(model, weight, input)?;
        is_any = true;
    }
    // Codes under the weight's own name are those of others, too: only with the announcement.
    for (number, codes, module) in model.ending(".weight").filter(|_| config.is_some()) {
        let is_code = [DType::I8, DType::F8_E4M3, DType::F8_E5M2].contains(&codes.dtype);
        if !is_code || !found.is_free(number) {
            continue;
        }
        if !has_no_order(model, found, module)? {
            continue;
        }
        let Some(weight) = whole_bytes(model, found, (number, module), &groups)? else { continue };
        found.add(model, weight)?;
        is_any = true;
    }
    if is_any {
        let endings = [
            "input_scale",
            "input_zero_point",
            "input_global_scale",
            "output_scale",
            "output_zero_point",
            "k_scale",
            "v_scale",
            "q_scale",
        ];
        for (number, tensor) in model.tensors() {
            let last = tensor.name.rsplit('.').next().unwrap_or_default();
            if found.is_free(number) && endings.contains(&last) {
                found.unused(model, number, "a scale or zero point of activations or of the KV cache")?;
            }
        }
        if config.is_none() {
            found.note(
                "no configuration states the packing scheme: it is assumed from the names and shapes \
                 of tensors",
            );
        }
    }
    Ok(())
}

fn wrong(model: &Model<'_>, number: usize, what: &str) -> Error {
    Error::malformed(what).tensor(&model.tensor(number).name)
}

/// A part of a module.
fn part(model: &Model<'_>, module: &str, ending: &str) -> Option<usize> {
    model.find(&format!("{module}.{ending}"))
}

fn needed(model: &Model<'_>, (number, module): (usize, &str), ending: &str) -> Result<usize> {
    part(model, module, ending)
        .ok_or_else(|| wrong(model, number, &format!("`{module}.{ending}` is missing")))
}

/// What the configuration says about a module, of which its tensors may tell which group `fits`.
fn group_of<'g>(
    model: &Model<'_>,
    groups: &'g Groups,
    (number, module): (usize, &str),
    fits: &dyn Fn(&Weights) -> bool,
) -> Result<Option<&'g Weights>> {
    groups::of(groups, module, fits).map_err(|error| error.tensor(&model.tensor(number).name))
}

/// Whether scales are as many as what shares one says: one for all, or groups in a row.
fn fits_strategy(weights: &Weights, is_one: bool, n_groups: u64) -> bool {
    match weights.strategy.as_deref() {
        Some("channel") => !is_one && n_groups == 1,
        Some("group") => !is_one,
        Some("tensor") => n_groups == 1,
        _ => true,
    }
}

/// Whether zero points lie in words down the rows of each matrix.
fn is_packed_down(tensor: &StoredTensor, (stacked, rows, groups): (u64, u64, u64), bits: u64) -> bool {
    let words = (rows * bits).div_ceil(32);
    match tensor.shape[..] {
        [down, across] => stacked == 1 && (down, across) == (words, groups),
        [matrices, down, across] => (matrices, down, across) == (stacked, words, groups),
        _ => false,
    }
}

/// Codes in words.
fn in_words(
    model: &Model<'_>,
    found: &mut Found,
    (number, module): (usize, &str),
    groups: &Groups,
    config: Option<&Config<'_>>,
) -> Result<Option<PackedTensor>> {
    let (stacked, matrix_rows, words) = matrices(model.tensor(number))?;
    let rows = stacked * matrix_rows;
    let (_, lead) = model.tensor(number).shape.split_last().unwrap_or((&0, &[]));
    let at = needed(model, (number, module), "weight_scale")?;
    let shape_at = needed(model, (number, module), "weight_shape")?;
    let Some(bytes) = found.contents(model, shape_at) else { return Ok(None) };
    let sizes: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|size| u64::from_le_bytes(*size)).collect();
    let row_len = match (model.tensor(shape_at).dtype, sizes.split_last()) {
        (DType::I64, Some((columns, of_rows))) if of_rows == lead => *columns,
        _ => {
            return Err(wrong(
                model,
                shape_at,
                "it is not the shape of a matrix with the same number of rows as its codes",
            ));
        }
    };
    let scales = model.tensor(at);
    // One scale is one for each row, all of them the same.
    let is_one = rows > 1 && scales.shape.iter().all(|size| *size == 1);
    let (of_matrices, of_rows, n_groups) = if is_one { (stacked, matrix_rows, 1) } else { matrices(scales)? };
    let fits = |weights: &Weights| {
        let is_right = row_len.checked_mul(weights.bits).is_some_and(|bits| bits.div_ceil(32) == words)
            || words == row_len.div_ceil(32 / weights.bits);
        is_right && weights.size.is_none_or(|size| row_len.div_ceil(size) == n_groups)
    };
    let group = group_of(model, groups, (number, module), &fits)?;
    stated::check(model, groups, number, module, group, stated::Codes::Words)?;
    let bits = match group {
        Some(group) => group.bits,
        None if config.is_some() => {
            return Err(wrong(model, number, "no group of the configuration applies to it"));
        }
        // Without it: the bits that make so many words.
        None => (1..=8).find(|bits| row_len.saturating_mul(*bits).div_ceil(32) == words).unwrap_or(4),
    };
    let too_long = || wrong(model, shape_at, "its rows are too long");
    let dense = row_len.checked_mul(bits).ok_or_else(too_long)?.div_ceil(32);
    let codes = match words {
        _ if words == dense => Codes::Rows,
        _ if words == row_len.div_ceil(32 / bits) => Codes::PaddedRows,
        _ => {
            let message =
                format!("its rows have {words} words, but {row_len} codes of {bits} bits require {dense}");
            return Err(wrong(model, number, &message));
        }
    };
    let size = group.and_then(|group| group.size).unwrap_or(row_len.div_ceil(n_groups.max(1)));
    if (of_matrices, of_rows) != (stacked, matrix_rows)
        || row_len.div_ceil(size.max(1)) != n_groups
        || !group.is_none_or(|group| fits_strategy(group, is_one, n_groups))
    {
        let message = format!(
            "its shape {:?} does not match {matrix_rows} rows of {row_len} in groups of {size}",
            scales.shape
        );
        return Err(wrong(model, at, &message));
    }
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    let mut at_zeros = part(model, module, "weight_zero_point");
    if let Some(zeros) = at_zeros {
        match stated::has_zeros(model, found, group, zeros)? {
            Some(true) => {}
            Some(false) => at_zeros = None,
            None => return Ok(None),
        }
    }
    let zeros = match at_zeros {
        Some(zeros) => {
            parts.push((zeros, "zero points".to_owned()));
            let tensor = model.tensor(zeros);
            match tensor.dtype {
                DType::I8 if tensor.shape == scales.shape => Zeros::Bytes,
                DType::I32 if is_packed_down(tensor, (stacked, matrix_rows, n_groups), bits) && !is_one => {
                    Zeros::Down
                }
                _ => return Err(wrong(model, zeros, "its type or shape does not match the scales")),
            }
        }
        None if group.is_some_and(|group| group.symmetric == Some(false)) => {
            return Err(wrong(model, number, "its zero points are missing: expected `weight_zero_point`"));
        }
        None => Zeros::All(1 << (bits - 1)),
    };
    let index = part(model, module, "weight_g_idx");
    if index.is_none() && n_groups > 1 && group.is_some_and(|group| group.is_ordered) {
        let message = "`actorder` states that columns are reordered, but `weight_g_idx` is missing";
        return Err(wrong(model, number, message));
    }
    if let Some(index) = index {
        if model.tensor(index).shape != [row_len] || model.tensor(index).dtype != DType::I32 {
            return Err(wrong(model, index, "expected the group of each column"));
        }
        parts.push((index, "groups of columns".to_owned()));
    }
    // The shape was read, and is a part all the same.
    found.unused(model, shape_at, "the shape of a packed weight")?;
    let grid = words::Grid {
        bits,
        codes,
        zeros,
        scales: scales.dtype,
        group: size,
        groups: n_groups,
        zero_words: 0,
        has_index: index.is_some(),
        is_one,
        matrix_rows,
        rows,
        row_len,
    };
    let order = if index.is_some() { ", activation order" } else { "" };
    Ok(Some(PackedTensor {
        name: format!("{module}.weight"),
        shape: [lead, &[row_len]].concat(),
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("compressed-tensors, {bits} bits, groups of {size}{order}"),
        exact: grid.exact(),
        panel: grid.panel(),
        rows: grid.packed(),
        parts,
    }))
}

/// Floats of less than a byte: NVFP4, MXFP4, or MXFP6.
fn small_floats(
    model: &Model<'_>,
    (number, module): (usize, &str),
    groups: &Groups,
) -> Result<Option<PackedTensor>> {
    let (stacked, rows, bytes) = matrices(model.tensor(number))?;
    let at = needed(model, (number, module), "weight_scale")?;
    let scales = model.tensor(at);
    let columns = scales.shape.last().copied().unwrap_or(0);
    let is_fp = [DType::F8_E4M3, DType::F8_E8M0, DType::U8].contains(&scales.dtype);
    // A scale of 32 columns has 16 bytes of codes of four bits, or 24 of six.
    let is_six = scales.dtype != DType::F8_E4M3 && columns > 0 && columns.checked_mul(24) == Some(bytes);
    let (codes, row_len) = match is_six {
        true => (DType::F6_E2M3, bytes / 3 * 4),
        false => (DType::F4_E2M1, bytes.saturating_mul(2)),
    };
    let width = row_len.checked_div(columns).unwrap_or(0);
    if !is_fp
        || ![16, 32].contains(&width)
        || width * columns != row_len
        || matrices(scales)? != (stacked, rows, columns)
    {
        let message = format!(
            "its type {} and shape {:?} do not match scales of 16 or 32 columns",
            scales.dtype, scales.shape
        );
        return Err(wrong(model, at, &message));
    }
    // Bytes are exponents for 32 columns; for 16 they would be floats of another kind.
    if scales.dtype == DType::F8_E4M3 && width != 16 {
        let message = format!("E4M3 scales must cover 16 columns, not {width}");
        return Err(wrong(model, at, &message));
    }
    if scales.dtype != DType::F8_E4M3 && width != 32 {
        let message = format!("scales of type {} for {width} columns are not supported", scales.dtype);
        return Err(Error::unsupported(message).tensor(&scales.name));
    }
    // Types and shapes say it all: a group whose modules names do not tell is no hindrance.
    let group = group_of(model, groups, (number, module), &|_| true).ok().flatten();
    let bits = if is_six { 6 } else { 4 };
    stated::check(model, groups, number, module, group, stated::Codes::Small(codes, scales.dtype))?;
    if let Some(group) =
        group.filter(|group| group.bits != bits || group.size.is_some_and(|size| size != width))
    {
        let size = group.size.map_or(String::new(), |size| format!(" in groups of {size}"));
        let message = format!(
            "its codes have {bits} bits in groups of {width}, but the configuration states {} bits{size}",
            group.bits
        );
        return Err(wrong(model, number, &message));
    }
    let of = if scales.dtype == DType::F8_E4M3 { DType::F8_E4M3 } else { DType::F8_E8M0 };
    let mut grid = Grid::new(codes, of, (1, width), (rows, stacked * rows, row_len));
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    if let Some(global) = part(model, module, "weight_global_scale") {
        let tensor = model.tensor(global);
        if tensor.shape.iter().any(|size| *size != 1) {
            return Err(wrong(model, global, "expected one scale"));
        }
        grid.global = (Global::Over, tensor.dtype);
        parts.push((global, "global scale".to_owned()));
    } else if of == DType::F8_E4M3 {
        return Err(wrong(model, number, &format!("`{module}.weight_global_scale` is missing")));
    }
    let mut shape = model.tensor(number).shape.clone();
    shape.pop();
    shape.push(row_len);
    let what = match (of, codes) {
        (DType::F8_E4M3, _) => "NVFP4",
        (_, DType::F6_E2M3) => "MXFP6",
        _ => "MXFP4",
    };
    Ok(Some(PackedTensor {
        name: format!("{module}.weight"),
        shape,
        strides: Vec::new(),
        dtype: model.dtype(DType::BF16),
        about: format!("{what} of compressed-tensors"),
        exact: grid.exact(),
        rows: grid.packed(),
        parts,
        panel: 1,
    }))
}

/// Whether the columns of codes of whole bytes are in their places: without an index of groups, or with one that was never
/// filled, of -1 alone. `false` while its contents are asked for.
///
/// # Errors
/// Unsupported for an index that says something.
fn has_no_order(model: &Model<'_>, found: &mut Found, module: &str) -> Result<bool> {
    let Some(index) = part(model, module, "weight_g_idx") else { return Ok(true) };
    let tensor = model.tensor(index);
    let columns = tensor.shape.iter().try_fold(4u64, |all, size| all.checked_mul(*size));
    let is_small = tensor.dtype == DType::I32 && columns.is_some_and(|bytes| bytes <= MOST_CONTENTS);
    if is_small {
        let Some(bytes) = found.contents(model, index) else { return Ok(false) };
        if bytes.iter().all(|byte| *byte == 0xff) {
            found.unused(model, index, "an index of groups that was never filled in")?;
            return Ok(true);
        }
    }
    let message = "codes of whole bytes in activation order cannot be unpacked";
    Err(Error::unsupported(message).tensor(&tensor.name))
}

/// Codes of a byte each.
fn whole_bytes(
    model: &Model<'_>,
    found: &mut Found,
    (number, module): (usize, &str),
    groups: &Groups,
) -> Result<Option<PackedTensor>> {
    let codes = model.tensor(number);
    let (stacked, rows, row_len) = matrices(codes)?;
    let at = needed(model, (number, module), "weight_scale")?;
    let scales = model.tensor(at);
    let group = group_of(model, groups, (number, module), &|weights| weights.bits == 8)?;
    stated::check(model, groups, number, module, group, stated::Codes::Bytes(codes.dtype, scales.dtype))?;
    let of = if scales.dtype == DType::U8 { DType::F8_E8M0 } else { scales.dtype };
    let by_group = || {
        let columns = *scales.shape.last()?;
        let size = group.and_then(|group| group.size).unwrap_or(row_len.checked_div(columns)?);
        let is_right = matrices(scales).ok()? == (stacked, rows, row_len.div_ceil(size.max(1)));
        is_right.then_some((1, size))
    };
    let blocks = group.and_then(|group| group.block);
    let strategy = group.and_then(|group| group.strategy.as_deref());
    let by_shape = || match strategy {
        Some("group") => None,
        _ => boxes(scales, (stacked, rows, row_len), blocks),
    };
    let fits = |(down, across): &(u64, u64)| match strategy {
        Some("channel") => *down == 1 && *across >= row_len,
        Some("tensor") => *down >= rows && *across >= row_len,
        Some("block") => {
            blocks.is_none_or(|(r, c)| (*down, *across) == (r, c) || (rows <= r && row_len <= c))
        }
        _ => true,
    };
    let of_scale = by_group().or_else(by_shape).filter(fits).ok_or_else(|| {
        let message =
            format!("its shape {:?} does not match that of the codes, {:?}", scales.shape, codes.shape);
        wrong(model, at, &message)
    })?;
    let mut grid = Grid::new(codes.dtype, of, of_scale, (rows, stacked * rows, row_len));
    if of_scale == (stacked * rows, row_len) {
        grid.matrix_rows = stacked * rows;
    }
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    let at_zeros = part(model, module, "weight_zero_point");
    let counts = at_zeros.map(|zeros| stated::has_zeros(model, found, group, zeros)).transpose()?;
    if counts == Some(None) {
        return Ok(None);
    }
    if let Some(zeros) = at_zeros.filter(|_| counts == Some(Some(true))) {
        let tensor = model.tensor(zeros);
        if tensor.shape != scales.shape || !(tensor.dtype == DType::I8 || tensor.dtype == codes.dtype) {
            return Err(wrong(model, zeros, "its type or shape does not match the scales"));
        }
        grid.zeros = Some(tensor.dtype);
        parts.push((zeros, "zero points".to_owned()));
    }
    let what = match of_scale {
        (1, columns) if columns >= row_len => "a scale for each row".to_owned(),
        (of_rows, columns) if of_rows >= rows && columns >= row_len => "one scale".to_owned(),
        (1, columns) => format!("groups of {columns}"),
        (of_rows, columns) => format!("scales of {of_rows} by {columns}"),
    };
    Ok(Some(PackedTensor {
        name: codes.name.clone(),
        shape: codes.shape.clone(),
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("compressed-tensors, {}, {what}", codes.dtype),
        exact: grid.exact(),
        rows: grid.packed(),
        parts,
        panel: 1,
    }))
}
