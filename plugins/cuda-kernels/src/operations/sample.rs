//! The end: logits, or a token chosen by them.

use crate::driver::{Buffer, Driver, Launch, Queue};
use crate::parameters;
use crate::session::compile::Compiler;
use crate::session::step::{self, List, Step};
use apr_sdk::{Columns, Error, Result, RowsOf};
use std::sync::Arc;

/// Blocks that look through a row of logits, as in `rows.cu`.
const BLOCKS: usize = 64;
/// What the kernel gives for a row with a logit that is no number.
const NOT_A_NUMBER: u32 = u32::MAX;

pub(super) fn compile(operation: &apr_sdk::Sample, compiler: &mut Compiler<'_>) {
    compiler.plan.logits = Some(compiler.columns(&operation.logits));
}

/// Memory for the choice of tokens.
pub(crate) struct Room {
    candidates: Buffer,
    counters: Buffer,
    ids: Buffer,
}

impl Room {
    /// Room for no row.
    ///
    /// # Errors
    /// None that a device has for no bytes.
    pub(crate) fn new(driver: &Arc<dyn Driver>) -> Result<Room> {
        let none = || Buffer::new(driver, 0);
        Ok(Room { candidates: none()?, counters: none()?, ids: none()? })
    }

    /// Makes room for some rows; says whether anything moved.
    ///
    /// # Errors
    /// Io if the device has no memory left.
    pub(crate) fn reserve(&mut self, rows: usize, queue: &mut dyn Queue) -> Result<bool> {
        let mut moved = self.candidates.grow(rows * BLOCKS * 8)?;
        moved |= self.counters.grow_with_zeros(rows * 4, queue)?;
        moved |= self.ids.grow(rows * 4)?;
        Ok(moved)
    }

    /// What was chosen for the first rows.
    ///
    /// # Errors
    /// Io with the driver's own words.
    pub(crate) fn ids(&self, queue: &mut dyn Queue, rows: usize) -> Result<Vec<u32>> {
        if rows == 0 {
            queue.wait()?;
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; rows * 4];
        // SAFETY: there is room for as many ids, as `reserve` saw to.
        unsafe { queue.download(self.ids.at(), &mut bytes)? };
        Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

/// The kernel that chooses the largest logit of some rows.
pub(crate) fn greedy(step: &Step<'_>, logits: &Columns, room: &Room, rows: usize) -> Launch {
    let parameters = parameters::Greedy {
        logits: step.place(logits),
        candidates: room.candidates.at(),
        counters: room.counters.at(),
        ids: room.ids.at(),
        rows: if logits.rows == RowsOf::OUTPUTS { 0 } else { step.list(List::Outputs) },
    };
    let blocks = logits.width.div_ceil(super::THREADS * 4).clamp(1, BLOCKS);
    step::launch(("rows", "greedy"), [blocks, rows, 1], super::THREADS, &parameters)
}

/// A chosen token.
///
/// # Errors
/// Failed if a logit was no number.
pub(crate) fn checked(id: u32) -> Result<u32> {
    if id != NOT_A_NUMBER {
        return Ok(id);
    }
    Err(Error::failed("no token can be chosen: the logits are NaN")
        .hint("check the model's weights for non-finite values"))
}
