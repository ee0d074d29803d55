//! Embeddings, products and products per head, over every type of weight.

use super::{Data, SMALL, TYPES, over_rows, plain, slice, u32_of, u64_of, values_of, wide};
use crate::check::reference::dot;
use crate::check::{Blocks, Case, Input, Matrix};
use apr_sdk::{
    DType, Embed, ErrorKind, HeadLinear, Linear, MatrixSpec, Program, Result, RowIndex, WeightPart,
};

/// Columns: two blocks of the largest kind.
const COLUMNS: usize = 512;
/// Rows: a number that no tile divides.
const ROWS: usize = 37;
/// Many rows: 97 times 128, the last of which are not whole.
const MANY_ROWS: usize = 96 * 128 + ROWS;

/// A matrix with the values that it stands for.
pub struct Weights {
    pub matrix: Matrix,
    pub values: Vec<f64>,
}

/// Random weights of a type; `None` if nothing packs it.
pub fn weights(
    blocks: &dyn Blocks,
    data: &mut Data,
    dtype: DType,
    rows: usize,
    columns: usize,
) -> Result<Option<Weights>> {
    let values = data.values(rows * columns);
    let packed = match dtype {
        DType::F32 => return Ok(Some(Weights { values: wide(&values), matrix: plain(&values, columns)? })),
        _ => blocks.encode(dtype, &values, columns),
    };
    let bytes = match packed {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        packed => packed?,
    };
    let values = wide(&blocks.decode(dtype, &bytes, columns)?);
    let spec = MatrixSpec::new(dtype, u64_of(rows), u64_of(columns))?;
    Ok(Some(Weights { matrix: Matrix { spec, bytes }, values }))
}

/// Error allowed in a product.
pub fn bound(dtype: DType, row: &[f64], x: &[f64]) -> f64 {
    let sums: f64 = row.iter().zip(x).map(|(w, x)| (w * x).abs()).sum();
    let block = dtype.info().map_or(1, |info| usize::try_from(info.block_elements).unwrap_or(1));
    if block == 1 {
        return SMALL * sums;
    }
    // A step of 8 bits is the block's largest over 127, and its scale may be kept in 16 bits.
    let variance: f64 = row
        .chunks(block)
        .zip(x.chunks(block))
        .map(|(row, x)| {
            let step = x.iter().fold(0.0f64, |most, x| most.max(x.abs())) / 127.0;
            dot(row, row) * step * step / 12.0
        })
        .sum();
    6.0 * variance.sqrt() + sums * (SMALL + 1.0 / 4096.0)
}

pub fn cases(blocks: &dyn Blocks) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        let mut data = Data::new(u64::from(dtype.0) + 1);
        let Some(weights) = weights(blocks, &mut data, dtype, ROWS, COLUMNS)? else { continue };
        cases.push(embed(dtype, &weights));
        for tokens in [1, 9] {
            cases.push(linear(dtype, &weights, &mut data, tokens)?);
        }
        cases.push(whole_linear(dtype, &weights, &mut data)?);
    }
    // Devices divide large products otherwise.
    for dtype in [DType::Q4_K, DType::BF16] {
        let mut data = Data::new(200 + u64::from(dtype.0));
        if let Some(weights) = weights(blocks, &mut data, dtype, MANY_ROWS, 256)? {
            cases.push(linear(dtype, &weights, &mut data, 9)?);
        }
    }
    for dtype in [DType::F32, DType::F16] {
        let mut data = Data::new(100 + u64::from(dtype.0));
        if let Some(weights) = weights(blocks, &mut data, dtype, 4 * 16, 32)? {
            cases.push(head_linear(dtype, &weights, &mut data)?);
        }
    }
    Ok(cases)
}

/// Rows of the table, by token.
fn embed(dtype: DType, weights: &Weights) -> Case {
    let ids = vec![3u32, 0, 36, 3];
    let out = slice(0, 0, COLUMNS);
    let operation = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.5, out };
    let mut expected = Vec::new();
    for id in &ids {
        let first = usize::try_from(*id).unwrap_or(0) * COLUMNS;
        expected.extend(weights.values[first..first + COLUMNS].iter().map(|value| value * 1.5));
    }
    Case {
        operation: "embed",
        dtype,
        form: "by token".to_owned(),
        program: Program {
            values: vec![values_of(COLUMNS, 1)[0]],
            states: Vec::new(),
            operations: vec![operation.into()],
        },
        weights: vec![weights.matrix.clone()],
        bounds: expected.iter().map(|value| SMALL * value.abs() + 1e-30).collect(),
        inputs: vec![Input { ids, position: 0, rows: Vec::new() }],
        output: Some(0),
        expected,
    }
}

/// A part of a matrix with a bias, a factor and a residual.
fn linear(dtype: DType, weights: &Weights, data: &mut Data, tokens: usize) -> Result<Case> {
    const FIRST: usize = 5;
    let [all, columns] = [weights.matrix.spec.rows(), weights.matrix.spec.columns()]
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let used = all - FIRST;
    let width = columns + used;
    let rows = data.values(tokens * width);
    let bias = data.values(used);
    let part = WeightPart { weight: 1, first_row: u32_of(FIRST), bias: Some(2), out: slice(1, 0, used) };
    let residual = Some(slice(0, columns, used));
    let operation = Linear { x: slice(0, 0, columns), parts: vec![part], residual, scale: 0.5 };
    let mut elements = Vec::new();
    for row in wide(&rows).chunks_exact(width) {
        let (x, rest) = row.split_at(columns);
        for (n, weight) in weights.values.chunks_exact(columns).skip(FIRST).enumerate() {
            let bias = f64::from(bias[n]);
            let error = 0.5 * bound(dtype, weight, x) + SMALL * (bias.abs() + rest[n].abs());
            elements.push((0.5 * (dot(weight, x) + bias) + rest[n], error));
        }
    }
    let mut case = over_rows("linear", operation.into(), rows, width, elements)?;
    case.dtype = dtype;
    case.form = format!("{tokens} x, {}bias, residual", if all > ROWS { "many rows, " } else { "" });
    case.weights.extend([weights.matrix.clone(), plain(&bias, used)?]);
    Ok(case)
}

/// Several parts over one input.
fn whole_linear(dtype: DType, weights: &Weights, data: &mut Data) -> Result<Case> {
    let rows = data.values(3 * COLUMNS);
    let whole = WeightPart { weight: 1, first_row: 0, bias: None, out: slice(1, 0, ROWS) };
    let parts = vec![whole, WeightPart { first_row: 16, out: slice(1, ROWS, 4), ..whole }];
    let operation = Linear { x: slice(0, 0, COLUMNS), parts, residual: None, scale: 1.0 };
    let mut elements = Vec::new();
    for x in wide(&rows).chunks_exact(COLUMNS) {
        let all = (0..ROWS).chain(16..20).map(|n| &weights.values[n * COLUMNS..(n + 1) * COLUMNS]);
        for weight in all {
            elements.push((dot(weight, x), bound(dtype, weight, x)));
        }
    }
    let mut case = over_rows("linear", operation.into(), rows, COLUMNS, elements)?;
    case.dtype = dtype;
    case.form = "3 x, two parts".to_owned();
    case.weights.push(weights.matrix.clone());
    Ok(case)
}

fn head_linear(dtype: DType, weights: &Weights, data: &mut Data) -> Result<Case> {
    const HEADS: usize = 4;
    const WIDTH: usize = HEADS * 32;
    let rows = data.values(2 * WIDTH);
    let operation =
        HeadLinear { x: slice(0, 0, WIDTH), out: slice(1, 0, HEADS * 16), heads: u32_of(HEADS), weight: 1 };
    let mut elements = Vec::new();
    for row in wide(&rows).chunks_exact(WIDTH) {
        for (head, x) in row.chunks_exact(32).enumerate() {
            for weight in weights.values.chunks_exact(32).skip(head * 16).take(16) {
                elements.push((dot(weight, x), bound(dtype, weight, x)));
            }
        }
    }
    let mut case = over_rows("head_linear", operation.into(), rows, WIDTH, elements)?;
    case.dtype = dtype;
    case.form = "4 heads".to_owned();
    case.weights.push(weights.matrix.clone());
    Ok(case)
}
