//! A remote file that is looked into: headers are read through windows, each one connection that is read as far as it is
//! needed; payload by ranges of its own.

use crate::file::object::{Object, Opened, Stretch};
use apr_engine::place::{Backing, Version};
use apr_sdk::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the first window: the header of most models.
pub const FIRST: u64 = 1 << 20;

/// Bytes of a window that begins where nothing was read before.
const JUMP: u64 = 64 << 10;

/// Bytes of the longest window. One that continues another is sixteen times as long.
const LONGEST: u64 = 16 << 20;

/// A read of at least so many bytes is payload, and needs no window.
const PAYLOAD: usize = 1 << 20;

/// Windows that are kept.
const MOST_WINDOWS: usize = 4;

/// A file on a server as a [`Backing`] for looking into it.
pub struct Look {
    object: Arc<Object>,
    windows: Mutex<Vec<Window>>,
}

/// Bytes of a file from `start` on, as far as they were read, and the connection that the next come from.
struct Window {
    start: u64,
    bytes: Vec<u8>,
    rest: Stretch,
}

impl Window {
    /// Returns whether a byte is in the window, or will be.
    fn covers(&self, offset: u64) -> bool {
        (self.start..self.rest.end()).contains(&offset)
    }

    /// Reads on until the window has the bytes before `end`, or ends.
    fn extend(&mut self, end: u64) -> Result<()> {
        let end = end.min(self.rest.end());
        let missing = end.saturating_sub(self.rest.at());
        // What is there may be more than asked for, and is never waited for twice.
        let old = self.bytes.len();
        self.bytes.resize(old + usize::try_from(missing).map_err(|_| too_large())?, 0);
        let filled = self.rest.fill(&mut self.bytes[old..]);
        // What came before a failure stays: the connection goes on behind it.
        let read = usize::try_from(self.rest.at() - self.start).map_err(|_| too_large())?;
        self.bytes.truncate(read);
        filled
    }
}

fn too_large() -> Error {
    Error::limit("a window does not fit in this machine's memory")
}

impl Look {
    /// The file, of which the first bytes are on their way.
    pub fn new(opened: Opened) -> Look {
        let window = Window { start: 0, bytes: Vec::new(), rest: opened.first };
        Look { object: opened.object, windows: Mutex::new(vec![window]) }
    }

    /// The file.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Returns whether these bytes were read already, and are still held.
    pub fn holds(&self, offset: u64, len: usize) -> bool {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset.saturating_add(len as u64);
        windows.iter().any(|window| window.start <= offset && end <= window.start + window.bytes.len() as u64)
    }

    /// Fails if what windows hold is not what `read` gives: a header came by requests of its own, and another server may have
    /// answered them.
    ///
    /// # Errors
    /// Failed with the code E004; any error from `read`.
    pub fn compare(&self, read: &dyn Fn(u64, &mut [u8]) -> Result<()>) -> Result<()> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        for window in windows.iter() {
            let mut bytes = vec![0; window.bytes.len()];
            read(window.start, &mut bytes)?;
            if bytes != window.bytes {
                let message = "what was read of the header is not what the whole file has there";
                let error = Error::failed(message).code("E004").at(window.start).in_file(self.object.shown());
                return Err(error.hint("run the command again"));
            }
        }
        Ok(())
    }

    /// Copies what windows have of the bytes at `offset`, opening one if none has the first; returns how many.
    fn copy(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match windows.iter().position(|window| window.covers(offset)) {
            Some(at) => at,
            None => {
                let before = windows.iter().position(|window| window.rest.end() == offset);
                let len = match before.map(|at| &windows[at]) {
                    Some(window) => (16 * (window.rest.end() - window.start)).min(LONGEST),
                    None => JUMP.max(out.len() as u64),
                };
                let rest = self.object.stretch(offset..offset.saturating_add(len))?;
                if windows.len() >= MOST_WINDOWS {
                    windows.remove(0);
                }
                windows.push(Window { start: offset, bytes: Vec::new(), rest });
                windows.len() - 1
            }
        };
        let window = &mut windows[at];
        let end = offset.saturating_add(out.len() as u64).min(window.rest.end());
        window.extend(end)?;
        let from = usize::try_from(offset - window.start).map_err(|_| too_large())?;
        let len = usize::try_from(end - offset).map_err(|_| too_large())?;
        out[..len].copy_from_slice(&window.bytes[from..from + len]);
        Ok(len)
    }
}

impl Backing for Look {
    fn len(&self) -> u64 {
        self.object.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        if out.len() >= PAYLOAD && offset >= FIRST {
            return self.object.read_at(offset, out);
        }
        let mut done = 0;
        while done < out.len() {
            done += self.copy(offset + done as u64, &mut out[done..])?;
        }
        Ok(())
    }

    fn version(&self) -> Option<Version> {
        Some(Version { len: self.object.size(), modified: self.object.version(), status: 0 })
    }
}
