//! The files of a model on the hub, one after another or side by side.

use super::PulledFile;
use super::meter::Meter;
use super::target::Target;
use super::web::into_file;
use crate::address::HubAddress;
use crate::cache::{BlobName, Download, hex};
use crate::file::object::Opened;
use crate::file::transfer::Transfer;
use crate::file::window::FIRST;
use crate::hub::Hub;
use crate::threads::side_by_side;
use apr_sdk::{Error, Result};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Files up to this size are fetched side by side, larger ones one after another over several connections each.
const SMALL: u64 = 8 << 20;

/// A file that is to be fetched.
pub struct Wanted {
    /// Its name in the model.
    pub name: String,
    /// Blob with its content.
    pub blob: BlobName,
    /// Length in bytes.
    pub bytes: u64,
}

/// The files of one repository that are fetched.
pub struct Job<'a> {
    /// The hub.
    pub hub: &'a Hub,
    /// The model.
    pub address: &'a HubAddress,
    /// The commit.
    pub commit: &'a str,
    /// Place that they go to.
    pub target: &'a Target<'a>,
    /// Shows how far they are.
    pub meter: &'a Meter<'a>,
}

impl Job<'_> {
    /// Fetches all files, small ones side by side.
    ///
    /// # Errors
    /// The first that a file raised.
    pub fn fetch_all(&self, wanted: Vec<Wanted>) -> Result<Vec<PulledFile>> {
        let (small, large): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|file| file.bytes <= SMALL);
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(file) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.fetch(file);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                let is_over = result.is_err();
                results.push(result);
                if is_over {
                    next.store(small.len(), Ordering::Relaxed);
                }
            }
        };
        let most = self.hub.client().options().connections.min(small.len());
        side_by_side(most, &work);
        let small = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut done = small.into_iter().collect::<Result<Vec<_>>>()?;
        for file in &large {
            done.push(self.fetch(file)?);
        }
        Ok(done)
    }

    fn fetch(&self, file: &Wanted) -> Result<PulledFile> {
        let Wanted { name, blob, bytes } = file;
        let done = |fetched| PulledFile {
            name: name.clone(),
            bytes: *bytes,
            fetched,
            verified: blob.digest().map(|digest| digest.to_string()),
        };
        match self.target {
            Target::Cache(store, _) => {
                let lock = store.lock(blob)?;
                // Whoever held the lock may have fetched it.
                if store.blob(blob, Some(*bytes))?.is_some() && store.is_right(blob)? {
                    store.link(self.commit, name, blob)?;
                    self.meter.add(*bytes, name);
                    return Ok(done(0));
                }
                let Opened { object, first } = self.open(file)?;
                let partial = store.partial(&object, lock, blob, self.commit)?;
                let resumed = partial.done();
                let transfer = Transfer::beginning(&object, first, partial, None)?;
                self.meter.follow(&transfer, name);
                store.end(&transfer, self.commit, name)?;
                self.meter.add(*bytes, name);
                Ok(done(bytes - resumed))
            }
            Target::Folder { folder, force } => {
                let Opened { object, first } = self.open(file)?;
                // Two files may have the same content: what comes of each is named after the file.
                let of_file = Sha256::digest(format!("{name}\n{blob}"));
                let blob_of_file = BlobName::new(&format!("file-{}", hex(&of_file)))?;
                let download = Download { commit: self.commit.to_owned(), blob: blob_of_file, size: *bytes };
                let path = folder.join(name);
                let follow = |transfer: &Transfer| self.meter.follow(transfer, name);
                let digest = blob.digest();
                let fetched = into_file(&object, first, download, digest.as_ref(), &path, *force, &follow)?;
                self.meter.add(*bytes, name);
                Ok(done(fetched.0))
            }
        }
    }

    fn open(&self, file: &Wanted) -> Result<Opened> {
        let shown = format!("{}/{}", self.address.shown(), file.name);
        let opened =
            self.hub.open(&self.address.repository, self.commit, &file.name, shown.clone(), FIRST)?;
        let content = opened.object.identity().content.clone();
        if opened.object.size() != file.bytes || content.is_some_and(|content| content != file.blob.as_str())
        {
            let message = "the hub gives another file than it lists";
            return Err(Error::io(message).in_file(shown).hint("run the command again"));
        }
        Ok(opened)
    }
}
