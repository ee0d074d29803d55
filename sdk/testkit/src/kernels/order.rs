//! Operations in any order that their values allow: what one leaves for others is there until all of them have read it.

use super::judge::{difference, ensure};
use super::programs::{part, slice};
use super::setup::{Floats, HeapSink, Plain, prepare, step};
use super::subject::Subject;
use crate::Random;
use apr_sdk::{
    Batch, DType, Device, Embed, Linear, MatrixSpec, Norm, NormKind, Operation, Program, Result, RowIndex,
    RowsOf, SessionLimits, ValueSpec, Weight,
};

/// Elements of a row.
const WIDTH: u32 = 64;
/// Elements of a product's row.
const OUT: u32 = 32;
/// Norms of the same value, each of which two products read.
const NORMS: u32 = 3;
/// Rows of the table.
const TOKENS: u32 = 40;
/// Number of orders that are tried.
const ORDERS: usize = 15;

/// The operations, each with the numbers of those that it needs.
fn operations() -> Vec<(Operation, Vec<usize>)> {
    let x = slice(0, 0, WIDTH);
    let embed = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x };
    let mut all: Vec<(Operation, Vec<usize>)> = vec![(embed.into(), Vec::new())];
    for norm in 1..=NORMS {
        let out = slice(norm, 0, WIDTH);
        let kind = NormKind::RMS;
        let gain = Some(norm);
        all.push((Norm { x, out, kind, gain, bias: None, epsilon: 1e-6, heads: 1 }.into(), vec![0]));
    }
    for product in 0..2 * NORMS {
        let norm = 1 + product / 2;
        let number = 1 + NORMS + product;
        let parts = vec![part(number, slice(number, 0, OUT))];
        let linear = Linear { x: slice(norm, 0, WIDTH), parts, residual: None, scale: 1.0 };
        all.push((linear.into(), vec![norm as usize]));
    }
    all
}

/// The operations in an order in which each comes after those that it needs.
fn shuffled(random: &mut Random, operations: &[(Operation, Vec<usize>)]) -> Vec<Operation> {
    let mut left: Vec<usize> = (0..operations.len()).collect();
    let mut order: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let mut free: Vec<usize> = (0..left.len()).collect();
        free.retain(|at| operations[left[*at]].1.iter().all(|needed| order.contains(needed)));
        order.push(left.remove(free[random.bits() as usize % free.len()]));
    }
    order.into_iter().map(|number| operations[number].0.clone()).collect()
}

/// A matrix of one of the types, whose numbers are small.
fn matrix(device: &dyn Device, random: &mut Random, dtype: DType) -> Result<Weight> {
    if dtype == DType::F32 {
        return prepare(device, &Floats::random(random, OUT as usize, WIDTH as usize));
    }
    let spec = MatrixSpec::new(dtype, u64::from(OUT), u64::from(WIDTH))?;
    let mut bytes = random.bytes(spec.bytes() as usize);
    // A block of Q8_0 is a scale in F16, here 2^-8, and 32 codes.
    bytes.chunks_mut(34).for_each(|block| block[..2].copy_from_slice(&0x1c00u16.to_le_bytes()));
    device.prepare(&spec, &Plain(&bytes, spec.row_bytes() as usize), &mut HeapSink)
}

/// Norms and products in many orders, a few rows and many at a time, with matrices of F32 and, where the device takes them, of
/// Q8_0, for which a device may round activations early.
///
/// # Errors
/// Failed for an order with other results; any error of the backend.
pub fn operations_in_any_order_compute_the_same(subject: &Subject) -> Result<()> {
    let operations = operations();
    let mut program = Program::default();
    for value in 0..=3 * NORMS {
        let width = if value > NORMS { OUT } else { WIDTH };
        program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
    }
    for ((name, device), dtype) in
        subject.devices.iter().flat_map(|one| [DType::F32, DType::Q8_0].map(|dtype| (one, dtype)))
    {
        if device.image(&MatrixSpec::new(dtype, u64::from(OUT), u64::from(WIDTH))?).is_err() {
            continue;
        }
        let mut random = Random::new(1);
        let mut weights =
            vec![prepare(&**device, &Floats::random(&mut random, TOKENS as usize, WIDTH as usize))?];
        for _ in 0..NORMS {
            weights.push(prepare(&**device, &Floats::gain(&mut random, WIDTH as usize))?);
        }
        for _ in 0..2 * NORMS {
            weights.push(matrix(&**device, &mut random, dtype)?);
        }
        for rows in [3, 20] {
            let ids: Vec<u32> = (0..rows).collect();
            let zeros: Vec<u32> = vec![0; rows as usize];
            let batch = Batch::new(&ids, &ids, &zeros, &[])?;
            let mut first: Option<Vec<f64>> = None;
            for order in 0..ORDERS {
                program.operations = shuffled(&mut random, &operations);
                let mut session =
                    device.compile(&program.to_bytes()?, &weights, &SessionLimits::new(32, 1, 64))?;
                step(&mut *session, &batch, subject.workers(order))?;
                let mut all = Vec::new();
                for value in NORMS + 1..=3 * NORMS {
                    let mut out = vec![0.0; (OUT * rows) as usize];
                    session.read(value, &mut out)?;
                    all.extend(out);
                }
                let first = first.get_or_insert_with(|| all.iter().map(|x| f64::from(*x)).collect());
                let difference = difference(&all, first);
                let bound = subject.slack * 1e-5;
                ensure(difference < bound, || {
                    let codes = program.operations.iter().map(|one| one.code().0.name()).collect::<Vec<_>>();
                    format!("{name}, {dtype}, {rows} rows: {difference:e} with the order {codes:?}")
                })?;
            }
        }
    }
    Ok(())
}
