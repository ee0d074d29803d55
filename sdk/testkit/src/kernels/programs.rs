//! Whole programs: against the interpreter, with any number of workers, and step by step.

use super::interpreter::Interpreter;
use super::judge::{Bits, difference, ensure, next_positions};
use super::setup::{Floats, Given, compile, step};
use super::subject::Subject;
use crate::Random;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, DType, Embed, Error, ErrorKind, Linear, Mask, Norm,
    NormKind, Operation, PagedState, Pool, Pooling, Program, Result, Rope, RopeStyle, RowIndex, RowsOf,
    Sample, Sampler, Session, SessionLimits, Slice, State, StateCommand, StateVerb, TimingSink, ValueSpec,
    WeightPart,
};

/// The width of the small decoder's rows, which are its value 0.
pub const HIDDEN: u32 = 48;
/// Number of tokens that the small decoder knows.
pub const VOCABULARY: u32 = 71;

/// Elements of a value.
pub fn slice(value: u32, first: u32, width: u32) -> Slice {
    Slice { value, first, width }
}

/// A whole matrix, without a bias.
pub fn part(weight: u32, out: Slice) -> WeightPart {
    WeightPart { weight, first_row: 0, bias: None, out }
}

/// Adds a weight, and returns its number.
fn add(weights: &mut Vec<Floats>, weight: Floats) -> u32 {
    weights.push(weight);
    weights.len() as u32 - 1
}

/// A norm of the small decoder, whose gain is added to the weights.
fn norm(weights: &mut Vec<Floats>, random: &mut Random, x: Slice, out: Slice) -> Operation {
    let gain = add(weights, Floats::gain(random, HIDDEN as usize));
    Norm { x, out, kind: NormKind::RMS, gain: Some(gain), bias: None, epsilon: 1e-6, heads: 1 }.into()
}

/// A small decoder of the common shape, and its weights: 2 layers, 6 query heads over 2 key heads, with caches of a type. Its
/// logits are value 6.
pub fn decoder(random: &mut Random, cache: DType) -> (Program, Vec<Floats>) {
    let heads = 6;
    let key_heads = 2;
    let head = 8;
    let inner = 100;
    let q = heads * head;
    let kv = key_heads * head;
    let mut program = Program::default();
    let mut weights = vec![Floats::random(random, VOCABULARY as usize, HIDDEN as usize)];
    for width in [HIDDEN, HIDDEN, q + 2 * kv, q, 2 * inner] {
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    program.values.push(ValueSpec { width: HIDDEN, rows: RowsOf::OUTPUTS });
    program.values.push(ValueSpec { width: VOCABULARY, rows: RowsOf::OUTPUTS });
    let x = slice(0, 0, HIDDEN);
    let normed = slice(1, 0, HIDDEN);
    let qkv = 2;
    let mixed = slice(3, 0, q);
    let gated = slice(4, 0, inner);
    let operations = &mut program.operations;
    operations.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 6.0, out: x }.into());
    for layer in 0..2 {
        program.states.push(State::Paged(PagedState {
            heads: key_heads,
            key: head,
            value: head,
            dtype: cache,
            window: 0,
        }));
        operations.push(norm(&mut weights, random, x, normed));
        let query = slice(qkv, 0, q);
        let key = slice(qkv, q, kv);
        let value = slice(qkv, q + kv, kv);
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
    let last = slice(5, 0, HIDDEN);
    let logits = slice(6, 0, VOCABULARY);
    operations.push(Pool { kind: Pooling::OUTPUTS, x, out: last, normalize: false }.into());
    operations.push(norm(&mut weights, random, last, last));
    operations.push(Linear { x: last, parts: vec![part(0, logits)], residual: None, scale: 1.0 }.into());
    operations.push(Sample { logits }.into());
    (program, weights)
}

fn limits() -> SessionLimits {
    SessionLimits::new(300, 3, 500)
}

/// Error allowed in the decoder's logits with caches of a type.
fn bound(subject: &Subject, cache: DType) -> f64 {
    subject.slack
        * match cache {
            DType::F32 => 1e-5,
            DType::F16 => 1e-3,
            _ => 2e-2,
        }
}

/// The decoder over every type of cache, with rows of two sequences one after the other and in turn.
///
/// # Errors
/// Failed for logits that are further off than the type of the cache explains; any error of the backend.
pub fn a_decoder_computes_what_it_should(subject: &Subject) -> Result<()> {
    for cache in &subject.caches {
        let (program, weights) = decoder(&mut Random::new(1), *cache);
        let bound = bound(subject, *cache);
        for (name, device) in &subject.devices {
            let mut session = compile(&**device, &program, &weights, &limits())?;
            let mut interpreter = Interpreter::new(&program, &weights, 3);
            let ids: Vec<u32> = (0..290).map(|i| i * 37 % VOCABULARY).collect();
            let mut at = [0u32; 3];
            for (round, count) in [7usize, 1, 150, 1, 1, 40].into_iter().enumerate() {
                let sequences: Vec<u32> =
                    (0..count).map(|row| if row % (round + 2) == 0 { 2 } else { 0 }).collect();
                let positions = next_positions(&mut at, &sequences);
                let outputs: Vec<u32> = (0..count as u32).filter(|row| row % 3 == 0).collect();
                let batch = Batch::new(&ids[..count], &positions, &sequences, &outputs)?;
                let given = step(&mut *session, &batch, subject.workers(round))?;
                interpreter.step(&batch)?;
                let about = format!("{name}, a cache of {cache}, step {round}");
                ensure(given.logits.len() == outputs.len(), || {
                    format!("{about}: the number of logits differs from the number of outputs")
                })?;
                for (have, want) in given.logits.iter().zip(&interpreter.logits) {
                    let difference = difference(have, want);
                    ensure(difference < bound, || {
                        format!("{about}: logits differ by {difference:e}, the bound is {bound:e}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// The decoder over the same rows with every number of workers, in one batch and in several.
///
/// # Errors
/// Failed for other bits where the subject says that they are the same, and otherwise for other bits of the same batches
/// with as many workers, or logits that differ by more than the type of the cache explains; any error of the backend.
pub fn neither_workers_nor_batches_change_the_result(subject: &Subject) -> Result<()> {
    let cache = subject.cache(DType::F16);
    let (program, weights) = decoder(&mut Random::new(2), cache);
    let bound = bound(subject, cache);
    let ids: Vec<u32> = (0..280).map(|i| i * 31 % VOCABULARY).collect();
    let zeros = vec![0; 280];
    let positions: Vec<u32> = (0..280).collect();
    let mut ways: Vec<(usize, usize)> = subject.workers.iter().map(|workers| (*workers, 280)).collect();
    ways.extend([140, 56, 1, 20].into_iter().enumerate().map(|(n, rows)| (subject.workers(n), rows)));
    if !subject.same_bits {
        ways.extend(ways.clone());
    }
    let mut bits = Bits::new(subject);
    let mut first: Option<Vec<f64>> = None;
    for (workers, pieces) in ways {
        let mut session = compile(subject.device()?, &program, &weights, &limits())?;
        let mut last = Given::default();
        // The last ones alone in small batches, for all would take long: by then there are positions enough to be split among
        // workers, and of 20 rows not all blocks have as many.
        let together = if pieces < 50 { 200 } else { pieces };
        let rest = (together..280).step_by(pieces).map(|first| first..first + pieces);
        for rows in std::iter::once(0..together).chain(rest) {
            let outputs = [rows.len() as u32 - 1];
            let batch =
                Batch::new(&ids[rows.clone()], &positions[rows.clone()], &zeros[rows.clone()], &outputs)?;
            last = step(&mut *session, &batch, workers)?;
        }
        let about = format!("workers: {workers}, rows in a batch: {pieces}");
        let logits = last.logits.concat();
        let first = first.get_or_insert_with(|| logits.iter().map(|x| f64::from(*x)).collect());
        let difference = difference(&logits, first);
        ensure(difference < bound, || {
            format!("{about}: logits differ by {difference:e}, the bound is {bound:e}")
        })?;
        bits.judge((workers, pieces), last.bits())
            .map_err(|error| Error::failed(format!("{about}: {}", error.message())))?;
    }
    Ok(())
}

pub(super) fn command(verb: StateVerb, sequence: u32, target: u32, position: u32) -> StateCommand {
    StateCommand { verb, sequence, target, position }
}

fn same(what: &str, have: &Given, want: &Given) -> Result<()> {
    ensure(have.bits() == want.bits(), || format!("other bits {what}"))
}

/// Steps through tokens of one sequence, whose first position is `from`; the last row wants output.
fn feed(session: &mut dyn Session, workers: usize, sequence: u32, from: u32, ids: &[u32]) -> Result<Given> {
    let positions: Vec<u32> = (from..).take(ids.len()).collect();
    let sequences = vec![sequence; ids.len()];
    let outputs = [ids.len() as u32 - 1];
    step(session, &Batch::new(ids, &positions, &sequences, &outputs)?, workers)
}

/// Every command to the states of the decoder's sequences.
///
/// # Errors
/// Failed for logits that show another state than there should be, and for a command that should be refused; any error
/// of the backend.
pub fn states_are_copied_trimmed_kept_and_brought_back(subject: &Subject) -> Result<()> {
    let cache = subject.cache(DType::Q8_0);
    let (program, weights) = decoder(&mut Random::new(3), cache);
    let mut session = compile(subject.device()?, &program, &weights, &limits())?;
    let session = &mut *session;
    let workers = subject.workers(1);
    let ids: Vec<u32> = (0..70).collect();
    let whole = feed(session, workers, 0, 0, &ids)?;
    // A copy goes its own way, and so does the original.
    session.state(&command(StateVerb::COPY, 0, 1, 0))?;
    let other = feed(session, workers, 1, 70, &[5, 6])?;
    session.state(&command(StateVerb::SNAPSHOT, 0, 9, 0))?;
    feed(session, workers, 0, 70, &[1, 2, 3])?;
    session.state(&command(StateVerb::TRIM, 0, 0, 40))?;
    let end = feed(session, workers, 0, 40, &ids[40..])?;
    // In one batch or in two.
    if subject.same_bits {
        same("after a trim", &end, &whole)?;
    }
    let want: Vec<f64> = whole.logits.concat().iter().map(|x| f64::from(*x)).collect();
    let difference = difference(&end.logits.concat(), &want);
    let bound = bound(subject, cache);
    ensure(difference < bound, || {
        format!("after a trim, logits differ by {difference:e}, the bound is {bound:e}")
    })?;
    session.state(&command(StateVerb::TRIM, 0, 0, 40))?;
    same("after a second trim", &feed(session, workers, 0, 40, &ids[40..])?, &end)?;
    session.state(&command(StateVerb::RESTORE, 0, 9, 0))?;
    same("of what was kept", &feed(session, workers, 0, 70, &[5, 6])?, &other)?;
    session.state(&command(StateVerb::CLEAR, 0, 0, 0))?;
    same("of a cleared sequence", &feed(session, workers, 0, 0, &ids)?, &whole)?;
    let again = feed(session, workers, 0, 0, &ids).err().map(|error| error.kind());
    ensure(again == Some(ErrorKind::InvalidArgument), || {
        "positions that already exist were accepted".to_owned()
    })?;
    for refused in [
        command(StateVerb::RESTORE, 0, 3, 0),
        command(StateVerb::COPY, 0, 3, 0),
        command(StateVerb(77), 0, 3, 0),
    ] {
        ensure(session.state(&refused).is_err(), || format!("{refused:?} was not refused"))?;
    }
    Ok(())
}

/// Times in the order of the operations.
struct Times(Vec<u64>);

impl TimingSink for Times {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> Result<()> {
        ensure(operation as usize == self.0.len(), || {
            format!("the time of operation {operation} is out of order")
        })?;
        self.0.push(nanoseconds);
        Ok(())
    }
}

/// Checks the results of a decoder's step besides logits: tokens, values and times.
///
/// # Errors
/// Failed for a token that is not the most likely one, values that are not those of the step, or times that are not those
/// of its operations; any error of the backend.
pub fn tokens_values_and_times_are_given(subject: &Subject) -> Result<()> {
    let (program, weights) = decoder(&mut Random::new(4), subject.cache(DType::F32));
    let device = subject.timed.as_deref().map_or_else(|| subject.device(), Ok)?;
    let mut session = compile(device, &program, &weights, &limits())?;
    let workers = subject.workers(1);
    let batch = Batch::new(&[3, 4, 5], &[0, 1, 2], &[0, 0, 0], &[0, 2])?;
    let logits = step(&mut *session, &batch, workers)?.logits;
    ensure(logits.len() == 2, || format!("expected 2 rows of logits, found {}", logits.len()))?;
    session.state(&StateCommand { verb: StateVerb::CLEAR, sequence: 0, target: 0, position: 0 })?;
    let tokens = step(&mut *session, &batch.with_sampler(Sampler::Greedy), workers)?.tokens;
    ensure(tokens.len() == 2, || format!("expected 2 tokens, found {}", tokens.len()))?;
    for (logits, token) in logits.iter().zip(&tokens) {
        let most = logits.get(*token as usize).copied().unwrap_or(f32::NAN);
        ensure(logits.iter().all(|logit| *logit <= most), || {
            format!("token {token} is not the most likely")
        })?;
    }
    let mut hidden = vec![0.0; 3 * HIDDEN as usize];
    session.read(0, &mut hidden)?;
    ensure(hidden.iter().all(|x| x.is_finite() && *x != 0.0), || {
        "value 0 has unexpected numbers".to_owned()
    })?;
    let refused = session.read(0, &mut hidden[1..]).is_err() && session.read(99, &mut hidden).is_err();
    ensure(refused, || "values that do not exist were read".to_owned())?;
    let mut read = vec![0.0; 2 * VOCABULARY as usize];
    session.read(6, &mut read)?;
    ensure(read == logits.concat(), || "value 6 is not the logits".to_owned())?;
    let mut times = Times(Vec::new());
    session.timings(&mut times)?;
    ensure(times.0.len() == program.operations.len(), || format!("times of {} operations", times.0.len()))?;
    ensure(times.0.iter().sum::<u64>() > 0, || "no operation took any time".to_owned())
}
