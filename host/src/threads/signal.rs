//! A number that threads wait for to advance: for a moment by looking, then by giving way, then asleep.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Looks before the first yield where every thread has a processor: some microseconds, the length of the shortest
/// operations.
const LOOKS: u32 = 200;
/// Time to give way before sleep: a sleeping thread takes about fifty microseconds to come back.
const PATIENCE: Duration = Duration::from_micros(200);
/// A yield that takes this long has let another thread run. Processors are scarce then, and whoever sleeps is woken
/// sooner than whoever queues for one to look again.
const SCARCE: Duration = Duration::from_micros(20);

/// The number, and those who sleep until it advances.
pub(super) struct Signal {
    number: AtomicU32,
    sleepers: AtomicUsize,
    door: Mutex<()>,
    bell: Condvar,
    crowded: bool,
}

impl Signal {
    /// A signal at 0. `crowded`: whether more threads wait for each other than there are processors.
    pub(super) fn new(crowded: bool) -> Signal {
        Signal {
            number: AtomicU32::new(0),
            sleepers: AtomicUsize::new(0),
            door: Mutex::new(()),
            bell: Condvar::new(),
            crowded,
        }
    }

    /// Returns whether threads share processors.
    pub(super) fn crowded(&self) -> bool {
        self.crowded
    }

    /// The number now.
    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    /// Advances the number and wakes everyone who waits for that.
    pub(super) fn advance(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
        // Whoever is about to sleep has counted itself before its last look: it either sees the new number, or is
        // seen here. With the door held it is asleep, or has not looked yet.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
    }

    /// Waits until the number is not `seen`; returns it.
    pub(super) fn after(&self, seen: u32) -> u32 {
        let looks = if self.crowded { 1 } else { LOOKS };
        for _ in 0..looks {
            let number = self.number();
            if number != seen {
                return number;
            }
            spin_loop();
        }
        let began = Instant::now();
        let mut waited = Duration::ZERO;
        while waited < PATIENCE {
            yield_now();
            let number = self.number();
            if number != seen {
                return number;
            }
            let before = std::mem::replace(&mut waited, began.elapsed());
            if waited - before > SCARCE {
                break;
            }
        }
        self.sleep(seen)
    }

    #[cold]
    fn sleep(&self, seen: u32) -> u32 {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut number = self.number();
        while number == seen {
            door = self.bell.wait(door).unwrap_or_else(PoisonError::into_inner);
            number = self.number();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        number
    }
}
