//! Reading weights in order, and asking for what comes next: into the second cache from afar, into the first from near.
//! Neither alone suffices to keep the memory busy.

use crate::matrix::lanes::{Lanes, ask};

/// Bytes ahead that are asked for into the first cache.
pub const NEAR: usize = 2048;
/// Bytes ahead that are asked for into the second cache.
pub const FAR: usize = 32 << 10;

/// Where a position some way ahead is: within the rows that are read, or in what is read after them.
pub struct Ahead {
    end: *const u8,
    next: *const u8,
    next_bytes: usize,
}

impl Ahead {
    /// Of the bytes that are read, and those that are read after them.
    pub fn new(bytes: &[u8], next: Option<&[u8]>) -> Ahead {
        let next = next.unwrap_or_default();
        Ahead { end: bytes.as_ptr_range().end, next: next.as_ptr(), next_bytes: next.len() }
    }

    /// The address `distance` bytes ahead of `at`; `at` itself if nothing is known to be read there.
    #[inline(always)]
    fn of(&self, at: *const u8, distance: usize) -> *const u8 {
        let left = self.end.addr().wrapping_sub(at.addr());
        let beyond = distance.wrapping_sub(left);
        if left > distance {
            at.wrapping_add(distance)
        } else if beyond < self.next_bytes {
            self.next.wrapping_add(beyond)
        } else {
            at
        }
    }
}

/// A part of a tile that is read in order.
#[derive(Clone, Copy)]
pub struct Stream {
    at: *const u8,
    near: *const u8,
    far: *const u8,
}

impl Stream {
    /// One that begins at an address.
    #[inline(always)]
    pub fn new(at: *const u8, ahead: &Ahead) -> Stream {
        Stream { at, near: ahead.of(at, NEAR), far: ahead.of(at, FAR) }
    }

    /// Loads 64 bytes at an offset, and asks for those that lie as far ahead as the stream's beginning says.
    ///
    /// # Safety
    /// There are 64 bytes; the level's instructions are enabled.
    #[inline(always)]
    pub unsafe fn load<L: Lanes>(&self, offset: usize) -> L::Bytes {
        self.ask(offset);
        // SAFETY: as the caller says.
        unsafe { L::load(self.at.add(offset)) }
    }

    /// Loads 64 bytes at an offset that was loaded before.
    ///
    /// # Safety
    /// As for [`Stream::load`].
    #[inline(always)]
    pub unsafe fn again<L: Lanes>(&self, offset: usize) -> L::Bytes {
        // SAFETY: as the caller says.
        unsafe { L::load(self.at.add(offset)) }
    }

    /// Asks for what lies ahead of an offset.
    #[inline(always)]
    pub fn ask(&self, offset: usize) {
        ask(self.near.wrapping_add(offset), self.far.wrapping_add(offset));
    }
}
