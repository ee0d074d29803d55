//! compressed-tensors: what llm-compressor writes, in all its formats.
//!
//! | format | codes | value |
//! | --- | --- | --- |
//! | naive-, int-, float-quantized | `X.weight`, I8 or E4M3 | (code - `weight_zero_point`) * `weight_scale` |
//! | pack-quantized | `X.weight_packed`, I32 `[out, in * bits / 32]`, each code higher by half its range | likewise; `weight_zero_point` packed down the rows |
//! | nvfp4-pack-quantized | `X.weight_packed`, U8, pairs of E2M1 | code * `weight_scale` / `weight_global_scale` |
//! | mxfp4-pack-quantized, mxfp8-quantized | pairs of E2M1, or E4M3 | code * 2^(`weight_scale` - 127), for each 32 |
//!
//! One scale, or one for each row, group of columns or block. `config_groups` say which modules have how many bits; what
//! tensors a module has says the same, so the configuration is looked at for what they leave open: bits, groups, blocks.
//!
//! Source: compressed-tensors 0.20, `compressors/` and `quantization/lifecycle/forward.py`.

use crate::fp8::boxes;
use crate::model::{Config, Found, Model, matrices};
use crate::scaled::{Global, Grid};
use crate::scheme::Scheme;
use crate::words::{self, Codes, Zeros};
use apr_sdk::{DType, Error, PackedTensor, Result};
use regex_lite::Regex;
use serde_json::Value as Json;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "compressed-tensors", understand };

/// What a configuration says about the weights of some modules.
struct Group {
    /// Names of modules, or of classes of them.
    targets: Vec<Target>,
    bits: u64,
    size: Option<u64>,
    block: Option<(u64, u64)>,
    symmetric: bool,
}

/// Which modules a group is about.
enum Target {
    /// Modules of a class, such as `Linear`: all that are packed.
    Class,
    /// One module.
    Name(String),
    /// Modules whose names match.
    Pattern(Regex),
}

/// Formats whose codes lie in another order, or only where they are not zero.
const REFUSED: [&str; 4] = ["marlin-24", "sparse-24-bitmask", "sparse-bitmask", "dense-sparse"];

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.config(&["compressed-tensors"]);
    if let Some(config) = config {
        let sparse = config.json.get("sparsity_config").and_then(|sparse| sparse.get("format")?.as_str());
        let refused = [config.text("format"), sparse].into_iter().flatten().find(|of| REFUSED.contains(of));
        if let Some(format) = refused {
            let message = format!("compressed-tensors in the format `{format}` cannot be unpacked");
            return Err(Error::unsupported(message).in_file(config.file));
        }
    }
    let is_turned = |config: &&Config<'_>| {
        let transforms =
            config.json.get("transform_config").and_then(|of| of.get("config_groups")?.as_object());
        transforms.is_some_and(|of| !of.is_empty())
    };
    if let Some(config) = config.filter(is_turned) {
        let message = "compressed-tensors with a `transform_config` cannot be unpacked: its weights are turned while the model runs";
        return Err(Error::unsupported(message).in_file(config.file));
    }
    let groups = config.map(groups).transpose()?.unwrap_or_default();
    let mut is_any = false;
    for (number, codes, module) in model.ending(".weight_packed") {
        let weight = match codes.dtype {
            DType::I32 => in_words(model, found, (number, module), &groups, config)?,
            DType::U8 | DType::I8 => pairs(model, (number, module))?,
            other => return Err(wrong(model, number, &format!("codes of type {other} are not known"))),
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
        let weight = whole_bytes(model, (number, module), &groups)?;
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
            found.note("no configuration says how weights are packed: the names and shapes of tensors do");
        }
    }
    Ok(())
}

fn wrong(model: &Model<'_>, number: usize, what: &str) -> Error {
    Error::malformed(what).tensor(&model.tensor(number).name)
}

/// What the configuration's groups say.
fn groups(config: &Config<'_>) -> Result<Vec<Group>> {
    let Some(all) = config.json.get("config_groups").and_then(Json::as_object) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (name, of) in all {
        let Some(weights) = of.get("weights").filter(|weights| weights.is_object()) else { continue };
        let number = |key: &str| weights.get(key).and_then(Json::as_u64);
        let key = format!("config_groups.{name}.weights.num_bits");
        let bits = number("num_bits").filter(|bits| (1..=8).contains(bits));
        let bits = bits.ok_or_else(|| config.wrong(&key, "is not from 1 to 8"))?;
        let block = weights.get("block_structure").and_then(Json::as_array).map(|sides| {
            let sides: Vec<u64> = sides.iter().filter_map(Json::as_u64).filter(|side| *side > 0).collect();
            <[u64; 2]>::try_from(sides)
        });
        let key = format!("config_groups.{name}.weights.block_structure");
        let block = block.transpose().map_err(|_| config.wrong(&key, "is not a pair of whole numbers"))?;
        let targets = of.get("targets").and_then(Json::as_array).into_iter().flatten();
        let target = |target: &str| match target.strip_prefix("re:") {
            Some(pattern) => Regex::new(pattern).map(Target::Pattern).map_err(|_| {
                config.wrong(&format!("config_groups.{name}.targets"), "has a pattern that cannot be read")
            }),
            // Classes are written as such: `Linear`.
            None if target.starts_with(char::is_uppercase) => Ok(Target::Class),
            None => Ok(Target::Name(target.to_owned())),
        };
        found.push(Group {
            targets: targets.filter_map(Json::as_str).map(target).collect::<Result<_>>()?,
            bits,
            size: number("group_size"),
            block: block.map(|[rows, columns]| (rows, columns)),
            symmetric: weights.get("symmetric").and_then(Json::as_bool).unwrap_or(true),
        });
    }
    Ok(found)
}

/// The group that a module belongs to: by its name before its class.
fn group_of<'g>(groups: &'g [Group], module: &str) -> Option<&'g Group> {
    let named = |group: &&Group| {
        group.targets.iter().any(|target| match target {
            Target::Name(name) => name == module,
            // Patterns are matched from the beginning on.
            Target::Pattern(pattern) => pattern.find(module).is_some_and(|found| found.start() == 0),
            Target::Class => false,
        })
    };
    let by_class = |group: &&Group| group.targets.iter().any(|target| matches!(target, Target::Class));
    groups.iter().find(named).or_else(|| groups.iter().find(by_class))
}

/// A part of a module.
fn part(model: &Model<'_>, module: &str, ending: &str) -> Option<usize> {
    model.find(&format!("{module}.{ending}"))
}

fn needed(model: &Model<'_>, (number, module): (usize, &str), ending: &str) -> Result<usize> {
    part(model, module, ending)
        .ok_or_else(|| wrong(model, number, &format!("`{module}.{ending}` is missing beside it")))
}

/// Codes in words.
fn in_words(
    model: &Model<'_>,
    found: &mut Found,
    (number, module): (usize, &str),
    groups: &[Group],
    config: Option<&Config<'_>>,
) -> Result<Option<PackedTensor>> {
    let (stacked, rows, words) = matrices(model.tensor(number))?;
    if stacked != 1 {
        return Err(wrong(model, number, "stacked matrices of packed integers are not known"));
    }
    let at = needed(model, (number, module), "weight_scale")?;
    let shape_at = needed(model, (number, module), "weight_shape")?;
    let Some(bytes) = found.contents(model, shape_at) else { return Ok(None) };
    let size = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let row_len = match (model.tensor(shape_at).dtype, bytes.as_chunks::<8>().0) {
        (DType::I64, [of_rows, columns]) if size(of_rows) == rows => size(columns),
        _ => {
            return Err(wrong(
                model,
                shape_at,
                "it is not the shape of a matrix with as many rows as its codes",
            ));
        }
    };
    let group = group_of(groups, module);
    let bits = match group {
        Some(group) => group.bits,
        None if config.is_some() => {
            return Err(wrong(model, number, "no group of the configuration is about it"));
        }
        // Without it: the bits that make so many words.
        None => (1..=8).find(|bits| (row_len * bits).div_ceil(32) == words).unwrap_or(4),
    };
    let too_long = || wrong(model, shape_at, "it is too long a row");
    let dense = row_len.checked_mul(bits).ok_or_else(too_long)?.div_ceil(32);
    let codes = match words {
        _ if words == dense => Codes::Rows,
        _ if words == row_len.div_ceil(32 / bits) => Codes::PaddedRows,
        _ => {
            let message =
                format!("its rows have {words} words, and {row_len} codes of {bits} bits need {dense}");
            return Err(wrong(model, number, &message));
        }
    };
    let scales = model.tensor(at);
    let (_, of_rows, n_groups) = matrices(scales)?;
    let size = group
        .and_then(|group| group.size)
        .filter(|size| *size > 0)
        .unwrap_or(row_len.div_ceil(n_groups.max(1)));
    if of_rows != rows || row_len.div_ceil(size) != n_groups {
        let message =
            format!("its shape {:?} does not fit {rows} rows of {row_len} in groups of {size}", scales.shape);
        return Err(wrong(model, at, &message));
    }
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    let zeros = match part(model, module, "weight_zero_point") {
        Some(zeros) if model.tensor(zeros).dtype == DType::I32 => {
            if model.tensor(zeros).shape != [(rows * bits).div_ceil(32), n_groups] {
                return Err(wrong(model, zeros, "its shape does not fit the scales"));
            }
            parts.push((zeros, "zero points".to_owned()));
            Zeros::Down
        }
        Some(zeros) => {
            return Err(wrong(model, zeros, "zero points that are not packed in words are not known"));
        }
        None if group.is_some_and(|group| !group.symmetric) => {
            return Err(wrong(model, number, "its zero points are missing: `weight_zero_point`"));
        }
        None => Zeros::All(1 << (bits - 1)),
    };
    let index = part(model, module, "weight_g_idx");
    if let Some(index) = index {
        if model.tensor(index).shape != [row_len] || model.tensor(index).dtype != DType::I32 {
            return Err(wrong(model, index, "it is not the group of each column"));
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
        rows,
        row_len,
    };
    let order = if index.is_some() { ", activation order" } else { "" };
    Ok(Some(PackedTensor {
        name: format!("{module}.weight"),
        shape: vec![rows, row_len],
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("compressed-tensors, {bits} bits, groups of {size}{order}"),
        exact: grid.exact(),
        panel: grid.panel(),
        rows: grid.packed(),
        parts,
    }))
}

/// Pairs of E2M1: NVFP4, or MXFP4.
fn pairs(model: &Model<'_>, (number, module): (usize, &str)) -> Result<Option<PackedTensor>> {
    let (stacked, rows, half) = matrices(model.tensor(number))?;
    let row_len = half.saturating_mul(2);
    let at = needed(model, (number, module), "weight_scale")?;
    let scales = model.tensor(at);
    let columns = scales.shape.last().copied().unwrap_or(0);
    let is_fp = [DType::F8_E4M3, DType::F8_E8M0, DType::U8].contains(&scales.dtype);
    let width = row_len.checked_div(columns).unwrap_or(0);
    if !is_fp
        || ![16, 32].contains(&width)
        || width * columns != row_len
        || matrices(scales)? != (stacked, rows, columns)
    {
        let message = format!(
            "its type {} and shape {:?} fit no scales of 16 or 32 columns",
            scales.dtype, scales.shape
        );
        return Err(wrong(model, at, &message));
    }
    // Bytes are exponents for 32 columns; for 16 they would be floats of another kind.
    if scales.dtype != DType::F8_E4M3 && width != 32 {
        let message = format!("scales of type {} for {width} columns are not known", scales.dtype);
        return Err(Error::unsupported(message).tensor(&scales.name));
    }
    let of = if scales.dtype == DType::F8_E4M3 { DType::F8_E4M3 } else { DType::F8_E8M0 };
    let mut grid = Grid::new(DType::F4_E2M1, of, (1, width), (rows, stacked * rows, row_len));
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    if let Some(global) = part(model, module, "weight_global_scale") {
        let tensor = model.tensor(global);
        if tensor.shape.iter().product::<u64>() != 1 {
            return Err(wrong(model, global, "it is not one scale"));
        }
        grid.global = (Global::Over, tensor.dtype);
        parts.push((global, "global scale".to_owned()));
    } else if of == DType::F8_E4M3 {
        return Err(wrong(model, number, &format!("`{module}.weight_global_scale` is missing beside it")));
    }
    let mut shape = model.tensor(number).shape.clone();
    shape.pop();
    shape.push(row_len);
    let what = if of == DType::F8_E4M3 { "NVFP4" } else { "MXFP4" };
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

/// Codes of a byte each.
fn whole_bytes(model: &Model<'_>, (number, module): (usize, &str), groups: &[Group]) -> Result<PackedTensor> {
    let codes = model.tensor(number);
    let (stacked, rows, row_len) = matrices(codes)?;
    let at = needed(model, (number, module), "weight_scale")?;
    let scales = model.tensor(at);
    let group = group_of(groups, module);
    let of = if scales.dtype == DType::U8 { DType::F8_E8M0 } else { scales.dtype };
    let by_group = || {
        let columns = *scales.shape.last()?;
        let size = group.and_then(|group| group.size).unwrap_or(row_len.checked_div(columns)?);
        let is_right = matrices(scales).ok()? == (stacked, rows, row_len.div_ceil(size.max(1)));
        is_right.then_some((1, size))
    };
    let blocks = group.and_then(|group| group.block);
    let of_scale =
        by_group().or_else(|| boxes(scales, (stacked, rows, row_len), blocks)).ok_or_else(|| {
            let message =
                format!("its shape {:?} does not fit that of the codes, {:?}", scales.shape, codes.shape);
            wrong(model, at, &message)
        })?;
    let mut grid = Grid::new(codes.dtype, of, of_scale, (rows, stacked * rows, row_len));
    if of_scale == (stacked * rows, row_len) {
        grid.matrix_rows = stacked * rows;
    }
    let mut parts = vec![(number, "codes".to_owned()), (at, "scales".to_owned())];
    if let Some(zeros) = part(model, module, "weight_zero_point") {
        let tensor = model.tensor(zeros);
        if tensor.shape != scales.shape || !(tensor.dtype == DType::I8 || tensor.dtype == codes.dtype) {
            return Err(wrong(model, zeros, "its type or shape does not fit the scales"));
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
    Ok(PackedTensor {
        name: codes.name.clone(),
        shape: codes.shape.clone(),
        strides: Vec::new(),
        dtype: model.dtype(scales.dtype),
        about: format!("compressed-tensors, {}, {what}", codes.dtype),
        exact: grid.exact(),
        rows: grid.packed(),
        parts,
        panel: 1,
    })
}
