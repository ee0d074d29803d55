//! A histogram as the path of a small drawing: a bar for each bin.

use crate::report::numbers::show;
use apr_engine::values::spread::Bins;
use serde::Serialize;
use std::fmt::Write;

/// The drawing's size, in its own units.
const WIDTH: u64 = 96;
const HEIGHT: u64 = 24;

/// A histogram, ready to be drawn.
#[derive(Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// The outline of all bars.
    path: String,
    /// The position of zero, if it is inside.
    zero: Option<u64>,
    /// Its content, in words.
    title: String,
}

impl Histogram {
    /// Of the finite values of a tensor.
    pub fn new(bins: &Bins) -> Histogram {
        let (Some(least), Some(greatest)) = (bins.edges.first(), bins.edges.last()) else {
            return Histogram { path: String::new(), zero: None, title: String::new() };
        };
        let most = bins.counts.iter().copied().max().unwrap_or(0).max(1);
        let n = bins.counts.len().max(1) as u64;
        let mut path = format!("M0 {HEIGHT}");
        let mut at = 0;
        let mut run = 0;
        for (number, &count) in bins.counts.iter().enumerate() {
            // What is there is seen, however little it is.
            let share = u128::from(count) * u128::from(HEIGHT) / u128::from(most);
            let height = u64::try_from(share).unwrap_or(HEIGHT).max(u64::from(count > 0));
            let left = number as u64 * WIDTH / n;
            let right = (number as u64 + 1) * WIDTH / n;
            if height != at {
                let _ = write!(path, "{}V{}", along(run), HEIGHT - height);
                (at, run) = (height, 0);
            }
            run += right - left;
        }
        let _ = write!(path, "{}V{HEIGHT}z", along(run));
        let peak = bins.counts.iter().position(|count| *count == most).unwrap_or(0);
        let [from, to] = [0, 1].map(|n| show(bins.edges.get(peak + n).copied()));
        let ends = (show(Some(*least)), show(Some(*greatest)));
        let title = match least == greatest {
            true => format!("all values are {}", ends.0),
            false => format!("values from {} to {}, most often between {from} and {to}", ends.0, ends.1),
        };
        Histogram { path, zero: zero(&bins.edges), title }
    }
}

/// A line to the right, if it goes anywhere.
fn along(run: u64) -> String {
    if run > 0 { format!("h{run}") } else { String::new() }
}

/// The position of zero between the edges, in units of the drawing.
fn zero(edges: &[f64]) -> Option<u64> {
    let n = edges.len().checked_sub(1).filter(|n| *n > 0)? as u64;
    let at = edges.iter().position(|edge| *edge >= 0.0)?;
    let inside = edges.first()? < &0.0 && edges.last()? > &0.0;
    // The edge next to it: a bin is some pixels wide.
    inside.then_some(at as u64 * WIDTH / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_share_and_none_is_lost() {
        let bins = Bins { edges: vec![-2.0, -1.0, 0.0, 1.0, 2.0], counts: vec![1, 0, 1000, 500] };
        let drawn = Histogram::new(&bins);
        assert_eq!(drawn.path, "M0 24V23h24V24h24V0h24V12h24V24z");
        assert_eq!(drawn.zero, Some(48));
        assert_eq!(drawn.title, "values from −2.000 to 2.000, most often between 0 and 1.000");
    }

    #[test]
    fn one_value_is_one_bar() {
        let drawn = Histogram::new(&Bins { edges: vec![0.5, 0.5], counts: vec![7] });
        assert_eq!((drawn.path.as_str(), drawn.zero), ("M0 24V0h96V24z", None));
        assert_eq!(drawn.title, "all values are 0.5000");
        assert_eq!(Histogram::new(&Bins::default()).path, "");
    }
}
