//! A file on its way into a cache or a folder: fetched over several connections, read while it comes, and hashed as far as it
//! is there without a gap.

use crate::cache::{ContentDigest, Partial, Verified};
use crate::file::object::{Object, Stretch};
use crate::threads;
use apr_sdk::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that one connection fetches at a time.
const PIECE: u64 = 8 << 20;

/// Bytes that are written at a time.
const BUFFER: usize = 256 << 10;

/// Time after which those who wait look whether the user wants to stop.
const PAUSE: Duration = Duration::from_millis(100);

/// A file that is being fetched.
pub struct Transfer {
    object: Arc<Object>,
    /// File that bytes are written to, to read from.
    file: File,
    expected: Option<ContentDigest>,
    running: Mutex<Option<Running>>,
    /// Failure that ended it, once it was waited for.
    failure: OnceLock<Error>,
}

struct Running {
    shared: Arc<Shared>,
    connections: Vec<JoinHandle<()>>,
    hasher: Option<JoinHandle<Option<ContentDigest>>>,
}

struct Shared {
    object: Arc<Object>,
    partial: Partial,
    queue: Mutex<Queue>,
    /// Told when bytes came, when work failed, and when it is to stop.
    changed: Condvar,
}

struct Queue {
    /// Pieces that nobody fetches yet.
    waiting: VecDeque<Range<u64>>,
    /// Connections that are at work.
    busy: usize,
    /// Failure that ended the work.
    failure: Option<Error>,
    is_stopped: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        self.changed.wait_timeout(queue, PAUSE).unwrap_or_else(PoisonError::into_inner).0
    }

    fn stop(&self) {
        self.queue().is_stopped = true;
        self.changed.notify_all();
    }

    /// Fetches pieces until none is left.
    fn work(&self) {
        let mut buffer = vec![0; BUFFER];
        self.queue().busy += 1;
        // Whoever finds no piece, or fails, is no longer busy in the same step: those left know whether others come after them.
        while let Some(piece) = self.next() {
            let mut at = piece.start;
            let Err(error) = self.fetch(&piece, &mut at, &mut buffer) else { continue };
            let mut queue = self.queue();
            // A server that takes fewer connections than were made refuses the last of them: the others go on.
            let is_spared = queue.busy > 1 && matches!(error.kind(), ErrorKind::Io) && at == piece.start;
            if is_spared {
                queue.waiting.push_front(at..piece.end);
            } else {
                queue.failure.get_or_insert(error);
            }
            queue.busy -= 1;
            break;
        }
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Range<u64>> {
        let mut queue = self.queue();
        let next = if queue.is_stopped || queue.failure.is_some() { None } else { queue.waiting.pop_front() };
        queue.busy -= usize::from(next.is_none());
        next
    }

    /// Fetches a piece; `at` is how far it came.
    fn fetch(&self, piece: &Range<u64>, at: &mut u64, buffer: &mut [u8]) -> Result<()> {
        let is_over = || self.queue().is_stopped || self.object.client().refuse_cancelled().is_err();
        let permit = self.object.client().connections().take(&is_over);
        let Some(_permit) = permit else { return Err(Error::cancelled("stopped")) };
        let mut stretch = self.object.stretch(piece.clone())?;
        loop {
            let n = stretch.read(buffer)?;
            if n == 0 {
                return if *at == piece.end { Ok(()) } else { Err(Error::io("the transfer broke off")) };
            }
            self.partial.write_at(*at, &buffer[..n])?;
            *at += n as u64;
            if self.queue().is_stopped {
                return Err(Error::cancelled("stopped"));
            }
            self.changed.notify_all();
        }
    }

    /// Waits until the byte at `offset` is there, and returns where the bytes that follow it end.
    fn wait_for(&self, offset: u64) -> Result<u64> {
        let mut queue = self.queue();
        loop {
            let end = self.partial.end_of_run(offset);
            if end > offset {
                return Ok(end);
            }
            if let Some(failure) = &queue.failure {
                return Err(failure.clone().in_file(self.object.shown()));
            }
            if queue.is_stopped {
                return Err(Error::cancelled("stopped"));
            }
            // Whoever waits is served next.
            let piece = queue.waiting.iter().position(|piece| piece.contains(&offset));
            if let Some(piece) = piece.and_then(|at| queue.waiting.remove(at)) {
                if piece.start < offset {
                    queue.waiting.push_front(piece.start..offset);
                }
                queue.waiting.push_front(offset..piece.end);
            } else if queue.busy == 0 && queue.waiting.is_empty() {
                return Err(Error::io("the transfer broke off").in_file(self.object.shown()));
            }
            queue = self.wait(queue);
            self.object.client().refuse_cancelled()?;
        }
    }
}

/// The content of a file in order, which waits for what is not there yet.
struct Following<'a> {
    shared: &'a Shared,
    file: &'a File,
    at: u64,
}

impl io::Read for Following<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.shared.object.size() {
            return Ok(0);
        }
        let mut queue = self.shared.queue();
        let end = loop {
            let end = self.shared.partial.end_of_run(self.at);
            if end > self.at {
                break end;
            }
            if queue.is_stopped || queue.failure.is_some() || queue.busy == 0 && queue.waiting.is_empty() {
                return Err(io::Error::other("the transfer broke off"));
            }
            queue = self.shared.wait(queue);
        };
        drop(queue);
        let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(out.len());
        let n = self.file.read_at(&mut out[..most], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Transfer {
    /// Begins to fetch what is missing of a download. Its content must have the digest that its blob is named after, or else
    /// `announced`, if there is one.
    ///
    /// # Errors
    /// Io if no thread can be started.
    pub fn new(
        object: &Arc<Object>,
        partial: Partial,
        announced: Option<&ContentDigest>,
    ) -> Result<Transfer> {
        let file = partial.file()?;
        let expected = partial.expected(announced);
        let mut waiting = VecDeque::new();
        for gap in partial.missing() {
            let starts = (gap.start..gap.end).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
            waiting.extend(starts.map(|start| start..(start + PIECE).min(gap.end)));
        }
        let n_connections = object.client().options().connections.min(waiting.len());
        let queue = Queue { waiting, busy: 0, failure: None, is_stopped: false };
        let shared = Arc::new(Shared {
            object: Arc::clone(object),
            partial,
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        });
        let connections = threads::start_all(n_connections, "transfer", &shared, Shared::work)?;
        let hasher = match &expected {
            Some(expected) => {
                let (own, expected) = (Arc::clone(&shared), expected.clone());
                let from = shared.partial.file()?;
                // Without the thread, it is hashed at the end.
                threads::start("hash", move || own.hash(&expected, &from)).ok()
            }
            None => None,
        };
        let running = Mutex::new(Some(Running { shared, connections, hasher }));
        Ok(Transfer { object: Arc::clone(object), file, expected, running, failure: OnceLock::new() })
    }

    /// The same, with the first bytes of the file already on their way, which are all of a small one.
    ///
    /// # Errors
    /// As [`Transfer::new`]; any error from reading and writing them.
    pub fn beginning(
        object: &Arc<Object>,
        mut first: Stretch,
        partial: Partial,
        announced: Option<&ContentDigest>,
    ) -> Result<Transfer> {
        if partial.done() == 0 {
            let mut buffer = vec![0; BUFFER];
            loop {
                let at = first.at();
                match first.read(&mut buffer)? {
                    0 => break,
                    n => partial.write_at(at, &buffer[..n])?,
                }
            }
        }
        Transfer::new(object, partial, announced)
    }

    /// Bytes that are there; `None` once nothing more comes.
    pub fn done(&self) -> Option<u64> {
        let running = self.running();
        let running = running.as_ref()?;
        let is_over = running.connections.iter().all(JoinHandle::is_finished);
        (!is_over).then(|| running.shared.partial.done())
    }

    /// The file that is fetched.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Fills `out` with the bytes at `offset`, once they are there.
    ///
    /// # Errors
    /// The failure that ended the transfer.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let running = self.running();
        let shared = running.as_ref().map(|running| Arc::clone(&running.shared));
        drop(running);
        if let Some(shared) = shared {
            let end = offset + out.len() as u64;
            let mut at = offset;
            while at < end {
                at = shared.wait_for(at)?;
            }
        }
        self.file.read_exact_at(out, offset).map_err(|e| Error::io(format!("cannot read the download: {e}")))
    }

    /// Waits until everything is there, and compares its digest; `None` if that was done before.
    ///
    /// # Errors
    /// The failure that ended the transfer; Failed with the code E004 for another digest.
    pub fn finish(&self) -> Result<Option<Verified>> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        let Some(running) = self.running().take() else { return Ok(None) };
        let finished = self.ended(running);
        if let Err(failure) = &finished {
            let _ = self.failure.set(failure.clone());
        }
        finished.map(Some)
    }

    fn ended(&self, running: Running) -> Result<Verified> {
        let Running { shared, connections, hasher } = running;
        for connection in connections {
            // Whoever panicked says so in a failure of the others: nothing comes any more.
            let _ = connection.join();
        }
        let found = hasher.and_then(|hasher| hasher.join().ok().flatten());
        if let Some(failure) = &shared.queue().failure {
            return Err(failure.clone().in_file(self.object.shown()));
        }
        self.object.client().refuse_cancelled()?;
        // Those who wait for bytes let go of it as soon as they are there.
        let mut shared = shared;
        let partial = loop {
            match Arc::try_unwrap(shared) {
                Ok(shared) => break shared.partial,
                Err(still) => shared = still,
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let verified = match found {
            None => {
                partial.verify(self.expected.as_ref(), &|_| match self.object.client().refuse_cancelled() {
                    Ok(()) => Ok(()),
                    Err(_) => Err(io::Error::other("stopped")),
                })
            }
            found => partial.conclude(self.expected.clone(), found),
        };
        verified.map_err(|error| error.with_file(self.object.shown().to_owned()))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The digest of the content; `None` if it did not all come.
    fn hash(&self, expected: &ContentDigest, file: &File) -> Option<ContentDigest> {
        let mut content = Following { shared: self, file, at: 0 };
        expected.of_content(&mut content, self.object.size(), &|_| Ok(())).ok()
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let Some(Running { shared, connections, hasher }) = self.running().take() else { return };
        shared.stop();
        connections.into_iter().for_each(|connection| drop(connection.join()));
        drop(hasher.map(JoinHandle::join));
    }
}
