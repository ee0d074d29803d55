//! Threads that stay and spin, as a host lends them.

use apr_sdk::{Barrier, Result, Workers};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Body = *const (dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync);

/// Threads that wait for the next region.
pub struct Spinning {
    width: usize,
    shared: std::sync::Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    body: std::sync::Mutex<Option<SendBody>>,
    round: AtomicUsize,
    done: AtomicUsize,
    end: AtomicBool,
    waits: AtomicUsize,
}

struct SendBody(Body);
// SAFETY: the body is `Sync`, and `run` returns only after every thread has left it.
unsafe impl Send for SendBody {}

struct Spin<'a>(&'a Shared, usize);

impl Barrier for Spin<'_> {
    fn wait(&self) -> Result<()> {
        let round = self.0.waits.fetch_add(1, Ordering::AcqRel) / self.1;
        let mut tries = 0;
        while self.0.waits.load(Ordering::Acquire) < (round + 1) * self.1 {
            tries += 1;
            if tries > 2000 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        Ok(())
    }
}

impl Spinning {
    pub fn new(width: usize) -> Spinning {
        let shared = std::sync::Arc::<Shared>::default();
        for worker in 1..width {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut seen = 0;
                while !shared.end.load(Ordering::Acquire) {
                    if shared.round.load(Ordering::Acquire) == seen {
                        std::thread::yield_now();
                        continue;
                    }
                    seen += 1;
                    let body = shared.body.lock().unwrap().as_ref().unwrap().0;
                    // SAFETY: `run` waits for this thread before the body goes away.
                    unsafe { (*body)(worker, &Spin(&shared, width)) }.unwrap();
                    shared.done.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        Spinning { width, shared }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Release);
    }
}

impl Workers for Spinning {
    fn width(&self) -> usize {
        self.width
    }

    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        // SAFETY: the lifetime is cut off only until all threads are done, below.
        let pointer = unsafe { std::mem::transmute::<*const _, Body>(std::ptr::from_ref(body)) };
        *self.shared.body.lock().unwrap() = Some(SendBody(pointer));
        self.shared.done.store(0, Ordering::Release);
        self.shared.round.fetch_add(1, Ordering::AcqRel);
        body(0, &Spin(&self.shared, self.width))?;
        while self.shared.done.load(Ordering::Acquire) < self.width - 1 {
            std::thread::yield_now();
        }
        Ok(())
    }
}
