//! Pages of keys and values: taken from the device in slabs when they are first needed, shared by copies of a sequence until
//! one of them writes.

use super::compile::PAGE;
use crate::driver::{Buffer, Driver, Queue};
use apr_sdk::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// At most so many bytes are taken from the device at a time, or a page where that is more.
const SLAB: usize = 32 << 20;

/// A page, which goes back to those that are free when nobody holds it any more.
pub(crate) struct Page {
    at: u64,
    free: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.at);
    }
}

/// The pages of one sequence.
pub(crate) type Pages = Vec<Arc<Page>>;

/// The pages of all sequences.
pub(crate) struct Store {
    bytes: usize,
    most: usize,
    slabs: Vec<Buffer>,
    free: Arc<Mutex<Vec<u64>>>,
    pages: Vec<Pages>,
    /// For each sequence the addresses of its pages, on the device, and what was last brought there.
    table: Buffer,
    shown: Vec<Vec<u64>>,
}

impl Store {
    /// No pages yet, of `bytes` bytes each, for sequences of up to `positions` positions.
    ///
    /// # Errors
    /// LimitExceeded if there are too many sequences for a table; Io if the device has no memory left.
    pub(crate) fn new(
        driver: &Arc<dyn Driver>,
        bytes: usize,
        sequences: usize,
        positions: usize,
    ) -> Result<Store> {
        /// Bytes of a table. 256 MiB.
        const MOST: usize = 256 << 20;
        let most = positions.div_ceil(PAGE);
        let table = sequences.saturating_mul(most).saturating_mul(8);
        if bytes > 0 && table > MOST {
            return Err(Error::limit(format!(
                "{sequences} sequences of {positions} positions exceed the limit of this device"
            ))
            .hint("open several sessions, or use a shorter context"));
        }
        Ok(Store {
            bytes,
            most,
            slabs: Vec::new(),
            free: Arc::default(),
            pages: vec![Pages::new(); sequences],
            table: Buffer::new(driver, if bytes > 0 { table } else { 0 })?,
            shown: vec![Vec::new(); sequences],
        })
    }

    /// The table's address, and how many pages each sequence has room for in it.
    pub(crate) fn table(&self) -> (u64, usize) {
        (self.table.at(), self.most)
    }

    fn page(&mut self, queue: &mut dyn Queue) -> Result<Arc<Page>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.is_empty() {
            // No more than all sequences have room for, which are few where they are short.
            let count = (SLAB / self.bytes).min(self.most * self.pages.len()).max(1);
            let slab = Buffer::new(self.table.driver(), count * self.bytes)?;
            // Rows are padded, and what is there must be numbers.
            // SAFETY: the slab has as many bytes, and the queue runs before any kernel that knows it.
            unsafe { queue.zero(slab.at(), slab.bytes())? };
            free.extend((0..count).rev().map(|page| slab.at() + (page * self.bytes) as u64));
            self.slabs.push(slab);
        }
        let at = free.pop().ok_or_else(|| Error::io("no free page is left"))?;
        drop(free);
        Ok(Arc::new(Page { at, free: Arc::clone(&self.free) }))
    }

    /// Makes the pages of a sequence that positions `from..to` will be written to, and gives it pages of its own where it
    /// shared them; brings the table up to date.
    ///
    /// # Errors
    /// Io if the device has no memory left.
    pub(crate) fn reserve(
        &mut self,
        queue: &mut dyn Queue,
        sequence: usize,
        from: usize,
        to: usize,
    ) -> Result<()> {
        while self.pages[sequence].len() < to.div_ceil(PAGE) {
            let page = self.page(queue)?;
            self.pages[sequence].push(page);
        }
        for number in from / PAGE..to.div_ceil(PAGE) {
            if Arc::strong_count(&self.pages[sequence][number]) > 1 {
                let page = self.page(queue)?;
                // SAFETY: both are pages, which stay as long as the session, whose queue this is.
                unsafe { queue.copy(self.pages[sequence][number].at, page.at, self.bytes)? };
                self.pages[sequence][number] = page;
            }
        }
        let addresses: Vec<u64> = self.pages[sequence].iter().map(|page| page.at).collect();
        if !self.shown[sequence].starts_with(&addresses) {
            let bytes: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
            let at = self.table.at() + (sequence * self.most * 8) as u64;
            // SAFETY: a sequence has no more pages than its row of the table.
            unsafe { queue.upload(at, &bytes)? };
            self.shown[sequence] = addresses;
        }
        Ok(())
    }

    /// A sequence's pages, to be kept or given to another.
    pub(crate) fn pages(&self, sequence: usize) -> Pages {
        self.pages[sequence].clone()
    }

    /// Replaces a sequence's pages.
    pub(crate) fn set_pages(&mut self, sequence: usize, pages: Pages) {
        self.pages[sequence] = pages;
    }

    /// Forgets a sequence's positions from `length` on.
    pub(crate) fn trim(&mut self, sequence: usize, length: usize) {
        self.pages[sequence].truncate(length.div_ceil(PAGE));
    }
}
