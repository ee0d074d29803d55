//! The threads that a compute backend is lent: started once, woken for each region, and kept in step by a barrier.

use super::signal::Signal;
use apr_engine::crew::panicked;
use apr_sdk::{Barrier, Error, Result, Workers};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// More workers than this have nothing left to share.
const MOST: usize = 256;

/// The work of each worker in a region.
type Body<'a> = dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync + 'a;

thread_local! {
    /// True if this thread is in a region: one inside it would wait for itself.
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

/// Threads that live as long as the team, and run the same body all at once, the caller among them.
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held by the caller whose region runs.
    turn: Mutex<()>,
}

/// State that the threads of a team share.
struct Shared {
    /// Advances when a region begins, or the team ends.
    begin: Signal,
    /// Advances when the last thread besides the caller has left a region.
    end: Signal,
    /// Number of threads besides the caller that are still in the region.
    inside: AtomicUsize,
    ending: AtomicBool,
    region: Mutex<Option<&'static Region<'static>>>,
    cancel: Arc<AtomicBool>,
}

impl Team {
    /// A team of `wanted` workers including the caller, at least one; fewer if the system refuses threads. Once
    /// `cancel` is set, a region ends at its next barrier.
    pub fn new(wanted: usize, cancel: Arc<AtomicBool>) -> Team {
        Team::granted(wanted, usize::MAX, cancel)
    }

    /// A team on a system that grants only so many threads besides the caller's.
    fn granted(wanted: usize, granted: usize, cancel: Arc<AtomicBool>) -> Team {
        let width = wanted.clamp(1, MOST);
        // Where a thread must wait for another that has no processor, spinning only keeps it from one.
        let crowded = std::thread::available_parallelism().is_ok_and(|n| width > n.get());
        let shared = Arc::new(Shared {
            begin: Signal::new(crowded),
            end: Signal::new(crowded),
            inside: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
            region: Mutex::new(None),
            cancel,
        });
        let threads = (1..width).take(granted).map_while(|worker| {
            let shared = Arc::clone(&shared);
            super::persistent("apr worker", move || shared.work(worker))
        });
        Team { threads: threads.collect(), shared, turn: Mutex::new(()) }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.shared.begin.advance();
        for thread in self.threads.drain(..) {
            // A worker catches every panic of a body.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// A thread's life.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            seen = self.begin.after(seen);
            if self.ending.load(Ordering::SeqCst) {
                return;
            }
            let region = *self.region.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(region) = region {
                region.enter(worker);
            }
            if self.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.end.advance();
            }
        }
    }
}

impl Workers for Team {
    fn width(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, body: &Body<'_>) -> Result<()> {
        if IN_REGION.get() {
            return Err(Error::invalid_argument("a worker cannot run a nested region"));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let region = Region::new(body, self.width(), &self.shared);
        if self.threads.is_empty() {
            region.enter(0);
            return region.outcome();
        }
        // SAFETY: the threads use the region only between `begin` and their decrement of `inside`. This function
        // waits until `inside` is 0 before it returns, and nothing before that can unwind: `enter` catches panics.
        let lent = unsafe { std::mem::transmute::<&Region<'_>, &'static Region<'static>>(&region) };
        let shared = &*self.shared;
        *shared.region.lock().unwrap_or_else(PoisonError::into_inner) = Some(lent);
        shared.inside.store(self.threads.len(), Ordering::SeqCst);
        let ended = shared.end.number();
        shared.begin.advance();
        region.enter(0);
        while shared.inside.load(Ordering::SeqCst) != 0 {
            shared.end.after(ended);
        }
        *shared.region.lock().unwrap_or_else(PoisonError::into_inner) = None;
        region.outcome()
    }
}

/// One region: its body, its barrier, and how it went.
struct Region<'a> {
    body: &'a Body<'a>,
    width: usize,
    shared: &'a Shared,
    /// Number of workers that wait at the barrier.
    arrived: AtomicUsize,
    /// Number that have left the region without an error.
    left: AtomicUsize,
    /// Advances when all have arrived, and when the region fails.
    passed: Signal,
    failed: AtomicBool,
    /// The error of the lowest-numbered worker that failed of itself.
    error: Mutex<Option<(usize, Error)>>,
}

impl<'a> Region<'a> {
    fn new(body: &'a Body<'a>, width: usize, shared: &'a Shared) -> Region<'a> {
        Region {
            body,
            width,
            shared,
            arrived: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            passed: Signal::new(shared.begin.crowded()),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// Runs the body as one worker. Does not unwind.
    fn enter(&self, worker: usize) {
        let place = Place { region: self, told: AtomicBool::new(false) };
        IN_REGION.set(true);
        let done = catch_unwind(AssertUnwindSafe(|| (self.body)(worker, &place)));
        IN_REGION.set(false);
        let done = done.unwrap_or_else(|payload| {
            // Dropping the payload may panic as well: leak it.
            std::mem::forget(payload);
            Err(panicked())
        });
        match done {
            Ok(()) => {
                self.left.fetch_add(1, Ordering::SeqCst);
                if self.arrived.load(Ordering::SeqCst) > 0 && !self.failed.load(Ordering::SeqCst) {
                    self.fail(usize::MAX, Some(uneven()));
                }
            }
            // It was told to end by the barrier: the cause is another's.
            Err(_) if place.told.load(Ordering::SeqCst) => {}
            Err(error) => self.fail(worker, Some(error)),
        }
    }

    /// Ends the region for all.
    fn fail(&self, worker: usize, error: Option<Error>) {
        if let Some(error) = error {
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|(lowest, _)| worker < *lowest) {
                *first = Some((worker, error));
            }
        }
        self.failed.store(true, Ordering::SeqCst);
        self.passed.advance();
    }

    /// The outcome, once every worker has left.
    fn outcome(self) -> Result<()> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None if self.failed.load(Ordering::SeqCst) => Err(cancelled()),
            None => Ok(()),
        }
    }
}

fn cancelled() -> Error {
    Error::cancelled("the step was cancelled")
}

fn uneven() -> Error {
    Error::plugin("a worker left its region while others were waiting for it").code("E_PLUGIN")
}

/// A worker's place in a region, which is where it waits.
struct Place<'a> {
    region: &'a Region<'a>,
    /// True if it was told that the region has failed.
    told: AtomicBool,
}

impl Place<'_> {
    #[cold]
    fn tell(&self) -> Result<()> {
        self.told.store(true, Ordering::SeqCst);
        Err(cancelled())
    }
}

impl Barrier for Place<'_> {
    fn wait(&self) -> Result<()> {
        let region = self.region;
        if region.shared.cancel.load(Ordering::Relaxed) {
            region.fail(usize::MAX, None);
        }
        // Read before `failed`: whoever fails later advances it.
        let passed = region.passed.number();
        if region.failed.load(Ordering::SeqCst) {
            return self.tell();
        }
        if region.arrived.fetch_add(1, Ordering::SeqCst) + 1 == region.width {
            region.arrived.store(0, Ordering::SeqCst);
            region.passed.advance();
            return Ok(());
        }
        // Whoever was let through this barrier may have left since: that is told by `passed`, which advanced before.
        if region.left.load(Ordering::SeqCst) > 0 && region.passed.number() == passed {
            region.fail(usize::MAX, Some(uneven()));
        }
        region.passed.after(passed);
        if region.failed.load(Ordering::SeqCst) { self.tell() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    //! However many threads there are, and however a region ends: nobody waits forever, and the next region works.

    use super::*;
    use apr_sdk::ErrorKind;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    /// No test takes a hundredth of it, but where other programs take the processors.
    const PATIENCE: Duration = Duration::from_secs(300);

    fn team(width: usize) -> Team {
        Team::new(width, Arc::default())
    }

    /// The teams that every test runs: alone, on the processors of a small machine, and many more workers than those.
    fn teams() -> impl Iterator<Item = Team> {
        [1, 2, 4, 16].into_iter().map(team)
    }

    /// Fails instead of hanging.
    fn in_time<T>(what: impl FnOnce() -> T) -> T {
        let alive = Arc::new(AtomicBool::new(true));
        let began = Instant::now();
        let watched = Arc::clone(&alive);
        std::thread::spawn(move || {
            while watched.load(Ordering::SeqCst) {
                if began.elapsed() > PATIENCE {
                    eprintln!("a team hangs");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let value = what();
        alive.store(false, Ordering::SeqCst);
        value
    }

    #[test]
    fn every_worker_runs_once_and_barriers_keep_them_in_step() {
        in_time(|| {
            for team in teams() {
                let width = team.width();
                let rounds = 2000 / width as u64;
                let counts: Vec<_> = (0..width).map(|_| AtomicU64::new(0)).collect();
                for region in 0..3 {
                    team.run(&|worker, barrier| {
                        for round in 1..=rounds {
                            counts[worker].fetch_add(1, Ordering::Relaxed);
                            barrier.wait()?;
                            // Nobody is a round behind, and nobody ahead.
                            let wanted = region * rounds + round;
                            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == wanted));
                            barrier.wait()?;
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            }
        });
    }

    #[test]
    fn who_is_late_at_the_last_barrier_is_not_waited_for_in_vain() {
        in_time(|| {
            // Many more workers than processors: one may still be on its way into the barrier while others have left the region.
            for team in [team(4), team(64)] {
                for _ in 0..20_000 / team.width() {
                    team.run(&|_, barrier| barrier.wait()).unwrap();
                }
            }
        });
    }

    #[test]
    fn the_error_of_the_lowest_worker_that_failed_of_itself_wins() {
        in_time(|| {
            for team in teams() {
                let last = team.width() - 1;
                for _ in 0..20 {
                    // All others wait for it.
                    let error = team.run(&|worker, barrier| {
                        if worker == last {
                            return Err(Error::failed("the last one"));
                        }
                        barrier.wait()
                    });
                    assert!(error.unwrap_err().message().contains("the last one"));
                    let error = team.run(&|worker, _| Err(Error::failed(format!("worker {worker}"))));
                    assert_eq!(error.unwrap_err().message(), "worker 0");
                    // After a failure it works as before.
                    team.run(&|_, barrier| barrier.wait()).unwrap();
                }
            }
        });
    }

    #[test]
    fn a_panic_is_an_error_and_ends_the_waiting_of_others() {
        in_time(|| {
            for team in teams() {
                let last = team.width() - 1;
                let error = team.run(&|worker, barrier| {
                    barrier.wait()?;
                    assert!(worker != last, "on purpose");
                    barrier.wait()
                });
                assert!(error.unwrap_err().message().contains("panicked"));
                team.run(&|_, barrier| barrier.wait()).unwrap();
            }
        });
    }

    #[test]
    fn a_worker_that_leaves_early_is_an_error_and_no_hang() {
        in_time(|| {
            for team in teams().filter(|team| team.width() > 1) {
                for leaver in [0, team.width() - 1] {
                    let error = team.run(&|worker, barrier| {
                        barrier.wait()?;
                        if worker == leaver {
                            return Ok(());
                        }
                        barrier.wait()
                    });
                    assert!(error.unwrap_err().message().contains("left its region"));
                }
                team.run(&|_, barrier| barrier.wait()).unwrap();
            }
        });
    }

    #[test]
    fn cancelling_ends_a_region_at_its_next_barrier() {
        in_time(|| {
            for width in [1, 2, 16] {
                let cancel = Arc::new(AtomicBool::new(false));
                let team = Team::new(width, Arc::clone(&cancel));
                let turns = AtomicU64::new(0);
                let error = team.run(&|worker, barrier| {
                    loop {
                        barrier.wait()?;
                        if worker == 0 && turns.fetch_add(1, Ordering::Relaxed) == 10 {
                            cancel.store(true, Ordering::Relaxed);
                        }
                    }
                });
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
                assert!(team.run(&|_, barrier| barrier.wait()).is_err());
                cancel.store(false, Ordering::Relaxed);
                team.run(&|_, barrier| barrier.wait()).unwrap();
            }
        });
    }

    #[test]
    fn a_team_is_as_wide_as_the_system_grants() {
        in_time(|| {
            for (granted, width) in [(0, 1), (1, 2), (3, 4), (20, 8)] {
                let team = Team::granted(8, granted, Arc::default());
                assert_eq!(team.width(), width);
                let seen = AtomicU64::new(0);
                team.run(&|worker, barrier| {
                    seen.fetch_or(1 << worker, Ordering::Relaxed);
                    barrier.wait()
                })
                .unwrap();
                assert_eq!(seen.into_inner(), (1 << width) - 1);
            }
        });
    }

    #[test]
    fn sleepers_wake_and_regions_of_several_callers_take_turns() {
        in_time(|| {
            let team = team(4);
            let inside = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            team.run(&|worker, barrier| {
                                if worker == 0 {
                                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                                }
                                barrier.wait()?;
                                if worker == 0 {
                                    inside.fetch_sub(1, Ordering::SeqCst);
                                }
                                Ok(())
                            })
                            .unwrap();
                            // Long enough for the workers to fall asleep.
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    });
                }
            });
        });
    }

    #[test]
    fn a_region_inside_of_a_region_is_refused() {
        in_time(|| {
            let team = team(2);
            let error = team.run(&|_, _| team.run(&|_, _| Ok(())));
            assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
            team.run(&|_, _| Ok(())).unwrap();
        });
    }
}
