//! The distribution of one tensor's values.

use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::registry::way_to;
use crate::values::numbers::{Numbers, Values};
use crate::values::spread::edge;
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
        let message = format!("no quantizer plugin can decode {}", decl.dtype);
        let hint = way_to(decl.dtype, "run `apr plugins list` to see the available plugins");
        return Err(opened.files.show(Error::unsupported(message).hint(hint).tensor(&decl.name)));
    };
    let mut range: Option<(f64, f64)> = None;
    let mut histogram = Histogram { bins: Vec::new(), nans: 0, infs: 0 };
    each_value(engine, opened, tensor, numbers.clone(), |value| {
        if value.is_nan() {
            histogram.nans += 1;
        } else if value.is_infinite() {
            histogram.infs += 1;
        } else {
            range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        }
    })?;
    let Some((low, high)) = range else { return Ok(histogram) };
    let n = if low == high { 1 } else { BINS };
    histogram.bins = (0..n)
        .map(|at| Bin { from: edge(low, high, at, n), to: edge(low, high, at + 1, n), count: 0 })
        .collect();
    let bins = &mut histogram.bins;
    each_value(engine, opened, tensor, numbers, |value| {
        if value.is_finite() {
            // Decided by the edges, not by a division that may round across one.
            let at = bins.partition_point(|bin| bin.from <= value).saturating_sub(1);
            bins[at].count += 1;
        }
    })?;
    opened.files.refuse_changed()?;
    Ok(histogram)
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
        values.add(bytes, &mut |chunk| chunk.each(&mut each));
        Ok(())
    })?;
    values.end(&mut |chunk| chunk.each(&mut each));
    Ok(())
}
