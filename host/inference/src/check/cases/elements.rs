//! Operations without weights of other types: normalizations, activations, rotations, arithmetic, pooling.

use super::{Data, SMALL, over_rows, plain, program, slice, u32_of, wide};
use crate::check::Case;
use crate::check::reference::{Clamp, activated, f64_of, normalized, rotated, sigmoid};
use apr_sdk::{
    Activate, Activation, Binary, BinaryKind, Norm, NormKind, Operation, Pool, Pooling, Result, Rope,
    RopeStyle, RowsOf, Sample, Unary, UnaryKind,
};

/// Elements of a row.
const WIDTH: usize = 96;
/// Rows.
const ROWS: usize = 5;
/// Elementary functions in F32 are within a few units of their last place; 2^-18 leaves room for cheap ones.
const FUNCTION: f64 = 4.0 * SMALL;

pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for kind in [NormKind::RMS, NormKind::LAYER] {
        cases.push(norm(kind, 1, WIDTH)?);
        cases.push(norm(kind, 4, WIDTH / 4)?);
        cases.push(norm(kind, 4, WIDTH)?);
    }
    for number in 0..u32_of(Activation::ALL.len()) {
        let kind = Activation(number);
        if kind != Activation::SWIGLU_CLAMPED {
            cases.push(activate(kind, false)?);
        }
        cases.push(activate(kind, true)?);
    }
    cases.push(rope(RopeStyle::HALF)?);
    cases.push(rope(RopeStyle::INTERLEAVED)?);
    for kind in [BinaryKind::ADD, BinaryKind::MULTIPLY, BinaryKind::SUBTRACT] {
        cases.push(binary(kind, WIDTH)?);
    }
    cases.push(binary(BinaryKind::MULTIPLY, 1)?);
    for kind in [UnaryKind::AFFINE, UnaryKind::SOFT_CAP, UnaryKind::CLAMP, UnaryKind::SIGMOID] {
        cases.push(unary(kind)?);
    }
    for (kind, normalize) in [
        (Pooling::OUTPUTS, false),
        (Pooling::MEAN, false),
        (Pooling::MEAN, true),
        (Pooling::FIRST, false),
        (Pooling::LAST, true),
    ] {
        cases.push(pool(kind, normalize)?);
    }
    cases.push(sample()?);
    Ok(cases)
}

/// The result for a row at a position: each value, and the error allowed in it.
type OfRow<'a> = dyn Fn(u32, &[f64]) -> Vec<(f64, f64)> + 'a;

/// A case of one operation over random rows, each of which becomes expectations and bounds.
fn case(
    name: &'static str,
    form: String,
    width: usize,
    operation: Operation,
    seed: u64,
    of_row: &OfRow<'_>,
) -> Result<Case> {
    let rows = Data::new(seed).values(ROWS * width);
    let wide = wide(&rows);
    let each = (0u32..).zip(wide.chunks_exact(width)).flat_map(|(position, row)| of_row(position, row));
    let mut case = over_rows(name, operation, rows, width, each.collect())?;
    case.form = form;
    Ok(case)
}

/// A value with a bound relative to it and to `scale`.
fn within(value: f64, share: f64, scale: f64) -> (f64, f64) {
    (value, share * (value.abs() + scale) + 1e-30)
}

fn norm(kind: NormKind, heads: usize, gains: usize) -> Result<Case> {
    let mut data = Data::new(7);
    let gain = data.values(gains);
    let bias = data.values(gains);
    let [wide_gain, wide_bias] = [&gain, &bias].map(|values| wide(values));
    let operation = Norm {
        x: slice(0, 0, WIDTH),
        out: slice(1, 0, WIDTH),
        kind,
        gain: Some(1),
        bias: Some(2),
        epsilon: 1e-5,
        heads: u32_of(heads),
    };
    let form = format!("{}, {heads} heads, {gains} gains", kind.name());
    let mut case = case("norm", form, WIDTH, operation.into(), 8, &|_, row| {
        let mut elements = Vec::new();
        for head in row.chunks_exact(WIDTH / heads) {
            for x in normalized(kind, head, f64::from(1e-5f32)) {
                let gain = wide_gain[elements.len() % gains];
                let bias = wide_bias[elements.len() % gains];
                elements.push(within(x * gain + bias, FUNCTION, (x * gain).abs() + gain.abs()));
            }
        }
        elements
    })?;
    case.weights.extend([plain(&gain, gains)?, plain(&bias, gains)?]);
    Ok(case)
}

fn activate(kind: Activation, gated: bool) -> Result<Case> {
    let half = WIDTH / 2;
    let operation = Activate {
        kind,
        gate: slice(0, 0, half),
        up: gated.then(|| slice(0, half, half)),
        out: slice(1, 0, half),
        alpha: 1.702,
        limit: 1.5,
    };
    let clamp = Clamp { alpha: f64::from(1.702f32), limit: 1.5 };
    let form = format!("{}{}", kind.name(), if gated { ", gated" } else { "" });
    case("activate", form, WIDTH, operation.into(), 9, &|_, row| {
        let mut elements = Vec::new();
        for (gate, up) in row[..half].iter().zip(&row[half..]) {
            let up = gated.then_some(*up);
            let scale = (gate * up.unwrap_or(1.0)).abs();
            elements.push(within(activated(kind, *gate, up, clamp), FUNCTION, scale));
        }
        elements
    })
}

fn rope(style: RopeStyle) -> Result<Case> {
    const HEADS: usize = 2;
    const FIRST: usize = 4;
    let frequencies: Vec<f32> = (0u8..16).map(|n| 10_000f32.powf(-f32::from(n) / 16.0)).collect();
    let wide_frequencies = wide(&frequencies);
    let operation = Rope {
        x: slice(0, 0, WIDTH),
        out: slice(1, 0, WIDTH),
        heads: u32_of(HEADS),
        first: u32_of(FIRST),
        style,
        frequencies,
        magnitude: 1.25,
    };
    case("rope", style.name(), WIDTH, operation.into(), 10, &|position, row| {
        let mut elements = Vec::new();
        for head in row.chunks_exact(WIDTH / HEADS) {
            let turned = rotated(style, head, FIRST, &wide_frequencies, position, 1.25);
            let most = head.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            elements.extend(turned.into_iter().map(|x| within(x, FUNCTION, most)));
        }
        elements
    })
}

fn binary(kind: BinaryKind, second: usize) -> Result<Case> {
    let width = WIDTH + second;
    let operation =
        Binary { kind, a: slice(0, 0, WIDTH), b: slice(0, WIDTH, second), out: slice(1, 0, WIDTH) };
    let form = format!("{}{}", kind.name(), if second == 1 { ", one for all" } else { "" });
    case("binary", form, width, operation.into(), 11, &|_, row| {
        let (a, b) = row.split_at(WIDTH);
        let mut elements = Vec::new();
        for (a, b) in a.iter().zip(b.iter().cycle()) {
            let value = match kind {
                BinaryKind::ADD => a + b,
                BinaryKind::SUBTRACT => a - b,
                _ => a * b,
            };
            elements.push(within(value, SMALL, 0.0));
        }
        elements
    })
}

fn unary(kind: UnaryKind) -> Result<Case> {
    let (a, b): (f32, f32) = if kind == UnaryKind::CLAMP { (-0.5, 0.75) } else { (1.5, 0.25) };
    let operation = Unary { kind, x: slice(0, 0, WIDTH), out: slice(1, 0, WIDTH), a, b };
    let [a, b] = [a, b].map(f64::from);
    case("unary", kind.name(), WIDTH, operation.into(), 12, &|_, row| {
        let mut elements = Vec::new();
        for x in row {
            let value = match kind {
                UnaryKind::AFFINE => a * x + b,
                UnaryKind::SOFT_CAP => a * (x / a).tanh(),
                UnaryKind::CLAMP => x.clamp(a, b),
                _ => sigmoid(*x),
            };
            elements.push(within(value, FUNCTION, x.abs()));
        }
        elements
    })
}

/// Of one sequence, all rows of which want output.
fn pool(kind: Pooling, normalize: bool) -> Result<Case> {
    let operation = Pool { kind, x: slice(0, 0, WIDTH), out: slice(1, 0, WIDTH), normalize };
    let form = format!("{}{}", kind.name(), if normalize { ", normalized" } else { "" });
    let mut case = case("pool", form, WIDTH, operation.into(), 13, &|_, _| vec![(0.0, 1.0); WIDTH])?;
    let rows = wide(&case.inputs[0].rows);
    let mut pooled = match kind {
        Pooling::OUTPUTS => rows.clone(),
        Pooling::FIRST => rows[..WIDTH].to_vec(),
        Pooling::LAST => rows[rows.len() - WIDTH..].to_vec(),
        _ => (0..WIDTH).map(|n| rows.iter().skip(n).step_by(WIDTH).sum::<f64>() / f64_of(ROWS)).collect(),
    };
    if normalize {
        let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
        pooled.iter_mut().for_each(|x| *x /= length);
    }
    (case.expected, case.bounds) = pooled.into_iter().map(|x| within(x, FUNCTION, 1.0)).unzip();
    case.program.values[1].rows = RowsOf::OUTPUTS;
    Ok(case)
}

/// The end of a program gives its rows as they are.
fn sample() -> Result<Case> {
    let operations: Vec<Operation> = vec![
        Pool { kind: Pooling::OUTPUTS, x: slice(0, 0, WIDTH), out: slice(1, 0, WIDTH), normalize: false }
            .into(),
        Sample { logits: slice(1, 0, WIDTH) }.into(),
    ];
    let form = "logits".to_owned();
    let mut case = case("sample", form, WIDTH, operations[0].clone(), 14, &|_, row| {
        row.iter().map(|x| within(*x, SMALL, 0.0)).collect()
    })?;
    case.program = program(WIDTH, WIDTH, Vec::new(), operations);
    case.program.values[1].rows = RowsOf::OUTPUTS;
    case.output = None;
    Ok(case)
}
