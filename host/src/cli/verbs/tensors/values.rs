//! `apr tensors FILE NAME[SLICE]`: the values of one tensor.

use super::unknown;
use crate::cli::output::verb_report::{Report, Streamed, with_schema};
use apr_engine::Engine;
use apr_engine::open::OpenedModel;
use apr_engine::values::slice::{Slice, shown};
use apr_engine::verify::tensor_values::{Number, values};
use apr_sdk::{Result, escape};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

/// The most values that people are shown; of more, the ends of long dimensions.
const MOST_SHOWN: u64 = 1000;

/// The values of a tensor, or of a slice of it. JSON: `name`, `dtype`, `shape` (the tensor's), `slice`
/// (of each dimension `[start, stop]`, or the one index that was asked for) and `values`, nested as the slice is. Complex
/// numbers are pairs; floats that JSON lacks are `"NaN"`, `"Infinity"` and `"-Infinity"`.
#[derive(Debug, Serialize)]
pub struct Values {
    name: String,
    dtype: &'static str,
    shape: Vec<u64>,
    slice: Vec<Along>,
    #[serde(serialize_with = "nested")]
    values: Read,
    warnings: Vec<String>,
}

/// The selection along one dimension.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Along {
    Index(u64),
    Range(u64, u64),
}

/// The values read: the ranges along each dimension that is left, and the values in row-major order.
#[derive(Debug)]
struct Read {
    axes: Vec<Vec<Range<u64>>>,
    values: Vec<Number>,
}

/// Reads what `text` names: a tensor, or a slice of one; for people no more than they are shown.
///
/// # Errors
/// InvalidArgument for a tensor or a slice that there is not; what reading raised.
pub fn of(engine: &Engine, opened: &OpenedModel, text: &str, all: bool) -> Result<Values> {
    let tensors = &opened.model.tensors;
    let (number, slice) = match named(text, &|name| tensors.iter().position(|tensor| tensor.name == name)) {
        (Some(number), inside) => (number, inside),
        (None, _) => return Err(unknown(opened, text.split_once('[').map_or(text, |(name, _)| name))),
    };
    let tensor = &tensors[number];
    let slice = slice.map_or(Ok(Slice::default()), Slice::parse).and_then(|slice| slice.of(&tensor.shape));
    let picked = slice.map_err(|e| e.tensor(&tensor.name).in_file(opened.path.display().to_string()))?;
    let axes = shown(&picked, if all { u64::MAX } else { MOST_SHOWN });
    let values = values(engine, opened, number, &axes)?;
    let left = axes.into_iter().zip(&picked).filter(|(_, one)| !one.is_index).map(|(axis, _)| axis);
    let along = picked.iter().map(|one| match one.is_index {
        true => Along::Index(one.range.start),
        false => Along::Range(one.range.start, one.range.end),
    });
    Ok(Values {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name(),
        shape: tensor.shape.clone(),
        slice: along.collect(),
        values: Read { axes: left.collect(), values },
        warnings: opened.warnings.clone(),
    })
}

/// The tensor that is meant, and the slice of it. A name may have brackets itself: the longest one that there is is meant.
fn named<'t>(text: &'t str, number: &dyn Fn(&str) -> Option<usize>) -> (Option<usize>, Option<&'t str>) {
    if let Some(number) = number(text) {
        return (Some(number), None);
    }
    let Some(inner) = text.strip_suffix(']') else { return (None, None) };
    match inner.rsplit_once('[') {
        Some((name, slice)) => (number(name), Some(slice)),
        None => (None, None),
    }
}

/// Number of values along a dimension.
fn len_of(axis: &[Range<u64>]) -> usize {
    let sum = axis.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
    usize::try_from(sum).unwrap_or(usize::MAX)
}

fn nested<S: Serializer>(read: &Read, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    Nested { axes: &read.axes, values: &read.values }.serialize(serializer)
}

/// Values as arrays of arrays.
struct Nested<'v> {
    axes: &'v [Vec<Range<u64>>],
    values: &'v [Number],
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Some((axis, inner)) = self.axes.split_first() else {
            return self.values.first().serialize(serializer);
        };
        let each = inner.iter().map(|axis| len_of(axis)).product::<usize>();
        serializer.collect_seq((0..len_of(axis)).map(|n| {
            let values = self.values.get(n * each..(n + 1) * each).unwrap_or_default();
            Nested { axes: inner, values }
        }))
    }
}

impl Report for Values {
    fn json(&self) -> Result<Json> {
        with_schema("apr.values/1", self)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        #[derive(Serialize)]
        struct Document<'v> {
            schema: &'static str,
            #[serde(flatten)]
            values: &'v Values,
        }
        // A line for each number is nothing that anyone reads.
        serde_json::to_writer(&mut *out, &Document { schema: "apr.values/1", values: self })?;
        out.write_all(b"\n")?;
        Ok(Streamed::Document)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        format!("{}\n", Shown(&self.values))
    }
}

/// As NumPy shows an array.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", escape(&self.name, 400))?;
        let mut along = self.slice.iter().zip(&self.shape);
        if !along.all(|(along, size)| matches!(along, Along::Range(0, end) if end == size)) {
            let words = self.slice.iter().map(|along| match along {
                Along::Index(index) => index.to_string(),
                Along::Range(start, stop) => format!("{start}:{stop}"),
            });
            write!(f, "[{}]", words.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(f, "  {}  {:?}", self.dtype, self.shape)?;
        writeln!(f, "{}", Shown(&self.values))
    }
}

struct Shown<'v>(&'v Read);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Read { axes, values } = self.0;
        if values.is_empty() {
            return f.write_str("[]");
        }
        let texts: Vec<String> = values.iter().map(Number::to_string).collect();
        let width = if axes.is_empty() { 0 } else { texts.iter().map(String::len).max().unwrap_or(0) };
        write_axes(f, axes, 0, &mut texts.iter(), width)
    }
}

fn write_axes(
    f: &mut fmt::Formatter<'_>,
    axes: &[Vec<Range<u64>>],
    depth: usize,
    texts: &mut dyn Iterator<Item = &String>,
    width: usize,
) -> fmt::Result {
    let Some((axis, inner)) = axes.split_first() else {
        return texts.next().map_or(Ok(()), |text| write!(f, "{text:>width$}"));
    };
    let between = match inner.len() {
        0 => ", ".to_owned(),
        lines => format!(",{}{}", "\n".repeat(lines), " ".repeat(depth + 1)),
    };
    f.write_str("[")?;
    for (number, range) in axis.iter().enumerate() {
        if number > 0 {
            write!(f, "{between}…")?;
        }
        for at in range.clone() {
            if number > 0 || at > range.start {
                f.write_str(&between)?;
            }
            write_axes(f, inner, depth + 1, texts, width)?;
        }
    }
    f.write_str("]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(axes: &[&[Range<u64>]]) -> Read {
        let axes: Vec<Vec<Range<u64>>> = axes.iter().map(|axis| axis.to_vec()).collect();
        let count: usize = axes.iter().map(|axis| len_of(axis)).product();
        Read { axes, values: (0..count).map(|n| Number::Int(n as i128 * 5)).collect() }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one range along a dimension is meant")]
    fn arrays_are_nested_for_people_and_for_programs() {
        let cut = read(&[&[0..2, 9..10], &[0..1, 7..7]]);
        assert_eq!(Shown(&cut).to_string(), "[[ 0, …],\n [ 5, …],\n …,\n [10, …]]");
        let cube = read(&[&[0..2], &[0..1], &[0..2]]);
        assert_eq!(Shown(&cube).to_string(), "[[[ 0,  5]],\n\n [[10, 15]]]");
        let json =
            |read: &Read| serde_json::to_string(&Nested { axes: &read.axes, values: &read.values }).unwrap();
        assert_eq!(json(&cube), "[[[0,5]],[[10,15]]]");
        assert_eq!(json(&read(&[])), "0");
        assert_eq!(json(&read(&[&[0..2], &[0..0]])), "[[],[]]");
        assert_eq!(Shown(&read(&[])).to_string(), "0");
        assert_eq!(Shown(&read(&[&[0..0]])).to_string(), "[]");
    }

    #[test]
    fn a_name_with_brackets_is_a_name() {
        let known = |name: &str| ["a", "a[0]", "b[1].w"].iter().position(|known| *known == name);
        assert_eq!(named("a[0]", &known), (Some(1), None));
        assert_eq!(named("a[1]", &known), (Some(0), Some("1")));
        assert_eq!(named("a[0][1, :]", &known), (Some(1), Some("1, :")));
        assert_eq!(named("b[1].w[2]", &known), (Some(2), Some("2")));
        assert_eq!(named("a[", &known), (None, None));
    }
}
