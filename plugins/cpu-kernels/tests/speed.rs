//! What a token costs besides its matrices. Ignored, for it takes 1 GB and a quiet machine:
//! `cargo test --release -p apr-plugin-cpu-kernels -- --ignored --nocapture`.

use crate::setup::open;
use crate::spinning::Spinning;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, DType, Embed, Linear, Mask, MatrixSpec, Norm, NormKind,
    Operation, PagedState, Pool, Pooling, Program, Rope, RopeStyle, RowIndex, RowsOf, Sample, Sampler,
    Session, SessionLimits, State, StateCommand, StateVerb, TimingSink, ValueSpec, Weight,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{part, slice};
use apr_testkit::kernels::{Floats, Given, HeapSink, Plain, prepare};
use std::time::Instant;

const LAYERS: u32 = 28;
const HIDDEN: u32 = 1536;
const HEADS: u32 = 12;
const KEY_HEADS: u32 = 2;
const HEAD: u32 = 128;
const INNER: u32 = 8960;
const VOCABULARY: u32 = 151_936;

/// Blocks of Q4_K with moderate scales and random codes.
fn blocks(random: &mut Random, rows: u32, columns: u32) -> Vec<u8> {
    let mut bytes = vec![0; (rows * columns / 256) as usize * 144];
    for block in bytes.chunks_exact_mut(144) {
        block.chunks_mut(8).for_each(|chunk| {
            let random = random.bits().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        });
        // A scale of 2^-11, and a least value of 2^-9, about.
        block[..4].copy_from_slice(&[0, 0x10, 0, 0x18]);
    }
    bytes
}

struct Times(Vec<u64>);

impl TimingSink for Times {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> apr_sdk::Result<()> {
        self.0.resize(self.0.len().max(operation as usize + 1), 0);
        self.0[operation as usize] += nanoseconds;
        Ok(())
    }
}

fn model(device: &dyn apr_sdk::Device) -> (Program, Vec<Weight>) {
    let mut random = Random::new(1);
    let mut program = Program::default();
    let q4 = |bytes: &[u8], rows: u32, columns: u32| {
        let spec = MatrixSpec::new(DType::Q4_K, u64::from(rows), u64::from(columns)).unwrap();
        device.prepare(&spec, &Plain(bytes, columns as usize / 256 * 144), &mut HeapSink).unwrap()
    };
    let (q, kv) = (HEADS * HEAD, KEY_HEADS * HEAD);
    let table = blocks(&mut random, VOCABULARY, HIDDEN);
    let inner = blocks(&mut random, INNER, HIDDEN);
    let mut weights = vec![q4(&table, VOCABULARY, HIDDEN)];
    weights.push(prepare(device, &Floats::gain(&mut random, HIDDEN as usize)).unwrap());
    weights.push(prepare(device, &Floats::random(&mut random, 1, q as usize)).unwrap());
    weights.push(prepare(device, &Floats::random(&mut random, 1, kv as usize)).unwrap());
    for width in [HIDDEN, HIDDEN, q + 2 * kv, q, 2 * INNER] {
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    program.values.push(ValueSpec { width: HIDDEN, rows: RowsOf::OUTPUTS });
    program.values.push(ValueSpec { width: VOCABULARY, rows: RowsOf::OUTPUTS });
    let (x, normed, mixed) = (slice(0, 0, HIDDEN), slice(1, 0, HIDDEN), slice(3, 0, q));
    let (query, key, value) = (slice(2, 0, q), slice(2, q, kv), slice(2, q + kv, kv));
    let (gate, up) = (slice(4, 0, INNER), slice(4, INNER, INNER));
    let norm = |x, out| -> Operation {
        Norm { x, out, kind: NormKind::RMS, gain: Some(1), bias: None, epsilon: 1e-6, heads: 1 }.into()
    };
    let all = &mut program.operations;
    all.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into());
    for layer in 0..LAYERS {
        let mut add = |bytes: &[u8], rows, columns| {
            weights.push(q4(bytes, rows, columns));
            weights.len() as u32 - 1
        };
        let paged = PagedState { heads: KEY_HEADS, key: HEAD, value: HEAD, dtype: DType::F16, window: 0 };
        program.states.push(State::Paged(paged));
        all.push(norm(x, normed));
        let mut parts: Vec<_> = [query, key, value]
            .into_iter()
            .map(|out| part(add(&inner[..(out.width * HIDDEN / 256 * 144) as usize], out.width, HIDDEN), out))
            .collect();
        parts.iter_mut().zip([2, 3, 3]).for_each(|(part, bias)| part.bias = Some(bias));
        all.push(Linear { x: normed, parts, residual: None, scale: 1.0 }.into());
        for (x, heads) in [(query, HEADS), (key, KEY_HEADS)] {
            let frequencies = (0..HEAD / 2).map(|i| 1e6f32.powf(-(i as f32) / 64.0)).collect();
            let style = RopeStyle::HALF;
            all.push(Rope { x, out: x, heads, first: 0, style, frequencies, magnitude: 1.0 }.into());
        }
        all.push(Append { state: layer, key, value: Some(value) }.into());
        let attention = Attention {
            state: layer,
            query,
            out: mixed,
            heads: HEADS,
            scale: 0.088,
            mask: Mask::CAUSAL,
            window: 0,
            soft_cap: 0.0,
            sinks: None,
            slopes: Vec::new(),
            value_first: 0,
        };
        all.push(attention.into());
        let weight = add(&inner[..(q * HIDDEN / 256 * 144) as usize], HIDDEN, q);
        all.push(Linear { x: mixed, parts: vec![part(weight, x)], residual: Some(x), scale: 1.0 }.into());
        all.push(norm(x, normed));
        let parts = [gate, up].map(|out| part(add(&inner, INNER, HIDDEN), out)).to_vec();
        all.push(Linear { x: normed, parts, residual: None, scale: 1.0 }.into());
        let kind = Activation::SILU;
        all.push(Activate { kind, gate, up: Some(up), out: gate, alpha: 0.0, limit: 0.0 }.into());
        let weight = add(&inner, HIDDEN, INNER);
        all.push(Linear { x: gate, parts: vec![part(weight, x)], residual: Some(x), scale: 1.0 }.into());
    }
    let (last, logits) = (slice(5, 0, HIDDEN), slice(6, 0, VOCABULARY));
    all.push(Pool { kind: Pooling::OUTPUTS, x, out: last, normalize: false }.into());
    all.push(norm(last, last));
    all.push(Linear { x: last, parts: vec![part(0, logits)], residual: None, scale: 1.0 }.into());
    all.push(Sample { logits }.into());
    (program, weights)
}

/// How long this thread has run, in milliseconds, where the system says so: machines are shared.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// Runs rows from a position on; milliseconds.
fn run(session: &mut dyn Session, workers: &Spinning, from: u32, count: u32) -> f64 {
    let ids: Vec<u32> = (0..count).map(|row| (from + row) * 7919 % VOCABULARY).collect();
    let positions: Vec<u32> = (from..from + count).collect();
    let outputs = [count - 1];
    let sequences = vec![0; count as usize];
    let batch = Batch::new(&ids, &positions, &sequences, &outputs).unwrap().with_sampler(Sampler::Greedy);
    let start = Instant::now();
    session.step(&batch, workers, &mut Given::default()).unwrap();
    start.elapsed().as_secs_f64() * 1e3
}

#[test]
#[ignore = "it measures"]
fn a_token_of_one_and_a_half_billion_weights() {
    let device = open("auto").unwrap();
    let (program, weights) = model(&*device);
    let bytes = program.to_bytes().unwrap();
    let mut session = device.compile(&bytes, &weights, &SessionLimits::new(512, 1, 4200)).unwrap();
    for threads in [1, 2] {
        let workers = Spinning::new(threads);
        for context in [16, 1024] {
            let trim = |position| StateCommand { verb: StateVerb::TRIM, sequence: 0, target: 0, position };
            session.state(&trim(0)).unwrap();
            let mut prompt = 0.0;
            for from in (0..context).step_by(512) {
                prompt += run(&mut *session, &workers, from, 512.min(context - from));
            }
            let mut best = (f64::INFINITY, Vec::new());
            let mut processor = f64::INFINITY;
            for at in 0..20 {
                let before = processor_time();
                let time = run(&mut *session, &workers, context + at, 1);
                processor = processor.min(processor_time() - before);
                if time < best.0 {
                    let mut times = Times(Vec::new());
                    session.timings(&mut times).unwrap();
                    best = (time, times.0);
                }
            }
            let mut by: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
            for (operation, time) in program.operations.iter().zip(&best.1) {
                *by.entry(operation.code().0.name()).or_default() += *time as f64 / 1e6;
            }
            let all: f64 = by.values().sum();
            let matrices = by["linear"];
            println!(
                "{threads} threads, context {context}: prompt {:.1} tokens/s; token {:.2} ms (this thread's time \
                 {processor:.2}), besides matrices {:.2} ms ({:.1} %)",
                f64::from(context) / prompt * 1e3,
                best.0,
                best.0 - matrices,
                (best.0 - matrices) / best.0 * 100.0
            );
            println!("    operations {all:.2} ms: {by:.2?}");
        }
    }
}
