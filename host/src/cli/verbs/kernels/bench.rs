//! `apr kernels bench`: how near does a matrix times a vector come to what memory delivers?

use super::DeviceArgs;
use super::blocks::Packing;
use super::floor::{BYTES, Floor, Pages, rate};
use super::rows::aligned;
use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::show_number_of;
use apr_inference::check::{Blocks, TYPES};
use apr_sdk::{
    Batch, DType, Embed, Error, ErrorKind, Linear, MatrixSpec, Program, Result, RowIndex, Rows, RowsOf,
    Session, SessionLimits, Slice, StepSink, ValueSpec, Weight, WeightPart, Workers, escape,
};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::time::{Duration, Instant};

/// Time matrix-vector products for each type, compared with memory bandwidth
///
/// Several matrices of a shape, more than caches hold, are multiplied with one
/// vector, and a buffer is summed up by the same threads in between: the floor.
/// The best of several rounds counts. Other programs that run at the same time
/// make both slower and the share uncertain; a share above 100 % means that they
/// did, or that the kernel fetches ahead better than a plain sum does. For a
/// device with memory of its own, the floor is how fast it reads F32 matrices.
///
/// Examples:
///   apr kernels bench
///   apr kernels bench --type Q4_K --type Q8_0 --shape 4096x14336 --threads 1
///   apr kernels bench --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Which device.
    #[command(flatten)]
    device: DeviceArgs,
    /// Time only this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Time matrices of this shape; may be repeated [default: 4096x4096, 14336x4096, 4096x14336, 1536x1536]
    #[arg(long = "shape", value_name = "ROWSxCOLUMNS", value_parser = parse_shape)]
    shapes: Vec<(u32, u32)>,
    /// Number of rounds, of which the best counts
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// `4096x11008`.
///
/// # Errors
/// A sentence saying what is wrong.
fn parse_shape(text: &str) -> std::result::Result<(u32, u32), String> {
    let numbers = text.split_once(['x', '×']).and_then(|(rows, columns)| Some((size(rows)?, size(columns)?)));
    numbers.ok_or_else(|| format!("expected a shape such as 4096x14336, found `{text}`"))
}

fn size(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| (1..=1 << 20).contains(n))
}

/// The shapes of a model with 8 billion parameters, and of a small one.
const SHAPES: [(u32, u32); 4] = [(4096, 4096), (14336, 4096), (4096, 14336), (1536, 1536)];
/// Bytes read of a device's own memory. 4 GiB: much more than its caches hold, and a millisecond even of the fastest.
const OWN_BYTES: u64 = 4 << 30;
/// The F32 matrices whose products show how fast a device reads its own memory: they do the least for each byte.
const FLOOR_SHAPE: (u32, u32) = (16384, 4096);
/// Rows of random data that are repeated.
const DISTINCT: u64 = 16;

/// The figures. JSON: `backend`, `device`, `threads`, and `measured`, each with `type`, `rows`, `columns`, `matrices`,
/// `bytes` of all of them as the device keeps them, `seconds`, `bytes_per_second`, `floor_bytes_per_second` of the same
/// rounds, and `share` of the floor. `warnings` name types that could not be timed.
#[derive(Debug, Serialize)]
pub struct Benched {
    backend: String,
    device: String,
    threads: usize,
    measured: Vec<Row>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(rename = "type")]
    dtype: String,
    rows: u32,
    columns: u32,
    matrices: usize,
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    floor_bytes_per_second: f64,
    share: f64,
}

/// Times all types and shapes.
///
/// # Errors
/// As opening the device; InvalidArgument for an unknown type; Cancelled; what the device raised.
pub fn run(args: &Args, context: &Context) -> Result<Benched> {
    let host = context.host();
    let types = types(&args.types)?;
    let first = args.device.open(&host)?;
    let shapes = if args.shapes.is_empty() { &SHAPES[..] } else { &args.shapes };
    let packing = Packing::of(&host.registry);
    // A device with memory of its own is measured by that, with more bytes, for it is faster.
    let is_own = first.device.memory()?.total > 0;
    let floor = if is_own { None } else { Some(Floor::new()?) };
    let total = if is_own { OWN_BYTES } else { BYTES as u64 };
    let mut measured = Vec::new();
    let mut warnings = Vec::new();
    for dtype in types {
        for &(rows, columns) in shapes {
            host.check_cancelled()?;
            // A device keeps its weights for as long as it is open.
            let opened = args.device.open(&host)?;
            let device = opened.device.as_ref();
            let bench = Bench::new(device, &packing, dtype, (rows, columns), total).and_then(|bench| {
                let floor = match &floor {
                    Some(floor) => Reads::Host(floor),
                    None => {
                        let bench = Bench::new(device, &packing, DType::F32, FLOOR_SHAPE, total)?;
                        Reads::Device(Box::new(bench))
                    }
                };
                bench.measure(&opened.team, floor, args.rounds)
            });
            match bench {
                Ok(row) => measured.push(row),
                Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument) => {
                    warnings.push(format!("skipped {dtype} of {rows}x{columns}: {}", error.message()));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Benched {
        backend: first.backend,
        device: first.info.name,
        threads: first.team.width(),
        measured,
        warnings,
    })
}

/// The types of these names, or all.
fn types(names: &[String]) -> Result<Vec<DType>> {
    if names.is_empty() {
        return Ok(TYPES.to_vec());
    }
    let types = names.iter().map(|name| {
        let wanted = if name.eq_ignore_ascii_case("fp16") { "f16" } else { name.as_str() };
        let known = TYPES.iter().find(|dtype| dtype.name().eq_ignore_ascii_case(wanted));
        known.copied().ok_or_else(|| {
            let names: Vec<String> = TYPES.iter().map(|dtype| dtype.name().to_lowercase()).collect();
            Error::invalid_argument(format!("the type `{}` cannot be timed", escape(name, 40)))
                .hint(format!("use one of {}", names.join(", ")))
        })
    });
    types.collect()
}

/// A matrix that repeats a few rows.
struct Repeated {
    bytes: Vec<u8>,
    row_bytes: usize,
}

impl Rows for Repeated {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let distinct = self.bytes.len() / self.row_bytes;
        let first = usize::try_from(first).unwrap_or(0) % distinct;
        for (n, row) in out.chunks_exact_mut(self.row_bytes).enumerate() {
            let at = (first + n) % distinct * self.row_bytes;
            row.copy_from_slice(&self.bytes[at..at + self.row_bytes]);
        }
        Ok(())
    }
}

/// Takes nothing: the program has no end that gives anything.
struct Nothing;

impl StepSink for Nothing {
    fn logits(&mut self, _: u32, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn token(&mut self, _: u32, _: u32) -> Result<()> {
        Ok(())
    }
}

/// The reader of memory, for comparison.
enum Reads<'f> {
    /// The host's threads.
    Host(&'f Floor),
    /// The device itself.
    Device(Box<Bench>),
}

impl Reads<'_> {
    fn pass(&mut self, workers: &dyn Workers) -> Result<Duration> {
        match self {
            Reads::Host(floor) => floor.pass(workers),
            Reads::Device(bench) => bench.pass(workers),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Reads::Host(_) => BYTES as u64,
            Reads::Device(bench) => bench.bytes,
        }
    }
}

/// Matrices of a shape, ready to be multiplied.
struct Bench {
    session: Box<dyn Session>,
    spec: MatrixSpec,
    matrices: usize,
    bytes: u64,
    shape: (u32, u32),
}

impl Bench {
    fn new(
        device: &dyn apr_sdk::Device,
        blocks: &dyn Blocks,
        dtype: DType,
        shape: (u32, u32),
        total: u64,
    ) -> Result<Bench> {
        let (rows, columns) = shape;
        let spec = MatrixSpec::new(dtype, rows.into(), columns.into())?;
        let width = usize::try_from(columns).unwrap_or(0);
        let values = noise(usize::try_from(DISTINCT.min(rows.into())).unwrap_or(1) * width);
        let data = Repeated {
            bytes: blocks.encode(dtype, &values, width)?,
            row_bytes: usize::try_from(spec.row_bytes()).unwrap_or(1),
        };
        let image = device.image(&spec)?.bytes.max(1);
        let matrices = usize::try_from(total.div_ceil(image)).unwrap_or(1).clamp(1, 4096);
        let table = MatrixSpec::new(DType::F32, 1, columns.into())?;
        let zeros = Repeated { bytes: vec![0; 4 * width], row_bytes: 4 * width };
        let mut weights: Vec<Weight> = vec![device.prepare(&table, &zeros, &mut Pages)?];
        for _ in 0..matrices {
            weights.push(device.prepare(&spec, &data, &mut Pages)?);
        }
        let program = program(rows, columns, matrices);
        let session = device.compile(&program.to_bytes()?, &weights, &SessionLimits::new(1, 1, 1))?;
        let bytes = image.saturating_mul(matrices as u64);
        Ok(Bench { session, spec, matrices, bytes, shape })
    }

    /// Multiplies all matrices once, and says how long that took.
    fn pass(&mut self, workers: &dyn Workers) -> Result<Duration> {
        let x = noise(usize::try_from(self.shape.1).unwrap_or(0));
        let batch = Batch::new(&[0], &[0], &[0], &[])?.with_rows(&x);
        let began = Instant::now();
        self.session.step(&batch, workers, &mut Nothing)?;
        Ok(began.elapsed())
    }

    /// Times rounds of both, one after the other, and takes the best of each.
    fn measure(mut self, workers: &dyn Workers, mut floor: Reads<'_>, rounds: u32) -> Result<Row> {
        self.pass(workers)?;
        floor.pass(workers)?;
        let mut best = Duration::MAX;
        let mut best_floor = Duration::MAX;
        for _ in 0..rounds {
            best_floor = best_floor.min(floor.pass(workers)?);
            best = best.min(self.pass(workers)?);
        }
        let speed = rate(usize::try_from(self.bytes).unwrap_or(0), best);
        let floor = rate(usize::try_from(floor.bytes()).unwrap_or(0), best_floor);
        Ok(Row {
            dtype: self.spec.dtype().to_string(),
            rows: self.shape.0,
            columns: self.shape.1,
            matrices: self.matrices,
            bytes: self.bytes,
            seconds: best.as_secs_f64(),
            bytes_per_second: speed,
            floor_bytes_per_second: floor,
            share: speed / floor,
        })
    }
}

/// One vector times each of the matrices.
fn program(rows: u32, columns: u32, matrices: usize) -> Program {
    let x = Slice { value: 0, first: 0, width: columns };
    let out = Slice { value: 1, first: 0, width: rows };
    let embed = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x };
    let mut operations = vec![embed.into()];
    for weight in (1..).take(matrices) {
        let part = WeightPart { weight, first_row: 0, bias: None, out };
        operations.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 }.into());
    }
    let values = [columns, rows].map(|width| ValueSpec { width, rows: RowsOf::BATCH });
    Program { values: values.into(), states: Vec::new(), operations }
}

/// Values from −1 to 1 that follow no pattern.
fn noise(count: usize) -> Vec<f32> {
    let mut state = 0x2545_f491u32;
    let values = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let [.., a, b] = state.to_be_bytes();
        f32::from(u16::from_be_bytes([a, b])) / 32768.0 - 1.0
    });
    values.take(count).collect()
}

impl Report for Benched {
    fn json(&self) -> Result<Json> {
        with_schema("apr.kernels.bench/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Benched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = show_number_of(self.threads, "thread");
        writeln!(f, "{} ({}), {threads}", escape(&self.backend, 40), escape(&self.device, 80))?;
        let head = ["type", "rows", "columns", "GB/s", "floor GB/s", "% of floor"].map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.measured {
            lines.push([
                row.dtype.clone(),
                row.rows.to_string(),
                row.columns.to_string(),
                format!("{:.2}", row.bytes_per_second / 1e9),
                format!("{:.2}", row.floor_bytes_per_second / 1e9),
                format!("{:.0}", row.share * 100.0),
            ]);
        }
        f.write_str(&aligned(&lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_types_are_read() {
        assert_eq!(parse_shape("4096x14336"), Ok((4096, 14336)));
        assert!(
            ["4096", "0x1", "1x", "x", "-1x2", "9999999999x1"].iter().all(|text| parse_shape(text).is_err())
        );
        assert_eq!(types(&["Q4_K".to_owned(), "fp16".to_owned()]).unwrap(), [DType::Q4_K, DType::F16]);
        assert!(types(&["q3_x".to_owned()]).is_err());
    }

    #[test]
    fn rows_repeat() {
        let rows = Repeated { bytes: vec![1, 2, 3, 4], row_bytes: 2 };
        let mut out = [0; 6];
        rows.read(1, &mut out).unwrap();
        assert_eq!(out, [3, 4, 1, 2, 3, 4]);
    }
}
