//! What a program may do that models do not: operations in any order that their values allow, and batches of any form.

use crate::emulated::{kernel, library};
use apr_sdk::{
    Batch, DType, Device, Embed, HeadLinear, Linear, MatrixSpec, Norm, NormKind, Operation, Options, Pool,
    Pooling, Program, RowIndex, RowsOf, Sample, Sampler, Session, SessionLimits, ValueSpec, Weight,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{part, slice};
use apr_testkit::kernels::{Floats, HeapSink, Plain, prepare, step};

const WIDTH: u32 = 64;
const TOKENS: u32 = 40;

/// A matrix of Q8_0.
fn blocks(device: &dyn Device, random: &mut Random, rows: u64, columns: u64) -> Weight {
    let spec = MatrixSpec::new(DType::Q8_0, rows, columns).unwrap();
    let mut bytes = random.bytes(spec.bytes() as usize);
    // Scales of 2^-8: the first two bytes of 34.
    bytes.chunks_mut(34).for_each(|block| block[..2].copy_from_slice(&0x1c00u16.to_le_bytes()));
    device.prepare(&spec, &Plain(&bytes, spec.row_bytes() as usize), &mut HeapSink).unwrap()
}

fn floats(device: &dyn Device, random: &mut Random, rows: usize, columns: usize) -> Weight {
    prepare(device, &Floats::random(random, rows, columns)).unwrap()
}

fn compiled(device: &dyn Device, program: &Program, weights: &[Weight], rows: u32) -> Box<dyn Session> {
    device.compile(&program.to_bytes().unwrap(), weights, &SessionLimits::new(rows, 4, 64)).unwrap()
}

fn opened(has_tensor_cores: bool) -> Box<dyn Device> {
    kernel(has_tensor_cores).open(0, &Options::new()).unwrap()
}

/// An order of operations in which each comes after those that it needs.
fn shuffled(random: &mut Random, operations: &[(Operation, Vec<usize>)]) -> Vec<Operation> {
    let (mut left, mut order): (Vec<usize>, Vec<usize>) = ((0..operations.len()).collect(), Vec::new());
    while !left.is_empty() {
        let is_free = |at: &usize| operations[left[*at]].1.iter().all(|needed| order.contains(needed));
        let free: Vec<usize> = (0..left.len()).filter(is_free).collect();
        order.push(left.remove(free[random.bits() as usize % free.len()]));
    }
    order.into_iter().map(|number| operations[number].0.clone()).collect()
}

#[test]
fn activations_are_kept_until_all_who_read_them_have() {
    if library().is_none() {
        return;
    }
    let mut random = Random::new(21);
    // Three norms of one value, each of which two products read.
    let mut operations: Vec<(Operation, Vec<usize>)> = Vec::new();
    let x = slice(0, 0, WIDTH);
    let embed = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x };
    operations.push((embed.into(), Vec::new()));
    let mut program = Program::default();
    program.values.push(ValueSpec { width: WIDTH, rows: RowsOf::BATCH });
    for norm in 0..3 {
        let out = slice(1 + norm, 0, WIDTH);
        let (kind, gain) = (NormKind::RMS, Some(1 + norm));
        let made = Norm { x, out, kind, gain, bias: None, epsilon: 1e-6, heads: 1 };
        operations.push((made.into(), vec![0]));
        program.values.push(ValueSpec { width: WIDTH, rows: RowsOf::BATCH });
    }
    for product in 0..6 {
        let (x, out) = (slice(1 + product / 2, 0, WIDTH), slice(4 + product, 0, 32));
        let parts = vec![part(4 + product, out)];
        let linear = Linear { x, parts, residual: None, scale: 1.0 };
        operations.push((linear.into(), vec![1 + product as usize / 2]));
        program.values.push(ValueSpec { width: 32, rows: RowsOf::BATCH });
    }
    for has_tensor_cores in [true, false] {
        let device = opened(has_tensor_cores);
        let mut of = Random::new(22);
        let mut weights = vec![floats(&*device, &mut of, TOKENS as usize, WIDTH as usize)];
        weights.extend((0..3).map(|_| floats(&*device, &mut of, 1, WIDTH as usize)));
        weights.extend((0..6).map(|_| blocks(&*device, &mut of, 32, u64::from(WIDTH))));
        for rows in [3, 20] {
            let ids: Vec<u32> = (0..rows).collect();
            let zeros = ids_of(0, rows);
            let batch = Batch::new(&ids, &ids, &zeros, &[]).unwrap();
            let mut first: Option<Vec<Vec<f32>>> = None;
            for number in 0..15 {
                program.operations = shuffled(&mut random, &operations);
                let mut session = compiled(&*device, &program, &weights, 32);
                step(&mut *session, &batch, 1).unwrap();
                let all: Vec<Vec<f32>> = (4..10)
                    .map(|value| {
                        let mut out = vec![0.0; 32 * rows as usize];
                        session.read(value, &mut out).unwrap();
                        out
                    })
                    .collect();
                let first = first.get_or_insert_with(|| all.clone());
                assert!(all == *first, "order {number}, {rows} rows: {:?}", program.operations);
            }
        }
    }
}

fn ids_of(id: u32, count: u32) -> Vec<u32> {
    vec![id; count as usize]
}

#[test]
fn heads_of_many_rows_are_more_than_one_launch_has_room_for() {
    if library().is_none() {
        return;
    }
    const HEADS: u32 = 200;
    let (wide, rows) = (HEADS * 32, 328);
    let mut program = Program::default();
    for width in [wide, HEADS] {
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    let (x, out) = (slice(0, 0, wide), slice(1, 0, HEADS));
    program.operations.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into());
    program.operations.push(HeadLinear { x, weight: 1, heads: HEADS, out }.into());
    for is_blocks in [true, false] {
        let device = opened(true);
        let mut random = Random::new(23);
        let table = floats(&*device, &mut random, TOKENS as usize, wide as usize);
        let matrix = match is_blocks {
            true => blocks(&*device, &mut random, u64::from(HEADS), 32),
            false => floats(&*device, &mut random, HEADS as usize, 32),
        };
        let mut session = compiled(&*device, &program, &[table, matrix], rows);
        let mut results = |count: u32, first: u32| {
            let ids: Vec<u32> = (first..first + count).map(|row| row * 7 % TOKENS).collect();
            let zeros = ids_of(0, count);
            step(&mut *session, &Batch::new(&ids, &zeros, &zeros, &[]).unwrap(), 1).unwrap();
            let mut out = vec![0.0; (HEADS * count) as usize];
            session.read(1, &mut out).unwrap();
            out
        };
        let all = results(rows, 0);
        // The last are those of the second launch.
        for first in [0, rows - 8] {
            let at = (first * HEADS) as usize;
            assert!(all[at..][..8 * HEADS as usize] == results(8, first), "{is_blocks}, from row {first}");
        }
    }
}

#[test]
fn as_many_tokens_are_chosen_as_rows_want_output() {
    if library().is_none() {
        return;
    }
    // Logits of the batch's own rows, beside a pool of whole sequences.
    let mut program = Program::default();
    for (width, rows) in [(WIDTH, RowsOf::BATCH), (TOKENS, RowsOf::BATCH), (WIDTH, RowsOf::OUTPUTS)] {
        program.values.push(ValueSpec { width, rows });
    }
    let (x, logits, pooled) = (slice(0, 0, WIDTH), slice(1, 0, TOKENS), slice(2, 0, WIDTH));
    program.operations = vec![
        Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into(),
        Pool { kind: Pooling::MEAN, x, out: pooled, normalize: false }.into(),
        Linear { x, parts: vec![part(0, logits)], residual: None, scale: 1.0 }.into(),
        Sample { logits }.into(),
    ];
    let device = opened(true);
    let table = floats(&*device, &mut Random::new(24), TOKENS as usize, WIDTH as usize);
    let tokens = |session: &mut dyn Session, ids: &[u32], outputs: &[u32]| {
        let zeros = ids_of(0, ids.len() as u32);
        let batch = Batch::new(ids, &zeros, &zeros, outputs).unwrap().with_sampler(Sampler::Greedy);
        step(session, &batch, 1).unwrap().tokens
    };
    let steps: [(&[u32], &[u32]); 5] = [
        (&[1, 2, 3, 4], &[0, 1, 2]),
        (&[5, 6, 7], &[]),
        (&[5, 6, 7], &[2]),
        (&[8, 9, 10], &[0, 1, 2]),
        (&[11, 12, 13], &[1, 2]),
    ];
    let mut session = compiled(&*device, &program, &[table], 8);
    for (ids, outputs) in steps {
        let mut fresh = compiled(&*device, &program, &[table], 8);
        let want = tokens(&mut *fresh, ids, outputs);
        assert_eq!(want.len(), outputs.len());
        assert_eq!(tokens(&mut *session, ids, outputs), want, "{ids:?} {outputs:?}");
    }
}
