//! Describes the tensors of a model: rows for `apr tensors`, optionally with digests and statistics.

use crate::contract::RunStatistics;
use crate::crew::map;
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::values::double_double::DoubleDouble;
use crate::values::numbers::{Chunk, Numbers, Values};
use crate::verify::histogram::Histogram;
use crate::wording::hex;
use apr_sdk::{Error, Extent, Payload, Result, Tensor};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Content to include for each tensor beyond its header.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOptions {
    /// SHA-256 of the payload in decoded form: row-major, little-endian.
    pub sha256: bool,
    /// Statistics of the values.
    pub stats: bool,
}

/// One tensor. The keys are those of `apr tensors --json`, but for the schema's name.
#[derive(Clone, Debug, Serialize)]
pub struct TensorRow {
    /// The tensor's name in the source.
    pub name: String,
    /// The tensor's dtype.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Length of the payload in bytes.
    pub bytes: u64,
    /// The file with its payload, if that is a contiguous, uncompressed range in order.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// Offset of the payload in that file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The compression of its stored bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed: Option<CompressedRow>,
    /// The scheme it is packed with, and the tensors that it is stored in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packed: Option<PackedRow>,
    /// SHA-256 in lower-case hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Statistics, if requested and the type's values can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
    /// The reason why there are no statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats_missing: Option<String>,
    /// The distribution of its values, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// The storage of a compressed tensor.
#[derive(Clone, Debug, Serialize)]
pub struct CompressedRow {
    /// The method in a few words.
    #[serde(rename = "as")]
    pub method: String,
    /// Bytes that it takes up in its file.
    pub bytes: u64,
}

impl CompressedRow {
    /// The storage of a tensor; `None` if it is not compressed, or the format does not say how.
    pub fn of(tensor: &Tensor) -> Option<CompressedRow> {
        let codec = tensor.codec()?;
        Some(CompressedRow { method: codec.method()?.to_owned(), bytes: codec.stored_len()? })
    }
}

/// The storage of a packed weight.
#[derive(Clone, Debug, Serialize)]
pub struct PackedRow {
    /// The scheme in a few words.
    #[serde(rename = "as")]
    pub about: String,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// The tensors that it is stored in.
    pub parts: Vec<PackedPart>,
}

/// A tensor that a packed weight is stored in.
#[derive(Clone, Debug, Serialize)]
pub struct PackedPart {
    /// Its name.
    pub name: String,
    /// Its content, in words.
    pub holds: String,
    /// Its dtype.
    pub dtype: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
}

fn packed(tensor: &Tensor) -> Result<Option<PackedRow>> {
    let Payload::Packed(weight) = &tensor.payload else { return Ok(None) };
    let mut parts = Vec::with_capacity(weight.parts.len());
    for (part, (_, holds)) in weight.parts.iter().zip(&weight.tensor.parts) {
        parts.push(PackedPart {
            name: part.name.clone(),
            holds: holds.clone(),
            dtype: part.dtype.name().to_owned(),
            shape: part.shape.clone(),
        });
    }
    Ok(Some(PackedRow { about: weight.tensor.about.clone(), bytes: tensor.stored_len()?, parts }))
}

fn as_text<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
}

/// The least or the greatest value of a tensor. JSON: a number; an integer without a fraction where no 64-bit float holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The nearest 64-bit float.
    pub value: f64,
    /// The excess of an integer over it.
    rest: f64,
}

impl End {
    /// The value `nearest + rest`.
    pub fn new(nearest: f64, rest: f64) -> End {
        End { value: nearest, rest }
    }
}

impl Serialize for End {
    #[allow(clippy::cast_possible_truncation, reason = "integers of 64 bits")]
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if self.rest == 0.0 {
            return serializer.serialize_f64(self.value);
        }
        let exact = self.value as i128 + self.rest as i128;
        match (i64::try_from(exact), u64::try_from(exact)) {
            (Ok(exact), _) => serializer.serialize_i64(exact),
            (_, Ok(exact)) => serializer.serialize_u64(exact),
            _ => serializer.serialize_f64(self.value),
        }
    }
}

/// Statistics of a tensor's values; a complex number counts as two. NaN and infinities are counted, and
/// excluded from the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Number of values.
    pub count: u64,
    /// The smallest finite value; `None` if there is none.
    pub min: Option<End>,
    /// The greatest finite value; `None` if there is none.
    pub max: Option<End>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Their standard deviation (of the population).
    pub std: Option<f64>,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of NaN.
    pub nans: u64,
    /// Number of infinities.
    pub infs: u64,
}

impl Stats {
    /// The figures that are floats, with their names; of an integer, the nearest float.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 4] {
        let [min, max] = [self.min, self.max].map(|end| end.map(|end| end.value));
        [("min", min), ("max", max), ("mean", self.mean), ("std", self.std)]
    }
}

/// Rows computed at a time.
const BATCH: usize = 4096;

/// One row per tensor, in model order.
///
/// # Errors
/// As [`each_row`].
pub fn tensor_rows(engine: &Engine, opened: &OpenedModel, options: RowOptions) -> Result<Vec<TensorRow>> {
    let mut rows = Vec::with_capacity(opened.model.tensors.len());
    each_row(engine, opened, options, &mut |row| rows.push(row))?;
    Ok(rows)
}

/// Calls back with one row per tensor, in model order, holding only a few at a time. Payload is read once,
/// with tensors spread over all threads.
///
/// # Errors
/// Any error from reading; Cancelled.
pub fn each_row(
    engine: &Engine,
    opened: &OpenedModel,
    options: RowOptions,
    give: &mut dyn FnMut(TensorRow),
) -> Result<()> {
    let all: Vec<usize> = (0..opened.model.tensors.len()).collect();
    each_row_of(engine, opened, &all, options, give)
}

/// Like [`each_row`], for the tensors with these indices.
///
/// # Errors
/// As [`each_row`].
pub fn each_row_of(
    engine: &Engine,
    opened: &OpenedModel,
    numbers: &[usize],
    options: RowOptions,
    give: &mut dyn FnMut(TensorRow),
) -> Result<()> {
    // A million tensors share the name of one file.
    if options.sha256 || options.stats {
        let all = numbers.iter().filter_map(|&number| contiguous(&opened.model.tensors[number]));
        opened.files.will_read(all)?;
    }
    let names: Vec<Arc<str>> = opened.files.all().iter().map(|file| file.name.as_str().into()).collect();
    for batch in numbers.chunks(BATCH) {
        let mut read = match options.sha256 || options.stats {
            true => {
                map(engine.crew.as_ref(), batch.len(), &|_, n| read_one(engine, opened, batch[n], options))?
            }
            false => Vec::new(),
        }
        .into_iter();
        for tensor in batch.iter().map(|&number| &opened.model.tensors[number]) {
            let Read { sha256, stats } = read.next().unwrap_or_default();
            let unknown = options.stats && stats.is_none();
            let missing = unknown.then(|| format!("no quantizer plugin can decode {}", tensor.dtype));
            let extent = contiguous(tensor);
            let file = extent.and_then(|extent| names.get(usize::try_from(extent.file).ok()?).cloned());
            give(TensorRow {
                name: tensor.name.clone(),
                dtype: tensor.dtype.name().to_owned(),
                shape: tensor.shape.clone(),
                bytes: tensor.payload_len()?,
                offset: extent.filter(|_| file.is_some()).map(|extent| extent.offset),
                file,
                compressed: CompressedRow::of(tensor),
                packed: packed(tensor)?,
                sha256,
                stats,
                stats_missing: missing,
                histogram: None,
            });
        }
    }
    if options.sha256 || options.stats { opened.files.refuse_changed() } else { Ok(()) }
}

/// The place of a tensor's bytes, if they are contiguous and in the order of its elements.
fn contiguous(tensor: &Tensor) -> Option<Extent> {
    match &tensor.payload {
        Payload::Extent { extent, view } if view.as_ref().is_none_or(|view| view.strides.is_empty()) => {
            Some(*extent)
        }
        _ => None,
    }
}

#[derive(Default)]
struct Read {
    sha256: Option<String>,
    stats: Option<Stats>,
}

fn read_one(engine: &Engine, opened: &OpenedModel, number: usize, options: RowOptions) -> Result<Read> {
    let tensor = &opened.model.tensors[number];
    let numbers = if options.stats { Numbers::with(tensor.dtype, &engine.registry) } else { None };
    let mut values = numbers.map(|numbers| Values::new(numbers, &tensor.shape)).transpose()?;
    let mut hasher = options.sha256.then(Sha256::new);
    let mut running = Running::default();
    read::stream(engine, opened, number, &mut |bytes| {
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        if let Some(values) = &mut values {
            values.add(bytes, &mut |chunk| running.add(chunk));
        }
        Ok::<(), Error>(())
    })?;
    let stats = values.map(|mut values| {
        values.end(&mut |chunk| running.add(chunk));
        running.finish()
    });
    Ok(Read { sha256: hasher.map(|h| hex(&h.finalize())), stats })
}

/// Running statistics: sums of distances from the first number, so that nothing cancels that the numbers have in common.
#[derive(Default)]
struct Running {
    run: RunStatistics,
    pivot: Option<f64>,
}

impl Running {
    fn add(&mut self, chunk: Chunk<'_>) {
        if self.pivot.is_none() {
            let mut first = None;
            chunk.each(&mut |value| first = first.or(Some(value).filter(|value| value.is_finite())));
            self.pivot = first;
        }
        self.run.add(&RunStatistics::of(chunk, self.pivot.unwrap_or(0.0)));
    }

    fn finish(self) -> Stats {
        let RunStatistics { values, zeros, nans, infs, min, max, rests, moments } = self.run;
        let mut stats = Stats { count: values, zeros, nans, infs, ..Stats::default() };
        let n = self.run.finite();
        if n > 0 {
            let away = moments.sum / DoubleDouble::count(n);
            let spread = (moments.squares - moments.sum * away) / DoubleDouble::count(n);
            stats.mean = Some((DoubleDouble::from(self.pivot.unwrap_or(0.0)) + away).value());
            stats.std = Some(spread.sqrt().value());
            (stats.min, stats.max) = (Some(End::new(min, rests[0])), Some(End::new(max, rests[1])));
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;

    /// The statistics of `n` elements whose bytes come in two pieces.
    fn stats_of(dtype: DType, n: u64, pieces: [&[u8]; 2]) -> Stats {
        let mut values = Values::new(Numbers::new(dtype).unwrap(), &[n]).unwrap();
        let mut running = Running::default();
        pieces.iter().for_each(|bytes| values.add(bytes, &mut |chunk| running.add(chunk)));
        values.end(&mut |chunk| running.add(chunk));
        running.finish()
    }

    fn ends(stats: &Stats) -> (Option<f64>, Option<f64>) {
        (stats.min.map(|end| end.value), stats.max.map(|end| end.value))
    }

    #[test]
    fn counts_what_is_not_finite_apart() {
        let values = [1.0f32, -3.0, 0.0, f32::NAN, f32::INFINITY];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let s = stats_of(DType::F32, 5, [&bytes, &[]]);
        assert_eq!((s.count, s.zeros, s.nans, s.infs), (5, 1, 1, 1));
        assert_eq!(ends(&s), (Some(-3.0), Some(1.0)));
        assert!((s.mean.unwrap() + 2.0 / 3.0).abs() < 1e-12);
        assert!((s.std.unwrap() - (26.0f64 / 9.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_stream_may_be_cut_inside_a_value() {
        let bytes: Vec<u8> = (0u16..700).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        for cut in [0, 1, 2, 3, 5, 2047, 2049, 2799, 2800] {
            let (one, other) = bytes.split_at(cut);
            let s = stats_of(DType::F32, 700, [one, other]);
            assert_eq!((s.count, ends(&s)), (700, (Some(0.0), Some(699.0))), "cut at {cut}");
            assert!((s.mean.unwrap() - 349.5).abs() < 1e-9, "cut at {cut}");
        }
    }

    #[test]
    fn packed_and_complex_types_have_statistics() {
        // Five elements in three bytes: the last half byte, -1, is not an element.
        let s = stats_of(DType::I4, 5, [&[0x21, 0x83], &[0xf4]]);
        assert_eq!((s.count, ends(&s), s.mean), (5, (Some(-8.0), Some(4.0)), Some(0.4)));
        let s = stats_of(DType::F8_E4M3, 2, [&[0x7e], &[0x7f]]);
        assert_eq!((s.count, s.nans, ends(&s).1), (2, 1, Some(448.0)));
        let parts: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let s = stats_of(DType::C64, 1, [&parts, &[]]);
        assert_eq!((s.count, ends(&s)), (2, (Some(-2.0), Some(1.0))));
    }
}
