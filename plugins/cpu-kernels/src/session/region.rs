//! The workers that a host lends to a step. A worker's number and the barriers between tasks determine which memory it may
//! access: if two workers had the same number, or one passed a barrier early, they would race. `Workers` is a safe trait, so a
//! host may break its contract without `unsafe`; a region therefore does its own counting.

use apr_sdk::{Barrier, Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most workers of a step: more than processors have, and few enough to have memory for each.
pub(crate) const MOST_WORKERS: usize = 1 << 12;

/// What has become of a step's workers.
pub(crate) struct Region {
    /// Which numbers have begun.
    begun: Box<[AtomicBool]>,
    /// How often all workers together have come to a barrier.
    arrivals: AtomicUsize,
    /// How many have done their part.
    ended: AtomicUsize,
}

/// The barriers of one worker.
pub(crate) struct Gate<'r> {
    region: &'r Region,
    barrier: &'r dyn Barrier,
    /// How many arrivals there are when all have come to the barrier that this worker came to last.
    expected: usize,
}

impl Region {
    /// A region of so many workers.
    ///
    /// # Errors
    /// LimitExceeded if these are more than there may be.
    pub(crate) fn new(workers: usize) -> Result<Region> {
        if workers > MOST_WORKERS {
            return Err(Error::limit(format!(
                "a step can have at most {MOST_WORKERS} workers, not {workers}"
            ))
            .hint("use as many as the processor has cores"));
        }
        Ok(Region {
            begun: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            arrivals: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        })
    }

    /// Does a worker's part, if no other worker has its number.
    ///
    /// # Errors
    /// Failed for a number that is none or has begun before; those of the part.
    pub(crate) fn enter(
        &self,
        worker: usize,
        barrier: &dyn Barrier,
        part: impl FnOnce(&mut Gate<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(begun) = self.begun.get(worker) else {
            let workers = self.begun.len();
            return Err(Error::failed(format!(
                "worker number {worker} is out of range for a step of {workers} workers"
            )));
        };
        if begun.swap(true, Ordering::Relaxed) {
            return Err(Error::failed(format!("worker {worker} started the same step twice")));
        }
        part(&mut Gate { region: self, barrier, expected: 0 })?;
        self.ended.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Checks that every worker did its part.
    ///
    /// # Errors
    /// Failed if one did not.
    pub(crate) fn end(&self) -> Result<()> {
        let (ended, workers) = (self.ended.load(Ordering::Acquire), self.begun.len());
        if ended == workers {
            return Ok(());
        }
        Err(Error::failed(format!("only {ended} of {workers} workers completed their part of the step")))
    }
}

impl Gate<'_> {
    /// Returns when every worker has called it as often as this one: everything that they did before is then done.
    ///
    /// # Errors
    /// Those of the host's barrier; Failed if it returned too early.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.expected += self.region.begun.len();
        self.region.arrivals.fetch_add(1, Ordering::AcqRel);
        self.barrier.wait()?;
        // No worker comes to the next barrier before it has seen all at this one, so that the number is reached only when
        // all have come. Each arrival carries on what those before it released, hence they all happened before this load.
        if self.region.arrivals.load(Ordering::Acquire) < self.expected {
            return Err(Error::failed("a barrier let a worker pass before all workers had reached it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::ErrorKind;

    /// A barrier that holds nobody up.
    struct Open;

    impl Barrier for Open {
        fn wait(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_passes_before_all_have_come() {
        let region = Region::new(2).unwrap();
        let early = region.enter(0, &Open, |gate| gate.wait()).unwrap_err();
        assert!(early.kind() == ErrorKind::Failed && early.message().contains("before all workers"));
        // The other comes to the same barrier, and finds itself alone at the next.
        let mut passed = 0;
        let alone = region.enter(1, &Open, |gate| {
            gate.wait()?;
            passed += 1;
            gate.wait()
        });
        assert!(alone.is_err() && passed == 1);
        assert!(region.end().unwrap_err().message().contains("only 0 of 2"));
    }

    #[test]
    fn a_number_begins_once() {
        let region = Region::new(1).unwrap();
        assert!(region.end().is_err());
        region.enter(0, &Open, |gate| gate.wait()).unwrap();
        region.end().unwrap();
        assert!(region.enter(0, &Open, |_| panic!("it began before")).is_err());
        assert!(region.enter(1, &Open, |_| panic!("there is but one")).is_err());
        assert!(Region::new(MOST_WORKERS + 1).is_err());
    }
}
