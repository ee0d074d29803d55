//! What each check refuses.

use crate::ErrorKind::{self, InvalidArgument, LimitExceeded, Unsupported};
use crate::kernel::numbers::NormKind;
use crate::*;

fn slice(value: u32, first: u32, width: u32) -> Slice {
    Slice { value, first, width }
}

/// Weights by number: a table of 10 rows, a square matrix, a vector, two experts' matrices, and their biases.
const WEIGHTS: [WeightShape; 5] = [
    WeightShape { rows: 10, columns: 8 },
    WeightShape { rows: 8, columns: 8 },
    WeightShape { rows: 1, columns: 8 },
    WeightShape { rows: 16, columns: 8 },
    WeightShape { rows: 2, columns: 8 },
];

/// A program with every operation, which holds together.
fn sound() -> Program {
    let part = |weight, bias, out| WeightPart { weight, first_row: 0, bias, out };
    let batch = |width| ValueSpec { width, rows: RowsOf::BATCH };
    let (x, y, z, wide) = (slice(0, 0, 8), slice(1, 0, 8), slice(2, 0, 8), slice(4, 0, 16));
    let (scores, route) = (slice(3, 0, 2), slice(3, 2, 4));
    Program {
        values: vec![
            batch(8),
            batch(8),
            batch(16),
            batch(6),
            batch(16),
            ValueSpec { width: 8, rows: RowsOf::OUTPUTS },
            batch(6),
        ],
        states: vec![State::Paged(PagedState { heads: 1, key: 4, value: 4, dtype: DType::F32, window: 0 })],
        operations: vec![
            Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into(),
            Norm { x, out: y, kind: NormKind::RMS, gain: Some(2), bias: None, epsilon: 0.0, heads: 1 }.into(),
            Linear { x: y, parts: vec![part(1, Some(2), z)], residual: Some(x), scale: 1.0 }.into(),
            HeadLinear { x: y, out: z, heads: 1, weight: 1 }.into(),
            Activate { kind: Activation::SILU, gate: y, up: Some(x), out: z, alpha: 0.0, limit: 0.0 }.into(),
            Rope {
                x: y,
                out: y,
                heads: 2,
                first: 0,
                style: RopeStyle::HALF,
                frequencies: vec![1.0, 0.5],
                magnitude: 1.0,
            }
            .into(),
            Append { state: 0, key: slice(1, 0, 4), value: Some(slice(1, 4, 4)) }.into(),
            Attention {
                state: 0,
                query: y,
                out: z,
                heads: 2,
                scale: 1.0,
                mask: Mask::CAUSAL,
                window: 0,
                soft_cap: 0.0,
                sinks: None,
                slopes: vec![],
                value_first: 0,
            }
            .into(),
            Route {
                scores,
                out: route,
                score: ExpertScore::SOFTMAX,
                normalize: true,
                scale: 1.0,
                bias: None,
                groups: 1,
                groups_used: 0,
            }
            .into(),
            ExpertLinear {
                x,
                route,
                experts: 2,
                used: 2,
                shared_input: true,
                parts: vec![part(3, Some(4), wide)],
            }
            .into(),
            Combine { x: wide, route, used: 2, out: y, residual: Some(x) }.into(),
            Binary { kind: BinaryKind::ADD, a: x, b: y, out: y }.into(),
            Unary { kind: UnaryKind::SOFT_CAP, x: y, out: y, a: 1.0, b: 0.0 }.into(),
            Measure { x: y, out: slice(6, 0, 6) }.into(),
            Pool { kind: Pooling::MEAN, x: y, out: slice(5, 0, 8), normalize: true }.into(),
            Sample { logits: slice(5, 0, 8) }.into(),
        ],
    }
}

/// Changes the operation of the case's kind, wherever it is.
macro_rules! change {
    ($name:ident, $operation:ident => $change:expr) => {
        |program: &mut Program| {
            for operation in &mut program.operations {
                if let Operation::$name($operation) = operation {
                    $change;
                }
            }
        }
    };
}

type Case = (&'static str, ErrorKind, fn(&mut Program));

const CASES: &[Case] = &[
    ("value 0 has no elements", InvalidArgument, |program| program.values[0].width = 0),
    ("value 1 has unknown rows", Unsupported, |program| program.values[1].rows = RowsOf(9)),
    ("more than the limit", LimitExceeded, |program| program.values[0].width = u32::MAX),
    ("state 0: a cache requires heads", InvalidArgument, |program| {
        program.states[0] =
            State::Paged(PagedState { heads: 0, key: 4, value: 4, dtype: DType::F32, window: 0 });
    }),
    ("state 0: a cache cannot hold Q4_K", Unsupported, |program| {
        program.states[0] =
            State::Paged(PagedState { heads: 1, key: 4, value: 4, dtype: DType::Q4_K, window: 0 });
    }),
    ("uses a state of this kind", Unsupported, |program| {
        program.states[0] = State::Fixed(FixedState { shape: vec![1] });
    }),
    ("operation 0 (embed): weight 99 does not exist", InvalidArgument, change!(Embed, op => op.table = 99)),
    ("unknown `", Unsupported, change!(Embed, op => op.index = RowIndex(9))),
    ("one row for each", InvalidArgument, change!(Embed, op => op.out = slice(5, 0, 8))),
    ("value 77 does not exist", InvalidArgument, change!(Norm, op => op.x.value = 77)),
    ("elements 1 to 1 + 8 are out of range", InvalidArgument, change!(Norm, op => op.x.first = 1)),
    ("out of range for value 0", InvalidArgument, change!(Norm, op => op.x.first = u32::MAX)),
    ("out of range for value 0", InvalidArgument, change!(Norm, op => op.x.width = 0)),
    ("the result has 4 elements", InvalidArgument, change!(Norm, op => op.out.width = 4)),
    ("8 elements cannot be divided evenly into 3 heads", InvalidArgument, change!(Norm, op => op.heads = 3)),
    ("cannot be divided evenly into 0 heads", InvalidArgument, change!(Norm, op => op.heads = 0)),
    ("the gain is a matrix of 8 x 8", InvalidArgument, change!(Norm, op => op.gain = Some(1))),
    ("the bias is a matrix of 10 x 8", InvalidArgument, change!(Norm, op => op.bias = Some(0))),
    ("its values have different rows", InvalidArgument, change!(Norm, op => op.out = slice(5, 0, 8))),
    ("it has no matrix", InvalidArgument, change!(Linear, op => op.parts.clear())),
    ("the result overlaps the input", InvalidArgument, change!(Linear, op => op.parts[0].out = op.x)),
    (
        "the result overlaps another result",
        InvalidArgument,
        change!(Linear, op => { op.residual = None; op.parts.push(op.parts[0]) }),
    ),
    (
        "only be added to the result of a single matrix",
        InvalidArgument,
        change!(Linear, op => op.parts.push(WeightPart { out: slice(2, 8, 8), ..op.parts[0] })),
    ),
    ("has an input of 4 elements", InvalidArgument, change!(Linear, op => op.x.width = 4)),
    (
        "out of range for a matrix of 8 rows",
        InvalidArgument,
        change!(Linear, op => op.parts[0].first_row = 1),
    ),
    (
        "the residual has 4 elements",
        InvalidArgument,
        change!(Linear, op => op.residual = Some(slice(0, 0, 4))),
    ),
    (
        "the result overlaps the residual",
        InvalidArgument,
        change!(Linear, op => op.residual = Some(slice(2, 1, 8))),
    ),
    ("the matrix has 10 x 8 elements", InvalidArgument, change!(HeadLinear, op => op.weight = 0)),
    ("the factor has 6", InvalidArgument, change!(Activate, op => op.up = Some(slice(3, 0, 6)))),
    (
        "requires a factor",
        InvalidArgument,
        change!(Activate, op => { op.kind = Activation::SWIGLU_CLAMPED; op.up = None }),
    ),
    ("out of range for a head of 4", InvalidArgument, change!(Rope, op => op.first = 1)),
    ("0 pairs from element 0", InvalidArgument, change!(Rope, op => op.frequencies.clear())),
    ("state 3 does not exist", InvalidArgument, change!(Append, op => op.state = 3)),
    ("the key has 3 elements, expected 4", InvalidArgument, change!(Append, op => op.key.width = 3)),
    ("another operation stores the keys", InvalidArgument, |program| {
        let append = program.operations[6].clone();
        program.operations.insert(6, append);
    }),
    ("no earlier operation stores", InvalidArgument, |program| drop(program.operations.remove(6))),
    ("values of 4 elements from element 1", InvalidArgument, |program| {
        change!(Append, op => op.value = None)(program);
        change!(Attention, op => op.value_first = 1)(program);
    }),
    ("0 heads cannot share 1 key heads", InvalidArgument, change!(Attention, op => op.heads = 0)),
    ("the query has 8 elements, expected 12", InvalidArgument, change!(Attention, op => op.heads = 3)),
    ("the result overlaps the query", InvalidArgument, change!(Attention, op => op.out = op.query)),
    (
        "expected 2 slopes, one per head, found 1",
        InvalidArgument,
        change!(Attention, op => op.slopes = vec![1.0]),
    ),
    ("requires a window", InvalidArgument, change!(Attention, op => op.mask = Mask::WINDOW)),
    ("the sinks is a matrix of 1 x 8", InvalidArgument, change!(Attention, op => op.sinks = Some(2))),
    ("does not match 2 experts", InvalidArgument, change!(Route, op => op.groups_used = 2)),
    ("does not match 2 experts", InvalidArgument, change!(Route, op => op.out.width = 3)),
    ("the result overlaps the scores", InvalidArgument, change!(Route, op => op.out.first = 1)),
    ("cannot choose 2 of 1 experts", InvalidArgument, change!(ExpertLinear, op => op.experts = 1)),
    (
        "does not contain 8 rows from row 1",
        InvalidArgument,
        change!(ExpertLinear, op => op.parts[0].first_row = 1),
    ),
    ("expected 2 x 8", InvalidArgument, change!(ExpertLinear, op => op.parts[0].bias = Some(1))),
    ("the route has 2 elements", InvalidArgument, change!(ExpertLinear, op => op.route.width = 2)),
    ("cannot be divided evenly into 3 choices", InvalidArgument, change!(Combine, op => op.used = 3)),
    ("the result overlaps the input", InvalidArgument, change!(Combine, op => op.out = slice(4, 4, 8))),
    ("the second has 2 elements", InvalidArgument, change!(Binary, op => op.b.width = 2)),
    (
        "the result overlaps the first",
        InvalidArgument,
        change!(Binary, op => { op.a = slice(4, 1, 8); op.out = slice(4, 0, 8) }),
    ),
    ("0 is not a valid bound for a soft cap", InvalidArgument, change!(Unary, op => op.a = 0.0)),
    ("the result has 5 elements, expected 6", InvalidArgument, change!(Measure, op => op.out.width = 5)),
    (
        "the result overlaps the input",
        InvalidArgument,
        change!(Measure, op => { op.x = slice(4, 0, 8); op.out = slice(4, 7, 6) }),
    ),
    ("its values have different rows", InvalidArgument, change!(Measure, op => op.x = slice(5, 0, 8))),
    ("rows of outputs from rows of the batch", InvalidArgument, change!(Pool, op => op.out = slice(2, 0, 8))),
    ("by row and by sequence", Unsupported, |program| {
        let mut pool = program.operations[14].clone();
        if let Operation::Pool(pool) = &mut pool {
            pool.kind = Pooling::OUTPUTS;
        }
        program.operations.insert(14, pool);
    }),
    ("must be the last operation", InvalidArgument, |program| {
        let first = program.operations[0].clone();
        program.operations.push(first);
    }),
];

#[test]
fn a_program_that_holds_together_is_accepted_and_described() {
    let program = CheckedProgram::new(sound(), &WEIGHTS).unwrap();
    assert_eq!(program.operations().len(), 16);
    assert_eq!(program.values_are_views(0), Some(false));
    assert!(program.is_pooled());
    let columns = program.columns(&slice(2, 8, 4));
    assert_eq!(columns, Columns { value: 2, first: 8, width: 4, rows: RowsOf::BATCH });
    let error = program.for_each_operation(|_, _| Err(Error::unsupported("no"))).unwrap_err();
    assert_eq!(error.message(), "operation 0 (embed): no");
}

#[test]
fn what_does_not_hold_together_is_refused_with_its_operation() {
    for (words, kind, change) in CASES {
        let mut program = sound();
        change(&mut program);
        let error = CheckedProgram::new(program, &WEIGHTS).err();
        let error = error.unwrap_or_else(|| panic!("{words}: it is accepted"));
        assert_eq!(error.kind(), *kind, "{words}: {error}");
        assert!(error.message().contains(words), "{words}: {}", error.message());
    }
}
