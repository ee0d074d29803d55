//! The choice of experts, their matrices, and their sum.

use super::matrices::{bound, weights};
use super::{Data, SMALL, TYPES, over_rows, slice, u32_of, wide};
use crate::check::reference::{dot, f64_of, routed};
use crate::check::{Blocks, Case};
use apr_sdk::{Combine, DType, ExpertLinear, ExpertScore, Result, Route, WeightPart};

/// Numbers of experts that there are and that are chosen.
const EXPERTS: usize = 8;
const USED: usize = 3;
/// Columns and rows of an expert.
const COLUMNS: usize = 256;
const ROWS: usize = 20;
/// Rows of input.
const TOKENS: usize = 4;

pub fn cases(blocks: &dyn Blocks) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for kind in [ExpertScore::SOFTMAX, ExpertScore::SIGMOID, ExpertScore::SOFTMAX_OF_CHOSEN] {
        cases.push(route(kind)?);
    }
    for dtype in TYPES {
        cases.extend(expert_linear(blocks, dtype)?);
    }
    cases.push(combine()?);
    Ok(cases)
}

fn route(kind: ExpertScore) -> Result<Case> {
    let normalize = kind != ExpertScore::SOFTMAX_OF_CHOSEN;
    let operation = Route {
        scores: slice(0, 0, EXPERTS),
        out: slice(1, 0, 2 * USED),
        score: kind,
        normalize,
        scale: 1.5,
        bias: None,
        groups: 1,
        groups_used: 0,
    };
    let rows = Data::new(30).values(TOKENS * EXPERTS);
    let mut values = Vec::new();
    for scores in wide(&rows).chunks_exact(EXPERTS) {
        let chosen = routed(kind, scores, USED, normalize, 1.5);
        values.extend(chosen.iter().map(|(expert, _)| f64_of(*expert)));
        values.extend(chosen.iter().map(|(_, weight)| *weight));
    }
    let elements = values.into_iter().map(|value| (value, 8.0 * SMALL * (1.0 + value.abs())));
    let mut case = over_rows("route", operation.into(), rows, EXPERTS, elements.collect())?;
    case.form = kind.name();
    Ok(case)
}

/// Rows of an input of `width` elements, then the numbers of chosen experts and their weights.
fn with_route(data: &mut Data, width: usize) -> Vec<f32> {
    let mut rows = Vec::new();
    for token in 0..TOKENS {
        rows.extend(data.values(width));
        let chosen = [token % EXPERTS, (token + 5) % EXPERTS, (token + 2) % EXPERTS];
        rows.extend(chosen.map(|expert| u16::try_from(expert).map_or(0.0, f32::from)));
        rows.extend([0.5, 0.25, 0.125]);
    }
    rows
}

fn chosen(token: usize) -> [usize; USED] {
    [token % EXPERTS, (token + 5) % EXPERTS, (token + 2) % EXPERTS]
}

fn expert_linear(blocks: &dyn Blocks, dtype: DType) -> Result<Option<Case>> {
    let mut data = Data::new(31 + u64::from(dtype.0));
    let Some(weights) = weights(blocks, &mut data, dtype, EXPERTS * ROWS, COLUMNS)? else { return Ok(None) };
    let width = COLUMNS + 2 * USED;
    let rows = with_route(&mut data, COLUMNS);
    let part = WeightPart { weight: 1, first_row: 0, bias: None, out: slice(1, 0, USED * ROWS) };
    let operation = ExpertLinear {
        x: slice(0, 0, COLUMNS),
        route: slice(0, COLUMNS, 2 * USED),
        experts: u32_of(EXPERTS),
        used: u32_of(USED),
        shared_input: true,
        parts: vec![part],
    };
    let mut elements = Vec::new();
    for (token, row) in wide(&rows).chunks_exact(width).enumerate() {
        let x = &row[..COLUMNS];
        for expert in chosen(token) {
            for weight in weights.values.chunks_exact(COLUMNS).skip(expert * ROWS).take(ROWS) {
                elements.push((dot(weight, x), bound(dtype, weight, x)));
            }
        }
    }
    let mut case = over_rows("expert_linear", operation.into(), rows, width, elements)?;
    case.dtype = dtype;
    case.form = format!("{USED} of {EXPERTS}");
    case.weights.push(weights.matrix);
    Ok(Some(case))
}

fn combine() -> Result<Case> {
    let width = USED * ROWS;
    let mut data = Data::new(40);
    let rows = with_route(&mut data, width);
    let operation = Combine {
        x: slice(0, 0, width),
        route: slice(0, width, 2 * USED),
        used: u32_of(USED),
        out: slice(1, 0, ROWS),
        residual: Some(slice(0, 0, ROWS)),
    };
    let mut elements = Vec::new();
    for row in wide(&rows).chunks_exact(width + 2 * USED) {
        for n in 0..ROWS {
            let terms = [0.5, 0.25, 0.125].iter().enumerate().map(|(k, weight)| weight * row[k * ROWS + n]);
            let terms: Vec<f64> = terms.chain([row[n]]).collect();
            let sums: f64 = terms.iter().map(|term| term.abs()).sum();
            elements.push((terms.iter().sum(), SMALL * sums));
        }
    }
    let mut case = over_rows("combine", operation.into(), rows, width + 2 * USED, elements)?;
    case.form = format!("{USED} experts, residual");
    Ok(case)
}
