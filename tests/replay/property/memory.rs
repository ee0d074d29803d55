//! How much memory a call takes at most, counted by the allocator, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
pub struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more; what it frees then is nobody's.
    let held = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        held.get()
    });
    if let Ok(held) = held {
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held)));
    }
}

// SAFETY: every call goes to `System` unchanged, which upholds the contract; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds what `System` asks for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds what `System` asks for.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new are both held while the bytes move.
        count(new_size as isize);
        // SAFETY: the caller upholds what `System` asks for.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        count(-(layout.size() as isize));
        moved
    }
}

/// Calls `work`; gives its result and the most bytes that this thread held at once during it beyond those before. Zero
/// where [`Counting`] is not the allocator.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, u64::try_from(PEAK.get() - before).unwrap_or(0))
}
