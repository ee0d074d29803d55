//! A file whose length is known before anything is asked for.

use apr_engine::place::{Backing, Version};
use apr_sdk::{Error, Result};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Opens the file.
type Open = Box<dyn Fn() -> Result<Arc<dyn Backing>> + Send + Sync>;

/// A file that is opened when it is first read.
pub struct LazyFile {
    size: u64,
    version: i128,
    open: Open,
    opened: OnceLock<Arc<dyn Backing>>,
    /// Held while it is opened.
    opens: Mutex<()>,
}

impl LazyFile {
    /// A file of this length; `key` names the version of it.
    pub fn new(size: u64, key: &str, open: Open) -> LazyFile {
        let digest = Sha256::digest(key);
        let first: [u8; 8] = std::array::from_fn(|at| digest[at]);
        let version = i128::from(u64::from_le_bytes(first) >> 1);
        LazyFile { size, version, open, opened: OnceLock::new(), opens: Mutex::default() }
    }

    fn opened(&self) -> Result<&Arc<dyn Backing>> {
        let _turn = self.opens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = (self.open)()?;
        if opened.len() != self.size {
            let message = format!("the hub lists {} bytes, and gives {}", self.size, opened.len());
            return Err(Error::io(message).hint("run the command again"));
        }
        Ok(self.opened.get_or_init(|| opened))
    }
}

impl Backing for LazyFile {
    fn len(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.opened.get() {
            Some(opened) => opened.read_at(offset, out),
            None => self.opened()?.read_at(offset, out),
        }
    }

    fn version(&self) -> Option<Version> {
        Some(Version { len: self.size, modified: self.version, status: 0 })
    }

    fn will_read(&self, ranges: &[Range<u64>]) -> Result<()> {
        // What was not even opened is listed, and not read.
        self.opened.get().map_or(Ok(()), |opened| opened.will_read(ranges))
    }

    fn settle(&self) -> Result<()> {
        self.opened.get().map_or(Ok(()), |opened| opened.settle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::spool::Spool;

    #[test]
    fn nothing_is_opened_before_it_is_read() {
        let open = || -> Result<Arc<dyn Backing>> {
            let mut bytes: &[u8] = b"abc";
            let spool = Spool::new(&std::env::temp_dir(), &mut |out| {
                let n = bytes.len().min(out.len());
                out[..n].copy_from_slice(&bytes[..n]);
                bytes = &bytes[n..];
                Ok(n)
            })?;
            Ok(Arc::new(spool))
        };
        let file = LazyFile::new(3, "1", Box::new(open));
        assert!(file.version() == file.opened_version() && file.opened.get().is_none());
        let mut out = [0; 2];
        file.read_at(1, &mut out).unwrap();
        assert_eq!(&out, b"bc");
        assert!(LazyFile::new(4, "1", Box::new(open)).read_at(0, &mut out).is_err());
    }
}
