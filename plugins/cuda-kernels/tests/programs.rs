//! Whole programs: against the interpreter, with any number of workers, and step by step.

use crate::reference::Interpreter;
use crate::setup::*;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, DType, Embed, Linear, Mask, Norm, NormKind, Operation,
    PagedState, Pool, Pooling, Program, Rope, RopeStyle, RowIndex, RowsOf, Sample, Sampler, SessionLimits,
    Slice, State, StateCommand, StateVerb, ValueSpec, WeightPart,
};

pub const HIDDEN: u32 = 48;
pub const VOCABULARY: u32 = 71;

pub fn slice(value: u32, first: u32, width: u32) -> Slice {
    Slice { value, first, width }
}

pub fn part(weight: u32, out: Slice) -> WeightPart {
    WeightPart { weight, first_row: 0, bias: None, out }
}

/// A small decoder of the common shape: 2 layers, 6 query heads over 2 key heads.
pub fn decoder(random: &mut Random, cache: DType) -> (Program, Vec<Floats>) {
    let (heads, key_heads, head, inner) = (6, 2, 8, 100);
    let (q, kv) = (heads * head, key_heads * head);
    let mut program = Program::default();
    let mut weights = vec![Floats::random(random, VOCABULARY as usize, HIDDEN as usize)];
    let add = |weights: &mut Vec<Floats>, matrix: Floats| {
        weights.push(matrix);
        weights.len() as u32 - 1
    };
    for width in [HIDDEN, HIDDEN, q + 2 * kv, q, 2 * inner] {
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    program.values.push(ValueSpec { width: HIDDEN, rows: RowsOf::OUTPUTS });
    program.values.push(ValueSpec { width: VOCABULARY, rows: RowsOf::OUTPUTS });
    let (x, normed, qkv, mixed, gated) =
        (slice(0, 0, HIDDEN), slice(1, 0, HIDDEN), 2, slice(3, 0, q), slice(4, 0, inner));
    let operations = &mut program.operations;
    operations.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 6.0, out: x }.into());
    let norm = |weights: &mut Vec<Floats>, random: &mut Random, x, out| -> Operation {
        let gain = add(weights, Floats::gain(random, HIDDEN as usize));
        Norm { x, out, kind: NormKind::RMS, gain: Some(gain), bias: None, epsilon: 1e-6, heads: 1 }.into()
    };
    for layer in 0..2 {
        program.states.push(State::Paged(PagedState {
            heads: key_heads,
            key: head,
            value: head,
            dtype: cache,
            window: 0,
        }));
        operations.push(norm(&mut weights, random, x, normed));
        let (query, key, value) = (slice(qkv, 0, q), slice(qkv, q, kv), slice(qkv, q + kv, kv));
        let mut parts = Vec::new();
        for out in [query, key, value] {
            let weight = add(&mut weights, Floats::random(random, out.width as usize, HIDDEN as usize));
            let bias = add(&mut weights, Floats::random(random, 1, out.width as usize));
            parts.push(WeightPart { bias: Some(bias), ..part(weight, out) });
        }
        operations.push(Linear { x: normed, parts, residual: None, scale: 1.0 }.into());
        for (x, heads) in [(query, heads), (key, key_heads)] {
            let frequencies = (0..head / 2).map(|i| 100f32.powf(-(i as f32) / 4.0)).collect();
            operations.push(
                Rope { x, out: x, heads, first: 0, style: RopeStyle::HALF, frequencies, magnitude: 1.0 }
                    .into(),
            );
        }
        operations.push(Append { state: layer, key, value: Some(value) }.into());
        operations.push(
            Attention {
                state: layer,
                query,
                out: mixed,
                heads,
                scale: 1.0,
                mask: Mask::CAUSAL,
                window: 0,
                soft_cap: 0.0,
                sinks: None,
                slopes: Vec::new(),
                value_first: 0,
            }
            .into(),
        );
        let weight = add(&mut weights, Floats::random(random, HIDDEN as usize, q as usize));
        operations
            .push(Linear { x: mixed, parts: vec![part(weight, x)], residual: Some(x), scale: 1.0 }.into());
        operations.push(norm(&mut weights, random, x, normed));
        let up = slice(4, inner, inner);
        let parts = [gated, up]
            .map(|out| part(add(&mut weights, Floats::random(random, inner as usize, HIDDEN as usize)), out));
        operations.push(Linear { x: normed, parts: parts.to_vec(), residual: None, scale: 1.0 }.into());
        operations.push(
            Activate {
                kind: Activation::SILU,
                gate: gated,
                up: Some(up),
                out: gated,
                alpha: 0.0,
                limit: 0.0,
            }
            .into(),
        );
        let weight = add(&mut weights, Floats::random(random, HIDDEN as usize, inner as usize));
        operations
            .push(Linear { x: gated, parts: vec![part(weight, x)], residual: Some(x), scale: 1.0 }.into());
    }
    let (last, logits) = (slice(5, 0, HIDDEN), slice(6, 0, VOCABULARY));
    operations.push(Pool { kind: Pooling::OUTPUTS, x, out: last, normalize: false }.into());
    operations.push(norm(&mut weights, random, last, last));
    operations.push(Linear { x: last, parts: vec![part(0, logits)], residual: None, scale: 1.0 }.into());
    operations.push(Sample { logits }.into());
    (program, weights)
}

/// The largest difference, as a share of the root mean square.
pub fn difference(have: &[f32], want: &[f64]) -> f64 {
    assert_eq!(have.len(), want.len());
    let rms = (want.iter().map(|x| x * x).sum::<f64>() / want.len() as f64).sqrt();
    let most = have.iter().zip(want).map(|(have, want)| (f64::from(*have) - want).abs());
    most.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }) / rms.max(1e-30)
}

fn limits() -> SessionLimits {
    SessionLimits::new(300, 3, 500)
}

#[test]
fn a_decoder_computes_what_it_should_on_every_level() {
    for (cache, bound) in [(DType::F32, 1e-5), (DType::F16, 1e-3), (DType::Q8_0, 2e-2)] {
        let (program, weights) = decoder(&mut Random(1), cache);
        for (level, device) in devices() {
            let mut session = compile(&*device, &program, &weights, &limits()).unwrap();
            let mut reference = Interpreter::new(&program, &weights, 3);
            let ids: Vec<u32> = (0..290).map(|i| i * 37 % VOCABULARY).collect();
            let mut at = [0u32; 3];
            for (round, count) in [7usize, 1, 150, 1, 1, 40].into_iter().enumerate() {
                // Rows of two sequences, one after the other and in turn.
                let sequences: Vec<u32> =
                    (0..count).map(|row| if row % (round + 2) == 0 { 2 } else { 0 }).collect();
                let positions: Vec<u32> = sequences
                    .iter()
                    .map(|sequence| {
                        at[*sequence as usize] += 1;
                        at[*sequence as usize] - 1
                    })
                    .collect();
                let outputs: Vec<u32> = (0..count as u32).filter(|row| row % 3 == 0).collect();
                let batch = Batch::new(&ids[..count], &positions, &sequences, &outputs).unwrap();
                let given = step(&mut *session, &batch, 1 + round % 3).unwrap();
                reference.step(&batch);
                assert_eq!(given.logits.len(), outputs.len());
                for (have, want) in given.logits.iter().zip(&reference.logits) {
                    let difference = difference(have, want);
                    assert!(difference < bound, "{level} {cache} round {round}: {difference}");
                }
            }
        }
    }
}

#[test]
fn states_are_copied_trimmed_kept_and_brought_back() {
    let (program, weights) = decoder(&mut Random(3), DType::Q8_0);
    let device = devices().remove(0).1;
    let mut session = compile(&*device, &program, &weights, &limits()).unwrap();
    let feed = |session: &mut dyn apr_sdk::Session, sequence: u32, from: u32, ids: &[u32]| {
        let positions: Vec<u32> = (from..).take(ids.len()).collect();
        let (sequences, outputs) = (vec![sequence; ids.len()], [ids.len() as u32 - 1]);
        let batch = Batch::new(ids, &positions, &sequences, &outputs).unwrap();
        step(session, &batch, 2).map(|given| given.logits)
    };
    let command = |verb, sequence, target, position| StateCommand { verb, sequence, target, position };
    let ids: Vec<u32> = (0..70).collect();
    let want = feed(&mut *session, 0, 0, &ids).unwrap();
    // A copy goes its own way, and so does the original.
    session.state(&command(StateVerb::COPY, 0, 1, 0)).unwrap();
    let other = feed(&mut *session, 1, 70, &[5, 6]).unwrap();
    session.state(&command(StateVerb::SNAPSHOT, 0, 9, 0)).unwrap();
    feed(&mut *session, 0, 70, &[1, 2, 3]).unwrap();
    session.state(&command(StateVerb::TRIM, 0, 0, 40)).unwrap();
    assert_eq!(feed(&mut *session, 0, 40, &ids[40..]).unwrap(), want);
    session.state(&command(StateVerb::RESTORE, 0, 9, 0)).unwrap();
    assert_eq!(feed(&mut *session, 0, 70, &[5, 6]).unwrap(), other);
    session.state(&command(StateVerb::CLEAR, 0, 0, 0)).unwrap();
    assert_eq!(feed(&mut *session, 0, 0, &ids).unwrap(), want);
    assert!(feed(&mut *session, 0, 0, &ids).unwrap_err().message().contains("goes on at 70"));
    assert!(session.state(&command(StateVerb::RESTORE, 0, 3, 0)).is_err());
    assert!(session.state(&command(StateVerb::COPY, 0, 3, 0)).is_err());
    assert!(session.state(&command(StateVerb(77), 0, 3, 0)).is_err());
}

#[test]
fn tokens_values_and_times_are_given() {
    let (program, weights) = decoder(&mut Random(4), DType::F32);
    let device = crate::emulated::kernel(true).open(0, &apr_sdk::Options::new().with("timings", "on")).unwrap();
    let mut session = compile(&*device, &program, &weights, &limits()).unwrap();
    let batch = Batch::new(&[3, 4, 5], &[0, 1, 2], &[0, 0, 0], &[0, 2]).unwrap();
    let logits = step(&mut *session, &batch, 2).unwrap().logits;
    let clear = StateCommand { verb: StateVerb::CLEAR, sequence: 0, target: 0, position: 0 };
    session.state(&clear).unwrap();
    let tokens = step(&mut *session, &batch.with_sampler(Sampler::Greedy), 2).unwrap().tokens;
    for (logits, token) in logits.iter().zip(&tokens) {
        assert!(logits.iter().all(|logit| *logit <= logits[*token as usize]));
    }
    let mut hidden = vec![0.0; 3 * HIDDEN as usize];
    session.read(0, &mut hidden).unwrap();
    assert!(hidden.iter().all(|x| x.is_finite() && *x != 0.0));
    assert!(session.read(0, &mut hidden[1..]).is_err() && session.read(99, &mut hidden).is_err());
    let mut read = vec![0.0; 2 * VOCABULARY as usize];
    session.read(6, &mut read).unwrap();
    assert_eq!(read, logits.concat());
    struct Times(Vec<u64>);
    impl apr_sdk::TimingSink for Times {
        fn timing(&mut self, operation: u32, nanoseconds: u64) -> apr_sdk::Result<()> {
            assert_eq!(operation as usize, self.0.len());
            self.0.push(nanoseconds);
            Ok(())
        }
    }
    let mut times = Times(Vec::new());
    session.timings(&mut times).unwrap();
    assert_eq!(times.0.len(), program.operations.len());
    assert!(times.0.iter().sum::<u64>() > 0);
}
