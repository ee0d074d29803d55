//! A file in the cache.

use super::store::Store;
use crate::cache::BlobName;
use apr_engine::place::{Backing, Version};
use apr_sdk::Result;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file in the cache, which is proved once its payload is expected.
pub struct HashedFile {
    file: Arc<dyn Backing>,
    store: Store,
    blob: BlobName,
    is_expected: AtomicBool,
}

impl HashedFile {
    /// The file of a blob.
    pub fn new(file: Arc<dyn Backing>, store: Store, blob: BlobName) -> HashedFile {
        HashedFile { file, store, blob, is_expected: AtomicBool::new(false) }
    }
}

impl Backing for HashedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, out)
    }

    fn version(&self) -> Option<Version> {
        self.file.version()
    }

    fn opened_version(&self) -> Option<Version> {
        self.file.opened_version()
    }

    fn identity(&self) -> Option<(u64, u64)> {
        self.file.identity()
    }

    fn will_read(&self, _ranges: &[Range<u64>]) -> Result<()> {
        self.is_expected.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        if self.is_expected.load(Ordering::Relaxed) { self.store.prove(&self.blob) } else { Ok(()) }
    }
}
