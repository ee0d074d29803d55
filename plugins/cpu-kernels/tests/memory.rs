//! Steps use what was allocated before, and a cache no more than its positions need.

use crate::setup::open;
use apr_sdk::{Batch, DType, Session, SessionLimits};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{VOCABULARY, decoder};
use apr_testkit::kernels::{compile, step};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what each thread has allocated and not freed.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: isize) {
    // A thread that ends has no counter any more, and nobody asks for it.
    let _ = LIVE.try_with(|live| live.set(live.get() + sign * isize::try_from(bytes).unwrap_or(0)));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub fn live() -> isize {
    LIVE.with(Cell::get)
}

fn feed(session: &mut dyn Session, from: u32, count: u32) {
    let ids: Vec<u32> = (0..count).map(|row| (from + row) % VOCABULARY).collect();
    let positions: Vec<u32> = (from..from + count).collect();
    let (sequences, outputs) = (vec![0; count as usize], [count - 1]);
    let batch = Batch::new(&ids, &positions, &sequences, &outputs).unwrap();
    step(session, &batch, 1).unwrap();
}

#[test]
fn memory_follows_use() {
    let (program, weights) = decoder(&mut Random::new(1), DType::F16);
    let device = open("auto").unwrap();
    let before = live();
    let mut session = compile(&*device, &program, &weights, &SessionLimits::new(100, 8, 1 << 20)).unwrap();
    assert!(live() - before < 400_000, "a session for many positions takes {} bytes", live() - before);
    feed(&mut *session, 0, 64);
    feed(&mut *session, 64, 1);
    let page = live();
    // To the end of the page.
    for position in 65..96 {
        feed(&mut *session, position, 1);
        assert_eq!(live(), page, "position {position}");
    }
    // 2 layers, 2 heads, 8 elements of key and of value, 32 positions of 2 bytes; the rest is bookkeeping.
    feed(&mut *session, 96, 1);
    let grown = live() - page;
    assert!((4096..4096 + 600).contains(&grown), "a page takes {grown} bytes");
    drop(session);
    assert!(live() - before < 200_000);
}
