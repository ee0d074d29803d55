//! Importance matrices: for each column of a matrix, the mean square of what it is multiplied with. Two forms, which
//! llama-imatrix writes: a GGUF file, and the older `.dat`. Read as llama-quantize reads them (llama.cpp 0.5.0-dev,
//! `common/imatrix-loader.cpp` and `load_imatrix` of `tools/quantize/quantize.cpp`), and written as llama-imatrix writes them.

mod dat;
mod dat_file;
mod entries;
mod gguf;
mod gguf_file;

use apr_sdk::{Cursor, Error, ImportanceSink, ImportanceSums, Limits, Result, Source, Value, escape};
use entries::{Entries, Means, Sums};

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
    let origin = read_entries(source, &mut Means(sink))?;
    origin.record(&source.name(0), sink)
}

/// Reads file 0 as sums.
///
/// # Errors
/// As [`read`].
pub fn read_sums(source: &dyn Source) -> Result<ImportanceSums> {
    let mut read = Sums::default();
    let origin = read_entries(source, &mut read)?;
    let mut sums = ImportanceSums::default();
    sums.dialect = DIALECT.to_owned();
    sums.tensors = read.tensors;
    sums.datasets = origin.datasets;
    sums.chunks = origin.chunks;
    sums.chunk_size = origin.chunk_size;
    Ok(sums)
}

fn read_entries(source: &dyn Source, entries: &mut dyn Entries) -> Result<Origin> {
    let limits = Limits::default();
    let mut cursor = Cursor::new(source, 0, 0, &limits)?;
    let mut magic = [0; 4];
    cursor.fill(&mut magic)?;
    if magic == *gguf::MAGIC {
        return gguf::read(source, &mut cursor, entries);
    }
    dat::read(&mut cursor, i32::from_le_bytes(magic), entries)
}

/// Writes a file: in the form of this name, else in the older one if its own name ends in `.dat`, else as GGUF.
///
/// # Errors
/// InvalidArgument for an unknown form; Unsupported for names of another dialect; as the forms.
pub fn write(sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
    if sums.dialect != DIALECT {
        let message = format!(
            "importance matrices name tensors as `{DIALECT}` does, but these are named as `{}` does",
            escape(&sums.dialect, 40)
        );
        return Err(Error::unsupported(message));
    }
    if sums.chunk_size == 0 {
        return Err(Error::invalid_argument("the importance matrix does not say how long its chunks are"));
    }
    let form = form.unwrap_or(if file.ends_with(".dat") { "dat" } else { "gguf" });
    match form {
        "gguf" => gguf_file::write(sums),
        "dat" => dat_file::write(sums),
        _ => Err(Error::invalid_argument(format!("unknown form `{}`", escape(form, 40)))
            .hint("choose gguf or dat")),
    }
}

/// What a matrix says of itself.
struct Origin {
    /// The texts that it was made with, where it says that.
    datasets: Vec<String>,
    /// How many tensors it has.
    entries: usize,
    /// How many pieces of these texts were used.
    chunks: u32,
    /// Tokens of a piece; 0 where that is not said.
    chunk_size: u32,
}

impl Origin {
    /// Records what llama-quantize records, in its order.
    fn record(&self, file: &str, sink: &mut dyn ImportanceSink) -> Result<()> {
        sink.record(DIALECT, "quantize.imatrix.file", Value::from_string(start_of(file)))?;
        if let Some(dataset) = self.datasets.first().filter(|name| !name.is_empty()) {
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

/// An error for a second entry of one name.
fn twice(cursor: &Cursor<'_>, at: u64, name: &str) -> Error {
    cursor.error_at(at, "duplicate entry name").tensor(name)
}
