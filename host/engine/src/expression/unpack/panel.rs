//! Rows of a packed weight in memory: the bytes of its parts that they need.

use super::place;
use crate::expression::Expression;
use apr_sdk::{Error, Extent, MOST_WHOLE, PackedWeight, PartRange, Result};
use std::ops::Range;
use std::sync::Arc;

/// Rows in memory, kept from one call to the next: neighbours need the same ones.
#[derive(Default)]
pub struct Panel {
    weight: Option<Arc<PackedWeight>>,
    pub(super) rows: Range<u64>,
    pub(super) parts: Vec<Vec<u8>>,
    /// Which parts are there as a whole.
    is_whole: Vec<bool>,
    pub(super) values: Vec<f32>,
    pub(super) again: Vec<f32>,
}

impl Panel {
    /// Holds rows of a weight, and the others of their panel.
    pub(super) fn hold(
        &mut self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        weight: &Arc<PackedWeight>,
        rows: Range<u64>,
        panel: u64,
    ) -> Result<()> {
        let is_same = self.weight.as_ref().is_some_and(|held| Arc::ptr_eq(held, weight));
        if is_same && self.rows.start <= rows.start && rows.end <= self.rows.end {
            return Ok(());
        }
        let all = weight.tensor.rows.rows;
        let whole = rows.start / panel * panel..(rows.end.div_ceil(panel) * panel).min(all);
        if !is_same {
            self.is_whole = vec![false; weight.parts.len()];
            self.parts.resize_with(weight.parts.len(), Vec::new);
        }
        self.weight = None;
        let ranges = weight.schemes()?.ranges(&weight.tensor.rows, whole.clone())?;
        if ranges.len() != weight.parts.len() {
            let (have, want) = (ranges.len(), weight.parts.len());
            return Err(Error::plugin(format!("says where rows lie in {have} of {want} parts")));
        }
        for ((range, part), (bytes, is_whole)) in
            ranges.iter().zip(&weight.parts).zip(self.parts.iter_mut().zip(&mut self.is_whole))
        {
            if *is_whole && matches!(range, PartRange::Whole) {
                continue;
            }
            *is_whole = matches!(range, PartRange::Whole);
            part_bytes(read, part, range, bytes).map_err(|error| match error.tensor_name() {
                Some(_) => error,
                None => error.tensor(&part.name),
            })?;
        }
        self.rows = whole;
        self.weight = Some(Arc::clone(weight));
        Ok(())
    }
}

/// Reads where rows lie in a part into `bytes`.
///
/// # Errors
/// Any error from reading; LimitExceeded for a whole part that is too large.
pub fn part_bytes(
    read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
    part: &apr_sdk::Tensor,
    range: &PartRange,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    bytes.clear();
    let mut add = |stored: Expression| {
        let (from, len) = (bytes.len(), place(stored.byte_len()?));
        bytes.resize(from.saturating_add(len), 0);
        stored.access()?.fill(read, 0, &mut bytes[from..]).map(drop)
    };
    match range {
        PartRange::Whole => {
            if part.payload_len()? > MOST_WHOLE {
                let message = "it would be held in memory as a whole, and is too large for that";
                return Err(Error::limit(message));
            }
            add(Expression::of(0, part)?)
        }
        PartRange::Boxes(boxes) => {
            boxes.iter().try_for_each(|one| add(Expression::boxed(0, part, one.start, &one.dims)?))
        }
    }
}
