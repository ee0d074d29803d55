//! A compute backend that uses everything it is lent, and can be told to fail anywhere.

use crate::toy::{full_error, hear};
use apr_sdk::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

pub struct ToyKernel;

/// Token ids that make a step fail.
pub const FAILS_ON_A_WORKER: u32 = 1000;
pub const PANICS_ON_A_WORKER: u32 = 1001;
pub const PANICS: u32 = 1002;

impl Kernel for ToyKernel {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        (info.name, info.features, info.memory) = ("toy é".to_owned(), "none\0".to_owned(), u64::MAX);
        sink.device(info)?;
        let mut info = DeviceInfo::default();
        (info.name, info.unusable) = ("broken".to_owned(), Some("no driver".to_owned()));
        sink.device(info)
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        hear(format!("{op:?}"));
        match (device, op.code, op.version) {
            (0, OpCode::LINEAR, 1) => Ok(Support::Yes),
            (0, code, version) => Ok(Support::No(format!("version {version} of `{}`", code.name()))),
            _ => Err(full_error()),
        }
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn Device>> {
        hear(format!("open {device} {options:?}"));
        assert!(!options.flag("panic"), "in open");
        if device > 0 {
            return Err(full_error());
        }
        Ok(Box::new(ToyDevice { weights: Mutex::default(), drop_panics: options.flag("drop_panics") }))
    }
}

struct ToyDevice {
    weights: Mutex<Vec<(MatrixSpec, Box<dyn ImageMemory>)>>,
    drop_panics: bool,
}

impl ToyDevice {
    fn keep(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        let at = image.bytes().as_ptr();
        hear(format!("{matrix:?} {} bytes, aligned: {}", image.bytes().len(), at.addr() % 64 == 0));
        let mut weights = self.weights.lock().unwrap();
        weights.push((*matrix, image));
        Ok(Weight(weights.len() as u64 - 1 + (1 << 40)))
    }
}

impl Drop for ToyDevice {
    fn drop(&mut self) {
        assert!(!self.drop_panics, "in drop");
    }
}

impl Device for ToyDevice {
    fn memory(&self) -> Result<Memory> {
        Ok(Memory { total: u64::MAX, free: 7 })
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        Ok(ImageSpec { bytes: matrix.bytes(), layout: format!("toy-{}", matrix.dtype()) })
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        let mut memory = image.memory(matrix.bytes())?;
        let row_bytes = matrix.row_bytes() as usize;
        for (first, row) in memory.bytes_mut()?.chunks_mut(row_bytes).enumerate() {
            rows.read(first as u64, row)?;
            row.iter_mut().for_each(|byte| *byte = !*byte);
        }
        self.keep(matrix, memory)
    }

    fn adopt(&self, matrix: &MatrixSpec, mut image: Box<dyn ImageMemory>) -> Result<Weight> {
        hear(format!("{:?}", image.bytes_mut().err()));
        self.keep(matrix, image)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        let weights = self.weights.lock().unwrap();
        let at = usize::try_from(weight.0 - (1 << 40)).unwrap();
        let (matrix, image) =
            weights.get(at).ok_or_else(|| Error::invalid_argument("there is no such weight"))?;
        for row in image.bytes().chunks(matrix.row_bytes() as usize) {
            out.rows(&row.iter().map(|byte| !*byte).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn Session>> {
        let program = Program::from_bytes(program)?;
        hear(format!("{program:?} {weights:?} {limits:?}"));
        Ok(Box::new(ToySession { last: Vec::new() }))
    }
}

struct ToySession {
    last: Vec<f32>,
}

impl Session for ToySession {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        hear(format!("{batch:?} {}", workers.width()));
        let first = batch.ids()[0];
        assert!(first != PANICS, "in step");
        let cells: Vec<AtomicU32> = (0..workers.width()).map(|_| AtomicU32::new(0)).collect();
        let seen: Vec<AtomicU32> = (0..workers.width()).map(|_| AtomicU32::new(0)).collect();
        workers.run(&|worker, barrier| {
            for round in 1..=100 {
                cells[worker].store(round * 1000 + worker as u32, Ordering::Relaxed);
                barrier.wait()?;
                let next = cells[(worker + 1) % cells.len()].load(Ordering::Relaxed);
                seen[worker].store(next, Ordering::Relaxed);
                match (worker, round, first) {
                    (1, 50, FAILS_ON_A_WORKER) => return Err(full_error()),
                    (1, 50, PANICS_ON_A_WORKER) => panic!("on a worker"),
                    _ => barrier.wait()?,
                }
            }
            Ok(())
        })?;
        self.last = seen.iter().map(|seen| seen.load(Ordering::Relaxed) as f32).collect();
        for output in 0..batch.outputs().len() as u32 {
            match batch.sampler() {
                None => out.logits(output, &self.last)?,
                Some(_) => out.token(output, 77)?,
            }
        }
        Ok(())
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        hear(format!("{command:?}"));
        match command.verb {
            StateVerb::COPY | StateVerb::TRIM | StateVerb::CLEAR => Ok(()),
            other => Err(Error::unsupported(format!("`{}` is unknown here", other.name()))),
        }
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        if out.len() != self.last.len() || value > 0 {
            return Err(Error::invalid_argument("there is no such value"));
        }
        out.copy_from_slice(&self.last);
        Ok(())
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        sink.timing(0, 1 << 40)?;
        sink.timing(u32::MAX, 0)
    }
}
