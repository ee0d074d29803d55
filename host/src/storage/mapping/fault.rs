//! Accesses behind the end of a mapped file: what the handler of SIGBUS does about them.

use apr_sdk::{Error, Result};
use rustix::mm::{self, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The smallest unit that the system maps. Larger pages are multiples of it.
const PAGE: usize = 4096;
/// Number of files that can be mapped at the same time.
const FILES: usize = 8;

/// A mapped file, as the handler of a signal sees it: no lock, no allocation.
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    cut: AtomicBool,
}

impl Slot {
    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Acquire);
        start != 0 && address.checked_sub(start).is_some_and(|offset| offset < len)
    }
}

static SLOTS: [Slot; FILES] =
    [const { Slot { start: AtomicUsize::new(0), len: AtomicUsize::new(0), cut: AtomicBool::new(false) } };
        FILES];

/// A range that the handler watches, until this is dropped.
pub(super) struct Watched(usize);

impl Watched {
    /// Has the handler watch a mapped file.
    ///
    /// # Errors
    /// LimitExceeded if too many are mapped.
    pub(super) fn new(start: usize, len: usize) -> Result<Watched> {
        for (number, slot) in SLOTS.iter().enumerate() {
            if slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.cut.store(false, Ordering::Release);
                slot.len.store(len, Ordering::Release);
                return Ok(Watched(number));
            }
        }
        Err(Error::limit(format!("more than {FILES} files are mapped at the same time")))
    }

    /// Returns whether a part of the file was missing when it was accessed.
    pub(super) fn is_cut(&self) -> bool {
        SLOTS[self.0].cut.load(Ordering::Acquire)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        SLOTS[self.0].len.store(0, Ordering::Release);
        SLOTS[self.0].start.store(0, Ordering::Release);
    }
}

/// Returns whether a fault at this address was behind the end of a mapped file. Then a page of zeros is there now, and
/// the access can be repeated. Does only what the handler of a signal may.
pub fn absorb(address: usize) -> bool {
    let Some(slot) = SLOTS.iter().find(|slot| slot.holds(address)) else { return false };
    let page = (address & !(PAGE - 1)) as *mut c_void;
    // SAFETY: the page lies in a mapped file's range, which only `Region`s refer to, as plain bytes: zeros are as
    // valid as any. `mmap` is a single system call that takes no lock in this process.
    let mapped = unsafe {
        mm::mmap_anonymous(
            page,
            PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED,
        )
    };
    slot.cut.store(true, Ordering::Release);
    mapped.is_ok()
}
