//! A compute backend that knows one operation, `linear` in its first version over F32, and says so of every other. The
//! tests build it by itself, outside of the workspace.

use apr_sdk::*;
use std::sync::{Arc, Mutex};

apr_sdk::export_plugin! {
    id: linear,
    manifest: "kernels=linear",
    kernel: || Some(Box::new(OneOperation)),
}

struct OneOperation;

/// What it knows, or why not: the same words for a question and for a program.
fn known(code: OpCode, version: u16) -> Result<()> {
    match (code, version) {
        (OpCode::LINEAR, 1) => Ok(()),
        (code, version) => Err(Error::unsupported(format!(
            "version {version} of the operation `{}` is not one that this backend knows",
            code.name()
        ))),
    }
}

impl Kernel for OneOperation {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        info.name = "one operation".to_owned();
        sink.device(info)
    }

    fn supports(&self, _: u32, op: &OpSpec<'_>) -> Result<Support> {
        if let Err(why) = known(op.code, op.version) {
            return Ok(Support::No(why.message().to_owned()));
        }
        match op.weights.iter().find(|dtype| **dtype != DType::F32) {
            Some(dtype) => Ok(Support::No(format!("linear over {dtype} is not known"))),
            None => Ok(Support::Yes),
        }
    }

    fn open(&self, device: u32, _: &Options) -> Result<Box<dyn Device>> {
        match device {
            0 => Ok(Box::new(Matrices::default())),
            _ => Err(Error::invalid_argument(format!("there is no device {device}"))),
        }
    }
}

type Image = (MatrixSpec, Box<dyn ImageMemory>);

/// The matrices, as their plain rows.
#[derive(Default)]
struct Matrices(Arc<Mutex<Vec<Arc<Image>>>>);

impl Matrices {
    fn keep(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        if image.bytes().len() as u64 != matrix.bytes() {
            return Err(Error::invalid_argument("the image has another length"));
        }
        let mut kept = self.0.lock().unwrap();
        kept.push(Arc::new((*matrix, image)));
        Ok(Weight(kept.len() as u64 - 1))
    }

    fn get(&self, weight: Weight) -> Result<Arc<Image>> {
        let kept = self.0.lock().unwrap();
        let found = usize::try_from(weight.0).ok().and_then(|at| kept.get(at).cloned());
        found.ok_or_else(|| Error::invalid_argument("there is no such weight"))
    }
}

impl Device for Matrices {
    fn memory(&self) -> Result<Memory> {
        Ok(Memory { total: 1 << 30, free: 1 << 20 })
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        match matrix.dtype() {
            DType::F32 => Ok(ImageSpec { bytes: matrix.bytes(), layout: "rows-1".to_owned() }),
            other => Err(Error::unsupported(format!("matrices of {other} are not known"))),
        }
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        let mut memory = image.memory(self.image(matrix)?.bytes)?;
        rows.read(0, memory.bytes_mut()?)?;
        self.keep(matrix, memory)
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        self.keep(matrix, image)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        out.rows(self.get(weight)?.1.bytes())
    }

    fn compile(&self, program: &[u8], weights: &[Weight], _: &SessionLimits) -> Result<Box<dyn Session>> {
        let program = Program::from_bytes(program)?;
        let mut linears = Vec::new();
        for operation in program.operations {
            let (code, version) = operation.code();
            known(code, version)?;
            let Operation::Linear(linear) = operation else { continue };
            let weight = weights.get(linear.parts[0].weight as usize);
            linears
                .push(self.get(*weight.ok_or_else(|| Error::invalid_argument("there is no such weight"))?)?);
        }
        Ok(Box::new(Products { linears, last: Vec::new() }))
    }
}

/// Multiplies the batch's own rows by each matrix. Rows are told to fail by what they hold.
struct Products {
    linears: Vec<Arc<Image>>,
    last: Vec<f32>,
}

impl Session for Products {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        let x = batch.rows().ok_or_else(|| Error::invalid_argument("the batch brings no rows"))?;
        let (matrix, image) = &*self.linears[0];
        let columns = matrix.columns() as usize;
        let results: Vec<_> = (0..matrix.rows()).map(|_| Mutex::new(0.0f32)).collect();
        workers.run(&|worker, barrier| {
            barrier.wait()?;
            if worker + 1 == workers.width() && x[0].is_nan() {
                panic!("not a number on worker {worker}");
            }
            if worker + 1 == workers.width() && x[0].is_infinite() {
                return Err(Error::failed("infinity"));
            }
            let rows = image.bytes().chunks(columns * 4).zip(&results);
            for (row, result) in rows.skip(worker).step_by(workers.width()) {
                let weights = row.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                *result.lock().unwrap() = weights.zip(x).map(|(weight, x)| weight * x).sum();
            }
            barrier.wait()
        })?;
        self.last = results.into_iter().map(|result| result.into_inner().unwrap()).collect();
        (0..batch.outputs().len() as u32).try_for_each(|output| out.logits(output, &self.last))
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        Err(Error::unsupported(format!("`{}`: there are no states", command.verb.name())))
    }

    fn read(&mut self, _: u32, out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(&self.last);
        Ok(())
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        sink.timing(0, 1)
    }
}
