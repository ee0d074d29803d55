//! Threads, memory and random numbers for the tests.

use apr_sdk::{
    Barrier, Batch, DType, Device, Error, ImageMemory, ImageSink, MatrixSpec, Options, Program,
    Result, Rows, Session, SessionLimits, StepSink, Weight, Workers,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Threads made for each region.
pub struct Threads(pub usize);

/// A barrier that a failed worker opens for all.
struct Gate {
    width: usize,
    waits: AtomicUsize,
    failed: AtomicBool,
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
        let work = |worker| {
            let result = body(worker, &gate);
            if result.is_err() {
                gate.failed.store(true, Ordering::Release);
            }
            result
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.0).map(|worker| scope.spawn(move || work(worker))).collect();
            let mut results = vec![work(0)];
            results.extend(others.into_iter().map(|other| other.join().unwrap()));
            let failed = results
                .iter()
                .find(|result| matches!(result, Err(error) if error.kind() != apr_sdk::ErrorKind::Cancelled));
            failed.or(results.iter().find(|result| result.is_err())).cloned().unwrap_or(Ok(()))
        })
    }
}

/// Memory on the heap, aligned to 64 bytes.
struct Heap(Vec<[u64; 8]>, usize);

impl ImageMemory for Heap {
    fn bytes(&self) -> &[u8] {
        // SAFETY: plain numbers are bytes, and there are as many as were asked for.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) })
    }
}

pub struct HeapSink;

impl ImageSink for HeapSink {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let bytes = usize::try_from(bytes).unwrap();
        // Vectors of u64 are aligned to 8 bytes only; so the rows are over-aligned by hand where it matters.
        Ok(Box::new(Heap(vec![[0; 8]; bytes.div_ceil(64)], bytes)))
    }
}

/// Plain rows in memory.
pub struct Plain<'a>(pub &'a [u8], pub usize);

impl Rows for Plain<'_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let at = usize::try_from(first).unwrap() * self.1;
        out.copy_from_slice(&self.0[at..at + out.len()]);
        Ok(())
    }
}

/// Numbers that look random, the same every time.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 11
    }

    /// About normally distributed.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..4).map(|_| self.next() as f64 / (1u64 << 53) as f64 - 0.5).sum();
        (sum * 1.7) as f32
    }

    pub fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}

/// A matrix of floats.
#[derive(Clone)]
pub struct Floats {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<f32>,
}

impl Floats {
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

    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }
}

pub fn devices() -> Vec<(&'static str, Box<dyn Device>)> {
    let of = |cores| crate::emulated::kernel(cores).open(0, &Options::new()).unwrap();
    vec![("tensor cores", of(true)), ("none", of(false))]
}

pub fn prepare(device: &dyn Device, matrix: &Floats) -> Weight {
    let spec = MatrixSpec::new(DType::F32, matrix.rows as u64, matrix.columns as u64).unwrap();
    let bytes: Vec<u8> = matrix.data.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.prepare(&spec, &Plain(&bytes, matrix.columns * 4), &mut HeapSink).unwrap()
}

pub fn compile(
    device: &dyn Device,
    program: &Program,
    weights: &[Floats],
    limits: &SessionLimits,
) -> Result<Box<dyn Session>> {
    let weights: Vec<Weight> = weights.iter().map(|matrix| prepare(device, matrix)).collect();
    device.compile(&program.to_bytes().unwrap(), &weights, limits)
}

/// What a step gave.
#[derive(Default, Debug, PartialEq)]
pub struct Given {
    pub logits: Vec<Vec<f32>>,
    pub tokens: Vec<u32>,
}

impl StepSink for Given {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        assert_eq!(output as usize, self.logits.len());
        self.logits.push(logits.to_vec());
        Ok(())
    }

    fn token(&mut self, output: u32, id: u32) -> Result<()> {
        assert_eq!(output as usize, self.tokens.len());
        self.tokens.push(id);
        Ok(())
    }
}

pub fn step(session: &mut dyn Session, batch: &Batch<'_>, threads: usize) -> Result<Given> {
    let mut given = Given::default();
    session.step(batch, &Threads(threads), &mut given)?;
    Ok(given)
}

type Body = *const (dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync);

/// Threads that stay and spin, as a host lends them.
pub struct Spinning {
    width: usize,
    shared: std::sync::Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    body: std::sync::Mutex<Option<SendBody>>,
    round: AtomicUsize,
    done: AtomicUsize,
    end: AtomicBool,
    waits: AtomicUsize,
}

struct SendBody(Body);
// SAFETY: the body is `Sync`, and `run` returns only after every thread has left it.
unsafe impl Send for SendBody {}

struct Spin<'a>(&'a Shared, usize);

impl Barrier for Spin<'_> {
    fn wait(&self) -> Result<()> {
        let round = self.0.waits.fetch_add(1, Ordering::AcqRel) / self.1;
        let mut tries = 0;
        while self.0.waits.load(Ordering::Acquire) < (round + 1) * self.1 {
            tries += 1;
            if tries > 2000 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        Ok(())
    }
}

impl Spinning {
    pub fn new(width: usize) -> Spinning {
        let shared = std::sync::Arc::<Shared>::default();
        for worker in 1..width {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut seen = 0;
                while !shared.end.load(Ordering::Acquire) {
                    if shared.round.load(Ordering::Acquire) == seen {
                        std::thread::yield_now();
                        continue;
                    }
                    seen += 1;
                    let body = shared.body.lock().unwrap().as_ref().unwrap().0;
                    // SAFETY: `run` waits for this thread before the body goes away.
                    unsafe { (*body)(worker, &Spin(&shared, width)) }.unwrap();
                    shared.done.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        Spinning { width, shared }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Release);
    }
}

impl Workers for Spinning {
    fn width(&self) -> usize {
        self.width
    }

    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        // SAFETY: the lifetime is cut off only until all threads are done, below.
        let pointer = unsafe { std::mem::transmute::<*const _, Body>(std::ptr::from_ref(body)) };
        *self.shared.body.lock().unwrap() = Some(SendBody(pointer));
        self.shared.done.store(0, Ordering::Release);
        self.shared.round.fetch_add(1, Ordering::AcqRel);
        body(0, &Spin(&self.shared, self.width))?;
        while self.shared.done.load(Ordering::Acquire) < self.width - 1 {
            std::thread::yield_now();
        }
        Ok(())
    }
}
