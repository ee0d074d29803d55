//! Things that are dear to make and that one thread at a time uses: contexts of coders, buffers.

use std::sync::{Mutex, PoisonError};

/// Things at rest; as many as were ever used at once.
#[derive(Debug, Default)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Calls `work` with one that rests, or a new one.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let rested = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut thing = rested.unwrap_or_default();
        let result = work(&mut thing);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thing);
        result
    }
}
