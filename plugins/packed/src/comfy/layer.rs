//! A layer whose format is stated: its codes and scales must be those of that format.

use crate::model::{Found, Model, matrices};
use crate::scaled::{Arranged, Global, Grid, tile_sides, tiled};
use apr_sdk::{DType, Error, PackedTensor, Result, StoredTensor};
use serde_json::Value as Json;

/// A layer.
pub(super) struct Layer<'a> {
    pub model: &'a Model<'a>,
    /// Its name.
    pub name: &'a str,
    /// The tensor of its codes.
    pub number: usize,
    pub codes: &'a StoredTensor,
    /// What is stated.
    pub said: &'a Json,
}

/// A format that is known.
struct Format {
    name: &'static str,
    /// The type of the codes.
    codes: DType,
    /// The type of scales in tiles, and how many columns share one.
    tiles: Option<(DType, u64)>,
}

const FORMATS: [Format; 5] = [
    Format { name: "float8_e4m3fn", codes: DType::F8_E4M3, tiles: None },
    Format { name: "float8_e5m2", codes: DType::F8_E5M2, tiles: None },
    Format { name: "int8_tensorwise", codes: DType::I8, tiles: None },
    Format { name: "mxfp8", codes: DType::F8_E4M3, tiles: Some((DType::F8_E8M0, 32)) },
    Format { name: "nvfp4", codes: DType::U8, tiles: Some((DType::F8_E4M3, 16)) },
];

/// Types of scales that are numbers.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Members that say that columns are turned while the model runs.
const TURNED: [&str; 2] = ["/convrot", "/params/convrot"];

/// Members that state how many columns share a scale.
const GROUPS: [&str; 2] = ["/group_size", "/params/group_size"];

impl Layer<'_> {
    /// Adds the layer's weight.
    ///
    /// # Errors
    /// Unsupported for formats that are not known; Malformed for parts that do not fit the format.
    pub fn add_to(&self, found: &mut Found) -> Result<()> {
        let name = self.said.get("format").and_then(Json::as_str).ok_or_else(|| {
            Error::malformed(format!("its packing states no `format`: {}", self.said))
                .tensor(&self.codes.name)
        })?;
        let format = FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let message =
                format!("ComfyUI format `{name}` is not supported: expected one of {}", known.join(", "));
            Error::unsupported(message).tensor(&self.codes.name)
        })?;
        let is_turned = |key: &&str| self.said.pointer(key).and_then(Json::as_bool).unwrap_or(false);
        if TURNED.iter().any(is_turned) {
            let message = format!("ComfyUI format `{name}` with `convrot` cannot be unpacked");
            return Err(Error::unsupported(message).tensor(&self.codes.name));
        }
        if self.codes.dtype != format.codes {
            let message = format!(
                "its format is stated as `{name}`, with codes of type {}, but its type is {}",
                format.codes, self.codes.dtype
            );
            return Err(Error::malformed(message).tensor(&self.codes.name));
        }
        self.check_bias()?;
        match format.tiles {
            None => found.add(self.model, self.plain(format)?),
            Some((scales, group)) => {
                let weight = self.in_tiles(format, scales, group)?;
                let input = self.beside("input_scale").map(|number| (number, false));
                found.add_factored(self.model, weight, input)
            }
        }
    }

    fn beside(&self, part: &str) -> Option<usize> {
        self.model.find(&format!("{}.{part}", self.name))
    }

    fn needed(&self, part: &str) -> Result<(usize, &StoredTensor)> {
        let at = self.beside(part).ok_or_else(|| {
            let message = format!("its scales are missing: expected `{}.{part}`", self.name);
            Error::malformed(message).tensor(&self.codes.name)
        })?;
        Ok((at, self.model.tensor(at)))
    }

    fn misfit(&self, part: &StoredTensor) -> Error {
        let Layer { codes, said, .. } = self;
        let message = format!(
            "it is {:?} of {}, which does not match {:?} of {}, the type of `{}` ({said})",
            part.shape, part.dtype, codes.shape, codes.dtype, codes.name
        );
        Error::malformed(message).tensor(&part.name)
    }

    /// Rows that fill the weight up are no rows of it: a bias is as long as the weight is high.
    fn check_bias(&self) -> Result<()> {
        let Some(bias) = self.beside("bias").map(|at| self.model.tensor(at)) else { return Ok(()) };
        match (&bias.shape[..], self.codes.shape.first()) {
            ([own], Some(rows)) if own < rows => {
                let message = format!(
                    "its codes have {rows} rows, padded from the {own} of `{}`: padded weights cannot be \
                     unpacked",
                    bias.name
                );
                Err(Error::unsupported(message).tensor(&self.codes.name))
            }
            _ => Ok(()),
        }
    }

    /// Codes with one scale, or one for each row.
    fn plain(&self, format: &Format) -> Result<PackedTensor> {
        let (at, scales) = self.needed("weight_scale")?;
        let (row_len, lead) = self.codes.shape.split_last().ok_or_else(|| self.misfit(scales))?;
        let rows = lead.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        let rows = rows
            .filter(|rows| rows.checked_mul((*row_len).max(1)).is_some_and(|n| n.checked_mul(8).is_some()));
        let (rows, row_len) = (rows.ok_or_else(|| self.misfit(scales))?, *row_len);
        let is_one = scales.shape.iter().all(|size| *size == 1);
        let of_scale = match scales.shape[..] {
            _ if is_one => (rows, row_len),
            [down, 1] if self.codes.shape.len() == 2 && down == rows => (1, row_len),
            _ => return Err(self.misfit(scales)),
        };
        if !FLOATS.contains(&scales.dtype) {
            return Err(self.misfit(scales));
        }
        let grid = Grid::new(format.codes, scales.dtype, of_scale, (rows, rows, row_len));
        let of = if is_one { "one scale" } else { "a scale for each row" };
        let parts = vec![(self.number, "codes".to_owned()), (at, "scales".to_owned())];
        Ok(self.weight(&grid, self.codes.shape.clone(), format!("{}, {of}", format.name), parts))
    }

    /// Codes with scales in tiles.
    fn in_tiles(&self, format: &Format, of_scales: DType, group: u64) -> Result<PackedTensor> {
        let (at, scales) = self.needed("weight_scale")?;
        let (stacked, rows, stored) = matrices(self.codes)?;
        let is_pairs = format.codes == DType::U8;
        let row_len = if is_pairs { stored.saturating_mul(2) } else { stored };
        let columns = row_len / group;
        let n = scales.shape.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        let is_shape = scales.shape.len() == 1 || scales.shape == tile_sides(rows, columns);
        let is_type = [of_scales, DType::U8].contains(&scales.dtype);
        if stacked != 1
            || self.codes.shape.len() != 2
            || !row_len.is_multiple_of(group)
            || n != Some(tiled(rows, columns))
            || !is_shape
            || !is_type
        {
            return Err(self.misfit(scales));
        }
        let stated = GROUPS.iter().find_map(|key| self.said.pointer(key)).filter(|size| !size.is_null());
        if let Some(size) = stated.filter(|size| size.as_u64() != Some(group)) {
            let message = format!("its scales are for groups of {group}, but `group_size` is {size}");
            return Err(Error::malformed(message).tensor(&self.codes.name));
        }
        let kind = if is_pairs { DType::F4_E2M1 } else { format.codes };
        let mut grid = Grid::new(kind, of_scales, (1, group), (rows, rows, row_len));
        grid.arranged = if is_pairs { Arranged::UpperFirst } else { Arranged::Tiles };
        let mut parts = vec![(self.number, "codes".to_owned()), (at, "scales".to_owned())];
        if is_pairs {
            let (second, tensor) = self.needed("weight_scale_2")?;
            if tensor.shape.iter().any(|size| *size != 1) || !FLOATS.contains(&tensor.dtype) {
                return Err(self.misfit(tensor));
            }
            grid.global = (Global::Times, tensor.dtype);
            parts.push((second, "scale of scales".to_owned()));
        }
        if let Some(factors) = self.beside("pre_quant_scale").filter(|_| is_pairs) {
            let tensor = self.model.tensor(factors);
            if tensor.shape != [row_len] || !FLOATS.contains(&tensor.dtype) {
                return Err(self.misfit(tensor));
            }
            grid.columns = Some(tensor.dtype);
            parts.push((factors, "factors of columns".to_owned()));
        }
        Ok(self.weight(&grid, vec![rows, row_len], format!("{}, groups of {group}", format.name), parts))
    }

    fn weight(
        &self,
        grid: &Grid,
        shape: Vec<u64>,
        what: String,
        parts: Vec<(usize, String)>,
    ) -> PackedTensor {
        PackedTensor {
            name: self.codes.name.clone(),
            shape,
            strides: Vec::new(),
            dtype: self.model.dtype(DType::BF16),
            about: format!("ComfyUI {what}"),
            exact: grid.exact(),
            rows: grid.packed(),
            parts,
            panel: grid.panel(),
        }
    }
}
