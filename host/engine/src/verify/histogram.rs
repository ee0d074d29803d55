//! The distribution of one tensor's values.

use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::values::numbers::{Numbers, Values};
use apr_sdk::{Error, Result};
use serde::Serialize;

/// The number of bins in a histogram.
pub const BINS: usize = 20;

/// Counts of a tensor's values in bins of equal width, from minimum to maximum; a complex number counts as
/// two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// The bins in order; empty if no value is finite, a single one if all finite values are equal.
    pub bins: Vec<Bin>,
    /// Number of NaN.
    pub nans: u64,
    /// Number of infinities.
    pub infs: u64,
}

/// One bin: includes `from`, and excludes `to` except in the last bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The lower edge.
    pub from: f64,
    /// The upper edge.
    pub to: f64,
    /// Number of values in the bin.
    pub count: u64,
}

/// Reads tensor number `tensor` twice: for its range, then to count.
///
/// # Errors
/// Unsupported for a type whose values cannot be read here; any error from reading; Cancelled.
pub fn histogram(engine: &Engine, opened: &OpenedModel, tensor: usize) -> Result<Histogram> {
    let decl = &opened.model.tensors[tensor];
    let Some(numbers) = Numbers::with(decl.dtype, &engine.registry) else {
        let message = format!("no quantizer plugin knows the values of {}", decl.dtype);
        return Err(opened.files.show(Error::unsupported(message).tensor(&decl.name)));
    };
    let mut range: Option<(f64, f64)> = None;
    let mut found = Histogram { bins: Vec::new(), nans: 0, infs: 0 };
    each_value(engine, opened, tensor, numbers.clone(), |value| {
        if value.is_nan() {
            found.nans += 1;
        } else if value.is_infinite() {
            found.infs += 1;
        } else {
            range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        }
    })?;
    let Some((low, high)) = range else { return Ok(found) };
    let n = if low == high { 1 } else { BINS };
    found.bins = (0..n)
        .map(|at| Bin { from: edge(low, high, at, n), to: edge(low, high, at + 1, n), count: 0 })
        .collect();
    let bins = &mut found.bins;
    each_value(engine, opened, tensor, numbers, |value| {
        if value.is_finite() {
            // Decided by the edges, not by a division that may round across one.
            let at = bins.partition_point(|bin| bin.from <= value).saturating_sub(1);
            bins[at].count += 1;
        }
    })?;
    Ok(found)
}

/// The lower edge of bin `at` of `n`, computed in two halves because the width of the widest range overflows.
fn edge(low: f64, high: f64, at: usize, n: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "there are few bins")]
    let part = at as f64 / n as f64;
    match at {
        0 => low,
        at if at == n => high,
        _ => {
            let half = (high / 2.0 - low / 2.0) * part;
            low + half + half
        }
    }
}

/// Calls `each` with every value in order.
fn each_value(
    engine: &Engine,
    opened: &OpenedModel,
    tensor: usize,
    numbers: Numbers,
    mut each: impl FnMut(f64),
) -> Result<()> {
    let mut values = Values::new(numbers, &opened.model.tensors[tensor].shape)?;
    read::stream(engine, opened, tensor, &mut |bytes| {
        values.add(bytes, &mut each);
        Ok(())
    })?;
    values.end(&mut each);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_rise_from_the_least_to_the_greatest_also_over_the_widest_range() {
        for (low, high) in [(-1.0, 1.0), (f64::MIN, f64::MAX), (1.0, 1.0 + f64::EPSILON * 64.0)] {
            let edges: Vec<f64> = (0..=BINS).map(|at| edge(low, high, at, BINS)).collect();
            assert_eq!((edges[0], edges[BINS]), (low, high));
            assert!(edges.is_sorted() && edges.iter().all(|edge| edge.is_finite()), "{edges:?}");
        }
    }
}
