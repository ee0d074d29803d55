//! The host's side of a backend, for tests: threads, memory, plain rows, and a sink for what a step gives.

use super::judge::ensure;
use crate::Random;
use apr_sdk::{
    Barrier, Batch, DType, Device, Error, ErrorKind, ImageMemory, ImageSink, MatrixSpec, Program, Result,
    Rows, Session, SessionLimits, StepSink, Weight, Workers,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Workers by number; their threads are made for each region.
pub struct Threads(pub usize);

/// A barrier that a failed worker opens for all.
struct Gate {
    width: usize,
    waits: AtomicUsize,
    failed: AtomicBool,
}

impl Gate {
    /// Opens the barrier for all if a worker's result is an error.
    fn watch(&self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}

impl Barrier for Gate {
    fn wait(&self) -> Result<()> {
        let round = self.waits.fetch_add(1, Ordering::AcqRel) / self.width;
        while self.waits.load(Ordering::Acquire) < (round + 1) * self.width {
            if self.failed.load(Ordering::Acquire) {
                return Err(Error::cancelled("another worker failed"));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Workers for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        let gate = Gate { width: self.0, waits: AtomicUsize::new(0), failed: AtomicBool::new(false) };
        let gate = &gate;
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.0).map(|worker| scope.spawn(move || gate.watch(body(worker, gate)))).collect();
            let mut results = vec![gate.watch(body(0, gate))];
            for other in others {
                results.push(other.join().unwrap_or_else(|_| Err(Error::failed("a worker panicked"))));
            }
            let failed = results
                .iter()
                .find(|result| matches!(result, Err(error) if error.kind() != ErrorKind::Cancelled));
            failed.or(results.iter().find(|result| result.is_err())).cloned().unwrap_or(Ok(()))
        })
    }
}

/// Alignment of memory for images.
const ALIGNED: usize = 64;

/// Memory on the heap, with room to begin at an aligned address.
struct Heap {
    room: Vec<u8>,
    first: usize,
    bytes: usize,
}

impl ImageMemory for Heap {
    fn bytes(&self) -> &[u8] {
        &self.room[self.first..][..self.bytes]
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.room[self.first..][..self.bytes])
    }
}

/// Gives memory of the heap for images.
pub struct HeapSink;

impl ImageSink for HeapSink {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let bytes = usize::try_from(bytes).map_err(|_| Error::io("an image does not fit in memory"))?;
        let room = vec![0; bytes + ALIGNED];
        let first = room.as_ptr().align_offset(ALIGNED);
        Ok(Box::new(Heap { room, first, bytes }))
    }
}

/// Plain rows in memory: the bytes of all, and how many each has.
pub struct Plain<'a>(pub &'a [u8], pub usize);

impl Rows for Plain<'_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let at = usize::try_from(first).ok().and_then(|first| first.checked_mul(self.1));
        let rows = at.and_then(|at| self.0.get(at..)?.get(..out.len()));
        out.copy_from_slice(rows.ok_or_else(|| Error::invalid_argument("rows beyond the last"))?);
        Ok(())
    }
}

/// A matrix of floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Floats {
    /// Number of rows.
    pub rows: usize,
    /// Elements per row.
    pub columns: usize,
    /// The rows one after the other.
    pub data: Vec<f32>,
}

impl Floats {
    /// A matrix that keeps numbers about as large as they are.
    pub fn random(random: &mut Random, rows: usize, columns: usize) -> Floats {
        let scale = 1.0 / (columns as f32).sqrt();
        let data = random.normals(rows * columns).into_iter().map(|x| x * scale).collect();
        Floats { rows, columns, data }
    }

    /// A vector of numbers around one.
    pub fn gain(random: &mut Random, columns: usize) -> Floats {
        let data = random.normals(columns).into_iter().map(|x| 1.0 + 0.3 * x).collect();
        Floats { rows: 1, columns, data }
    }

    /// A row. There must be such a row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }
}

/// Gives a device a matrix as F32.
///
/// # Errors
/// As [`Device::prepare`].
pub fn prepare(device: &dyn Device, matrix: &Floats) -> Result<Weight> {
    let spec = MatrixSpec::new(DType::F32, matrix.rows as u64, matrix.columns as u64)?;
    let bytes: Vec<u8> = matrix.data.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.prepare(&spec, &Plain(&bytes, matrix.columns * 4), &mut HeapSink)
}

/// Compiles a program over weights that are prepared for it.
///
/// # Errors
/// As [`Device::prepare`] and [`Device::compile`].
pub fn compile(
    device: &dyn Device,
    program: &Program,
    weights: &[Floats],
    limits: &SessionLimits,
) -> Result<Box<dyn Session>> {
    let weights = weights.iter().map(|matrix| prepare(device, matrix)).collect::<Result<Vec<Weight>>>()?;
    device.compile(&program.to_bytes()?, &weights, limits)
}

/// The results of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// The logits of each row that wanted output.
    pub logits: Vec<Vec<f32>>,
    /// The token chosen for each row that wanted output.
    pub tokens: Vec<u32>,
}

impl Given {
    /// The bits of all logits.
    pub fn bits(&self) -> Vec<u32> {
        self.logits.iter().flatten().map(|x| x.to_bits()).collect()
    }
}

impl StepSink for Given {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        ensure(output as usize == self.logits.len(), || {
            format!("the logits of output {output} are out of order")
        })?;
        self.logits.push(logits.to_vec());
        Ok(())
    }

    fn token(&mut self, output: u32, id: u32) -> Result<()> {
        ensure(output as usize == self.tokens.len(), || {
            format!("the token of output {output} is out of order")
        })?;
        self.tokens.push(id);
        Ok(())
    }
}

/// Runs a step on so many workers.
///
/// # Errors
/// As [`Session::step`].
pub fn step(session: &mut dyn Session, batch: &Batch<'_>, workers: usize) -> Result<Given> {
    let mut given = Given::default();
    session.step(batch, &Threads(workers), &mut given)?;
    Ok(given)
}
