//! Importance matrices: for each column of a matrix, the mean square of what it is multiplied with. Two forms, which
//! llama-imatrix writes: a GGUF file, and the older `.dat`. Read as llama-quantize reads them (llama.cpp 0.5.0-dev,
//! `common/imatrix-loader.cpp` and `load_imatrix` of `tools/quantize/quantize.cpp`).

mod dat;
mod gguf;

use apr_sdk::{Cursor, Error, ImportanceSink, Limits, Result, Source, Value};

/// The names of tensors, and what a model records of the matrix, are GGUF's.
const DIALECT: &str = "gguf";

/// The most values of one tensor: 2^27, five times the largest stack of experts.
const MOST_VALUES: u64 = 1 << 27;

/// The longest text that llama-quantize records.
const LONGEST_TEXT: usize = 127;

/// Reads file 0.
///
/// # Errors
/// Malformed, with the offset; Unsupported for a GGUF file of another version or with other content; LimitExceeded.
pub fn read(source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
    let limits = Limits::default();
    let mut cursor = Cursor::new(source, 0, 0, &limits)?;
    let mut magic = [0; 4];
    cursor.fill(&mut magic)?;
    let origin = if magic == *gguf::MAGIC {
        gguf::read(source, &mut cursor, sink)?
    } else {
        dat::read(&mut cursor, i32::from_le_bytes(magic), sink)?
    };
    origin.record(&source.name(0), sink)
}

/// What a matrix says of itself.
struct Origin {
    /// The text that it was made with, where it says that.
    dataset: Option<String>,
    /// How many tensors it has.
    entries: usize,
    /// How many pieces of that text were used.
    chunks: u32,
}

impl Origin {
    /// Records what llama-quantize records, in its order.
    fn record(&self, file: &str, sink: &mut dyn ImportanceSink) -> Result<()> {
        sink.record(DIALECT, "quantize.imatrix.file", Value::from_string(start_of(file)))?;
        if let Some(dataset) = &self.dataset {
            sink.record(DIALECT, "quantize.imatrix.dataset", Value::from_string(start_of(dataset)))?;
        }
        let entries = u32::try_from(self.entries).unwrap_or(u32::MAX);
        sink.record(DIALECT, "quantize.imatrix.entries_count", Value::from_u32(entries))?;
        if self.chunks > 0 {
            sink.record(DIALECT, "quantize.imatrix.chunks_count", Value::from_u32(self.chunks))?;
        }
        Ok(())
    }
}

/// As much of a text as is recorded.
fn start_of(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    &text[..ends.take_while(|&end| end <= LONGEST_TEXT).last().unwrap_or(0)]
}

/// The next `count` numbers; their number is checked against the bytes left before there is memory for them.
fn numbers(cursor: &mut Cursor<'_>, what: &str, at: u64, count: u64) -> Result<Vec<f32>> {
    let count = cursor.count(what, at, count, MOST_VALUES, 4)?;
    let mut numbers = Vec::with_capacity(count);
    let mut buffer = [0; 4096];
    while numbers.len() < count {
        let piece = &mut buffer[..4 * (count - numbers.len()).min(1024)];
        cursor.fill(piece)?;
        numbers.extend(piece.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }
    Ok(numbers)
}

/// Hands on a tensor's values, whose numbers begin at `at`; each matrix has `columns` of them. Unlike llama-quantize it
/// refuses negative values: they turn a search for the least error into one for the greatest.
fn hand_on(
    cursor: &Cursor<'_>,
    sink: &mut dyn ImportanceSink,
    name: &str,
    (at, columns): (u64, usize),
    values: &[f32],
) -> Result<()> {
    let is_bad = |value: &f32| !value.is_finite() || *value < 0.0;
    if let Some(n) = values.iter().position(is_bad) {
        let (value, column, matrix) = (values[n], n % columns.max(1), n / columns.max(1));
        let of = if values.len() > columns { format!(" of matrix {matrix}") } else { String::new() };
        let what = if value < 0.0 && value.is_finite() { "negative" } else { "not finite" };
        let message = format!("the importance of column {column}{of} is {what}: {value}");
        let error = cursor.error_at(at + 4 * n as u64, message);
        return Err(error.tensor(name).hint("make the importance matrix again"));
    }
    sink.tensor(DIALECT, name, values)
}

/// An error for a second entry of one name.
fn twice(cursor: &Cursor<'_>, at: u64, name: &str) -> Error {
    cursor.error_at(at, "duplicate entry name").tensor(name)
}
