//! A file of the hub that is fetched into the cache while it is read.

use super::ahead::Ahead;
use super::store::Store;
use super::transfer::Transfer;
use super::window::Look;
use crate::cache::BlobName;
use crate::names::RepositoryId;
use apr_engine::place::{Backing, Version};
use apr_engine::sizes::show_size;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Largest file that the hub gives by plain HTTP. Its own client has another way for larger ones.
pub const LARGEST: u64 = 50_000_000_000;

/// The error for a file that the hub does not give.
pub fn too_large(id: &RepositoryId, name: &str, bytes: u64) -> Error {
    let shown = escape(name, 200);
    let message = format!("`{shown}` has {}: the hub gives no files so large by HTTP", show_size(bytes));
    let quoted = shown.replace('\'', "'\\''");
    Error::unsupported(message).hint(format!(
        "get it with the hub's own client (hf download {id} '{quoted}'), and run the command again"
    ))
}

/// A file of the hub that is not in the cache: looked into by ranges, and fetched into the cache once its payload is
/// expected.
pub struct FetchedFile {
    look: Look,
    store: Store,
    blob: BlobName,
    commit: String,
    /// The revision that led to the commit.
    revision: String,
    /// The file's name in the repository.
    name: String,
    way: OnceLock<Way>,
    /// Held while fetching is begun.
    begins: Mutex<()>,
}

/// The blobs that this process fetches: a lock of a file does not keep a process from waiting for itself.
static FETCHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The right to fetch a blob, given back when it is dropped.
struct Turn(PathBuf);

impl Turn {
    fn take(path: PathBuf) -> Option<Turn> {
        let mut fetched = FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.insert(path.clone()).then_some(Turn(path))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        FETCHED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// The way that a payload comes.
enum Way {
    /// Into the cache.
    Kept { transfer: Transfer, _turn: Turn },
    /// From the cache, where another process put it meanwhile.
    Found(File),
    /// Past a cache that nothing can be kept in.
    Passing(Ahead),
}

impl FetchedFile {
    /// A file at a commit.
    pub fn new(
        look: Look,
        store: Store,
        blob: BlobName,
        commit: String,
        revision: String,
        name: String,
    ) -> FetchedFile {
        FetchedFile {
            look,
            store,
            blob,
            commit,
            revision,
            name,
            way: OnceLock::new(),
            begins: Mutex::default(),
        }
    }

    fn kept(&self) -> Result<Way> {
        let object = self.look.object();
        let path = self.store.repository().path().join("blobs").join(self.blob.as_str());
        let Some(turn) = Turn::take(path) else {
            return Err(Error::io("this process fetches the same content already"));
        };
        let lock = self.store.lock_soon(&self.blob)?;
        // Whoever held the lock may have fetched it.
        if let Some(path) = self.store.blob(&self.blob, Some(object.size()))?
            && let Ok(file) = File::open(path)
            && self.store.is_right(&self.blob)?
        {
            return Ok(Way::Found(file));
        }
        let partial = self.store.partial(object, lock, &self.blob, &self.commit)?;
        Ok(Way::Kept { transfer: Transfer::new(object, partial, None)?, _turn: turn })
    }
}

impl Backing for FetchedFile {
    fn len(&self) -> u64 {
        self.look.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.way.get() {
            Some(way) if !self.look.holds(offset, out.len()) => match way {
                Way::Kept { transfer, .. } => transfer.read_at(offset, out),
                Way::Found(file) => file
                    .read_exact_at(out, offset)
                    .map_err(|e| Error::io(format!("cannot read the cached file: {e}"))),
                Way::Passing(ahead) => ahead.read_at(offset, out),
            },
            _ => self.look.read_at(offset, out),
        }
    }

    fn version(&self) -> Option<Version> {
        self.look.version()
    }

    fn will_read(&self, ranges: &[Range<u64>]) -> Result<()> {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        // Less than half of a file is not worth all of it.
        if bytes < self.len() / 2 {
            return Ok(());
        }
        let _turn = self.begins.lock().unwrap_or_else(PoisonError::into_inner);
        if self.way.get().is_some() {
            return Ok(());
        }
        if self.len() > LARGEST {
            return Err(too_large(self.store.id(), &self.name, self.len()));
        }
        let way = match self.kept() {
            Ok(way) => way,
            // A cache that is full, or not to be written, keeps nobody from reading a model.
            Err(error) if error.kind() == ErrorKind::Io => {
                let message = format!("{} is not kept: {}", self.name, error.message());
                self.store.client().options().observer.warn(&message);
                Way::Passing(Ahead::new(self.look.object(), ranges, self.blob.digest())?)
            }
            Err(error) => return Err(error),
        };
        drop(self.way.set(way));
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        match self.way.get() {
            None => Ok(()),
            Some(Way::Passing(ahead)) => ahead.settle(),
            Some(Way::Found(file)) => {
                self.look.compare(&|offset, out| {
                    file.read_exact_at(out, offset)
                        .map_err(|e| Error::io(format!("cannot read the cached file: {e}")))
                })?;
                self.store.link(&self.commit, &self.name, &self.blob)?;
                self.store.note_ref(&self.revision, &self.commit)
            }
            Some(Way::Kept { transfer, .. }) => {
                self.store.end(transfer, &self.commit, &self.name)?;
                self.look.compare(&|offset, out| transfer.read_at(offset, out))?;
                self.store.note_ref(&self.revision, &self.commit)
            }
        }
    }
}
