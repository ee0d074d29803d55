//! Limits that all files together keep to: connections that are at work, and pieces in memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time after which those who wait look whether they are still to.
const PAUSE: Duration = Duration::from_millis(100);

/// A number of things that may be had at a time.
#[derive(Debug)]
pub struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<Permits>);

impl Permits {
    /// So many, at least one.
    pub fn new(n: usize) -> Arc<Permits> {
        Arc::new(Permits { free: Mutex::new(n.max(1)), freed: Condvar::new() })
    }

    /// One, if one is free.
    pub fn try_take(self: &Arc<Permits>) -> Option<Permit> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Permit(Arc::clone(self)))
    }

    /// One, once one is free; `None` if `is_over` says meanwhile that none is needed any more.
    pub fn take(self: &Arc<Permits>, is_over: &dyn Fn() -> bool) -> Option<Permit> {
        loop {
            if is_over() {
                return None;
            }
            if let Some(permit) = self.try_take() {
                return Some(permit);
            }
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if *free == 0 {
                drop(self.freed.wait_timeout(free, PAUSE));
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_given_than_there_are() {
        let permits = Permits::new(2);
        let (first, _second) = (permits.try_take().unwrap(), permits.try_take().unwrap());
        assert!(permits.try_take().is_none() && permits.take(&|| true).is_none());
        let waiting = Arc::clone(&permits);
        let thread = std::thread::spawn(move || waiting.take(&|| false).is_some());
        drop(first);
        assert!(thread.join().unwrap());
    }
}
