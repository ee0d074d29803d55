//! Reads the values of a tensor or of a slice of it, and no more of its payload than necessary.

use crate::engine::Engine;
use crate::expression::evaluate::read::Ascending;
use crate::open::OpenedModel;
use crate::registry::way_to;
use crate::values::numbers::{CHUNK, Numbers};
use crate::values::usize_of;
use apr_sdk::{DType, DTypeInfo, DTypeKind, Error, Result};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Range;

/// Values returned at once: they take some tens of MiB.
pub const MOST_VALUES: u64 = 1 << 20;

/// Elements read at once; whole blocks of every type.
const RUN: u64 = 1 << 16;

/// One value, as precise as its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// True or false.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i128),
    /// A float that fits an `f32`.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// Real and imaginary part, each an `f32`.
    C64(f32, f32),
    /// Real and imaginary part, each an `f64`.
    C128(f64, f64),
}

/// Reads the values of tensor number `tensor` at these indices: ascending ranges along each dimension,
/// outermost first. Values are returned in row-major order.
///
/// # Errors
/// InvalidArgument for more than [`MOST_VALUES`]; Unsupported for a type whose values cannot be read here; what reading
/// raises; Cancelled. With the file as the user typed it and the tensor.
pub fn values(
    engine: &Engine,
    opened: &OpenedModel,
    tensor: usize,
    axes: &[Vec<Range<u64>>],
) -> Result<Vec<Number>> {
    let decl = &opened.model.tensors[tensor];
    let read = read(engine, opened, tensor, axes);
    let read = read.map_err(|e| opened.files.show(e.tensor(&decl.name)))?;
    opened.files.refuse_changed()?;
    Ok(read)
}

fn read(
    engine: &Engine,
    opened: &OpenedModel,
    number: usize,
    axes: &[Vec<Range<u64>>],
) -> Result<Vec<Number>> {
    let tensor = &opened.model.tensors[number];
    let info = tensor.dtype.require()?;
    let Some(numbers) = Numbers::with(tensor.dtype, &engine.registry) else {
        let message = format!("no quantizer plugin can decode {}", tensor.dtype);
        return Err(Error::unsupported(message)
            .hint(way_to(tensor.dtype, "run `apr plugins list` to see the available plugins")));
    };
    let count = axes.iter().map(|axis| len_of(axis)).fold(1u64, u64::saturating_mul);
    // An empty dimension may be beside any others.
    let brackets = axes.iter().map(|axis| len_of(axis).max(1)).fold(1u64, u64::saturating_mul);
    if brackets > MOST_VALUES {
        let what = if count == 0 { "empty arrays" } else { "values" };
        let message = format!("these are {brackets} {what}, more than the limit of {MOST_VALUES}");
        let hint = "use a slice, as in 'NAME[0:16]'; to get all values, convert the model to a format that \
                    your program can read";
        return Err(Error::invalid_argument(message).hint(hint));
    }
    let mut values = Vec::new();
    if count == 0 {
        return Ok(values);
    }
    let payload = Ascending::new(engine, opened, number)?;
    let mut elements = Elements { payload, numbers, info, len: tensor.payload_len()?, bytes: Vec::new() };
    each_run(&tensor.shape, axes, &mut |run| elements.read(run, &mut values))?;
    Ok(values)
}

fn len_of(axis: &[Range<u64>]) -> u64 {
    axis.iter().fold(0, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)))
}

/// Calls `each` with the contiguous runs of elements in a box, as ranges of row-major indices, in order. Runs
/// are as long as possible: they span inner dimensions that are selected whole.
fn each_run(
    shape: &[u64],
    axes: &[Vec<Range<u64>>],
    each: &mut dyn FnMut(Range<u64>) -> Result<()>,
) -> Result<()> {
    let dimensions = (0..shape.len()).rev();
    let n_whole = dimensions.take_while(|&d| axes[d].len() == 1 && axes[d][0] == (0..shape[d])).count();
    let Some(cut) = (shape.len() - n_whole).checked_sub(1) else {
        return each(0..shape.iter().product());
    };
    let inner: u64 = shape[cut + 1..].iter().product();
    let outer: Vec<Vec<u64>> =
        axes[..cut].iter().map(|axis| axis.iter().cloned().flatten().collect()).collect();
    let mut at = vec![0usize; cut];
    loop {
        let row = (0..cut).fold(0u64, |row, d| row * shape[d] + outer[d][at[d]]) * shape[cut];
        for range in &axes[cut] {
            each((row + range.start) * inner..(row + range.end) * inner)?;
        }
        let Some(next) = (0..cut).rev().find(|&d| at[d] + 1 < outer[d].len()) else { return Ok(()) };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
}

/// The elements of a tensor, by their row-major index.
struct Elements<'a> {
    payload: Ascending<'a>,
    numbers: Numbers,
    info: &'static DTypeInfo,
    /// Length of the payload in bytes.
    len: u64,
    bytes: Vec<u8>,
}

impl Elements<'_> {
    /// Appends the elements of a run to `values`.
    fn read(&mut self, run: Range<u64>, values: &mut Vec<Number>) -> Result<()> {
        let each = u64::from(self.info.block_elements);
        let bytes = u64::from(self.info.block_bytes);
        let mut at = run.start - run.start % each;
        while at < run.end {
            let end = run.end.next_multiple_of(each).min(at + RUN / each * each);
            let offset = at / each * bytes;
            // Packed bits need not fill their last block.
            let len = ((end - at) / each * bytes).min(self.len - offset);
            let len = usize::try_from(len).map_err(|_| Error::limit("the values do not fit in memory"))?;
            self.bytes.resize(len, 0);
            self.payload.read_at(offset, &mut self.bytes)?;
            let wanted = run.start.max(at)..run.end.min(end);
            self.decode(wanted.start - at..wanted.end - at, end - at, values)?;
            at = end;
        }
        Ok(())
    }

    /// Appends the wanted ones of the `count` elements that were read.
    fn decode(&self, wanted: Range<u64>, count: u64, values: &mut Vec<Number>) -> Result<()> {
        let per = usize_of(self.numbers.per_element);
        let wanted = usize_of(wanted.start)..usize_of(wanted.end);
        let count = usize_of(count);
        let mut high = [0.0; CHUNK];
        let mut low = [0.0; CHUNK];
        let step = CHUNK / per;
        for first in (wanted.start / step * step..wanted.end).step_by(step) {
            let n = (count - first).min(step);
            let from = self.numbers.bytes_of(first * per);
            let to = self.numbers.bytes_of((first + n) * per).min(self.bytes.len());
            let bytes = self.bytes.get(from..to).unwrap_or_default();
            let high = &mut high[..n * per];
            let low = &mut low[..n * per];
            self.numbers.read_wide(bytes, high, low);
            let here = wanted.start.max(first) - first..wanted.end.min(first + n) - first;
            values.extend(here.map(|n| number(self.info, &high[n * per..], low[n * per])));
        }
        Ok(())
    }
}

/// Converts an element to a number.
#[allow(clippy::cast_possible_truncation, reason = "what was read of a narrower type is put back")]
fn number(info: &DTypeInfo, high: &[f64], low: f64) -> Number {
    let first = high[0];
    let second = high.get(1).copied().unwrap_or(0.0);
    match info.kind {
        DTypeKind::Bool => Number::Bool(first != 0.0),
        DTypeKind::Int | DTypeKind::Uint => Number::Int(first as i128 + low as i128),
        DTypeKind::Complex if info.dtype == DType::C64 => Number::C64(first as f32, second as f32),
        DTypeKind::Complex => Number::C128(first, second),
        _ if info.dtype == DType::F64 => Number::F64(first),
        _ => Number::F32(first as f32),
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match *self {
            Number::Bool(value) => serializer.serialize_bool(value),
            Number::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_u64(value),
                (_, Ok(value)) => serializer.serialize_i64(value),
                _ => serializer.serialize_i128(value),
            },
            Number::F32(value) => match odd(value.into()) {
                Some(word) => serializer.serialize_str(word),
                None => serializer.serialize_f32(value),
            },
            Number::F64(value) => match odd(value) {
                Some(word) => serializer.serialize_str(word),
                None => serializer.serialize_f64(value),
            },
            Number::C64(re, im) => [Number::F32(re), Number::F32(im)].serialize(serializer),
            Number::C128(re, im) => [Number::F64(re), Number::F64(im)].serialize(serializer),
        }
    }
}

/// The name of a value that JSON has no number for.
fn odd(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Prints as few digits as distinguish it from all other values of its type.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Bool(value) => write!(f, "{value}"),
            Number::Int(value) => write!(f, "{value}"),
            Number::F32(value) => write!(f, "{value:?}"),
            Number::F64(value) => write!(f, "{value:?}"),
            Number::C64(re, im) => write!(f, "{re:?}{im:+?}j"),
            Number::C128(re, im) => write!(f, "{re:?}{im:+?}j"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(shape: &[u64], axes: &[&[Range<u64>]]) -> Vec<Range<u64>> {
        let axes: Vec<Vec<Range<u64>>> = axes.iter().map(|axis| axis.to_vec()).collect();
        let mut runs = Vec::new();
        each_run(shape, &axes, &mut |run| {
            runs.push(run);
            Ok(())
        })
        .unwrap();
        runs
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one range along a dimension is meant")]
    fn runs_are_as_long_as_can_be() {
        assert_eq!(runs(&[], &[]), [0..1]);
        assert_eq!(runs(&[4, 5], &[&[0..4], &[0..5]]), [0..20]);
        assert_eq!(runs(&[4, 5], &[&[1..3], &[0..5]]), [5..15]);
        assert_eq!(runs(&[4, 5], &[&[1..3], &[2..4]]), [7..9, 12..14]);
        assert_eq!(runs(&[4, 5], &[&[0..1, 3..4], &[0..5]]), [0..5, 15..20]);
        assert_eq!(runs(&[4, 5], &[&[3..4], &[0..1, 4..5]]), [15..16, 19..20]);
        assert_eq!(runs(&[2, 2, 3], &[&[0..2], &[1..2], &[0..3]]), [3..6, 9..12]);
    }

    #[test]
    fn numbers_are_exact_and_odd_ones_have_names() {
        for (number, json) in [
            (Number::Int(u64::MAX.into()), "18446744073709551615"),
            (Number::Int(i64::MIN.into()), "-9223372036854775808"),
            (Number::F32(0.1), "0.1"),
            (Number::F32(f32::NAN), "\"NaN\""),
            (Number::F64(f64::NEG_INFINITY), "\"-Infinity\""),
            (Number::C64(1.0, f32::INFINITY), "[1.0,\"Infinity\"]"),
        ] {
            assert_eq!(serde_json::to_string(&number).unwrap(), json);
        }
        let shown = [Number::F32(1e-9), Number::C128(1.0, -0.5), Number::Bool(true)].map(|n| n.to_string());
        assert_eq!(shown, ["1e-9", "1.0-0.5j", "true"]);
    }
}
