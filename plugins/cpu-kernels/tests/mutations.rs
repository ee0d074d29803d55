//! Programs with fields and bytes changed at random: whatever still compiles also runs.

use crate::setup::devices;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, Binary, BinaryKind, Combine, DType, Device, Embed,
    ErrorKind, ExpertLinear, ExpertScore, HeadLinear, Linear, Mask, Norm, NormKind, PagedState, Pool,
    Pooling, Program, Rope, RopeStyle, Route, RowIndex, RowsOf, Sample, Sampler, SessionLimits, State, Unary,
    UnaryKind, ValueSpec, Weight, WeightPart,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{decoder, part, slice};
use apr_testkit::kernels::{Floats, prepare, step};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A program with every operation that the small decoder lacks.
fn others() -> (Program, Vec<Floats>) {
    let mut random = Random::new(2);
    let shapes = [(16, 8), (1, 8), (1, 4), (16, 8), (8, 4), (4, 8), (32, 8), (4, 8)];
    let weights = shapes.map(|(rows, columns)| Floats::random(&mut random, rows, columns)).to_vec();
    let widths = [8, 16, 8, 4, 16, 16, 8];
    let mut values = widths.map(|width| ValueSpec { width, rows: RowsOf::BATCH }).to_vec();
    values.push(ValueSpec { width: 8, rows: RowsOf::OUTPUTS });
    let (x, two, heads, scores, route) =
        (slice(0, 0, 8), slice(1, 0, 16), slice(2, 0, 8), slice(3, 0, 4), slice(6, 0, 4));
    let (first, second, last) = (slice(4, 0, 16), slice(5, 0, 16), slice(7, 0, 8));
    let expert = |out| WeightPart { bias: Some(7), ..part(6, out) };
    let operations = vec![
        Embed { table: 0, index: RowIndex::POSITION, offset: 2, scale: 0.5, out: x }.into(),
        Norm { x, out: x, kind: NormKind::LAYER, gain: Some(2), bias: Some(1), epsilon: 1e-5, heads: 2 }
            .into(),
        Linear { x, parts: vec![part(3, two)], residual: None, scale: 2.0 }.into(),
        HeadLinear { x, out: heads, heads: 2, weight: 4 }.into(),
        Rope {
            x: heads,
            out: heads,
            heads: 2,
            first: 1,
            style: RopeStyle::INTERLEAVED,
            frequencies: vec![0.3],
            magnitude: 1.1,
        }
        .into(),
        Append { state: 0, key: heads, value: None }.into(),
        Attention {
            state: 0,
            query: two,
            out: slice(4, 0, 8),
            heads: 4,
            scale: 0.5,
            mask: Mask::PREFIX,
            window: 3,
            soft_cap: 20.0,
            sinks: Some(2),
            slopes: vec![0.5, 0.25, 0.1, 0.05],
            value_first: 2,
        }
        .into(),
        Binary { kind: BinaryKind::SUBTRACT, a: x, b: slice(4, 0, 8), out: x }.into(),
        Linear { x, parts: vec![part(5, scores)], residual: None, scale: 1.0 }.into(),
        Route {
            scores,
            out: route,
            score: ExpertScore::SIGMOID,
            normalize: true,
            scale: 1.5,
            bias: Some(2),
            groups: 2,
            groups_used: 1,
        }
        .into(),
        ExpertLinear { x, route, experts: 4, used: 2, shared_input: true, parts: vec![expert(first)] }.into(),
        Activate {
            kind: Activation::SWIGLU_CLAMPED,
            gate: first,
            up: Some(two),
            out: first,
            alpha: 1.7,
            limit: 7.0,
        }
        .into(),
        ExpertLinear {
            x: first,
            route,
            experts: 4,
            used: 2,
            shared_input: false,
            parts: vec![expert(second)],
        }
        .into(),
        Combine { x: second, route, used: 2, out: x, residual: Some(x) }.into(),
        Unary { kind: UnaryKind::SOFT_CAP, x, out: x, a: 3.0, b: 0.0 }.into(),
        Pool { kind: Pooling::MEAN, x, out: last, normalize: true }.into(),
        Sample { logits: last }.into(),
    ];
    let states = vec![State::Paged(PagedState { heads: 2, key: 4, value: 2, dtype: DType::Q8_0, window: 0 })];
    (Program { values, states, operations }, weights)
}

/// Compiles and runs. Gives whether it compiled, and whether all steps ran.
fn run(device: &dyn Device, bytes: &[u8], weights: &[Weight]) -> (bool, bool) {
    // What asks for much memory is refused or given it; neither is for this test.
    let Ok(program) = Program::from_bytes(bytes) else { return (false, false) };
    let widths: u64 = program.values.iter().map(|value| u64::from(value.width)).sum();
    if widths > 1 << 16 {
        return (false, false);
    }
    let limits = SessionLimits::new(12, 2, 300);
    let mut session = match device.compile(bytes, weights, &limits) {
        Ok(session) => session,
        Err(error) => {
            let kinds = [ErrorKind::InvalidArgument, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            return (false, false);
        }
    };
    let sequences = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0];
    let positions = [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 9];
    let first = Batch::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], &positions, &sequences, &[0, 8, 11]);
    let second = Batch::new(&[1, 2], &[10, 2], &[0, 1], &[1]).unwrap().with_sampler(Sampler::Greedy);
    let mut all = true;
    for (batch, workers) in [(first.unwrap(), 2), (second, 1)] {
        all &= match step(&mut *session, &batch, workers) {
            Ok(_) => true,
            Err(error) => {
                let kinds = [ErrorKind::InvalidArgument, ErrorKind::Failed];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                false
            }
        };
    }
    (true, all)
}

/// A number that programs are not made for, or that is near one that they are made for.
fn odd(random: &mut Random, was: u32) -> u32 {
    let near = [was.wrapping_sub(1), was.wrapping_add(1), was / 2, was.wrapping_mul(2)];
    let odd = [0, 1, 2, 3, 4, 8, 1 << 15, i32::MAX as u32, 1 << 31, u32::MAX, 0x7fc0_0000, 0xff80_0000];
    let pick = random.bits() as usize;
    if pick.is_multiple_of(2) { near[pick / 2 % near.len()] } else { odd[pick / 2 % odd.len()] }
}

#[test]
fn whatever_compiles_runs() {
    let devices = devices();
    for (program, weights) in [decoder(&mut Random::new(1), DType::F16), others()] {
        let prepared = |device: &dyn Device| -> Vec<Weight> {
            weights.iter().map(|matrix| prepare(device, matrix).unwrap()).collect()
        };
        let devices: Vec<_> = devices.iter().map(|(_, device)| (device, prepared(&**device))).collect();
        let bytes = program.to_bytes().unwrap();
        for (device, weights) in &devices {
            assert_eq!(run(&***device, &bytes, weights), (true, true), "it runs unchanged");
        }
        let rounds: u64 = std::env::var("APR_ROUNDS").map_or(6000, |rounds| rounds.parse().unwrap());
        let (mut compiled, mut ran) = (0, 0);
        for round in 0..rounds {
            let mut random = Random::new(round);
            let mut changed = bytes.clone();
            for _ in 0..1 + random.bits() % 2 {
                let at = random.bits() as usize % (changed.len() - 4);
                match random.bits() % 4 {
                    0 => changed[at] ^= 1 << (random.bits() % 8),
                    1 => changed[at] = random.bits() as u8,
                    // Numbers have four bytes, at whatever place.
                    _ => {
                        let field = changed[at..].first_chunk_mut::<4>().unwrap();
                        *field = odd(&mut random, u32::from_le_bytes(*field)).to_le_bytes();
                    }
                }
            }
            let (device, weights) = &devices[round as usize % devices.len()];
            let result = catch_unwind(AssertUnwindSafe(|| run(&***device, &changed, weights)));
            let (compiles, runs) =
                result.unwrap_or_else(|_| panic!("round {round}: {:?}", Program::from_bytes(&changed)));
            compiled += u64::from(compiles);
            ran += u64::from(runs);
        }
        assert!(compiled * 20 > rounds && ran * 50 > rounds, "{compiled} and {ran} of {rounds}");
    }
}
