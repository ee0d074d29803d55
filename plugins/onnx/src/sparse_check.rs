//! The report `check`: are the indices of sparse tensors ascending, unique and inside the shape, as
//! `onnx.proto` requires? Opening does not read them.

use crate::walk::Sparse;
use apr_sdk::{DType, Error, Payload, Report, Result, Source, Stream, Tensor, escape};
use serde_json::json;

/// Indices that are read at once.
const AT_ONCE: usize = 8192;

/// Problems that are listed.
const LISTED: usize = 100;

/// Judges every sparse tensor; `stream` reads a tensor that is stored as a list of numbers.
///
/// # Errors
/// Any error from reading.
pub fn report(
    source: &dyn Source,
    tensors: &[Tensor],
    sparse: &[Sparse],
    stream: &dyn Fn(u64) -> Result<Box<dyn Stream>>,
) -> Result<Report> {
    let mut problems = Vec::new();
    for one in sparse {
        let Some(indices) = tensors.get(one.indices) else { continue };
        if let Some(problem) = judge(source, tensors, one, stream).map_err(|e| e.tensor(&indices.name))? {
            problems.push(format!("`{}`: {problem}", escape(&indices.name, 120)));
        }
    }
    let n = sparse.len();
    let passed = problems.is_empty();
    let text = match passed {
        true => format!("indices of {n} sparse tensors: ascending, each once, inside the shape"),
        false => problems.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n"),
    };
    let json = json!({ "schema": "onnx.check/1", "sparse_tensors": n, "problems": problems });
    Ok(Report { text, json: json.to_string(), passed })
}

/// What is wrong with one, if something is.
fn judge(
    source: &dyn Source,
    tensors: &[Tensor],
    one: &Sparse,
    stream: &dyn Fn(u64) -> Result<Box<dyn Stream>>,
) -> Result<Option<String>> {
    let (Some(values), Some(indices)) = (tensors.get(one.values), tensors.get(one.indices)) else {
        return Ok(None);
    };
    if indices.dtype != DType::I64 {
        return Ok(Some(format!("the indices have type {}, expected I64", indices.dtype)));
    }
    let [count] = values.shape[..] else {
        return Ok(Some(format!("the values have shape {:?}, expected one dimension", values.shape)));
    };
    let rank = one.dims.len() as u64;
    let width = match indices.shape[..] {
        [n] if n == count => 1,
        [n, width] if n == count && width == rank => rank,
        _ => {
            let (shape, dims) = (&indices.shape, &one.dims);
            return Ok(Some(format!("indices of shape {shape:?} for {count} values in {dims:?}")));
        }
    };
    let is_linear = indices.shape.len() == 1;
    let Some(elements) = one.dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)) else {
        return Ok(Some(format!("a shape of more than 2^64 elements: {:?}", one.dims)));
    };
    let mut numbers = Numbers::new(source, indices, one.indices, stream)?;
    let mut before: Option<Vec<i64>> = None;
    let mut now = vec![0; usize::try_from(width).unwrap_or(0)];
    for n in 0..count {
        for number in &mut now {
            *number = numbers.next()?;
        }
        let inside = |(&at, size): (&i64, u64)| u64::try_from(at).is_ok_and(|at| at < size);
        let is_inside = match is_linear {
            true => now.iter().all(|at| inside((at, elements))),
            false => now.iter().zip(one.dims.iter().copied()).all(inside),
        };
        if !is_inside {
            return Ok(Some(format!("index {n} is {now:?}, out of range for the shape {:?}", one.dims)));
        }
        if let Some(before) = before.as_ref().filter(|before| **before >= now) {
            let what = if *before == now { "is a duplicate" } else { "is out of order" };
            return Ok(Some(format!("index {n}, {now:?}, {what}: they must ascend")));
        }
        before = Some(now.clone());
    }
    Ok(None)
}

/// The numbers of a tensor of I64, one after another.
struct Numbers<'a> {
    source: &'a dyn Source,
    payload: &'a Payload,
    stream: Option<Box<dyn Stream>>,
    /// Bytes that were read, how many were used, and where the next ones lie.
    ready: Vec<u8>,
    used: usize,
    at: u64,
}

impl<'a> Numbers<'a> {
    fn new(
        source: &'a dyn Source,
        tensor: &'a Tensor,
        number: usize,
        stream: &dyn Fn(u64) -> Result<Box<dyn Stream>>,
    ) -> Result<Numbers<'a>> {
        let stream = match &tensor.payload {
            Payload::Extent { .. } => None,
            _ => Some(stream(number as u64)?),
        };
        Ok(Numbers { source, payload: &tensor.payload, stream, ready: Vec::new(), used: 0, at: 0 })
    }

    fn next(&mut self) -> Result<i64> {
        if self.used == self.ready.len() {
            self.refill()?;
        }
        let raw = self.ready.get(self.used..self.used + 8).and_then(|raw| raw.try_into().ok());
        let raw = raw.ok_or_else(|| Error::malformed("unexpected end of the indices"))?;
        self.used += 8;
        Ok(i64::from_le_bytes(raw))
    }

    fn refill(&mut self) -> Result<()> {
        self.used = 0;
        self.ready.resize(8 * AT_ONCE, 0);
        let mut filled = 0;
        match (&mut self.stream, self.payload) {
            (Some(stream), _) => {
                while filled < self.ready.len() {
                    match stream.read(self.source, &mut self.ready[filled..])? {
                        0 => break,
                        n => filled += n,
                    }
                }
            }
            (None, Payload::Extent { extent, .. }) => {
                let left = usize::try_from(extent.len - self.at).unwrap_or(usize::MAX);
                filled = left.min(self.ready.len());
                self.source.read_at(extent.file, extent.offset + self.at, &mut self.ready[..filled])?;
                self.at += filled as u64;
            }
            _ => {}
        }
        self.ready.truncate(filled);
        Ok(())
    }
}
