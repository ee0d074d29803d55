//! Rows of a packed weight in memory: the bytes of its parts that they need.

use crate::expression::Expression;
use crate::values::usize_of;
use apr_sdk::{Error, Extent, MOST_WHOLE, PackedWeight, PartBox, PartRange, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The panels that threads are using: one that several need is read once. When the last thread leaves it, it is dropped.
#[derive(Default)]
pub struct Panels {
    held: Mutex<Vec<(Key, Weak<Slot>)>>,
}

/// A weight, by its address, and a range of its rows.
type Key = (usize, Range<u64>);

/// A panel, once it has been read.
type Slot = Mutex<Option<Held>>;

impl Panels {
    /// The place of a panel.
    fn slot(&self, weight: &Arc<PackedWeight>, rows: &Range<u64>) -> Arc<Slot> {
        let key = (Arc::as_ptr(weight).addr(), rows.clone());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(_, slot)| slot.strong_count() > 0);
        let there = held.iter().find(|(of, _)| *of == key).and_then(|(_, slot)| slot.upgrade());
        there.unwrap_or_else(|| {
            let slot = Arc::default();
            held.push((key, Arc::downgrade(&slot)));
            slot
        })
    }
}

/// The bytes of some rows of a weight.
#[derive(Clone, Default)]
struct Held {
    /// Those of each part.
    parts: Vec<Arc<Vec<u8>>>,
    /// True for each part that is there as a whole.
    is_whole: Vec<bool>,
}

impl Held {
    /// Reads rows; what is there already as a whole is kept.
    fn read(
        &mut self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        weight: &PackedWeight,
        rows: Range<u64>,
    ) -> Result<()> {
        let ranges = weight.schemes()?.ranges(&weight.tensor.rows, rows)?;
        let have = ranges.len();
        let want = weight.parts.len();
        if have != want {
            return Err(Error::plugin(format!("returned the positions of rows in {have} of {want} parts")));
        }
        self.parts.resize_with(weight.parts.len(), Arc::default);
        self.is_whole.resize(weight.parts.len(), false);
        for ((range, part), (bytes, is_whole)) in
            ranges.iter().zip(&weight.parts).zip(self.parts.iter_mut().zip(&mut self.is_whole))
        {
            if *is_whole && matches!(range, PartRange::Whole) {
                continue;
            }
            *is_whole = false;
            // Another thread may still need what is there.
            if Arc::get_mut(bytes).is_none() {
                *bytes = Arc::default();
            }
            let done = part_bytes(read, part, range, Arc::make_mut(bytes));
            done.map_err(|error| error.tensor(&part.name))?;
            *is_whole = matches!(range, PartRange::Whole);
        }
        Ok(())
    }
}

/// Rows in memory, kept from one call to the next: neighbours need the same ones.
#[derive(Default)]
pub struct Panel {
    weight: Option<Arc<PackedWeight>>,
    rows: Range<u64>,
    held: Held,
    /// The slot that shares the rows with other threads.
    slot: Option<Arc<Slot>>,
    panels: Arc<Panels>,
    pub(super) values: Vec<f32>,
    pub(super) again: Vec<f32>,
}

impl Panel {
    /// A thread's panel, one of those of all threads.
    pub fn among(panels: &Arc<Panels>) -> Panel {
        Panel { panels: Arc::clone(panels), ..Panel::default() }
    }

    /// Lets go of the rows: what comes next is no packed weight.
    pub fn leave(&mut self) {
        if self.weight.take().is_some() {
            self.slot = None;
            self.held = Held::default();
        }
    }

    /// Holds rows of a weight. If they are not there yet, `all` are read, which they are among; for other threads too if
    /// these `share` them.
    pub(super) fn hold(
        &mut self,
        read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
        weight: &Arc<PackedWeight>,
        rows: &Range<u64>,
        all: &Range<u64>,
        share: bool,
    ) -> Result<()> {
        let is_same = self.weight.as_ref().is_some_and(|held| Arc::ptr_eq(held, weight));
        if is_same && self.rows.start <= rows.start && rows.end <= self.rows.end {
            return Ok(());
        }
        if !is_same {
            self.held.is_whole.clear();
        }
        self.slot = None;
        self.weight = None;
        if share {
            let slot = self.panels.slot(weight, all);
            let mut there = slot.lock().unwrap_or_else(PoisonError::into_inner);
            match &*there {
                Some(held) => self.held = held.clone(),
                None => {
                    self.held.read(read, weight, all.clone())?;
                    *there = Some(self.held.clone());
                }
            }
            drop(there);
            self.slot = Some(slot);
        } else {
            self.held.read(read, weight, all.clone())?;
        }
        self.rows = all.clone();
        self.weight = Some(Arc::clone(weight));
        Ok(())
    }

    /// The rows that are held, and the bytes of each part.
    pub(super) fn held(&self) -> (Range<u64>, Vec<Arc<Vec<u8>>>) {
        (self.rows.clone(), self.held.parts.clone())
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
    match range {
        PartRange::Whole => {
            if part.payload_len()? > MOST_WHOLE {
                let message = "it would have to be held in memory as a whole, and is too large for that";
                return Err(Error::limit(message));
            }
            append(read, &Expression::of(0, part)?, bytes)
        }
        PartRange::Boxes(boxes) => boxes.iter().try_for_each(|PartBox { start, dims }| {
            append(read, &Expression::boxed(0, part, *start, dims)?, bytes)
        }),
    }
}

/// Reads all of a stored box, and puts it behind `bytes`.
fn append(
    read: &dyn Fn(Extent, &mut [u8]) -> Result<()>,
    stored: &Expression,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let from = bytes.len();
    bytes.resize(from.saturating_add(usize_of(stored.byte_len()?)), 0);
    stored.access()?.fill(read, 0, &mut bytes[from..]).map(drop)
}
