//! A crew of as many threads as were asked for, or as the system grants.

use apr_engine::crew::{Crew, Pass, Passes, panicked};
use apr_sdk::Result;
use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

/// More workers than this only wait for each other and for the disk.
const MOST: usize = 64;

/// A crew of threads that live as long as a loop.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    width: usize,
    /// Number of threads that the system grants besides the caller's: no limit, except in tests.
    granted: usize,
}

impl Threads {
    /// A crew of `wanted` workers including the caller, between 1 and 64.
    pub fn new(wanted: usize) -> Threads {
        Threads { width: wanted.clamp(1, MOST), granted: usize::MAX }
    }

    /// Runs `main` here and `other` on a separate thread. `main` is told whether there is one: if not,
    /// `other` does not run. `main` must make `other` end.
    ///
    /// # Errors
    /// A panic in `other`.
    pub fn beside<T>(&self, other: impl FnOnce() + Send, main: impl FnOnce(bool) -> T) -> Result<T> {
        thread::scope(|scope| {
            let handle = self.start(scope, 0, other);
            let value = main(handle.is_some());
            match handle.map(ScopedJoinHandle::join) {
                Some(Err(_)) => Err(panicked()),
                _ => Ok(value),
            }
        })
    }

    /// Starts thread number `number`; `None` if refused.
    fn start<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        work: impl FnOnce() + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, ()>> {
        // `Scope::spawn` would panic where this returns an error.
        if number < self.granted { thread::Builder::new().spawn_scoped(scope, work).ok() } else { None }
    }
}

/// Runs the program itself on a thread with a stack of this size; `None` if refused. Messages call it the
/// main thread.
pub fn on_stack<T: Send + 'static>(
    stack: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    thread::Builder::new().name("main".to_owned()).stack_size(stack).spawn(work).ok()
}

/// Starts a thread that lives as long as it has work; `None` if refused.
pub(super) fn persistent(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).ok()
}

impl Crew for Threads {
    fn width(&self) -> usize {
        self.width
    }

    fn run(&self, n: usize, pass: &Pass<'_>) -> Result<()> {
        let passes = Passes::new(n, pass);
        thread::scope(|scope| {
            for slot in 1..self.width.min(n) {
                let passes = &passes;
                if self.start(scope, slot - 1, move || passes.work(slot)).is_none() {
                    break;
                }
            }
            passes.work(0);
        });
        passes.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_engine::crew::{Alone, map};
    use apr_sdk::Error;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A crew on a system that refuses every thread after the first `granted`.
    fn with_granted(wanted: usize, granted: usize) -> Threads {
        Threads { granted, ..Threads::new(wanted) }
    }

    fn crews() -> Vec<Box<dyn Crew>> {
        let mut crews: Vec<Box<dyn Crew>> = vec![Box::new(Alone)];
        for (width, granted) in [(1, 0), (4, 0), (4, 1), (4, 3), (64, usize::MAX)] {
            crews.push(Box::new(with_granted(width, granted)));
        }
        crews
    }

    #[test]
    fn every_pass_is_run_once_however_few_threads_there_are() {
        for crew in crews() {
            for n in [0, 1, 3, 1000] {
                let values = map(crew.as_ref(), n, &|slot, index| {
                    assert!(slot < crew.width());
                    Ok(index * 2)
                });
                assert_eq!(values.unwrap(), (0..n).map(|index| index * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_slot_is_never_held_twice_and_passes_begin_in_order() {
        for crew in crews() {
            let held = Mutex::new(HashSet::new());
            let begun: Vec<_> = (0..crew.width()).map(|_| Mutex::new(Vec::new())).collect();
            let run = crew.run(500, &|slot, index| {
                assert!(held.lock().unwrap().insert(slot), "slot {slot} is held");
                begun[slot].lock().unwrap().push(index);
                std::thread::yield_now();
                assert!(held.lock().unwrap().remove(&slot));
                Ok(())
            });
            assert!(run.is_ok());
            assert!(begun.iter().all(|slot| slot.lock().unwrap().is_sorted()));
        }
    }

    #[test]
    fn no_more_threads_work_than_were_granted() {
        let crew = with_granted(8, 2);
        let slots = Mutex::new(HashSet::new());
        crew.run(300, &|slot, _| {
            slots.lock().unwrap().insert(slot);
            std::thread::sleep(std::time::Duration::from_micros(50));
            Ok(())
        })
        .unwrap();
        assert!(slots.lock().unwrap().iter().all(|slot| *slot < 3));
        assert!(crew.beside(|| (), |there| there).unwrap());
        assert!(!with_granted(8, 0).beside(|| panic!("it runs"), |there| there).unwrap());
    }

    #[test]
    fn the_lowest_error_wins_and_stops_the_rest() {
        for crew in crews() {
            let n_run = AtomicUsize::new(0);
            let error = crew
                .run(100_000, &|_, index| {
                    n_run.fetch_add(1, Ordering::Relaxed);
                    match index {
                        // The later one fails first.
                        20 => {
                            std::thread::sleep(std::time::Duration::from_millis(5));
                            Err(Error::failed("twenty"))
                        }
                        21.. => Err(Error::failed("later")),
                        _ => Ok(()),
                    }
                })
                .unwrap_err();
            assert!(error.to_string().contains("twenty"), "{error}");
            assert!(n_run.load(Ordering::Relaxed) <= 21 + 64);
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        for crew in crews() {
            let error = crew.run(9, &|_, index| if index == 3 { panic!("on purpose") } else { Ok(()) });
            assert!(error.unwrap_err().to_string().contains("panicked"));
        }
        assert!(Threads::new(2).beside(|| panic!("on purpose"), |_| ()).is_err());
    }
}
