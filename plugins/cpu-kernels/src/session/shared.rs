//! Memory that several workers read and write at once, each its own elements. Who may touch what between two barriers
//! follows from how an operation's work is divided (`step.rs`); the compiler cannot see that, so access is `unsafe`.

use apr_sdk::{Error, Result};
use std::cell::UnsafeCell;
use std::ops::Range;

/// A run of elements without any lock.
pub(crate) struct Shared<T>(Box<[UnsafeCell<T>]>);

// SAFETY: every access through a shared reference is `unsafe`, and its caller vouches that no two threads touch an
// element at once unless all of them read.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Copy + Default> Shared<T> {
    /// `len` elements of zero.
    ///
    /// # Errors
    /// Io if there is no memory left.
    pub(crate) fn zeroed(len: usize) -> Result<Shared<T>> {
        let mut cells = Vec::new();
        cells.try_reserve_exact(len).map_err(|_| {
            Error::io(format!("cannot allocate {} bytes of memory", len.saturating_mul(size_of::<T>())))
                .hint("use a shorter context or fewer rows in a step")
        })?;
        cells.resize_with(len, || UnsafeCell::new(T::default()));
        Ok(Shared(cells.into_boxed_slice()))
    }

    /// A copy of all elements.
    ///
    /// # Safety
    /// Nothing may write any element meanwhile.
    ///
    /// # Errors
    /// As [`Shared::zeroed`].
    pub(crate) unsafe fn copy(&self) -> Result<Shared<T>> {
        let mut copy = Shared::zeroed(self.0.len())?;
        // SAFETY: as the caller vouches.
        copy.all_mut().copy_from_slice(unsafe { self.read(0..self.0.len()) });
        Ok(copy)
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All elements, for whoever has the memory alone.
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        let pointer = self.0.as_mut_ptr().cast::<T>();
        // SAFETY: `UnsafeCell<T>` has the layout of `T`, and `&mut self` excludes every other access.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.0.len()) }
    }

    /// Some elements, to be read.
    ///
    /// # Safety
    /// Nothing may write these elements while the slice lives.
    pub(crate) unsafe fn read(&self, range: Range<usize>) -> &[T] {
        let cells = &self.0[range];
        // SAFETY: the layout is that of `T`; the caller vouches that nothing writes here.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<T>(), cells.len()) }
    }

    /// Some elements, to be written.
    ///
    /// # Safety
    /// Nothing else may read or write these elements while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the cells allow it, and the caller has these elements to itself")]
    pub(crate) unsafe fn write(&self, range: Range<usize>) -> &mut [T] {
        let cells = &self.0[range];
        // SAFETY: the layout is that of `T`, the cells may be written, and the caller has them to itself.
        unsafe { std::slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast::<T>(), cells.len()) }
    }

    /// Sets one element.
    ///
    /// # Safety
    /// Nothing else may read or write this element at the same time.
    pub(crate) unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: the pointer is that of an element, which the caller has to itself.
        unsafe { *self.0[index].get() = value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_their_own_elements() {
        let mut shared = Shared::<u32>::zeroed(100).unwrap();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let shared = &shared;
                scope.spawn(move || {
                    // SAFETY: each thread has 25 elements of its own.
                    let mine = unsafe { shared.write(part * 25..part * 25 + 25) };
                    mine.fill(u32::try_from(part).unwrap() + 1);
                });
            }
        });
        assert_eq!(shared.all_mut().iter().sum::<u32>(), 250);
        assert!(Shared::<u64>::zeroed(usize::MAX / 8).is_err());
    }
}
