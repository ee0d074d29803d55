//! A counting allocator, to show that a piece of work needs little memory: what the working thread holds, and
//! what all threads hold.
//!
//! To use it, declare `#[global_allocator] static ALLOCATOR: Counting = Counting;` in a test program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static HELD_HERE: Cell<isize> = const { Cell::new(0) };
    static PEAK_HERE: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub struct Counting;

fn count(change: isize) {
    let held = HELD.fetch_add(change, Ordering::Relaxed) + change;
    PEAK.fetch_max(held, Ordering::Relaxed);
    // A thread that ends frees after its locals are gone: that is not counted.
    let _ = HELD_HERE.try_with(|held| {
        held.set(held.get() + change);
        let _ = PEAK_HERE.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is handed to the system's allocator unchanged; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The most bytes that this thread held at once while `work` ran, beyond what it held before.
pub fn peak_here<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD_HERE.get();
    PEAK_HERE.set(before);
    let out = work();
    (out, (PEAK_HERE.get() - before).cast_unsigned() as u64)
}

/// The most bytes that all threads held at once while `work` ran, beyond what they held before. Nothing else may run.
pub fn peak_of_all<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let out = work();
    (out, (PEAK.load(Ordering::Relaxed) - before).cast_unsigned() as u64)
}
