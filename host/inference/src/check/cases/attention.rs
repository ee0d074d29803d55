//! Attention over a cache of each type, with each mask.

use super::{Data, SMALL, plain, program, slice, table, u32_of, wide};
use crate::check::reference::{dot, f64_of, sees, softmax};
use crate::check::{Case, Input};
use apr_sdk::{Append, Attention, DType, Mask, PagedState, Result, State};

/// Query heads, key heads, elements of a key and of a value.
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const KEY: usize = 32;
const VALUE: usize = 64;
/// Elements of all queries, all keys and all values.
const QUERIES: usize = HEADS * KEY;
const KEYS: usize = KEY_HEADS * KEY;
const VALUES: usize = KEY_HEADS * VALUE;
const WIDTH: usize = QUERIES + KEYS + VALUES;
/// Rows of the first step; a second has one more.
const FIRST: usize = 11;

/// Optional features of an attention.
#[derive(Clone, Copy, Default)]
struct Extra {
    soft_cap: f32,
    sinks: bool,
    slopes: bool,
}

pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Q8_0] {
        for (mask, window) in [(Mask::CAUSAL, 0), (Mask::WINDOW, 4), (Mask::CHUNK, 4), (Mask::PREFIX, 3)] {
            cases.push(attention(dtype, mask, window, Extra::default())?);
        }
    }
    let extras = [
        Extra { soft_cap: 1.5, ..Extra::default() },
        Extra { sinks: true, ..Extra::default() },
        Extra { slopes: true, ..Extra::default() },
    ];
    for extra in extras {
        cases.push(attention(DType::F32, Mask::CAUSAL, 0, extra)?);
    }
    cases.push(attention(DType::F32, Mask::FULL, 0, Extra::default())?);
    Ok(cases)
}

/// Error of a block's elements when they are kept in a type: six standard deviations, or the most.
fn kept(dtype: DType, values: &[f64]) -> f64 {
    let most = values.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    match dtype {
        DType::Q8_0 => most / 127.0 / 2.0 + most / 2048.0,
        DType::F16 => most / 2048.0,
        _ => 0.0,
    }
}

fn attention(dtype: DType, mask: Mask, window: u32, extra: Extra) -> Result<Case> {
    let mut data = Data::new(20);
    let rows = data.values((FIRST + 1) * WIDTH);
    let sinks = data.values(HEADS);
    let slopes: Vec<f32> = if extra.slopes { vec![0.5, 0.25, 0.125, 0.0625] } else { Vec::new() };
    let scale = 0.25f32;
    let state = PagedState {
        heads: u32_of(KEY_HEADS),
        key: u32_of(KEY),
        value: u32_of(VALUE),
        dtype,
        window: if mask == Mask::WINDOW { window } else { 0 },
    };
    let append =
        Append { state: 0, key: slice(0, QUERIES, KEYS), value: Some(slice(0, QUERIES + KEYS, VALUES)) };
    let operation = Attention {
        state: 0,
        query: slice(0, 0, QUERIES),
        out: slice(1, 0, HEADS * VALUE),
        heads: u32_of(HEADS),
        scale,
        mask,
        window,
        soft_cap: extra.soft_cap,
        sinks: extra.sinks.then_some(1),
        slopes: slopes.clone(),
        value_first: 0,
    };
    let reference = Reference {
        dtype,
        mask,
        window,
        scale: f64::from(scale),
        soft_cap: f64::from(extra.soft_cap),
        sinks: if extra.sinks { wide(&sinks) } else { Vec::new() },
        slopes: wide(&slopes),
        rows: wide(&rows),
    };
    // One that sees everything must be given everything at once, and the last row alone otherwise.
    let whole = mask == Mask::FULL;
    let (first, second) = rows.split_at(FIRST * WIDTH);
    let inputs = match whole {
        true => vec![super::input(rows.clone(), WIDTH)],
        false => vec![
            super::input(first.to_vec(), WIDTH),
            Input { position: u32_of(FIRST), ..super::input(second.to_vec(), WIDTH) },
        ],
    };
    let wanted = if whole { 0..FIRST + 1 } else { FIRST..FIRST + 1 };
    let (expected, bounds) = wanted.flat_map(|query| reference.row(query)).unzip();
    let mut weights = vec![table(WIDTH)?];
    if extra.sinks {
        weights.push(plain(&sinks, HEADS)?);
    }
    let with = match extra {
        Extra { soft_cap, .. } if soft_cap > 0.0 => ", soft cap",
        Extra { sinks: true, .. } => ", sinks",
        Extra { slopes: true, .. } => ", ALiBi",
        _ => "",
    };
    Ok(Case {
        operation: "attention",
        dtype,
        form: format!("{}{with}", mask.name()),
        program: program(
            WIDTH,
            HEADS * VALUE,
            vec![State::Paged(state)],
            vec![append.into(), operation.into()],
        ),
        weights,
        inputs,
        output: Some(1),
        expected,
        bounds,
    })
}

struct Reference {
    dtype: DType,
    mask: Mask,
    window: u32,
    scale: f64,
    soft_cap: f64,
    sinks: Vec<f64>,
    slopes: Vec<f64>,
    rows: Vec<f64>,
}

impl Reference {
    /// The result for a query, with bounds.
    fn row(&self, query: usize) -> Vec<(f64, f64)> {
        (0..HEADS).flat_map(|head| self.head(query, head)).collect()
    }

    fn part(&self, row: usize, first: usize, width: usize) -> &[f64] {
        &self.rows[row * WIDTH + first..][..width]
    }

    fn head(&self, at: usize, head: usize) -> Vec<(f64, f64)> {
        let key_head = head * KEY_HEADS / HEADS;
        let query = self.part(at, head * KEY, KEY);
        let mut scores = Vec::new();
        let mut values = Vec::new();
        let mut off = 0.0f64;
        for position in 0..=FIRST {
            if !sees(self.mask, self.window, u32_of(at), u32_of(position)) {
                continue;
            }
            let key = self.part(position, QUERIES + key_head * KEY, KEY);
            let mut score = self.scale * dot(query, key);
            if self.soft_cap > 0.0 {
                score = self.soft_cap * (score / self.soft_cap).tanh();
            }
            let slope = self.slopes.get(head).map_or(0.0, |slope| slope * f64_of(at.abs_diff(position)));
            scores.push(score - slope);
            // How far a score may be off: rounding of the arithmetic, and of the keys as they are kept.
            let sums: f64 = query.iter().zip(key).map(|(q, k)| (q * k).abs()).sum();
            off =
                off.max(self.scale * (SMALL * sums + kept(self.dtype, key) * dot(query, query).sqrt() * 2.0));
            values.push(self.part(position, QUERIES + KEYS + key_head * VALUE, VALUE));
        }
        off += 4.0 * SMALL;
        let shares = softmax(&scores, self.sinks.get(head).copied());
        let rounding = values.iter().map(|value| kept(self.dtype, value)).fold(0.0, f64::max);
        let mut elements = Vec::new();
        for n in 0..VALUE {
            let column: Vec<f64> = values.iter().map(|value| value[n]).collect();
            let sums: f64 = column.iter().zip(&shares).map(|(v, p)| (v * p).abs()).sum();
            elements.push((dot(&column, &shares), 2.0 * off * sums + rounding + SMALL * sums + 1e-30));
        }
        elements
    }
}
