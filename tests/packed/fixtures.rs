//! Every fixture of `tests/packed`: a folder more is a case more.

use crate::folder::{Folder, expected, fixtures, schemes};
use apr_sdk::{DType, PackedTensor};
use std::path::{Path, PathBuf};

/// The folders, by name; those that the variable `ONLY` names, if it is set.
pub fn folders() -> Vec<PathBuf> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let all = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut all: Vec<PathBuf> = all.filter(|path| path.is_dir() && name(path).contains(&only)).collect();
    all.sort();
    assert!(!all.is_empty(), "there are no fixtures");
    all
}

/// What the names of fixtures begin with whose schemes give whole rows only. Of all others a transposed weight is read without a spool.
const WHOLE_ROWS: [&str; 18] = [
    "auto-round-",
    "awq-",
    "bitnet",
    "bnb-fp4",
    "bnb-nf4",
    "ct-pack-",
    "ct-two-groups",
    "gptq-",
    "hqq-",
    "mlx-2",
    "mlx-3",
    "mlx-4",
    "mlx-5",
    "mlx-6",
    "mlx-8",
    "mlx-mixed",
    "modelopt-int4-awq",
    "modelopt-nvfp4-experts-turned",
];

/// The elements of a weight in its own order, from those of its rows.
pub fn in_order(weight: &PackedTensor, rows: &[f32]) -> Vec<f32> {
    if weight.strides.is_empty() {
        return rows.to_vec();
    }
    let mut at = vec![0u64];
    for (&size, &stride) in weight.shape.iter().zip(&weight.strides) {
        at = at.iter().flat_map(|from| (0..size).map(move |n| from + n * stride)).collect();
    }
    at.into_iter().map(|at| rows[at as usize]).collect()
}

fn same(have: &[f32], want: &[f32], what: &str) {
    assert_eq!(have.len(), want.len(), "{what}: elements");
    let differs =
        have.iter().zip(want).position(|(a, b)| a.to_bits() != b.to_bits() && !(*a == 0.0 && *b == 0.0));
    if let Some(at) = differs {
        panic!("{what}: element {at} is {:e}, should be {:e}", have[at], want[at]);
    }
}

#[test]
fn every_fixture_has_the_values_that_its_own_package_computes() {
    for path in folders() {
        let shown = path.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = Folder::read(&path);
        let understood = folder.understood().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let mut expected = expected(&path);
        // Plain tensors may be among the expected ones.
        expected.retain(|name, _| !folder.model.tensors.iter().any(|t| t.name == *name && is_plain(t.dtype)));
        for weight in &understood.packed {
            let what = format!("{shown} {} ({})", weight.name, weight.about);
            let (shape, want) =
                expected.remove(&weight.name).unwrap_or_else(|| panic!("{what}: not expected"));
            assert_eq!(weight.shape, shape, "{what}");
            let all = 0..weight.rows.rows;
            let whole = folder
                .unpack(weight, all.clone(), all.clone())
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            same(&in_order(weight, &whole), &want, &what);
            in_pieces(&folder, weight, &whole, &what);
            in_columns(&folder, weight, &whole, &what);
            exactly(&folder, weight, &whole, &what);
        }
        assert!(expected.is_empty(), "{shown}: not found: {:?}", expected.keys());
    }
}

fn is_plain(dtype: DType) -> bool {
    [DType::F32, DType::F16, DType::BF16].contains(&dtype)
}

/// Any rows give the same values as all of them, whatever else is held.
fn in_pieces(folder: &Folder, weight: &PackedTensor, whole: &[f32], what: &str) {
    let (rows, len) = (weight.rows.rows, weight.rows.row_len as usize);
    for step in [1, 3, 8, 37] {
        let mut at = 0;
        while at < rows {
            let end = (at + step).min(rows);
            let held = at.saturating_sub(2)..(end + 1).min(rows);
            for held in [at..end, held] {
                let part = folder.unpack(weight, held, at..end).unwrap();
                same(
                    &part,
                    &whole[at as usize * len..end as usize * len],
                    &format!("{what}, rows {at}..{end}"),
                );
            }
            at += step * 3;
        }
    }
}

/// Any columns of any rows, where a scheme gives some, have the values that whole rows have.
fn in_columns(folder: &Folder, weight: &PackedTensor, whole: &[f32], what: &str) {
    let (rows, len) = (weight.rows.rows, weight.rows.row_len);
    let unit = schemes().column_unit(&weight.rows).unwrap();
    let gives_none = WHOLE_ROWS.iter().any(|start| what.starts_with(start));
    assert_eq!(unit == 0, gives_none, "{what}: pieces of {unit} columns");
    if gives_none {
        return;
    }
    for (from, to) in [(0, len), (0, len / 2), (len / 3, len), (len / 5, len / 5 + 1)] {
        let columns = from / unit * unit..(to.div_ceil(unit) * unit).min(len);
        for rows in [0..rows, rows / 3..rows, rows / 2..rows / 2 + 1] {
            let held = rows.start / 2..rows.end;
            let part = folder.unpack_columns(weight, (held, rows.clone()), columns.clone()).unwrap();
            let at = |row: u64, column: u64| (row * len + column) as usize;
            let want = rows.flat_map(|row| &whole[at(row, columns.start)..at(row, columns.end)]);
            same(&part, &want.copied().collect::<Vec<f32>>(), &format!("{what}, columns {columns:?}"));
        }
    }
}

/// Where a type is said to hold the values, it does.
pub fn exactly(folder: &Folder, weight: &PackedTensor, whole: &[f32], what: &str) {
    let quants = (apr_plugin_quants::PLUGIN.quantizer)().unwrap();
    for exact in &weight.exact {
        let is_held = exact.evidence.is_empty() || folder.holds(weight, exact.dtype, &exact.evidence);
        println!("{what}: {} {}", exact.dtype, if is_held { "holds it" } else { "does not" });
        if !is_held {
            continue;
        }
        let what = format!("{what} as {}", exact.dtype);
        if !exact.dtype.is_block() {
            let rounded = |value: &f32| match exact.dtype {
                DType::BF16 => apr_sdk::half::from_bf16(apr_sdk::half::to_bf16(*value)),
                _ => apr_sdk::half::from_f16(apr_sdk::half::to_f16(*value)),
            };
            same(&whole.iter().map(rounded).collect::<Vec<f32>>(), whole, &what);
            continue;
        }
        let blocks =
            folder.repack(weight, 0..weight.rows.rows, exact.dtype).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut values = vec![0.0; whole.len()];
        quants.decode(exact.dtype, &blocks, weight.rows.row_len, &mut values).unwrap();
        same(&values, whole, &what);
    }
}
