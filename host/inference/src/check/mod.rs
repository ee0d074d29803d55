//! Checks a device operation by operation: programs of one operation over random data, compared with plain F64
//! arithmetic.
//!
//! Weights are compared as they are stored: those of block types are quantized first, and the reference uses the values
//! that they stand for. What a device may round besides is its activations, to 8 bits in blocks where the weights are
//! blocks; bounds allow for six standard deviations of that, and for 2^-20 of the sum of all magnitudes otherwise.

mod cases;
mod memory;
pub mod reference;

pub use cases::cases;
pub use memory::Heap;

use apr_sdk::{
    Batch, DType, Device, Error, MatrixSpec, Program, Result, Rows, SessionLimits, StepSink, Weight, Workers,
};

/// The types of weights that devices are asked for, as models are quantized most often first.
pub const TYPES: [DType; 11] = [
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q5_0,
    DType::Q4_1,
    DType::Q5_1,
    DType::BF16,
    DType::F16,
    DType::F32,
];

/// Packs values into blocks and back, as a quantizer does.
pub trait Blocks {
    /// Rows of `columns` values as blocks.
    ///
    /// # Errors
    /// Unsupported if nothing packs this type.
    fn encode(&self, dtype: DType, values: &[f32], columns: usize) -> Result<Vec<u8>>;

    /// The values that blocks stand for.
    ///
    /// # Errors
    /// Unsupported if nothing unpacks this type.
    fn decode(&self, dtype: DType, blocks: &[u8], columns: usize) -> Result<Vec<f32>>;
}

/// A matrix with its plain rows.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Its type and size.
    pub spec: MatrixSpec,
    /// Its rows.
    pub bytes: Vec<u8>,
}

/// The rows of a batch: their token ids, positions, and what takes the place of the embedding.
#[derive(Clone, Debug)]
pub struct Input {
    /// A token for each row.
    pub ids: Vec<u32>,
    /// The position of the first row.
    pub position: u32,
    /// The rows; empty if the embedding is checked.
    pub rows: Vec<f32>,
}

/// One operation, what goes in and what must come out.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation's name.
    pub operation: &'static str,
    /// The type of its weights, or of its cache; F32 if it has neither.
    pub dtype: DType,
    /// The form of it.
    pub form: String,
    /// The program.
    pub program: Program,
    /// Its weights.
    pub weights: Vec<Matrix>,
    /// The steps, one after the other.
    pub inputs: Vec<Input>,
    /// The value that is compared after the last step; `None` for the logits that the step gives.
    pub output: Option<u32>,
    /// The value's elements.
    pub expected: Vec<f64>,
    /// Error allowed in each.
    pub bounds: Vec<f64>,
}

/// The error of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The largest error relative to its bound: at most 1 is right.
    pub worst: f64,
    /// The error there.
    pub error: f64,
    /// The bound there.
    pub bound: f64,
    /// The value expected there.
    pub expected: f64,
}

impl Rows for Matrix {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let start = usize::try_from(first.saturating_mul(self.spec.row_bytes())).unwrap_or(usize::MAX);
        let some = start.checked_add(out.len()).and_then(|end| self.bytes.get(start..end));
        let some = some.ok_or_else(|| Error::invalid_argument("rows out of range"))?;
        out.copy_from_slice(some);
        Ok(())
    }
}

/// Collects logits.
struct Logits(Vec<f32>);

impl StepSink for Logits {
    fn logits(&mut self, _: u32, logits: &[f32]) -> Result<()> {
        self.0.extend_from_slice(logits);
        Ok(())
    }

    fn token(&mut self, _: u32, _: u32) -> Result<()> {
        Err(Error::plugin("returned a token that was not requested"))
    }
}

/// Runs a case on a device.
///
/// # Errors
/// Unsupported for what the device cannot run; any other error of the device.
pub fn run(device: &dyn Device, workers: &dyn Workers, case: &Case) -> Result<Verdict> {
    let mut weights: Vec<Weight> = Vec::with_capacity(case.weights.len());
    for matrix in &case.weights {
        weights.push(device.prepare(&matrix.spec, matrix, &mut Heap)?);
    }
    let most = case.inputs.iter().map(|input| input.ids.len()).max().unwrap_or(0);
    let limits = SessionLimits::new(u32::try_from(most).unwrap_or(u32::MAX), 1, 64);
    let mut session = device.compile(&case.program.to_bytes()?, &weights, &limits)?;
    let mut logits = Logits(Vec::new());
    for input in &case.inputs {
        let positions: Vec<u32> = (input.position..).take(input.ids.len()).collect();
        let sequences = vec![0; positions.len()];
        let outputs: Vec<u32> = (0..).take(positions.len()).collect();
        let mut batch = Batch::new(&input.ids, &positions, &sequences, &outputs)?;
        if !input.rows.is_empty() {
            batch = batch.with_rows(&input.rows);
        }
        logits.0.clear();
        session.step(&batch, workers, &mut logits)?;
    }
    let computed = match case.output {
        Some(value) => {
            let mut elements = vec![0.0; case.expected.len()];
            session.read(value, &mut elements)?;
            elements
        }
        None => logits.0,
    };
    judge(case, &computed)
}

/// Compares what came out with what must.
fn judge(case: &Case, computed: &[f32]) -> Result<Verdict> {
    let have = computed.len();
    let want = case.expected.len();
    if have != want {
        return Err(Error::plugin(format!("returned {have} values, expected {want}")));
    }
    // The first is worse than none.
    let mut verdict = Verdict { worst: -1.0, error: 0.0, bound: 0.0, expected: 0.0 };
    for ((value, expected), bound) in computed.iter().zip(&case.expected).zip(&case.bounds) {
        let error = (f64::from(*value) - expected).abs();
        let worst = error / bound;
        // What is not a number is beyond every bound.
        if worst > verdict.worst || worst.is_nan() {
            let worst = if worst.is_nan() { f64::INFINITY } else { worst };
            verdict = Verdict { worst, error, bound: *bound, expected: *expected };
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case {
            operation: "unary",
            dtype: DType::F32,
            form: String::new(),
            program: Program::default(),
            weights: Vec::new(),
            inputs: Vec::new(),
            output: Some(0),
            expected: vec![1.0, 2.0],
            bounds: vec![0.5, 0.25],
        }
    }

    #[test]
    fn the_worst_is_what_comes_nearest_to_its_bound() {
        let verdict = judge(&case(), &[1.25, 1.75]).unwrap();
        assert_eq!(verdict, Verdict { worst: 1.0, error: 0.25, bound: 0.25, expected: 2.0 });
        assert_eq!(judge(&case(), &[1.0, 2.0]).unwrap().worst, 0.0);
    }

    #[test]
    fn what_is_no_number_or_missing_is_never_right() {
        for found in [[f32::NAN, 2.0], [1.0, f32::NAN], [f32::INFINITY, 2.0]] {
            assert_eq!(judge(&case(), &found).unwrap().worst, f64::INFINITY);
        }
        assert!(judge(&case(), &[1.0]).is_err());
    }
}
