//! The files of one opened model: a table of numbered handles, confined to the model's folder.

use crate::overlay::{Overlay, Place as Will};
use crate::publish::refuse_unfinished;
use crate::seen::{Place, Seen};
use apr_sdk::{Error, ErrorKind, FileId, Limits, Result, escape, has_controls};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// One file of a model, open for reading.
pub struct ModelFile {
    /// The path as the user typed it, with what follows it.
    pub path: PathBuf,
    /// The path relative to the model's folder, with `/`.
    pub name: String,
    /// Length in bytes when it was opened; 0 for a folder.
    pub len: u64,
    /// Device and inode, to recognise an output that is an input.
    pub identity: (u64, u64),
    /// Last change, in nanoseconds since 1970.
    pub modified: i128,
    /// Last change of its status, in nanoseconds since 1970: nobody can put that time back.
    status: i128,
    /// The handle; `None` for a folder.
    handle: Option<File>,
}

impl ModelFile {
    fn open(path: &Path, name: String) -> Result<ModelFile> {
        let wrong = |e: std::io::Error| io_error(&e, "open").in_file(path.display().to_string());
        // Asked before it is opened: a pipe would wait there for its writer.
        let meta = std::fs::metadata(path).map_err(wrong)?;
        if !meta.is_file() && !meta.is_dir() {
            let error = Error::invalid_argument("this is neither a file nor a folder");
            return Err(error.in_file(path.display().to_string()));
        }
        let is_folder = meta.is_dir();
        let handle = File::open(path).map_err(wrong)?;
        let meta = handle.metadata().map_err(wrong)?;
        Ok(ModelFile {
            path: path.to_owned(),
            name,
            len: if is_folder { 0 } else { meta.len() },
            identity: (meta.dev(), meta.ino()),
            modified: modified(&meta),
            status: status(&meta),
            handle: (!is_folder).then_some(handle),
        })
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.handle.is_none()
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// Malformed past the end; Io if the machine failed or the file was cut since it was opened.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let want = out.len() as u64;
        let placed = |e: Error| e.at(offset).in_file(self.name.clone());
        let Some(handle) = &self.handle else {
            return Err(placed(Error::io("this is a folder, not a file")));
        };
        if offset.checked_add(want).is_none_or(|end| end > self.len) {
            let message = format!("{want} bytes are needed, the file has {} in all", self.len);
            return Err(
                placed(Error::malformed(message)).hint("get the file again: it is cut off or damaged")
            );
        }
        handle.read_exact_at(out, offset).map_err(|e| {
            placed(if e.kind() == std::io::ErrorKind::UnexpectedEof {
                Error::io("the file was cut while it was read").hint("leave the file alone until apr is done")
            } else {
                io_error(&e, "read")
            })
        })
    }

    /// Whether its path leads to another file, or to none, than when it was opened.
    fn replaced(&self) -> bool {
        let now = std::fs::metadata(&self.path).ok();
        now.is_none_or(|now| (now.dev(), now.ino()) != self.identity)
    }

    /// What of it is another than when it was opened.
    pub fn changed(&self) -> Change {
        match self.handle.as_ref().and_then(|handle| handle.metadata().ok()) {
            Some(now) if (now.len(), modified(&now)) != (self.len, self.modified) => Change::Contents,
            Some(now) if status(&now) != self.status => Change::Status(status(&now)),
            _ => Change::None,
        }
    }
}

/// What of a file is another than when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that can be seen.
    None,
    /// Only the time of its status, which is this now: its mode, its owner, its links, or its bytes with their time put back.
    Status(i128),
    /// Its length or its time of change.
    Contents,
}

fn status(meta: &Metadata) -> i128 {
    i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec())
}

fn modified(meta: &Metadata) -> i128 {
    i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec())
}

/// Lets this process open as many files as it may: the soft limit is often 1024, and there are models, and outputs, of
/// a thousand shards.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, the first file too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The files of one opened model, by number. Files are only added.
pub struct Files {
    /// The folder that siblings are confined to: as typed, and resolved.
    folder: PathBuf,
    resolved: Vec<PathBuf>,
    table: RwLock<Vec<Arc<ModelFile>>>,
    read: AtomicU64,
    /// What was read, where that is kept account of.
    seen: Option<Seen>,
    cancel: Arc<AtomicBool>,
    /// The folder as it will be, if that is what is opened.
    overlay: Option<Arc<Overlay>>,
}

impl Files {
    /// Opens file 0. `name` replaces the file's own name in metadata and messages (for staged outputs).
    ///
    /// # Errors
    /// NotFound; Io; also for a folder whose files are being exchanged, or were when apr was stopped.
    pub fn open(path: &Path, name: Option<&str>, cancel: Arc<AtomicBool>) -> Result<Files> {
        Files::open_in(path, name, cancel, None)
    }

    /// The same in a folder as it will be.
    ///
    /// # Errors
    /// As [`Files::open`].
    pub fn open_in(
        path: &Path,
        name: Option<&str>,
        cancel: Arc<AtomicBool>,
        overlay: Option<Arc<Overlay>>,
    ) -> Result<Files> {
        let own = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let own = name.map_or(own, str::to_owned);
        let mut file = match overlay.as_ref().map(|overlay| overlay.place_of(path)) {
            Some(Will::Staged(staged)) => {
                ModelFile { path: path.to_owned(), ..ModelFile::open(staged, own)? }
            }
            _ => ModelFile::open(path, own)?,
        };
        let folder = match path.parent() {
            _ if file.is_folder() => path.to_owned(),
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let resolved = folder
            .canonicalize()
            .map_err(|e| io_error(&e, "resolve").in_file(folder.display().to_string()))?;
        if file.is_folder() && name.is_none() {
            file.name = name_of_folder(&resolved, &file.name);
        }
        refuse_unfinished(&resolved, &folder.display().to_string())?;
        let blobs = blobs_of(&resolved);
        let resolved = [resolved].into_iter().chain(blobs).collect();
        let table = RwLock::new(vec![Arc::new(file)]);
        Ok(Files { folder, resolved, table, read: AtomicU64::new(0), seen: None, cancel, overlay })
    }

    /// Fails if a file that was opened is no longer the one under its name: then some may be of an old model and some of
    /// the new one that replaced it meanwhile.
    ///
    /// # Errors
    /// Io.
    pub fn refuse_replaced(&self) -> Result<()> {
        match self.all().iter().find(|file| self.overlay.is_none() && file.replaced()) {
            Some(file) => {
                let error = Error::io("the file was replaced while the model was opened");
                Err(error.in_file(file.name.clone()).hint("run it again"))
            }
            None => Ok(()),
        }
    }

    /// The file of this number.
    ///
    /// # Errors
    /// InvalidArgument for a number never given.
    pub fn get(&self, file: FileId) -> Result<Arc<ModelFile>> {
        let table = self.table.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = table.get(file as usize).cloned();
        found.ok_or_else(|| Error::invalid_argument(format!("no file has the number {file}")))
    }

    /// Every file that was opened, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<ModelFile>> {
        self.table.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// How many bytes were read through [`Files::read_at`].
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether the user wants the work to stop.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Keeps account of what is read from now on.
    pub fn witnessed(self) -> Files {
        Files { seen: Some(Seen::default()), ..self }
    }

    /// What was read so far, where that is kept account of.
    pub fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// Fills `out` from `offset` of `file`.
    ///
    /// # Errors
    /// As [`ModelFile::read_at`]; Cancelled.
    pub fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_payload(file, offset, out)?;
        if let Some(seen) = &self.seen {
            seen.see(Place::File(file), offset, out);
        }
        Ok(())
    }

    /// The same for whoever keeps account of it alone.
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

    /// Opens a further file by its path relative to the model's folder; the same path gives the same number.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for a path, or a link, that leaves the folder; LimitExceeded.
    pub fn sibling(&self, path: &str) -> Result<FileId> {
        let known = {
            let table = self.table.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            table.iter().position(|f| f.name == path && !f.is_folder())
        };
        if let Some(at) = known {
            return FileId::try_from(at).map_err(|_| Error::limit("too many files"));
        }
        let typed = self.confined(path)?;
        let mut file = ModelFile::open(&typed, path.to_owned()).map_err(|e| match e.kind() {
            // The name came from the model, not from the user.
            ErrorKind::InvalidArgument => Error::malformed(e.message()).in_file(path.to_owned()),
            _ => e.with_file(path.to_owned()),
        })?;
        file.path = self.folder.join(path);
        if file.is_folder() {
            return Err(Error::malformed(format!("`{}` is a folder, a file is wanted", escape(path, 200))));
        }
        let mut table = self.table.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if table.len() >= Limits::default().files as usize {
            return Err(Error::limit(format!("the model has more than {} files", Limits::default().files)));
        }
        table.push(Arc::new(file));
        FileId::try_from(table.len() - 1).map_err(|_| Error::limit("too many files"))
    }

    /// Where a path relative to the model's folder leads.
    fn confined(&self, path: &str) -> Result<PathBuf> {
        let shown = escape(path, 200);
        let inside = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
        if path.is_empty() || path.contains('\0') || !inside {
            let message = format!("the file name `{shown}` leaves the model's folder");
            return Err(Error::malformed(message)
                .hint("move the file into the model's folder: apr reads nothing outside it"));
        }
        if has_controls(path) {
            let message = format!("the file name `{shown}` has control characters");
            return Err(Error::malformed(message).hint("rename the file, and what names it"));
        }
        match self.overlay.as_ref().map(|overlay| overlay.place(path)) {
            Some(Will::Staged(staged)) => return Ok(staged.to_owned()),
            Some(Will::Gone) => {
                return Err(Error::not_found("no such file or folder").in_file(path.to_owned()));
            }
            Some(Will::There) | None => {}
        }
        let typed = self.folder.join(path);
        let resolved = typed.canonicalize().map_err(|e| named_error(&e).in_file(path.to_owned()))?;
        if !self.resolved.iter().any(|root| resolved.starts_with(root)) {
            let message = format!("`{shown}` is a link that leaves the model's folder");
            return Err(Error::malformed(message).hint("copy the file into the folder"));
        }
        Ok(typed)
    }

    /// The first bytes of a file of the model's folder, which does not become a file of the model by that.
    ///
    /// # Errors
    /// As [`Files::sibling`].
    pub fn peek(&self, path: &str, len: usize) -> Result<Vec<u8>> {
        let file = ModelFile::open(&self.confined(path)?, path.to_owned())?;
        let mut head = vec![0; usize::try_from(file.len).unwrap_or(usize::MAX).min(len)];
        file.read_at(0, &mut head)?;
        Ok(head)
    }

    /// The names in the model's folder, sorted; folders end in `/`.
    ///
    /// # Errors
    /// Io; LimitExceeded.
    pub fn entries(&self) -> Result<Vec<String>> {
        let there = list(&self.folder)?;
        match &self.overlay {
            Some(overlay) => Ok(overlay.entries("", there)),
            None => Ok(there),
        }
    }

    /// The same of a folder in it.
    ///
    /// # Errors
    /// As [`Files::sibling`] and [`Files::entries`].
    pub fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        let there = self.confined(folder).and_then(|path| list(&path));
        match &self.overlay {
            Some(overlay) if overlay.has_folder(folder) => {
                Ok(overlay.entries(folder, there.unwrap_or_default()))
            }
            Some(overlay) => Ok(overlay.entries(folder, there?)),
            None => there,
        }
    }

    /// Shows an error's file as the user typed it.
    pub fn show(&self, error: Error) -> Error {
        match error.file() {
            None => {
                let path = self.get(0).map(|f| f.path.display().to_string()).unwrap_or_default();
                error.in_file(path)
            }
            Some(name) => {
                let files = self.all();
                let path = files
                    .iter()
                    .find(|f| f.name == name)
                    .map_or_else(|| self.folder.join(name), |f| f.path.clone());
                let path = path.display().to_string();
                error.with_file(path)
            }
        }
    }
}

/// What a model's folder is called: as typed, but in a download cache (`models--ORG--NAME/snapshots/REVISION`) after the
/// model, and where no name was typed (`.`) after the folder that is meant.
fn name_of_folder(resolved: &Path, typed: &str) -> String {
    let own = resolved.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !typed.is_empty() && typed != own {
        return typed.to_owned();
    }
    let snapshots = resolved.parent().filter(|parent| parent.ends_with("snapshots"));
    let cache = snapshots.and_then(|snapshots| snapshots.parent()?.file_name()?.to_str());
    match cache.and_then(|cache| cache.strip_prefix("models--")) {
        Some(model) => model.replacen("--", "/", 1),
        None => own,
    }
}

/// The folder that links of a download cache lead to: `CACHE/blobs`, for the model in `CACHE/snapshots/NAME`. Both lie in
/// the same model's cache, which its files are confined to; a `blobs` that is a link itself does not count.
fn blobs_of(resolved: &Path) -> Option<PathBuf> {
    let snapshots = resolved.parent().filter(|parent| parent.ends_with("snapshots"))?;
    let blobs = snapshots.parent()?.join("blobs");
    blobs.canonicalize().is_ok_and(|real| real == blobs).then_some(blobs)
}

/// The most names of one folder. 2^20: none that is a model has as many, and a list of them stays below 100 MB.
const MOST_ENTRIES: usize = 1 << 20;

fn list(folder: &Path) -> Result<Vec<String>> {
    let wrong = |e: std::io::Error| io_error(&e, "list").in_file(folder.display().to_string());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if names.len() >= MOST_ENTRIES {
            let error = Error::limit(format!("the folder holds more than {MOST_ENTRIES} files"));
            return Err(error.in_file(folder.display().to_string()));
        }
        // A name that is not UTF-8 cannot be asked for by any format.
        let Ok(mut name) = entry.file_name().into_string() else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            name.push('/');
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// The error for a name that the model gave and that leads nowhere: a loop of links, a name that no file can have. That is
/// the model's fault, not the machine's.
fn named_error(error: &std::io::Error) -> Error {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        Some(Errno::LOOP) => Error::malformed("it is a link that leads in a circle"),
        Some(Errno::NAMETOOLONG) => {
            Error::malformed("its name, or that of the link's target, is too long for a file")
        }
        Some(Errno::NOTDIR | Errno::INVAL) => {
            Error::malformed(format!("no file can have this name: {error}"))
        }
        _ => io_error(error, "open"),
    }
}

/// An I/O error as ours: NotFound has its own exit code.
pub fn io_error(error: &std::io::Error, verb: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found("no such file or folder"),
        std::io::ErrorKind::StorageFull => {
            Error::io("the disk is full").hint("free some space, or write elsewhere")
        }
        std::io::ErrorKind::FileTooLarge => {
            Error::io(format!("cannot {verb}: a file may not become this large here"))
                .hint("raise the limit (`ulimit -f`), or write to a file system that takes larger files")
        }
        _ if error.raw_os_error().map(Errno::from_raw_os_error) == Some(Errno::MFILE) => {
            // The soft limit was raised to the hard one when the program began.
            let may = getrlimit(Resource::Nofile).current.map(|n| format!("{n} ")).unwrap_or_default();
            Error::io(format!("cannot {verb}: apr may have no more than {may}files open at once")).hint(
                "raise the hard limit (`ulimit -Hn`), which needs the administrator: apr uses all of it",
            )
        }
        _ => Error::io(format!("cannot {verb}: {error}")),
    }
}
