//! An allocator of its own, which ends the process when it is handed memory of another: whatever crosses must be freed by
//! the side that made it.

use std::alloc::{GlobalAlloc, Layout, System};

const HEAD: usize = 64;
const MARK: u64 = 0x0ddb_a110_c0de_0001;

struct Own;

#[global_allocator]
static OWN: Own = Own;

fn with_head(layout: Layout) -> Option<(Layout, usize)> {
    let head = HEAD.max(layout.align());
    Layout::from_size_align(layout.size().checked_add(head)?, head).ok().map(|layout| (layout, head))
}

// SAFETY: every pointer given lies `head` bytes into a block of the system's of the enlarged layout.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((outer, head)) = with_head(layout) else { return std::ptr::null_mut() };
        // SAFETY: the size is not zero; the head has room for the mark and is aligned for it.
        unsafe {
            let block = System.alloc(outer);
            if block.is_null() {
                return block;
            }
            block.cast::<u64>().write(MARK);
            block.add(head)
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let Some((outer, head)) = with_head(layout) else { std::process::abort() };
        // SAFETY: `alloc` gave the pointer; if it did not, the mark is (all but surely) not there and the process ends.
        unsafe {
            let block = pointer.sub(head);
            if block.cast::<u64>().read() != MARK {
                std::process::abort();
            }
            block.cast::<u64>().write(0);
            System.dealloc(block, outer);
        }
    }
}
