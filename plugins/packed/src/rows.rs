//! Rows of integers with a scale each: what `--quantize int8` and `--quantize int4` write.
//!
//! ```text
//! NAME         I8 or I4 [.., rows, row_len]   codes, those of four bits run on from row to row, the lower first
//! NAME.scale   F32 [.., rows]                 the value of a code of 1
//!
//! value = code * scale
//! ```
//!
//! A model with a recipe is one that apr quantized, and has no other codes of such names. In any other, names and shapes tell, but not
//! of a square matrix: its scales may be those of columns. Source: the engine's `row_codes.rs`, which writes them.

use crate::axes::{Along, Side, Spread};
use crate::model::{Config, Found, Model};
use crate::scheme::{Scheme, States};
use apr_sdk::{DType, Error, PackedTensor, RECIPE, Result, StoredTensor};
use std::collections::HashSet;

/// The scheme.
pub static SCHEME: Scheme = Scheme { name: "rows of integers", states: States::Config(is_ours), understand };

/// The end of the name of the scales.
const SCALES: &str = ".scale";

fn is_ours(config: &Config<'_>) -> bool {
    config.key == RECIPE
}

fn understand(model: &Model<'_>, found: &mut Found) -> Result<()> {
    let is_ours = model.recipe().is_some();
    let is_integer = |one: &StoredTensor| [DType::I8, DType::I4].contains(&one.dtype);
    let integers =
        model.tensors().filter(|(_, one)| is_integer(one)).map(|(_, one)| (one.dtype, &one.shape[..]));
    let integers: HashSet<_> = integers.collect();
    for (at, scales, name) in model.ending(SCALES) {
        let Some(number) = model.find(name) else { continue };
        let codes = model.tensor(number);
        let Some((&row_len, stacked)) = codes.shape.split_last() else { continue };
        let is_one = [DType::I8, DType::I4].contains(&codes.dtype)
            && scales.dtype == DType::F32
            && !stacked.is_empty()
            && scales.shape == stacked;
        // A tensor of codes as long as the scales may be their zero points, which these rows never have.
        // Only a matrix's: of a kernel's scales, which are a matrix, apr's own codes may have the shape.
        let has_zeros = scales.shape.len() == 1 && integers.contains(&(codes.dtype, &scales.shape[..]));
        let is_open = has_zeros || stacked == [row_len];
        if !is_one || is_open && !is_ours || !found.is_free(number) || !found.is_free(at) {
            continue;
        }
        let rows = stacked.iter().try_fold(1u64, |rows, size| rows.checked_mul(*size));
        let rows = rows.filter(|rows| rows.checked_mul(row_len).is_some_and(|n| n.checked_mul(64).is_some()));
        let rows = rows.ok_or_else(|| Error::malformed("its shape is too large").tensor(&codes.name))?;
        let spread = Spread {
            codes: codes.dtype,
            scales: Side::Part(scales.dtype),
            zeros: None,
            along: Along::Blocks(row_len.max(1)),
            len: row_len.max(1),
            inner: 1,
            rows,
            row_len,
            stored: row_len,
            stored_zeros: 0,
        };
        found.add(
            model,
            PackedTensor {
                name: codes.name.clone(),
                shape: codes.shape.clone(),
                strides: Vec::new(),
                dtype: model.dtype(DType::F32),
                about: format!(
                    "{} rows, one scale each",
                    if codes.dtype == DType::I8 { "int8" } else { "int4" }
                ),
                exact: spread.exact(),
                rows: spread.packed(),
                parts: vec![(number, "codes".to_owned()), (at, "scales".to_owned())],
                panel: 1,
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Announced, StoredModel};

    type Shaped = (&'static str, DType, &'static [u64]);

    fn names(tensors: &[Shaped], recipe: Option<&str>) -> Vec<String> {
        let mut stored = StoredModel::default();
        let tensor = |&(name, dtype, shape): &Shaped| StoredTensor {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
        };
        stored.tensors = tensors.iter().map(tensor).collect();
        let of_recipe = |recipe| Announced {
            file: "a.apr".to_owned(),
            key: RECIPE.to_owned(),
            json: format!("{{\"recipe\":\"{recipe}\"}}"),
        };
        stored.announced = recipe.map(of_recipe).into_iter().collect();
        let Ok(model) = Model::new(&stored) else { return Vec::new() };
        let mut found = Found::new(&model);
        found.by(SCHEME.name);
        assert!(understand(&model, &mut found).is_ok());
        found.finish().packed.into_iter().map(|weight| weight.name).collect()
    }

    const MATRIX: [Shaped; 2] = [("m", DType::I8, &[4, 6]), ("m.scale", DType::F32, &[4])];
    const SQUARE: [Shaped; 2] = [("s", DType::I8, &[4, 4]), ("s.scale", DType::F32, &[4])];
    // Its codes have the shape of its scales beside a square matrix.
    const KERNEL: [Shaped; 2] = [("k", DType::I8, &[4, 4, 3]), ("k.scale", DType::F32, &[4, 4])];
    const ZEROS: Shaped = ("zp", DType::I8, &[4]);

    #[test]
    fn codes_as_long_as_scales_are_zero_points_of_a_matrix_alone() {
        assert_eq!(names(&[MATRIX, KERNEL].concat(), None), ["m", "k"]);
        assert_eq!(names(&[&MATRIX[..], &KERNEL[..], &[ZEROS]].concat(), None), ["k"]);
    }

    #[test]
    fn a_square_matrix_has_scales_of_rows_if_apr_quantized_the_model() {
        let all = [MATRIX, SQUARE, KERNEL].concat();
        assert_eq!(names(&all, None), ["m", "k"]);
        assert_eq!(names(&all, Some("int8")), ["m", "s", "k"]);
    }
}
