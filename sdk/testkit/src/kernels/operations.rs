//! Each operation alone, over rows that the batch brings: odd widths, several sequences and steps, every device, and every
//! number of workers.

use super::judge::{ensure, judge};
use super::programs::{part, slice};
use super::setup::{Floats, compile, step};
use super::subject::Subject;
use crate::Random;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, Binary, BinaryKind, Combine, DType, Embed, ExpertLinear,
    ExpertScore, HeadLinear, Linear, MEASURE_FIGURES, Mask, Measure, Norm, NormKind, Operation, PagedState,
    Pool, Pooling, Program, Result, Rope, RopeStyle, Route, RowIndex, RowsOf, SessionLimits, Slice, State,
    Unary, UnaryKind, ValueSpec, WeightPart,
};

/// A program over rows that the batch brings, as value 0.
fn program(widths: &[u32], operations: Vec<Operation>) -> Program {
    let values = widths.iter().map(|width| ValueSpec { width: *width, rows: RowsOf::BATCH }).collect();
    let out = slice(0, 0, widths[0]);
    let mut all = vec![Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out }.into()];
    all.extend(operations);
    Program { values, states: Vec::new(), operations: all }
}

fn table(width: u32) -> Floats {
    Floats { rows: 1, columns: width as usize, data: vec![0.0; width as usize] }
}

/// Rows of a table by position and at a fixed place, and rows that the batch brings.
///
/// # Errors
/// As [`judge`].
pub fn embed(subject: &Subject) -> Result<()> {
    let mut random = Random::new(5);
    let mut operations: Vec<Operation> = Vec::new();
    for (value, index, offset, scale) in [(1, RowIndex::POSITION, 2, 1.0), (2, RowIndex::CONSTANT, 7, 0.25)] {
        let out = slice(value, 3, 33);
        operations.push(Embed { table: 1, index, offset, scale, out }.into());
    }
    let weights = [table(5), Floats::random(&mut random, 403, 33)];
    judge(subject, &program(&[5, 36, 37], operations), &weights, 1e-7)
}

/// Both kinds of normalization, whole and by head, with gains and biases of one head and of all.
///
/// # Errors
/// As [`judge`].
pub fn norm(subject: &Subject) -> Result<()> {
    let mut random = Random::new(6);
    for kind in [NormKind::RMS, NormKind::LAYER] {
        for (heads, gain, bias) in [(1, 1, 1), (7, 1, 2), (7, 2, 1)] {
            let of = [0, 77, 77 / heads];
            let weights =
                [table(77), Floats::gain(&mut random, of[gain]), Floats::random(&mut random, 1, of[bias])];
            let x = slice(0, 0, 77);
            let out = slice(1, 2, 77);
            let heads = heads as u32;
            let norm = Norm { x, out, kind, gain: Some(1), bias: Some(2), epsilon: 1e-3, heads };
            let operations = vec![
                norm.clone().into(),
                Norm { out: x, gain: None, bias: None, ..norm }.into(),
                Norm { x: out, out: x, bias: None, ..norm }.into(),
            ];
            judge(subject, &program(&[77, 80], operations), &weights, 4e-6)?;
        }
    }
    Ok(())
}

/// Several matrices at once and parts of one, with biases, residuals and scales; a matrix for each head.
///
/// # Errors
/// As [`judge`].
pub fn linear_and_head_linear(subject: &Subject) -> Result<()> {
    let mut random = Random::new(7);
    let weights = [
        table(52),
        Floats::random(&mut random, 83, 52),
        Floats::random(&mut random, 1, 33),
        Floats::random(&mut random, 19, 52),
        Floats::random(&mut random, 12, 13),
        Floats::random(&mut random, 52, 33),
    ];
    let x = slice(0, 0, 52);
    let parts = vec![
        WeightPart { weight: 1, first_row: 5, bias: Some(2), out: slice(1, 1, 33) },
        WeightPart { weight: 1, first_row: 38, bias: None, out: slice(1, 34, 45) },
        part(3, slice(2, 0, 19)),
    ];
    let operations = vec![
        Linear { x, parts, residual: None, scale: 0.3 }.into(),
        HeadLinear { x, out: slice(2, 20, 12), heads: 4, weight: 4 }.into(),
        Linear { x: slice(1, 1, 33), parts: vec![part(5, x)], residual: Some(x), scale: 2.0 }.into(),
        Linear { x, parts: vec![part(3, slice(2, 32, 19))], residual: Some(slice(2, 0, 19)), scale: 1.0 }
            .into(),
    ];
    judge(subject, &program(&[52, 80, 60], operations), &weights, 3e-6)
}

/// Every activation function, gated and not, also in its place.
///
/// # Errors
/// As [`judge`].
pub fn activate(subject: &Subject) -> Result<()> {
    for (_, kind) in Activation::ALL {
        let kind = Activation(*kind);
        let a = slice(0, 0, 301);
        let b = slice(0, 301, 301);
        let out = slice(1, 1, 301);
        let mut operations = Vec::new();
        for out in [out, b, a] {
            operations.push(Activate { kind, gate: a, up: Some(b), out, alpha: 1.7, limit: 0.9 }.into());
        }
        if kind != Activation::SWIGLU_CLAMPED {
            for out in [out, b] {
                operations.push(Activate { kind, gate: b, up: None, out, alpha: 1.7, limit: 0.9 }.into());
            }
        }
        judge(subject, &program(&[602, 302], operations), &[table(602)], 2e-5)?;
    }
    Ok(())
}

/// Both styles of rotation, of whole heads and of parts.
///
/// # Errors
/// As [`judge`].
pub fn rope(subject: &Subject) -> Result<()> {
    for style in [RopeStyle::HALF, RopeStyle::INTERLEAVED] {
        let x = slice(0, 0, 63);
        let mut operations = Vec::new();
        for (out, first, pairs, magnitude) in [(slice(1, 1, 63), 0, 10, 1.3), (x, 4, 7, 1.0), (x, 0, 10, 1.3)]
        {
            let frequencies = (0..pairs).map(|i| 10f32.powf(-(i as f32) / 3.0)).collect();
            operations.push(Rope { x, out, heads: 3, first, style, frequencies, magnitude }.into());
        }
        judge(subject, &program(&[63, 64], operations), &[table(63)], 2e-6)?;
    }
    Ok(())
}

fn attention(heads: u32, query: Slice, out: Slice) -> Attention {
    Attention {
        state: 0,
        query,
        out,
        heads,
        scale: 0.7,
        mask: Mask::CAUSAL,
        window: 0,
        soft_cap: 0.0,
        sinks: None,
        slopes: Vec::new(),
        value_first: 0,
    }
}

fn cached(heads: u32, key: u32, value: u32, dtype: DType) -> Vec<State> {
    vec![State::Paged(PagedState { heads, key, value, dtype, window: 0 })]
}

/// Every mask with several windows, soft caps, sinks and slopes.
///
/// # Errors
/// As [`judge`].
pub fn attention_with_every_mask(subject: &Subject) -> Result<()> {
    let mut random = Random::new(8);
    let weights = [table(150), Floats::random(&mut random, 1, 6)];
    let query = slice(0, 0, 42);
    let key = slice(0, 42, 14);
    let value = slice(0, 56, 18);
    let out = slice(1, 1, 54);
    for mask in [Mask::CAUSAL, Mask::FULL, Mask::WINDOW, Mask::CHUNK, Mask::PREFIX] {
        for window in [1, 9, 50] {
            let variants = [
                (0.0, None, Vec::new()),
                (0.8, None, Vec::new()),
                (0.0, Some(1), (1..=6).map(|head| head as f32 * 0.02).collect()),
            ];
            for (soft_cap, sinks, slopes) in variants {
                let attention =
                    Attention { mask, window, soft_cap, sinks, slopes, ..attention(6, query, out) };
                let append = Append { state: 0, key, value: Some(value) }.into();
                let mut program = program(&[150, 55], vec![append, attention.into()]);
                program.states = cached(2, 7, 9, DType::F32);
                judge(subject, &program, &weights, 4e-6)?;
            }
        }
    }
    Ok(())
}

/// Every type of cache with several shapes of heads, and values that are parts of the keys.
///
/// # Errors
/// As [`judge`].
pub fn attention_over_every_type_and_shape(subject: &Subject) -> Result<()> {
    for dtype in &subject.caches {
        let dtype = *dtype;
        let bound = 5e-6;
        for (heads, key_heads, key, value) in [(20, 2, 64, 80), (3, 3, 33, 96), (9, 1, 40, 131)] {
            let q = heads * key;
            let k = key_heads * key;
            let v = key_heads * value;
            let append = Append { state: 0, key: slice(0, q, k), value: Some(slice(0, q + k, v)) }.into();
            let attention = attention(heads, slice(0, 0, q), slice(1, 0, heads * value));
            let attention = Attention { scale: 0.1, ..attention }.into();
            let mut program = program(&[q + k + v, heads * value], vec![append, attention]);
            program.states = cached(key_heads, key, value, dtype);
            judge(subject, &program, &[table(q + k + v)], bound)?;
        }
        // Values that are parts of the keys.
        let append = Append { state: 0, key: slice(0, 240, 60), value: None }.into();
        let attention = attention(4, slice(0, 0, 240), slice(1, 0, 164));
        let attention = Attention { value_first: 17, scale: 0.1, ..attention }.into();
        let mut program = program(&[300, 164], vec![append, attention]);
        program.states = cached(1, 60, 41, dtype);
        judge(subject, &program, &[table(300)], bound)?;
    }
    Ok(())
}

/// The choice of experts with every score, groups and biases, their matrices, and the sum over them.
///
/// # Errors
/// As [`judge`].
pub fn experts(subject: &Subject) -> Result<()> {
    let mut random = Random::new(9);
    let experts = 12u32;
    let used = 3u32;
    let width = 30u32;
    let inner = 19u32;
    let weights = [
        table(width),
        Floats::random(&mut random, experts as usize, width as usize),
        Floats::random(&mut random, 1, experts as usize),
        Floats::random(&mut random, (experts * (inner + 2)) as usize, width as usize),
        Floats::random(&mut random, experts as usize, inner as usize),
        Floats::random(&mut random, (experts * width) as usize, inner as usize),
    ];
    for score in [ExpertScore::SOFTMAX, ExpertScore::SIGMOID, ExpertScore::SOFTMAX_OF_CHOSEN] {
        for (normalize, bias, groups, groups_used) in
            [(false, None, 1, 0), (true, None, 4, 2), (true, Some(2), 3, 2), (false, Some(2), 1, 1)]
        {
            let x = slice(0, 0, width);
            let scores = slice(1, 0, experts);
            let route = slice(2, 1, 2 * used);
            let hidden = slice(3, 2, inner * used);
            let out = slice(4, 0, width * used);
            let first = WeightPart { weight: 3, first_row: 2, bias: Some(4), out: hidden };
            let parts = vec![part(5, out)];
            let sum = slice(5, 0, width);
            let operations = vec![
                Linear { x, parts: vec![part(1, scores)], residual: None, scale: 1.0 }.into(),
                Route { scores, out: route, score, normalize, scale: 1.5, bias, groups, groups_used }.into(),
                ExpertLinear { x, route, experts, used, shared_input: true, parts: vec![first] }.into(),
                ExpertLinear { x: hidden, route, experts, used, shared_input: false, parts }.into(),
                Combine { x: out, route, used, out: sum, residual: None }.into(),
                Combine { x: out, route, used, out: x, residual: Some(x) }.into(),
            ];
            let widths = [width, experts, 2 * used + 1, inner * used + 2, width * used, width];
            judge(subject, &program(&widths, operations), &weights, 3e-6)?;
        }
    }
    Ok(())
}

/// Every function of two values and of one.
///
/// # Errors
/// As [`judge`].
pub fn binary_and_unary(subject: &Subject) -> Result<()> {
    let a = slice(0, 0, 270);
    let b = slice(0, 270, 270);
    let scalar = slice(0, 7, 1);
    for (_, kind) in BinaryKind::ALL {
        let kind = BinaryKind(*kind);
        let mut operations = Vec::new();
        for (a, b, out) in [(a, b, slice(1, 1, 270)), (b, scalar, b), (a, b, b), (a, b, a)] {
            operations.push(Binary { kind, a, b, out }.into());
        }
        judge(subject, &program(&[540, 271], operations), &[table(540)], 2e-6)?;
    }
    for (_, kind) in UnaryKind::ALL {
        let kind = UnaryKind(*kind);
        let mut operations = Vec::new();
        for out in [slice(1, 1, 270), a] {
            operations.push(Unary { kind, x: a, out, a: -0.7, b: 0.4 }.into());
        }
        judge(subject, &program(&[540, 271], operations), &[table(540)], 2e-6)?;
    }
    Ok(())
}

/// Every pooling, with and without a norm of one.
///
/// # Errors
/// As [`judge`].
pub fn pool(subject: &Subject) -> Result<()> {
    for (_, kind) in Pooling::ALL {
        for normalize in [false, true] {
            let pool = Pool { kind: Pooling(*kind), x: slice(0, 2, 35), out: slice(1, 1, 35), normalize };
            let mut program = program(&[37, 36], vec![pool.into()]);
            program.values[1].rows = RowsOf::OUTPUTS;
            judge(subject, &program, &[table(37)], 2e-6)?;
        }
    }
    Ok(())
}

/// The figures of rows, among them zeros and values of both signs, and those of rows that are no numbers.
///
/// # Errors
/// As [`judge`]; Failed for other figures of rows that are no numbers.
pub fn measure(subject: &Subject) -> Result<()> {
    let x = slice(0, 0, 301);
    let positive = slice(1, 1, 301);
    let relu = Activate { kind: Activation::RELU, gate: x, up: None, out: positive, alpha: 0.0, limit: 0.0 };
    let operations = vec![
        relu.into(),
        Measure { x: positive, out: slice(2, 0, MEASURE_FIGURES) }.into(),
        Measure { x: slice(0, 7, 33), out: slice(2, 6, MEASURE_FIGURES) }.into(),
        Measure { x: slice(0, 300, 1), out: slice(2, 12, MEASURE_FIGURES) }.into(),
    ];
    judge(subject, &program(&[301, 302, 18], operations), &[table(301)], 1e-6)?;

    let operations = vec![Measure { x: slice(0, 0, 40), out: slice(1, 0, MEASURE_FIGURES) }.into()];
    let program = program(&[40, MEASURE_FIGURES], operations);
    let mut rows = vec![f32::NAN; 80];
    rows[..40].fill(-1.5);
    rows[3..6].copy_from_slice(&[f32::INFINITY, f32::NAN, f32::NEG_INFINITY]);
    rows[20..22].copy_from_slice(&[0.0, -0.0]);
    let wanted = [-1.5, 0.0, -52.5, 78.75, 2.0, 3.0, f32::INFINITY, f32::NEG_INFINITY, 0.0, 0.0, 0.0, 40.0];
    for (name, device, workers) in subject.runs() {
        let mut session = compile(device, &program, &[table(40)], &SessionLimits::new(2, 1, 2))?;
        step(&mut *session, &Batch::new(&[0, 0], &[0, 1], &[0, 0], &[])?.with_rows(&rows), workers)?;
        let mut figures = [0.0; 12];
        session.read(1, &mut figures)?;
        ensure(figures == wanted, || {
            format!("{name}, workers: {workers}: the figures are {figures:?}, expected {wanted:?}")
        })?;
    }
    Ok(())
}
