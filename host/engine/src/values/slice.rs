//! A slice of a tensor in Python's notation: `0:4, -1, :8`, one item per dimension, outermost first.

use apr_sdk::{Error, Result, escape};
use std::ops::Range;

/// A slice as written, before the tensor is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    axes: Vec<Axis>,
}

/// The selection along one dimension; negative numbers count from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Index(i64),
    Range(Option<i64>, Option<i64>),
}

/// The selection along one dimension of known size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The selected indices.
    pub range: Range<u64>,
    /// True if it is a single index, which removes the dimension.
    pub is_index: bool,
}

impl Slice {
    /// Parses the text between the brackets.
    ///
    /// # Errors
    /// InvalidArgument for anything else, and for steps.
    pub fn parse(text: &str) -> Result<Slice> {
        let axes = text.split(',').map(|axis| Axis::parse(axis.trim()));
        Ok(Slice { axes: axes.collect::<Result<_>>()? })
    }

    /// Applies the slice to a tensor of this shape; dimensions it does not mention are selected whole.
    ///
    /// # Errors
    /// InvalidArgument, with the shape, for too many dimensions, an index out of range, and a range that ends
    /// before it begins.
    pub fn of(&self, shape: &[u64]) -> Result<Vec<Picked>> {
        if self.axes.len() > shape.len() {
            let have = shape.len();
            let want = self.axes.len();
            let message =
                format!("the slice has {want} dimensions, but the tensor has {have}: its shape is {shape:?}");
            return Err(Error::invalid_argument(message).hint(HOW));
        }
        let whole = Axis::Range(None, None);
        let axes = self.axes.iter().copied().chain(std::iter::repeat(whole));
        axes.zip(shape).enumerate().map(|(number, (axis, &size))| axis.of(size, number, shape)).collect()
    }
}

/// A hint about the notation.
const HOW: &str = "write a slice as in Python: 'NAME[0:4, :8]', 'NAME[-1]'";

impl Axis {
    fn parse(text: &str) -> Result<Axis> {
        Axis::read(text).map_err(|what| {
            let message = format!("`{}` is not a valid slice: {what}", escape(text, 40));
            Error::invalid_argument(message).hint(HOW)
        })
    }

    fn read(text: &str) -> std::result::Result<Axis, &'static str> {
        let mut ends = Vec::new();
        for end in text.split(':').map(str::trim) {
            match end.parse::<i64>() {
                Ok(number) => ends.push(Some(number)),
                Err(_) if end.is_empty() => ends.push(None),
                Err(_) => return Err("expected integers"),
            }
        }
        match ends[..] {
            [Some(index)] => Ok(Axis::Index(index)),
            [start, stop] | [start, stop, None | Some(1)] => Ok(Axis::Range(start, stop)),
            [_, _, Some(_)] => Err("steps are not supported"),
            [None] => Err("it is empty"),
            _ => Err("expected START:STOP"),
        }
    }

    fn of(self, size: u64, number: usize, shape: &[u64]) -> Result<Picked> {
        self.within(size).map_err(|what| {
            let message = format!("{what}: dimension {number} has size {size}, the shape is {shape:?}");
            Error::invalid_argument(message).hint("use indices within the tensor's shape")
        })
    }

    fn within(self, size: u64) -> std::result::Result<Picked, String> {
        match self {
            Axis::Index(index) => match from_start(index, size).filter(|at| *at < size) {
                Some(at) => Ok(Picked { range: at..at + 1, is_index: true }),
                None => Err(format!("index {index} is out of range")),
            },
            Axis::Range(start, stop) => {
                let begin = from_start(start.unwrap_or(0), size).filter(|at| *at <= size);
                let end = stop.map_or(Some(size), |stop| from_start(stop, size)).filter(|at| *at <= size);
                let words = [start, stop].map(|end| end.map(|end| end.to_string()).unwrap_or_default());
                let shown = words.join(":");
                match (begin, end) {
                    (Some(begin), Some(end)) if begin <= end => {
                        Ok(Picked { range: begin..end, is_index: false })
                    }
                    (Some(_), Some(_)) => Err(format!("{shown} ends before it starts")),
                    _ => Err(format!("{shown} is out of range")),
                }
            }
        }
    }
}

/// An index counted from the start of a dimension.
fn from_start(index: i64, size: u64) -> Option<u64> {
    match index.is_negative() {
        false => Some(index.unsigned_abs()),
        true => size.checked_sub(index.unsigned_abs()),
    }
}

/// The indices to show along each dimension: all, if they give at most `most` values; otherwise equally many
/// at both ends of long dimensions, as few as necessary.
pub fn shown(picked: &[Picked], most: u64) -> Vec<Vec<Range<u64>>> {
    let mut axes: Vec<_> = picked.iter().map(|picked| vec![picked.range.clone()]).collect();
    for (head, tail) in [(3, 3), (2, 2), (1, 1), (1, 0)] {
        if count(&axes) <= most {
            break;
        }
        for (axis, Picked { range, .. }) in axes.iter_mut().zip(picked) {
            *axis = match range.end - range.start <= head + tail {
                true => vec![range.clone()],
                false => vec![range.start..range.start + head, range.end - tail..range.end],
            };
        }
    }
    axes
}

fn count(axes: &[Vec<Range<u64>>]) -> u64 {
    let sizes = axes.iter().map(|axis| axis.iter().map(|range| range.end - range.start).sum::<u64>());
    // An empty dimension does not shorten the others.
    sizes.fold(1u64, |count, size| count.saturating_mul(size.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str, shape: &[u64]) -> Vec<(u64, u64, bool)> {
        let picked = Slice::parse(text).and_then(|slice| slice.of(shape)).unwrap();
        picked.into_iter().map(|one| (one.range.start, one.range.end, one.is_index)).collect()
    }

    #[test]
    fn slices_mean_what_they_mean_in_python() {
        assert_eq!(ranges("0:4, :8", &[10, 20]), [(0, 4, false), (0, 8, false)]);
        assert_eq!(ranges("-1", &[10, 20]), [(9, 10, true), (0, 20, false)]);
        assert_eq!(ranges("-3:, 2:-1", &[10, 20]), [(7, 10, false), (2, 19, false)]);
        assert_eq!(ranges(":,5", &[10, 20]), [(0, 10, false), (5, 6, true)]);
        assert_eq!(ranges("10:10", &[10]), [(10, 10, false)]);
        assert_eq!(ranges("1:2:1", &[10]), [(1, 2, false)]);
        assert_eq!(ranges(":", &[0]), [(0, 0, false)]);
    }

    #[test]
    fn what_is_outside_or_no_slice_is_refused() {
        for bad in ["", "1,", "a", "1:2:3:4", "::2", "1:2:-1", "1.5", "...", "9999999999999999999"] {
            let error = Slice::parse(bad).unwrap_err();
            assert_eq!(error.kind(), apr_sdk::ErrorKind::InvalidArgument, "{bad}");
        }
        for bad in ["10", "-11", "0:11", "-11:", "5:3", "0,0,0", "-9223372036854775808"] {
            let error = Slice::parse(bad).and_then(|slice| slice.of(&[10, 20])).unwrap_err();
            assert!(error.message().contains("[10, 20]"), "{bad}: {}", error.message());
        }
        assert!(Slice::parse("0").unwrap().of(&[0]).is_err() && Slice::parse("0").unwrap().of(&[]).is_err());
    }

    #[test]
    fn long_dimensions_lose_their_middle_until_few_values_are_left() {
        for (shape, want) in [
            (&[10, 100][..], &[10, 100][..]),
            (&[11, 100], &[6, 6]),
            (&[5, 300], &[5, 6]),
            (&[100; 4], &[4; 4]),
            (&[2; 40], &[1; 40]),
            (&[u64::MAX; 9], &[2; 9]),
            (&[u64::MAX, 0], &[6, 0]),
            (&[], &[]),
        ] {
            let axes = shown(&Slice::default().of(shape).unwrap(), 1000);
            let sizes = axes.iter().map(|axis| axis.iter().map(|range| range.end - range.start).sum());
            assert_eq!(sizes.collect::<Vec<u64>>(), want);
        }
    }
}
