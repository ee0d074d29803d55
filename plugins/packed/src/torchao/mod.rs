//! torchao in SafeTensors: a weight `M.weight` is `M._weight_qdata`, `M._weight_scale` and more.
//!
//! | class | `qdata` | `scale`, `zero_point` | value |
//! | --- | --- | --- | --- |
//! | Int8Tensor, IntxUnpackedToInt8Tensor | I8 [out, in] | [out / r, in / c] | (code - zero) * scale |
//! | Float8Tensor | FP8 [out, in] | likewise; none | code * scale |
//! | Int4Tensor | I8 or U8 [out, in / 2], signed, the lower bits first | floats [in / g, out]: transposed | code * scale + zero |
//! | MXTensor | FP8, or U8 pairs of E2M1 | E8M0 [out, in / 32]; none | code * 2^(scale - 127) |
//! | NVFP4Tensor | U8 pairs of E2M1 | E4M3 [out, in / 16], `per_tensor_scale`: one, or one for each expert | code * (scale * per tensor) |
//!
//! The class is in the metadata of the file, with the names of the parts and how they are arranged (`stated.rs`): what is there
//! must agree. Where a copy lacks it, types and shapes tell, and the configuration where they do not. Scales of the last two may be
//! arranged for a kernel, in tiles of 128 by 4 (`is_swizzled_scales`): their shape is then [32 * tiles of rows, 16 * tiles of
//! columns], which is never the other one. `act_pre_scale` multiplies activations, and so columns.
//!
//! Sources: `prototype/safetensors/`, `prototype/mx_formats/` and `quantization/quantize_/workflows/` of torchao 0.18;
//! `quantize/shuffle.py` of fbgemm-gpu.

mod stated;

use crate::affine::Groups;
use crate::model::{Config, Found, Model, matrices};
use crate::numbers::of_bytes;
use crate::scaled::{Arranged, Global, Grid, tiled};
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};
use stated::{Class, Stated};

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "torchao", states: States::Config(is_ours), understand };

/// Types of scales.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// What the codes of floats of 8 bits may be.
const FP8: [DType; 4] = [DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ];

/// Endings of the parts that values depend on, beside the codes.
const PARTS: [&str; 4] = ["scale", "zero_point", "per_tensor_scale", "act_pre_scale"];

/// Endings of scales of activations.
const UNUSED: [&str; 3] = ["act_quant_scale", "act_quant_zero_point", "act_per_tensor_scale"];

/// Parts of classes whose codes are arranged for a kernel.
const ARRANGED: [&str; 4] = ["scale_and_zero", "group_scale", "group_zero", "row_scale"];

/// Words of the classes and functions whose weights are known, in small letters.
const KNOWN: [&str; 6] = ["int8", "int4", "intx", "float8", "mx", "nvfp4"];

/// Fails for a way to pack that the configuration names, where it is none that is known.
fn check_type(model: &Model<'_>, config: &Config<'_>) -> Result<()> {
    let Some((number, ..)) = model.ending("_qdata").next() else { return Ok(()) };
    let Some(said) = config.json.get("quant_type").map(|said| said.to_string().to_lowercase()) else {
        return Ok(());
    };
    if KNOWN.iter().any(|known| said.contains(known)) {
        return Ok(());
    }
    let said: String = said.chars().take(80).collect();
    let message = format!("torchao's `quant_type` {} is not supported", said.escape_debug());
    Err(Error::unsupported(message).tensor(&model.tensor(number).name))
}

fn is_ours(config: &Config<'_>) -> bool {
    config.is_method(&["torchao"])
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let config = model.config(&["torchao"]);
    let stated = stated::all(model)?;
    let endings: Vec<&str> = ["qdata"].iter().chain(&PARTS).chain(&UNUSED).copied().collect();
    stated::check_parts(model, &stated, &endings, found)?;
    let said = config.map(|config| config.json.to_string()).unwrap_or_default();
    if let Some(config) = config.filter(|_| stated.is_empty()) {
        check_type(model, config)?;
    }
    let says = |what: &str| said.contains(what);
    let says_four = says("\"Int4") || says("\"Float8DynamicActivationInt4Weight");
    let (says_eight, says_intx) = (says("\"Int8"), says("\"Intx"));
    for (number, codes, base) in model.ending("_qdata") {
        let Some((module, weight)) = base.rsplit_once("._").or_else(|| Some(("", base.strip_prefix('_')?)))
        else {
            continue;
        };
        if !found.is_free(number) {
            continue;
        }
        let name = if module.is_empty() { weight.to_owned() } else { format!("{module}.{weight}") };
        let find = |ending: &str| model.find(&format!("{base}_{ending}"));
        if let Some(part) = ARRANGED.iter().find_map(|ending| find(ending)) {
            let message = "torchao codes arranged for a kernel are not supported";
            return Err(Error::unsupported(message).tensor(&model.tensor(part).name));
        }
        let missing = || Error::malformed("its scales are missing: expected `_scale`").tensor(&codes.name);
        let at = find("scale").ok_or_else(missing)?;
        let parts = Parts {
            model,
            number,
            codes,
            at,
            scales: model.tensor(at),
            zeros: find("zero_point"),
            global: find("per_tensor_scale"),
            columns: find("act_pre_scale"),
            stated: stated.get(&name),
            name,
        };
        // The weight's own description comes before what the configuration says of all.
        let class = parts.stated.map(|stated| stated.class);
        let is_int4 = match class {
            Some(class) => Some(class == Class::Int4),
            None => (says_four != (says_eight || says_intx)).then_some(says_four),
        };
        let is_intx = class.map_or(says_intx, |class| class == Class::Intx);
        if is_intx && codes.dtype == DType::I8 && parts.zeros.is_none() {
            let message = "its zero points are missing: expected `_zero_point`";
            return Err(Error::malformed(message).tensor(&codes.name));
        }
        let is_said = class.is_some() || config.is_some();
        found.add(model, parts.weight(is_int4)?)?;
        for at in UNUSED.iter().filter_map(|ending| find(ending)) {
            found.unused(model, at, "a scale of activations")?;
        }
        if !is_said {
            found.note(
                "no configuration states the packing scheme: torchao is assumed from the names of \
                 codes and scales",
            );
        }
        if class.is_none() && !stated.is_empty() {
            found.note(
                "the files' metadata describes only some torchao weights: the others are identified \
                 by types and shapes",
            );
        }
    }
    if config.is_some() || !stated.is_empty() {
        let endings = PARTS.map(|ending| format!("._weight_{ending}"));
        found.lost(model, &endings.each_ref().map(String::as_str), "._weight_qdata")?;
    }
    Ok(())
}

/// The parts of a weight.
struct Parts<'a> {
    model: &'a Model<'a>,
    name: String,
    number: usize,
    codes: &'a StoredTensor,
    at: usize,
    scales: &'a StoredTensor,
    zeros: Option<usize>,
    global: Option<usize>,
    columns: Option<usize>,
    stated: Option<&'a Stated>,
}

impl Parts<'_> {
    fn misfit(&self) -> Error {
        let (scales, codes) = (self.scales, self.codes);
        let message = format!(
            "its shape {:?} and type {} do not match {:?} of {}, the type of `{}`",
            scales.shape, scales.dtype, codes.shape, codes.dtype, codes.name
        );
        Error::malformed(message).tensor(&scales.name)
    }

    fn packed(&self, shape: Vec<u64>, about: String) -> PackedTensor {
        PackedTensor {
            name: self.name.clone(),
            shape,
            strides: Vec::new(),
            dtype: self
                .stated
                .and_then(Stated::original)
                .unwrap_or_else(|| self.model.dtype(self.scales.dtype)),
            about: format!("torchao {about}"),
            rows: apr_sdk::PackedRows::default(),
            parts: vec![(self.number, "codes".to_owned()), (self.at, "scales".to_owned())],
            panel: 1,
            exact: Vec::new(),
        }
    }

    /// The weight. `is_int4` is what its description says, or the configuration.
    fn weight(&self, is_int4: Option<bool>) -> Result<PackedTensor> {
        let (codes, scales) = (self.codes.dtype, self.scales.dtype);
        if let Some(stated) = self.stated {
            stated.check_types(codes, scales)?;
            if stated.class == Class::Int4 {
                return self.int4();
            }
        }
        let is_bytes = codes == DType::I8 || codes == DType::U8;
        if is_bytes && FLOATS.contains(&scales) && is_int4 != Some(false) && self.is_transposed() {
            let is_square = self.scales.shape.first() == self.scales.shape.last();
            if is_int4.is_some() || !is_square {
                return self.int4();
            }
            return match (self.int4(), self.grid(DType::I8)) {
                (Ok(_), Ok(_)) => {
                    let message = "it could be an Int4Tensor or an Int8Tensor, and its class is not stated";
                    let hint = "download the model again with its configuration: torchao describes each weight in the file's metadata";
                    Err(Error::unsupported(message).tensor(&self.codes.name).hint(hint))
                }
                (Ok(int4), Err(_)) => Ok(int4),
                (Err(_), int8) => int8,
            };
        }
        match (codes, scales) {
            (DType::U8, DType::F8_E8M0 | DType::F8_E4M3) => self.grid(DType::F4_E2M1),
            (DType::I8, scales) if FLOATS.contains(&scales) => self.grid(DType::I8),
            (codes, scales)
                if FP8.contains(&codes) && (FLOATS.contains(&scales) || scales == DType::F8_E8M0) =>
            {
                self.grid(codes)
            }
            _ => {
                let message =
                    format!("codes of {codes} with scales of {scales} are not supported for torchao");
                Err(Error::unsupported(message).tensor(&self.codes.name))
            }
        }
    }

    /// Whether scales have a column for each row of the codes: those of int4 are transposed.
    fn is_transposed(&self) -> bool {
        let zeros = self.zeros.map(|at| self.model.tensor(at).dtype);
        let is_float = zeros.is_none_or(|dtype| FLOATS.contains(&dtype));
        match (&self.codes.shape[..], &self.scales.shape[..]) {
            ([out, _], [_, columns]) => is_float && columns == out,
            _ => false,
        }
    }

    /// Whether scales lie in tiles, which run on from one matrix to the next.
    fn is_tiled(&self, (stacked, out, row_len): (u64, u64, u64), group: u64) -> bool {
        let columns = row_len / group;
        let tile = [out.div_ceil(128) * 32, columns.div_ceil(4) * 16];
        let is_shape = match self.scales.shape[..] {
            [of, down, across] => self.codes.shape.len() == 3 && of == stacked && [down, across] == tile,
            [down, across] => self.codes.shape.len() == 2 && [down, across] == tile,
            _ => false,
        };
        let all = tiled(stacked * out, columns);
        is_shape
            && row_len.is_multiple_of(group)
            && tile[0].checked_mul(tile[1]).and_then(|one| one.checked_mul(stacked)) == Some(all)
    }

    /// Codes with a grid of scales over them.
    fn grid(&self, codes: DType) -> Result<PackedTensor> {
        let is_pairs = codes == DType::F4_E2M1;
        let (stacked, out, stored) = matrices(self.codes)?;
        let row_len = if is_pairs { stored.checked_mul(2).ok_or_else(|| self.misfit())? } else { stored };
        let micro = match self.scales.dtype {
            DType::F8_E8M0 => Some(32),
            DType::F8_E4M3 => Some(16),
            _ => None,
        };
        let is_tiled = micro.is_some_and(|group| self.is_tiled((stacked, out, row_len), group));
        let of_scale = match (micro, is_tiled) {
            (Some(group), true) => Some((1, group)),
            _ => boxes(self.scales, (stacked, out, row_len)),
        };
        let is_right = |of: &(u64, u64)| micro.is_none_or(|group| *of == (1, group));
        let of_scale = of_scale.filter(is_right).ok_or_else(|| self.misfit())?;
        if let Some(stated) = self.stated {
            stated.check_scales(of_scale, is_tiled)?;
        }
        let mut grid = Grid::new(codes, self.scales.dtype, of_scale, (out, stacked * out, row_len));
        if is_tiled {
            grid.arranged = Arranged::Tiles;
        }
        let mut shape = self.codes.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = row_len;
        }
        let (rows, columns) = of_scale;
        let of = match of_scale {
            (1, columns) if columns >= row_len => "a scale for each row".to_owned(),
            (rows, columns) if rows >= out && columns >= row_len => "one scale".to_owned(),
            _ => format!("scales of {rows} by {columns}"),
        };
        let tiles = if is_tiled { ", in tiles" } else { "" };
        let mut packed = self.packed(shape, format!("{codes}, {of}{tiles}"));
        packed.panel = grid.panel();
        if let Some(zeros) = self.zeros {
            let tensor = self.model.tensor(zeros);
            let is_number = FLOATS.contains(&tensor.dtype) || [DType::I8, DType::U8].contains(&tensor.dtype);
            let fits = is_number && tensor.shape == self.scales.shape && of_bytes(codes).is_some();
            if !fits {
                let message =
                    format!("it is {:?} of {}, which does not match its scales", tensor.shape, tensor.dtype);
                return Err(Error::malformed(message).tensor(&tensor.name));
            }
            grid.zeros = Some(tensor.dtype);
            packed.parts.push((zeros, "zero points".to_owned()));
        }
        if let Some(global) = self.global {
            let tensor = self.model.tensor(global);
            let n = tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            let n = n.filter(|n| (*n == 1 || *n == stacked) && FLOATS.contains(&tensor.dtype)).ok_or_else(
                || {
                    let message = format!("it is {:?} of {}, expected one float", tensor.shape, tensor.dtype);
                    Error::malformed(message).tensor(&tensor.name)
                },
            )?;
            (grid.global, grid.globals) = ((Global::Times, tensor.dtype), n);
            packed.parts.push((global, "scale of scales".to_owned()));
        }
        if let Some(columns) = self.columns {
            let tensor = self.model.tensor(columns);
            let n = tensor.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
            if n != Some(row_len) || !FLOATS.contains(&tensor.dtype) {
                let message =
                    format!("it is {:?} of {}, expected {row_len} floats", tensor.shape, tensor.dtype);
                return Err(Error::malformed(message).tensor(&tensor.name));
            }
            grid.columns = Some(tensor.dtype);
            packed.parts.push((columns, "factors of columns".to_owned()));
        }
        (packed.rows, packed.exact) = (grid.packed(), grid.exact());
        Ok(packed)
    }

    /// Integers of four bits in pairs.
    fn int4(&self) -> Result<PackedTensor> {
        let ([out, half], [groups, columns]) = (&self.codes.shape[..], &self.scales.shape[..]) else {
            let message = "torchao int4 is only supported for single matrices";
            return Err(Error::unsupported(message).tensor(&self.codes.name));
        };
        if let Some(columns) = self.columns {
            let message = "torchao int4 with activation factors is not supported";
            return Err(Error::unsupported(message).tensor(&self.model.tensor(columns).name));
        }
        let row_len =
            half.checked_mul(2).filter(|len| len.checked_mul(*out).is_some()).ok_or_else(|| self.misfit())?;
        let fits = columns == out && *groups > 0 && row_len.is_multiple_of(*groups);
        let group = if fits { row_len / groups } else { 0 };
        if group == 0 || !group.is_multiple_of(8) {
            return Err(self.misfit());
        }
        let missing = || {
            Error::malformed("its zero points are missing: expected `_zero_point`").tensor(&self.codes.name)
        };
        let zeros = self.zeros.ok_or_else(missing)?;
        let tensor = self.model.tensor(zeros);
        if tensor.shape != self.scales.shape || !FLOATS.contains(&tensor.dtype) {
            let message =
                format!("it is {:?} of {}, which does not match its scales", tensor.shape, tensor.dtype);
            return Err(Error::malformed(message).tensor(&tensor.name));
        }
        let scales = (self.scales.dtype, tensor.dtype);
        let (is_signed, is_transposed, is_interleaved, rows) = (true, true, false, *out);
        let layout = Groups {
            bits: 4,
            unit: 1,
            group,
            scales,
            is_signed,
            is_transposed,
            is_interleaved,
            rows,
            row_len,
        };
        let mut packed = self.packed(vec![*out, row_len], format!("int4, groups of {group}"));
        if let Some(stated) = self.stated {
            stated.check_scales((1, group), false)?;
            stated.check_shape(&packed)?;
        }
        packed.parts.push((zeros, "zero points".to_owned()));
        (packed.rows, packed.exact) = (layout.packed(), layout.exact());
        Ok(packed)
    }
}

/// The rows and columns that share a scale: scales cut each dimension into equal pieces; or there is one.
fn boxes(scales: &StoredTensor, (stacked, rows, columns): (u64, u64, u64)) -> Option<(u64, u64)> {
    let (down, across) = match scales.shape[..] {
        [] => return (stacked == 1).then_some((rows, columns)),
        [1] if stacked == 1 => (1, 1),
        [n] if n == rows && stacked == 1 => (n, 1),
        [down, across] if stacked == 1 => (down, across),
        [of, down, across] if of == stacked => (down, across),
        _ => return None,
    };
    let fits = down > 0 && across > 0 && rows.is_multiple_of(down) && columns.is_multiple_of(across);
    let (of_rows, of_columns) = (rows.checked_div(down)?, columns.checked_div(across)?);
    // Other pieces do not occur: such scales belong to another shape.
    let is_usual =
        (of_rows == 1 || of_rows == rows || of_rows >= 16) && (of_columns == columns || of_columns >= 8);
    (fits && is_usual).then_some((of_rows, of_columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::StoredModel;

    /// The ending of a name, the type, and the shape.
    type Part<'a> = (&'a str, DType, &'a [u64]);

    fn understood(parts: &[Part<'_>]) -> Result<Vec<PackedTensor>> {
        let tensor = |(name, dtype, shape): &Part<'_>| StoredTensor {
            name: format!("a.b._weight_{name}"),
            dtype: *dtype,
            shape: shape.to_vec(),
        };
        let mut stored = StoredModel::default();
        stored.tensors = parts.iter().map(tensor).collect();
        let model = Model::new(&stored)?;
        let mut found = Found::new(&model);
        understand(&model, &mut found)?;
        Ok(found.finish().packed)
    }

    #[test]
    fn classes_are_told_by_types_and_shapes() {
        let cases: [(&[Part<'_>], &str); 6] = [
            (
                &[
                    ("qdata", DType::I8, &[6, 64]),
                    ("scale", DType::F32, &[6, 1]),
                    ("zero_point", DType::I8, &[6, 1]),
                ],
                "torchao I8, a scale for each row [6, 64]",
            ),
            (
                &[
                    ("qdata", DType::I8, &[6, 64]),
                    ("scale", DType::BF16, &[6, 2]),
                    ("zero_point", DType::BF16, &[6, 2]),
                ],
                "torchao I8, scales of 1 by 32 [6, 64]",
            ),
            (
                &[("qdata", DType::F8_E4M3, &[6, 64]), ("scale", DType::F32, &[1, 1])],
                "torchao F8_E4M3, one scale [6, 64]",
            ),
            (
                &[
                    ("qdata", DType::I8, &[6, 32]),
                    ("scale", DType::BF16, &[2, 6]),
                    ("zero_point", DType::BF16, &[2, 6]),
                ],
                "torchao int4, groups of 32 [6, 64]",
            ),
            (
                &[("qdata", DType::U8, &[6, 32]), ("scale", DType::F8_E8M0, &[6, 2])],
                "torchao F4_E2M1, scales of 1 by 32 [6, 64]",
            ),
            (
                &[
                    ("qdata", DType::U8, &[6, 32]),
                    ("scale", DType::F8_E4M3, &[6, 4]),
                    ("per_tensor_scale", DType::F32, &[]),
                ],
                "torchao F4_E2M1, scales of 1 by 16 [6, 64]",
            ),
        ];
        for (parts, want) in cases {
            let found = understood(parts).map(|found| {
                found
                    .iter()
                    .map(|weight| format!("{} {:?} {}", weight.about, weight.shape, weight.name))
                    .collect::<Vec<_>>()
            });
            assert_eq!(found.ok(), Some(vec![format!("{want} a.b.weight")]), "{parts:?}");
        }
    }

    #[test]
    fn what_fits_two_classes_is_refused() {
        let square = |dtype, zeros: &'static [u64]| {
            understood(&[
                ("qdata", DType::I8, &[8, 128]),
                ("scale", DType::BF16, &[8, 8]),
                ("zero_point", dtype, zeros),
            ])
        };
        let error = square(DType::BF16, &[8, 8]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("Int4Tensor or an Int8Tensor"), "{error}");
        // Zero points of an Int4Tensor are floats.
        let about = square(DType::I8, &[8, 8]).map(|found| found[0].about.clone());
        assert_eq!(about.ok().as_deref(), Some("torchao I8, scales of 1 by 16"));
    }

    #[test]
    fn what_is_arranged_for_a_kernel_is_told_by_its_shape_or_refused() {
        let of = |shape: &[u64]| {
            let found =
                understood(&[("qdata", DType::U8, &[128, 32]), ("scale", DType::F8_E4M3, shape)]).ok()?;
            Some(found.first()?.about.clone())
        };
        assert_eq!(of(&[128, 4]).as_deref(), Some("torchao F4_E2M1, scales of 1 by 16"));
        assert_eq!(of(&[32, 16]).as_deref(), Some("torchao F4_E2M1, scales of 1 by 16, in tiles"));
        assert_eq!((of(&[512]), of(&[64, 16])), (None, None));
        assert!(
            understood(&[("qdata", DType::I32, &[1, 1, 32, 4]), ("scale_and_zero", DType::BF16, &[1, 8, 2])])
                .is_err()
        );
    }
}
