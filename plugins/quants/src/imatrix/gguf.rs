//! The newer form: a GGUF file, of which this reads what an importance matrix needs.
//!
//! ```text
//! "GGUF"; u32 version 2 or 3; u64 tensors; u64 keys
//! keys times:     u64 length, name;  u32 type;  value
//! tensors times:  u64 length, name;  u32 dimensions;  u64 each;  u32 type, 0 for F32;  u64 offset in the data
//! padding to the alignment; the data, every tensor padded to the alignment
//!
//! keys     imatrix.datasets (strings), imatrix.chunk_count (u32), imatrix.chunk_size: all three
//! tensors  NAME.in_sum2 {columns, experts}, NAME.counts {1, experts}
//! ```
//!
//! Counts that are negative or not finite are refused: llama-quantize takes them for 0.

use super::entries::{Counts, Entries, Entry};
use super::{MOST_VALUES, Origin, numbers, twice};
use apr_sdk::{Cursor, Error, Result, Source, ValueType};
use std::collections::BTreeMap;

/// The first four bytes.
pub const MAGIC: &[u8; 4] = b"GGUF";

/// Where nothing is said.
const ALIGNMENT: u32 = 32;
/// The number of F32.
const F32: u32 = 0;
/// As many dimensions as ggml has.
const DIMENSIONS: u64 = 4;

/// Reads what follows the magic number.
pub fn read(source: &dyn Source, cursor: &mut Cursor<'_>, sink: &mut dyn Entries) -> Result<Origin> {
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        let error =
            Error::unsupported(format!("GGUF version {version} is not supported for importance matrices"));
        return Err(cursor.place(error, 4));
    }
    let tensors = cursor.u64()?;
    let keys = cursor.u64()?;
    let limits = cursor.limits();
    // A tensor's record has at least 24 bytes, a key's 13.
    let tensors = cursor.count("the number of tensors", 8, tensors, limits.tensors, 24)?;
    let keys = cursor.count("the number of keys", 16, keys, limits.metadata_keys, 13)?;
    let keys = Keys::read(cursor, keys)?;
    let infos = Info::read_all(cursor, tensors)?;

    let alignment = u64::from(keys.alignment.unwrap_or(ALIGNMENT));
    let data = cursor.position().next_multiple_of(alignment);
    let pairs = pairs(cursor, infos, data, alignment)?;
    let (Some(datasets), Some(chunks), Some(chunk_size)) = (keys.datasets, keys.chunks, keys.chunk_size)
    else {
        let message =
            "an importance matrix must have imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size";
        let error = cursor.place(Error::unsupported(message), 0);
        return Err(error.hint("use the output of llama-imatrix"));
    };
    if pairs.is_empty() {
        return Err(cursor.error_at(8, "it has no tensors"));
    }
    for (name, pair) in &pairs {
        hand_on_pair(source, cursor, sink, name, pair)?;
    }
    Ok(Origin { datasets, entries: pairs.len(), chunks, chunk_size })
}

/// What the keys say.
#[derive(Default)]
struct Keys {
    alignment: Option<u32>,
    datasets: Option<Vec<String>>,
    chunks: Option<u32>,
    chunk_size: Option<u32>,
}

impl Keys {
    fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Keys> {
        let mut keys = Keys::default();
        for _ in 0..count {
            let name = text(cursor, "key")?;
            let at = cursor.position();
            let kind = ValueType(cursor.u32()?);
            match name.as_str() {
                "general.alignment" => {
                    let alignment = number(cursor, at, kind, &name)?;
                    if !alignment.is_power_of_two() {
                        return Err(cursor
                            .error_at(at + 4, format!("the alignment {alignment} is not a power of two")));
                    }
                    keys.alignment = Some(alignment);
                }
                "imatrix.chunk_count" => keys.chunks = Some(number(cursor, at, kind, &name)?),
                "imatrix.chunk_size" => keys.chunk_size = Some(number(cursor, at, kind, &name)?),
                "imatrix.datasets" => keys.datasets = Some(texts(cursor, at, kind)?),
                _ => skip(cursor, at, kind)?,
            }
        }
        Ok(keys)
    }
}

/// A u32, as ggml insists.
fn number(cursor: &mut Cursor<'_>, at: u64, kind: ValueType, name: &str) -> Result<u32> {
    if kind == ValueType::U32 {
        return cursor.u32();
    }
    Err(cursor.error_at(at, format!("`{name}` must be a u32")))
}

/// An array of texts. Other types are skipped, as llama-quantize does.
fn texts(cursor: &mut Cursor<'_>, at: u64, kind: ValueType) -> Result<Vec<String>> {
    if kind != ValueType::ARRAY {
        skip(cursor, at, kind)?;
        return Ok(Vec::new());
    }
    let (of, count) = array(cursor)?;
    if of != ValueType::STRING {
        skip_items(cursor, at, of, count)?;
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        let text = text(cursor, "name of the text")?;
        cursor.limits().budget.charge(size_of::<String>() as u64 + text.len() as u64)?;
        texts.push(text);
    }
    Ok(texts)
}

/// An array's element type and count, which is checked against the bytes left.
fn array(cursor: &mut Cursor<'_>) -> Result<(ValueType, u64)> {
    let of = ValueType(cursor.u32()?);
    let at = cursor.position();
    let count = cursor.u64()?;
    cursor.count("the number of items", at, count, u64::MAX, of.min_len().max(1))?;
    Ok((of, count))
}

fn skip(cursor: &mut Cursor<'_>, at: u64, kind: ValueType) -> Result<()> {
    match kind {
        ValueType::ARRAY => {
            let (of, count) = array(cursor)?;
            skip_items(cursor, at, of, count)
        }
        ValueType::STRING => {
            let len = cursor.u64()?;
            cursor.skip(len)
        }
        scalar => skip_items(cursor, at, scalar, 1),
    }
}

fn skip_items(cursor: &mut Cursor<'_>, at: u64, of: ValueType, count: u64) -> Result<()> {
    match (of, of.scalar_len()) {
        (_, Some(len)) => cursor.skip(len.saturating_mul(count)),
        (ValueType::STRING, _) => (0..count).try_for_each(|_| skip(cursor, at, of)),
        _ => Err(cursor.error_at(at, format!("unknown value type {}", of.0))),
    }
}

fn text(cursor: &mut Cursor<'_>, what: &str) -> Result<String> {
    let at = cursor.position();
    let len = cursor.u64()?;
    cursor.count(&format!("the length of the {what}"), at, len, cursor.limits().name_bytes, 1)?;
    cursor.text(what, len)
}

/// A tensor's record.
struct Info {
    /// Where the record is.
    at: u64,
    name: String,
    elements: u64,
    /// From the start of the data.
    offset: u64,
}

impl Info {
    fn read_all(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Info>> {
        // Not reserved: a record costs more here than in the file.
        let mut infos = Vec::new();
        for _ in 0..count {
            infos.push(Info::read(cursor)?);
        }
        Ok(infos)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Info> {
        let at = cursor.position();
        let name = text(cursor, "name")?;
        let dims_at = cursor.position();
        let dims = u64::from(cursor.u32()?);
        cursor.count("the number of dimensions", dims_at, dims, DIMENSIONS, 8)?;
        let mut elements = 1u64;
        for _ in 0..dims {
            elements = elements.saturating_mul(cursor.u64()?);
        }
        if elements == 0 || elements > MOST_VALUES {
            let error = Error::limit(format!("{elements} values, expected 1 to {MOST_VALUES}"));
            return Err(cursor.place(error, dims_at).tensor(name));
        }
        let kind_at = cursor.position();
        if cursor.u32()? != F32 {
            let error = cursor.place(Error::unsupported("its type is not F32"), kind_at);
            return Err(error.tensor(name).hint("use an importance matrix, not a model"));
        }
        let offset = cursor.u64()?;
        cursor.limits().budget.charge(size_of::<Info>() as u64 + name.len() as u64)?;
        Ok(Info { at, name, elements, offset })
    }
}

/// The sums and the counts of a tensor: how many there are, and where they lie in the file.
#[derive(Default)]
struct Pair {
    at: u64,
    sums: Option<(u64, u64)>,
    counts: Option<(u64, u64)>,
}

/// The tensors by name. Each lies behind the one before, as ggml insists.
fn pairs(cursor: &Cursor<'_>, infos: Vec<Info>, data: u64, alignment: u64) -> Result<BTreeMap<String, Pair>> {
    let file = cursor.position() + cursor.left();
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    let mut expected = 0u64;
    for info in infos {
        let Info { at, name, elements, offset } = info;
        if offset != expected {
            let message = format!("its data starts at {offset}, expected {expected}");
            return Err(cursor.error_at(at, message).tensor(name));
        }
        // At most 2^22 tensors of 2^29 bytes.
        let end = data + expected + 4 * elements;
        if end > file {
            let message = format!("its data ends at {end}, but the file ends at {file}");
            let error = cursor.error_at(at, message).tensor(name);
            return Err(error.hint("get the file again: it is truncated or corrupt"));
        }
        expected = (expected + 4 * elements).next_multiple_of(alignment);
        let found = Some((elements, data + offset));
        let (of, is_sum) = match (name.strip_suffix(".in_sum2"), name.strip_suffix(".counts")) {
            (Some(of), _) => (of, true),
            (_, Some(of)) => (of, false),
            _ => continue,
        };
        let pair = pairs.entry(of.to_owned()).or_insert(Pair { at, ..Pair::default() });
        let half = if is_sum { &mut pair.sums } else { &mut pair.counts };
        if half.is_some() {
            return Err(twice(cursor, at, &name));
        }
        *half = found;
    }
    Ok(pairs)
}

/// Reads both halves of a tensor, and hands them on.
fn hand_on_pair(
    source: &dyn Source,
    cursor: &Cursor<'_>,
    sink: &mut dyn Entries,
    name: &str,
    pair: &Pair,
) -> Result<()> {
    let (Some((values, values_at)), Some((experts, counts_at))) = (pair.sums, pair.counts) else {
        let missing = if pair.sums.is_none() { "in_sum2" } else { "counts" };
        return Err(cursor.error_at(pair.at, format!("its {missing} is missing")).tensor(name));
    };
    if values % experts != 0 {
        let message = format!("{values} values do not match {experts} counts");
        return Err(cursor.error_at(pair.at, message).tensor(name));
    }
    let at = |start, count| {
        let mut cursor = Cursor::with_end(source, 0, start, start + 4 * count, cursor.limits())?;
        numbers(&mut cursor, "the number of values", start, count)
    };
    let counts = at(counts_at, experts).map_err(|error| error.tensor(name))?;
    if let Some(n) = counts.iter().position(|count| !count.is_finite() || *count < 0.0) {
        let message = format!("the count of matrix {n} is {}", counts[n]);
        let error = cursor.error_at(counts_at + 4 * n as u64, message).tensor(name);
        return Err(error.hint("make the importance matrix again"));
    }
    let values = at(values_at, values).map_err(|error| error.tensor(name))?;
    sink.entry(cursor, Entry { name, at: values_at, values, counts: Counts::Rows(counts) })
}
