//! Programs of the kinds that models have, over the weights that are there: what fuzzing starts from.

use apr_sdk::{
    Activate, Activation, Append, Attention, Binary, BinaryKind, Combine, DType, Embed, ExpertLinear,
    ExpertScore, HeadLinear, Linear, Mask, Norm, NormKind, Operation, PagedState, Pool, Pooling, Program,
    Rope, RopeStyle, Route, RowIndex, RowsOf, Sample, Slice, State, Unary, UnaryKind, ValueSpec, WeightPart,
};

/// Elements of a hidden state.
const HIDDEN: u32 = 32;

fn slice(value: u32, first: u32, width: u32) -> Slice {
    Slice { value, first, width }
}

fn part(weight: u32, first_row: u32, out: Slice) -> WeightPart {
    WeightPart { weight, first_row, bias: None, out }
}

fn linear(x: Slice, parts: Vec<WeightPart>, residual: Option<Slice>) -> Operation {
    Linear { x, parts, residual, scale: 1.0 }.into()
}

fn norm(x: Slice, out: Slice, kind: NormKind, gain: u32, heads: u32) -> Operation {
    let bias = (kind == NormKind::LAYER).then_some(gain);
    Norm { x, out, kind, gain: Some(gain), bias, epsilon: 1e-5, heads }.into()
}

fn rope(x: Slice, heads: u32, style: RopeStyle) -> Operation {
    Rope { x, out: x, heads, first: 0, style, frequencies: vec![1.0, 0.1], magnitude: 1.0 }.into()
}

/// Attention of 4 heads.
fn attention(query: Slice, out: Slice, mask: Mask, window: u32) -> Attention {
    let (sinks, slopes) = (None, Vec::new());
    let (state, heads, scale, soft_cap, value_first) = (0, 4, 0.35, 0.0, 0);
    Attention { state, query, out, heads, scale, mask, window, soft_cap, sinks, slopes, value_first }
}

/// Values of so many elements, the last two of which have the rows of outputs.
fn program(widths: &[u32], state: (u32, u32, u32, DType), operations: Vec<Operation>) -> Program {
    let rows = |n: usize| if n + 2 < widths.len() { RowsOf::BATCH } else { RowsOf::OUTPUTS };
    let values = widths.iter().enumerate().map(|(n, width)| ValueSpec { width: *width, rows: rows(n) });
    let (heads, key, value, dtype) = state;
    let states = vec![State::Paged(PagedState { heads, key, value, dtype, window: 0 })];
    Program { values: values.collect(), states, operations }
}

/// A decoder with grouped queries and a gated feed-forward.
fn decoder() -> Program {
    let (x, normed, mixed) = (slice(0, 0, HIDDEN), slice(1, 0, HIDDEN), slice(3, 0, HIDDEN));
    let (query, key, value) = (slice(2, 0, 32), slice(2, 32, 16), slice(2, 48, 16));
    let (gate, up) = (slice(4, 0, 48), slice(4, 48, 48));
    let (last, logits) = (slice(5, 0, HIDDEN), slice(6, 0, 40));
    let operations = vec![
        Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 5.0, out: x }.into(),
        norm(x, normed, NormKind::RMS, 1, 1),
        linear(normed, vec![part(3, 0, query), part(3, 32, key), part(3, 48, value)], None),
        norm(query, query, NormKind::RMS, 2, 4),
        rope(query, 4, RopeStyle::HALF),
        rope(key, 2, RopeStyle::HALF),
        Append { state: 0, key, value: Some(value) }.into(),
        Attention { soft_cap: 30.0, sinks: Some(12), ..attention(query, mixed, Mask::WINDOW, 3) }.into(),
        linear(mixed, vec![part(4, 0, x)], Some(x)),
        norm(x, normed, NormKind::RMS, 1, 1),
        linear(normed, vec![part(5, 0, gate), part(5, 48, up)], None),
        Activate { kind: Activation::SILU, gate, up: Some(up), out: gate, alpha: 0.0, limit: 0.0 }.into(),
        linear(gate, vec![part(6, 0, x)], Some(x)),
        Pool { kind: Pooling::OUTPUTS, x, out: last, normalize: false }.into(),
        norm(last, last, NormKind::RMS, 1, 1),
        linear(last, vec![part(0, 0, logits)], None),
        Unary { kind: UnaryKind::SOFT_CAP, x: logits, out: logits, a: 30.0, b: 0.0 }.into(),
        Sample { logits }.into(),
    ];
    program(&[HIDDEN, HIDDEN, 64, HIDDEN, 96, HIDDEN, 40], (2, 8, 8, DType::F16), operations)
}

/// A decoder with keys that values are views of, and experts.
fn experts() -> Program {
    let (x, keys, mixed) = (slice(0, 0, HIDDEN), slice(1, 0, 8), slice(2, 0, HIDDEN));
    let (scores, route) = (slice(3, 0, 4), slice(3, 4, 4));
    let (up, down) = (slice(4, 0, 32), slice(5, 0, 64));
    let (last, logits) = (slice(6, 0, HIDDEN), slice(7, 0, 40));
    let expert = |x, shared_input, part| -> Operation {
        ExpertLinear { x, route, experts: 4, used: 2, shared_input, parts: vec![part] }.into()
    };
    let operations = vec![
        Embed { table: 0, index: RowIndex::TOKEN, offset: 1, scale: 1.0, out: x }.into(),
        linear(x, vec![part(3, 0, keys)], None),
        rope(keys, 1, RopeStyle::INTERLEAVED),
        Append { state: 0, key: keys, value: None }.into(),
        HeadLinear { x, out: mixed, heads: 4, weight: 7 }.into(),
        Attention {
            slopes: vec![0.5, 0.25, 0.125, 0.0625],
            ..attention(mixed, slice(4, 0, HIDDEN), Mask::CAUSAL, 0)
        }
        .into(),
        linear(slice(4, 0, HIDDEN), vec![part(4, 0, x)], Some(x)),
        linear(x, vec![part(8, 0, scores)], None),
        Route {
            scores,
            out: route,
            score: ExpertScore::SIGMOID,
            normalize: true,
            scale: 2.0,
            bias: Some(12),
            groups: 2,
            groups_used: 1,
        }
        .into(),
        expert(x, true, WeightPart { bias: Some(11), ..part(9, 0, up) }),
        Activate { kind: Activation::RELU_SQUARED, gate: up, up: None, out: up, alpha: 0.0, limit: 0.0 }
            .into(),
        expert(up, false, part(10, 0, down)),
        Combine { x: down, route, used: 2, out: x, residual: Some(x) }.into(),
        Pool { kind: Pooling::OUTPUTS, x, out: last, normalize: false }.into(),
        linear(last, vec![part(0, 0, logits)], None),
        Sample { logits }.into(),
    ];
    program(&[HIDDEN, 8, HIDDEN, 8, 32, 64, HIDDEN, 40], (1, 8, 8, DType::Q8_0), operations)
}

/// An encoder with positions of its own, whose rows all see each other, and whose result is a mean.
fn encoder() -> Program {
    let (wide, x, qkv, mixed) = (slice(0, 0, 256), slice(1, 0, HIDDEN), slice(2, 0, 64), slice(3, 0, HIDDEN));
    let (query, key, value) = (slice(2, 0, 32), slice(2, 32, 16), slice(2, 48, 16));
    let (mean, logits) = (slice(4, 0, HIDDEN), slice(5, 0, 8));
    let operations = vec![
        Embed { table: 14, index: RowIndex::POSITION, offset: 1, scale: 1.0, out: wide }.into(),
        linear(wide, vec![part(13, 0, x)], None),
        Embed { table: 0, index: RowIndex::CONSTANT, offset: 3, scale: 1.0, out: mixed }.into(),
        Binary { kind: BinaryKind::ADD, a: x, b: mixed, out: x }.into(),
        norm(x, x, NormKind::LAYER, 1, 1),
        linear(x, vec![part(3, 0, qkv)], None),
        Append { state: 0, key, value: Some(value) }.into(),
        attention(query, mixed, Mask::FULL, 0).into(),
        linear(mixed, vec![part(4, 0, x)], Some(x)),
        Pool { kind: Pooling::MEAN, x, out: mean, normalize: true }.into(),
        linear(mean, vec![part(8, 0, slice(5, 0, 4)), part(8, 0, slice(5, 4, 4))], None),
        Sample { logits }.into(),
    ];
    program(&[256, HIDDEN, 64, HIDDEN, HIDDEN, 8], (2, 8, 8, DType::F32), operations)
}

/// Each with a name.
pub fn examples() -> Vec<(String, Vec<u8>)> {
    [("decoder", decoder()), ("experts", experts()), ("encoder", encoder())]
        .into_iter()
        .map(|(name, program)| (name.to_owned(), program.to_bytes().unwrap()))
        .collect()
}
