//! A file that is read once and not kept: fetched ahead of whoever reads it over several connections, in file order, within a
//! bounded memory; and hashed on the way, if a digest of it is known.

use crate::cache::ContentDigest;
use crate::file::object::Object;
use crate::permits::Permit;
use crate::threads;
use apr_sdk::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a piece: what one connection fetches at a time.
const PIECE: u64 = 4 << 20;

/// Pieces of one file that are held: 96 MiB, as of all files together.
const MOST_PIECES: usize = 24;

/// Bytes after which those who fetch look whether the work has ended.
const STEP: usize = 256 << 10;

/// Pieces that are waited for although nobody fetches them yet. Those beyond are asked for apart.
const NEAR: usize = 4;

/// Time after which those who wait look whether the user wants to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// A file that is fetched ahead.
pub struct Ahead {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    hasher: Mutex<Option<JoinHandle<Option<ContentDigest>>>>,
    expected: Option<ContentDigest>,
    /// Bytes that had to be fetched a second time, since they were asked for in another order.
    again: AtomicU64,
}

struct Shared {
    object: Arc<Object>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Numbers of the pieces to fetch, in order; those before `next` were begun.
    wanted: Vec<u64>,
    next: usize,
    /// Pieces that are being fetched.
    coming: BTreeMap<u64, Permit>,
    held: BTreeMap<u64, Held>,
    /// Bytes of each piece that readers are expected to ask for.
    expected: BTreeMap<u64, u64>,
    /// Number of the piece that is hashed next; `None` if none is.
    hashed: Option<u64>,
    /// True once nobody reads any more.
    is_drained: bool,
    is_stopped: bool,
    failure: Option<Error>,
}

struct Held {
    bytes: Arc<Vec<u8>>,
    /// Bytes that readers have not asked for yet.
    unread: u64,
    _permit: Permit,
}

impl State {
    /// Returns whether a piece may be let go of.
    fn is_done(&self, number: u64, unread: u64) -> bool {
        self.hashed.is_none_or(|next| number < next) && (unread == 0 || self.is_drained)
    }

    /// Lets go of what is hashed and read.
    fn tidy(&mut self) {
        let done: Vec<u64> = self
            .held
            .iter()
            .filter(|(number, held)| self.is_done(**number, held.unread))
            .map(|(number, _)| *number)
            .collect();
        done.iter().for_each(|number| drop(self.held.remove(number)));
    }

    /// Returns whether memory has no room for another piece.
    fn is_full(&self) -> bool {
        self.held.len() + self.coming.len() >= MOST_PIECES
    }

    /// Lets go of a piece well before one that is wanted, which nobody reads any more; returns whether there was one.
    fn make_room(&mut self, number: u64) -> bool {
        let hashed = self.hashed.unwrap_or(u64::MAX);
        let behind = number.saturating_sub(NEAR as u64).min(hashed);
        let lowest = self.held.keys().copied().next().filter(|lowest| *lowest < behind);
        lowest.is_some_and(|lowest| self.held.remove(&lowest).is_some())
    }

    /// Returns whether a piece is one of the next to be fetched.
    fn is_near(&self, number: u64) -> bool {
        let place = self.wanted.binary_search(&number);
        place.is_ok_and(|place| place >= self.next && place < self.next + NEAR)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner).0
    }

    fn range(&self, number: u64) -> Range<u64> {
        number * PIECE..((number + 1) * PIECE).min(self.object.size())
    }

    /// Fetches pieces until none is left.
    fn work(&self) {
        while let Some(number) = self.next() {
            let range = self.range(number);
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            let fetched = self.fetch(range.start, &mut bytes);
            let mut state = self.state();
            let Some(permit) = state.coming.remove(&number) else { continue };
            match fetched {
                Ok(()) => {
                    let unread = state.expected.get(&number).copied().unwrap_or(0);
                    state.held.insert(number, Held { bytes: Arc::new(bytes), unread, _permit: permit });
                    state.tidy();
                }
                Err(error) => drop(state.failure.get_or_insert(error)),
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Reads a piece, unless the work ends meanwhile.
    fn fetch(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let client = self.object.client();
        let is_over = || self.state().is_stopped || client.refuse_cancelled().is_err();
        let Some(_permit) = client.connections().take(&is_over) else {
            return Err(Error::cancelled("stopped"));
        };
        let mut stretch = self.object.stretch(offset..offset + out.len() as u64)?;
        for part in out.chunks_mut(STEP) {
            if is_over() {
                return Err(Error::cancelled("stopped"));
            }
            stretch.fill(part)?;
        }
        Ok(())
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.state();
        loop {
            let is_over = state.is_stopped || state.failure.is_some() || state.next == state.wanted.len();
            if is_over {
                return None;
            }
            if !state.is_full()
                && let Some(permit) = self.object.client().pieces().try_take()
            {
                let number = state.wanted[state.next];
                state.next += 1;
                state.coming.insert(number, permit);
                return Some(number);
            }
            state = self.wait(state);
        }
    }
}

/// The content of a file in order, piece by piece as they come.
struct Pieces<'a> {
    shared: &'a Shared,
    number: u64,
    bytes: Arc<Vec<u8>>,
    at: usize,
}

impl io::Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            if self.shared.range(self.number).is_empty() {
                return Ok(0);
            }
            let mut state = self.shared.state();
            state.hashed = Some(self.number);
            state.tidy();
            self.shared.changed.notify_all();
            self.bytes = loop {
                if let Some(held) = state.held.get(&self.number) {
                    break Arc::clone(&held.bytes);
                }
                if state.is_stopped || state.failure.is_some() {
                    return Err(io::Error::other("the transfer broke off"));
                }
                state = self.shared.wait(state);
            };
            self.number += 1;
            self.at = 0;
        }
        let n = out.len().min(self.bytes.len() - self.at);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Ahead {
    /// Begins to fetch these ranges of a file, which are sorted; or all of it, if it must have a digest.
    ///
    /// # Errors
    /// Io if no thread can be started.
    pub fn new(
        object: &Arc<Object>,
        ranges: &[Range<u64>],
        expected: Option<ContentDigest>,
    ) -> Result<Ahead> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for range in ranges {
            let end = range.end.min(object.size());
            let mut at = range.start;
            while at < end {
                let number = at / PIECE;
                let stop = ((number + 1) * PIECE).min(end);
                *counts.entry(number).or_default() += stop - at;
                at = stop;
            }
        }
        let wanted: Vec<u64> = match expected {
            Some(_) => (0..object.size().div_ceil(PIECE)).collect(),
            None => counts.keys().copied().collect(),
        };
        let n_threads = object.client().options().connections.min(wanted.len());
        let state = State {
            wanted,
            next: 0,
            coming: BTreeMap::new(),
            held: BTreeMap::new(),
            expected: counts,
            hashed: expected.as_ref().map(|_| 0),
            is_drained: false,
            is_stopped: false,
            failure: None,
        };
        let shared = Arc::new(Shared {
            object: Arc::clone(object),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let threads = threads::start_all(n_threads, "ahead", &shared, Shared::work)?;
        let hasher = match expected.clone() {
            Some(expected) => {
                let own = Arc::clone(&shared);
                let hash = move || {
                    let mut pieces = Pieces { shared: &own, number: 0, bytes: Arc::default(), at: 0 };
                    let digest = expected.of_content(&mut pieces, own.object.size(), &|_| Ok(()));
                    // Whatever came of it, no piece waits for it any more.
                    own.state().hashed = None;
                    own.changed.notify_all();
                    digest.ok()
                };
                Some(threads::start("hash", hash)?)
            }
            None => None,
        };
        let (threads, hasher) = (Mutex::new(threads), Mutex::new(hasher));
        Ok(Ahead { shared, threads, hasher, expected, again: AtomicU64::new(0) })
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let range = self.shared.range(at / PIECE);
            let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(out.len() - done);
            let part = &mut out[done..done + len];
            match self.piece(at / PIECE, len as u64)? {
                Some(bytes) => {
                    let from = usize::try_from(at - range.start).unwrap_or(usize::MAX);
                    part.copy_from_slice(&bytes[from..from + len]);
                }
                None => {
                    self.again.fetch_add(len as u64, Ordering::Relaxed);
                    self.shared.object.read_at(at, part)?;
                }
            }
            done += len;
        }
        Ok(())
    }

    /// A piece of which so many bytes are read now, once it is there; `None` if it is gone, or far ahead.
    fn piece(&self, number: u64, len: u64) -> Result<Option<Arc<Vec<u8>>>> {
        let mut state = self.shared.state();
        loop {
            if let Some(held) = state.held.get_mut(&number) {
                held.unread = held.unread.saturating_sub(len);
                let bytes = Arc::clone(&held.bytes);
                state.tidy();
                drop(state);
                self.shared.changed.notify_all();
                return Ok(Some(bytes));
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let is_near = state.is_near(number);
            let is_to_come = state.coming.contains_key(&number)
                || is_near && (!state.is_full() || state.make_room(number));
            if !is_to_come || state.is_stopped {
                // What is read apart need not be read of the piece when that comes.
                if let Some(left) = state.expected.get_mut(&number) {
                    *left = left.saturating_sub(len);
                }
                return Ok(None);
            }
            self.shared.changed.notify_all();
            state = self.shared.wait(state);
            self.shared.object.client().refuse_cancelled()?;
        }
    }

    /// Waits for the rest, and compares the digest.
    ///
    /// # Errors
    /// The failure that ended the transfer; Failed with the code E004 for another digest.
    pub fn settle(&self) -> Result<()> {
        {
            let mut state = self.shared.state();
            state.is_drained = true;
            // Without a digest, what nobody reads is not waited for.
            state.is_stopped = self.expected.is_none();
            state.tidy();
        }
        self.shared.changed.notify_all();
        let hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(hasher) = hasher else { return Ok(()) };
        let found = hasher.join().ok().flatten();
        self.shared.object.client().refuse_cancelled()?;
        if let Some(failure) = &self.shared.state().failure {
            return Err(failure.clone());
        }
        let again = self.again.load(Ordering::Relaxed);
        // A few reads out of order are no news.
        if again > self.shared.object.size() / 16 {
            let message = format!(
                "{}: {again} bytes were fetched twice, since they are needed in another order",
                self.shared.object.shown()
            );
            self.shared.object.client().options().observer.waits(&message);
        }
        match (&self.expected, found) {
            (Some(expected), Some(found)) if *expected == found => Ok(()),
            (Some(expected), Some(found)) => {
                let message = format!("the file has {found}, but {} was announced", expected.digits());
                let error = Error::failed(message).code("E004").in_file(self.shared.object.shown());
                Err(error
                    .hint("run the command again; if that does not help, a proxy or mirror changes the file"))
            }
            _ => Err(Error::io("the file could not be hashed").in_file(self.shared.object.shown())),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state().is_stopped = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| drop(thread.join()));
        let hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(hasher.map(JoinHandle::join));
    }
}
