//! The files of one opened model: a table of numbered backings, all from one place.

use super::read_record::{ByteSpace, Seen};
use crate::place::{Backing, Entry, Found, Place, Version};
use apr_sdk::{Error, ErrorKind, Extent, FileId, Limits, Result, escape};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// One file of a model, open for reading.
pub struct ModelFile {
    /// The path for messages, in the way the user typed it.
    pub shown: String,
    /// The path relative to the model's folder, with `/`.
    pub name: String,
    /// Length in bytes when it was opened; 0 for a folder.
    pub len: u64,
    /// Its version when it was opened.
    pub version: Version,
    /// The bytes; `None` for a folder.
    backing: Option<Arc<dyn Backing>>,
}

impl ModelFile {
    fn new(shown: String, name: String, backing: Option<Arc<dyn Backing>>) -> ModelFile {
        let len = backing.as_ref().map_or(0, |backing| backing.len());
        let version = backing.as_ref().and_then(|backing| backing.opened_version());
        ModelFile { shown, name, len, version: version.unwrap_or_default(), backing }
    }

    /// Returns whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.backing.is_none()
    }

    /// Identifies the bytes, whichever path leads to them; `None` if unknown.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.backing.as_ref().and_then(|backing| backing.identity())
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// Malformed past the end; Io if the machine failed or the file has been truncated since it was opened.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.fill(offset, out).map_err(|e| e.at(offset).in_file(self.name.clone()))
    }

    fn fill(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let want = out.len() as u64;
        let Some(backing) = &self.backing else {
            return Err(Error::io("this is a folder, not a file"));
        };
        if offset.checked_add(want).is_none_or(|end| end > self.len) {
            let message = format!("expected at least {want} bytes, found {}", self.len);
            return Err(Error::malformed(message).hint("get the file again: it is truncated or corrupt"));
        }
        backing.read_at(offset, out)
    }

    /// The change to it since it was opened.
    pub fn changed(&self) -> Change {
        match self.backing.as_ref().and_then(|backing| backing.version()) {
            Some(now) if (now.len, now.modified) != (self.version.len, self.version.modified) => {
                Change::Contents
            }
            Some(now) if now.status != self.version.status => Change::Status(now.status),
            _ => Change::None,
        }
    }
}

/// A change to a file since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing visible.
    None,
    /// Only the status time, which is now this: mode, owner or links changed, or the bytes did and the
    /// modification time was reset.
    Status(i128),
    /// The length or the modification time.
    Contents,
}

/// The files of one opened model, by number. Files are only ever added.
pub struct Files {
    place: Arc<dyn Place>,
    table: RwLock<Vec<Arc<ModelFile>>>,
    read: AtomicU64,
    /// A record of what was read, if one is kept.
    seen: Option<Seen>,
    cancel: Arc<AtomicBool>,
}

impl Files {
    /// A table with the entry as file 0, and the place around it.
    pub fn new(entry: &Entry, cancel: Arc<AtomicBool>) -> Files {
        let place = Arc::clone(&entry.place);
        let file = match &entry.file {
            Some((name, backing)) => {
                ModelFile::new(place.show(name), name.clone(), Some(Arc::clone(backing)))
            }
            None => ModelFile::new(place.show(""), place.name(), None),
        };
        let table = RwLock::new(vec![Arc::new(file)]);
        Files { place, table, read: AtomicU64::new(0), seen: None, cancel }
    }

    /// Fails if a file that was opened has been replaced under its name: other files might then belong to the
    /// new model.
    ///
    /// # Errors
    /// Io.
    pub fn refuse_replaced(&self) -> Result<()> {
        let mut files = self.all().into_iter();
        match files.find(|file| file.backing.as_ref().is_some_and(|b| b.is_replaced())) {
            Some(file) => {
                let error = Error::io("the file was replaced while the model was being opened");
                Err(error.in_file(file.name.clone()).hint("run the command again"))
            }
            None => Ok(()),
        }
    }

    /// Fails if a file is not what it was when it was opened: what was read of it belongs together no longer. Bytes that were
    /// written with the modification time reset cannot be told from a changed mode or link, so that fails as well. So do bytes
    /// that are not what a remote source promised.
    ///
    /// # Errors
    /// Io; as [`Backing::settle`].
    pub fn refuse_changed(&self) -> Result<()> {
        self.settle()?;
        match self.all().iter().find(|file| file.changed() != Change::None) {
            Some(file) => {
                let error = Error::io("the file changed while it was being read").in_file(file.shown.clone());
                Err(error.hint("run the command again, and do not modify the file while apr is running"))
            }
            None => Ok(()),
        }
    }

    /// Fails if bytes that were read are not those that a remote source promised.
    ///
    /// # Errors
    /// As [`Backing::settle`].
    pub fn settle(&self) -> Result<()> {
        for file in self.all() {
            let settled = file.backing.as_ref().map_or(Ok(()), |backing| backing.settle());
            settled.map_err(|e| e.in_file(file.shown.clone()))?;
        }
        Ok(())
    }

    /// Announces that these extents will be read.
    ///
    /// # Errors
    /// As [`Backing::will_read`].
    pub fn will_read(&self, extents: impl Iterator<Item = Extent>) -> Result<()> {
        let mut ranges: BTreeMap<FileId, Vec<Range<u64>>> = BTreeMap::new();
        for extent in extents.filter(|extent| extent.len > 0) {
            let end = extent.offset.saturating_add(extent.len);
            ranges.entry(extent.file).or_default().push(extent.offset..end);
        }
        for (file, mut ranges) in ranges {
            ranges.sort_by_key(|range| range.start);
            let file = self.get(file)?;
            let Some(backing) = &file.backing else { continue };
            backing.will_read(&ranges).map_err(|e| e.in_file(file.shown.clone()))?;
        }
        Ok(())
    }

    /// The file with this number.
    ///
    /// # Errors
    /// InvalidArgument for a number that was never assigned.
    pub fn get(&self, file: FileId) -> Result<Arc<ModelFile>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let known = table.get(file as usize).cloned();
        known.ok_or_else(|| Error::invalid_argument(format!("file {file} does not exist")))
    }

    /// Every file that was opened, ordered by number.
    pub fn all(&self) -> Vec<Arc<ModelFile>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of bytes read with [`Files::read_at`].
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns whether the user wants to stop.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Records everything that is read from now on.
    pub fn witnessed(self) -> Files {
        Files { seen: Some(Seen::default()), ..self }
    }

    /// The record of what was read, if one is kept.
    pub fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// Fills `out` with the bytes at `offset` of `file`.
    ///
    /// # Errors
    /// As [`ModelFile::read_at`]; Cancelled.
    pub fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_payload(file, offset, out)?;
        if let Some(seen) = &self.seen {
            seen.see(ByteSpace::File(file), offset, out, false);
        }
        Ok(())
    }

    /// Like [`Files::read_at`], for callers that keep the record themselves.
    ///
    /// # Errors
    /// As [`Files::read_at`].
    pub fn read_payload(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        if self.cancelled() {
            return Err(Error::cancelled("stopped"));
        }
        self.get(file)?.read_at(offset, out)?;
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Opens another file by its path relative to the model's folder; the same path gives the same number.
    ///
    /// # Errors
    /// NotFound; Malformed for a path, or a link, that leaves the folder; LimitExceeded.
    pub fn sibling(&self, path: &str) -> Result<FileId> {
        let known = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            table.iter().position(|f| f.name == path && !f.is_folder())
        };
        if let Some(at) = known {
            return FileId::try_from(at).map_err(|_| Error::limit("too many files"));
        }
        let found = self.place.open(path).map_err(|e| match e.kind() {
            // The name comes from the model, not from the user.
            ErrorKind::InvalidArgument => Error::malformed(e.message()).in_file(path.to_owned()),
            _ => e,
        })?;
        let Found::File(backing) = found else {
            return Err(Error::malformed(format!("`{}` is a folder, expected a file", escape(path, 200))));
        };
        let file = ModelFile::new(self.place.show(path), path.to_owned(), Some(backing));
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= Limits::default().files as usize {
            return Err(Error::limit(format!("the model has more than {} files", Limits::default().files)));
        }
        table.push(Arc::new(file));
        FileId::try_from(table.len() - 1).map_err(|_| Error::limit("too many files"))
    }

    /// The first bytes of a file in the model's folder, which does not thereby become a file of the model.
    ///
    /// # Errors
    /// As [`Files::sibling`].
    pub fn peek(&self, path: &str, len: usize) -> Result<Vec<u8>> {
        let backing = match self.place.open(path)? {
            Found::File(backing) => Some(backing),
            Found::Folder => None,
        };
        let file = ModelFile::new(self.place.show(path), path.to_owned(), backing);
        let mut head = vec![0; usize::try_from(file.len).unwrap_or(usize::MAX).min(len)];
        file.read_at(0, &mut head)?;
        Ok(head)
    }

    /// What whoever gave the model says of it.
    pub fn facts(&self, ask: bool) -> Vec<(String, String)> {
        self.place.facts(ask)
    }

    /// Length in bytes of a file in the model's folder, if that costs nothing to find out.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.place.size(name)
    }

    /// The names in the model's folder, sorted; folders end in `/`.
    ///
    /// # Errors
    /// Io; LimitExceeded.
    pub fn entries(&self) -> Result<Vec<String>> {
        self.place.entries("")
    }

    /// The names in a folder below it, likewise.
    ///
    /// # Errors
    /// As [`Files::sibling`] and [`Files::entries`].
    pub fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        self.place.entries(folder)
    }

    /// Replaces an error's file by the path for messages.
    pub fn show(&self, error: Error) -> Error {
        match error.file() {
            None => {
                let shown = self.get(0).map(|f| f.shown.clone()).unwrap_or_default();
                error.in_file(shown)
            }
            // A backing that knows where it is says so itself.
            Some(name) if self.all().iter().any(|f| f.shown == name) => error,
            Some(name) => {
                let known = self.all().iter().find(|f| f.name == name).map(|f| f.shown.clone());
                let shown = known.unwrap_or_else(|| self.place.show(name));
                error.with_file(shown)
            }
        }
    }
}
