//! Products of heads in batches that one launch has no room for.

use crate::emulated::{kernel, library};
use apr_sdk::{
    Batch, DType, Embed, HeadLinear, MatrixSpec, Options, Program, RowIndex, RowsOf, SessionLimits, ValueSpec,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::slice;
use apr_testkit::kernels::{Floats, HeapSink, Plain, prepare, step};

const HEADS: u32 = 200;
const WIDE: u32 = HEADS * 32;
const TOKENS: u32 = 40;
/// With the heads, more than 65535.
const ROWS: u32 = 328;

#[test]
fn heads_of_many_rows_are_launched_in_pieces() {
    if library().is_none() {
        return;
    }
    let mut program = Program::default();
    for width in [WIDE, HEADS] {
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    let (x, out) = (slice(0, 0, WIDE), slice(1, 0, HEADS));
    program.operations.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into());
    program.operations.push(HeadLinear { x, weight: 1, heads: HEADS, out }.into());
    let device = kernel(true).open(0, &Options::new()).unwrap();
    let mut random = Random::new(23);
    let table = prepare(&*device, &Floats::random(&mut random, TOKENS as usize, WIDE as usize)).unwrap();
    let floats = prepare(&*device, &Floats::random(&mut random, HEADS as usize, 32)).unwrap();
    // A block of Q8_0 is a scale in F16, here 2^-8, and 32 codes.
    let spec = MatrixSpec::new(DType::Q8_0, u64::from(HEADS), 32).unwrap();
    let mut bytes = random.bytes(spec.bytes() as usize);
    bytes.chunks_mut(34).for_each(|block| block[..2].copy_from_slice(&0x1c00u16.to_le_bytes()));
    let blocks = device.prepare(&spec, &Plain(&bytes, 34), &mut HeapSink).unwrap();
    for (name, matrix) in [("F32", floats), ("Q8_0", blocks)] {
        let limits = SessionLimits::new(ROWS, 1, 1);
        let mut session = device.compile(&program.to_bytes().unwrap(), &[table, matrix], &limits).unwrap();
        let mut results = |count: u32, first: u32| {
            let ids: Vec<u32> = (first..first + count).map(|row| row * 7 % TOKENS).collect();
            let zeros = vec![0; count as usize];
            step(&mut *session, &Batch::new(&ids, &zeros, &zeros, &[]).unwrap(), 1).unwrap();
            let mut out = vec![0.0; (HEADS * count) as usize];
            session.read(1, &mut out).unwrap();
            out
        };
        let all = results(ROWS, 0);
        // The last are those of the second launch.
        for first in [0, ROWS - 8] {
            let at = (first * HEADS) as usize;
            assert!(all[at..][..8 * HEADS as usize] == results(8, first), "{name}, from row {first}");
        }
    }
}
