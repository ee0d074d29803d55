//! Where the host writes: a staged file or folder beside the output, published only when it is whole and verified.
//!
//! Names beside an output `NAME`, or inside it if it is a folder that exists: `.NAME.apr-part` (what is being written),
//! `.NAME.apr-lock` (one writer at a time), `.NAME.apr-journal` (what a later `--resume` may keep).

use crate::files::io_error;
use crate::layout::Layout;
use apr_sdk::{Error, ErrorKind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where an output goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file, or the folder the files go into; links resolved.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub folder: bool,
    /// The path as typed, for messages.
    typed: PathBuf,
    /// Where the hidden names are: beside a file or a new folder, inside a folder that exists. That may be a mount, to
    /// which nothing can be renamed from beside it, and what is beside it may belong to others.
    home: PathBuf,
    /// The name that the hidden ones are made of, where it is not that of `path`.
    name: Option<OsString>,
}

impl Target {
    /// The target at `path` as typed: an output that is a link means what it points to.
    ///
    /// # Errors
    /// NotFound if the folder it would lie in does not exist.
    pub fn new(path: &Path, folder: bool) -> Result<Target> {
        let typed = path.to_owned();
        if let Ok(path) = path.canonicalize() {
            let home =
                if folder && path.is_dir() { &path } else { path.parent().unwrap_or(&path) }.to_owned();
            return Ok(Target { path, folder, typed, home, name: None });
        }
        let path = &followed(path);
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let wrong = |e: std::io::Error| match io_error(&e, "resolve") {
            e if e.kind() == ErrorKind::NotFound => {
                Error::not_found("the output's folder does not exist").hint("make it first: mkdir -p")
            }
            e => e,
        };
        let parent = parent.canonicalize().map_err(|e| wrong(e).in_file(parent.display().to_string()))?;
        let name = path.file_name().ok_or_else(|| {
            Error::invalid_argument("the output has no file name").in_file(path.display().to_string())
        })?;
        Ok(Target { path: parent.join(name), folder, typed, home: parent, name: None })
    }

    /// A path of this output the way the user typed it.
    pub fn show(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.path) {
            Ok(inside) if inside.as_os_str().is_empty() => self.typed.clone(),
            Ok(inside) => self.typed.join(inside),
            Err(_) if path == self.parent() => self.typed_parent(),
            Err(_) => path.to_owned(),
        };
        let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { &shown };
        shown.display().to_string()
    }

    fn typed_parent(&self) -> PathBuf {
        self.typed.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// This file with others beside it: the same place, as the folder that they all go into.
    pub fn with_companions(&self) -> Target {
        Target {
            path: self.parent().to_owned(),
            folder: true,
            typed: self.typed_parent(),
            home: self.parent().to_owned(),
            name: self.path.file_name().map(ToOwned::to_owned),
        }
    }

    /// The folder that holds the target.
    pub fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The hidden name of this target that ends in `suffix`.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        let name = self.name.as_deref().or(self.path.file_name()).unwrap_or_default().to_string_lossy();
        // File systems take 255 bytes; a long name is cut, the lock file tells two such outputs apart.
        let cut = (0..=name.len().min(200)).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
        self.home.join(format!(".{}{suffix}", &name[..cut]))
    }

    /// The final paths of a layout's files.
    pub fn finals(&self, layout: &Layout) -> Vec<PathBuf> {
        if self.folder {
            layout.files.iter().map(|f| self.path.join(&f.name)).collect()
        } else {
            vec![self.path.clone()]
        }
    }
}

/// Where a link to nothing yet points: the output is made there. The count is that of the kernel's own patience.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    path
}

/// One file being written.
pub struct StagedFile {
    /// The handle; reads and writes at positions.
    pub handle: File,
    /// Where it is now.
    pub path: PathBuf,
    /// Where it will be.
    pub published: PathBuf,
    /// The same as the user typed it.
    pub shown: String,
    /// Whether something was written since the last [`StagedFile::sync_data`].
    dirty: AtomicBool,
}

impl StagedFile {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.handle.write_all_at(bytes, offset);
        self.dirty.store(true, Ordering::Release);
        written.map_err(|e| self.wrong(&e, "write").at(offset))
    }

    /// Makes what was written durable. Costs nothing for a file that nothing was written to: of a thousand shards, one
    /// or two are being written at a time.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn sync_data(&self) -> Result<()> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.handle.sync_data().map_err(|e| {
            self.dirty.store(true, Ordering::Release);
            self.wrong(&e, "write")
        })
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.handle.read_exact_at(out, offset).map_err(|e| self.wrong(&e, "read back").at(offset))
    }

    fn wrong(&self, error: &std::io::Error, verb: &str) -> Error {
        io_error(error, verb).in_file(self.shown.clone())
    }
}

/// An output being written. Dropped without [`Staging::publish`] or [`Staging::keep`], it leaves nothing behind.
pub struct Staging {
    target: Target,
    stage: PathBuf,
    entry: usize,
    /// The files, in the layout's order.
    pub files: Vec<StagedFile>,
    done: bool,
    // Last: the lock is let go only after everything else is cleaned up.
    _lock: Lock,
}

impl Staging {
    /// Takes the lock and makes the staged files, with their full length.
    ///
    /// # Errors
    /// Io if the output exists and `force` is not set, another writer holds the lock, the folder cannot be written or
    /// the disk is too small for the layout; InvalidArgument if the output is one of `inputs` (device
    /// and inode) or no regular file.
    pub fn create(
        target: Target,
        layout: &Layout,
        inputs: &[(u64, u64)],
        force: bool,
        resume: bool,
    ) -> Result<Staging> {
        let finals = target.finals(layout);
        refuse_inputs(&target, &finals, inputs)?;
        finals.iter().try_for_each(|path| refuse_irreplaceable(&target, path))?;
        if !force {
            finals.iter().try_for_each(|path| refuse_existing(&target, path))?;
        }
        let lock = Lock::take(&target)?;
        let stage = target.beside(".apr-part");
        if !resume {
            remove(&stage);
            remove(&target.beside(".apr-journal"));
        }
        if !(resume && stage.exists()) {
            enough_space(&target, layout.total())?;
        }
        // What there is to resume is not lost because it cannot be opened now.
        let mut staging =
            Staging { stage, entry: layout.entry, files: Vec::new(), done: resume, _lock: lock, target };
        staging.open_files(layout, &finals, resume)?;
        staging.done = false;
        Ok(staging)
    }

    fn open_files(&mut self, layout: &Layout, finals: &[PathBuf], resume: bool) -> Result<()> {
        if self.target.folder {
            self.make_folder(&self.stage)?;
        }
        for (file, published) in layout.files.iter().zip(finals) {
            let path = if self.target.folder { self.stage.join(&file.name) } else { self.stage.clone() };
            if let Some(parent) = path.parent().filter(|_| file.name.contains('/')) {
                self.make_folder(parent)?;
            }
            let mut options = OpenOptions::new();
            // A fresh file is ours alone: not what someone's link of this name points to.
            options.read(true).write(true).create(resume).create_new(!resume);
            let handle = options.open(&path).map_err(|e| self.wrong(&e))?;
            handle.set_len(file.len).map_err(|e| self.wrong(&e))?;
            let shown = self.target.show(published);
            let (published, dirty) = (published.clone(), AtomicBool::new(false));
            self.files.push(StagedFile { handle, path, published, shown, dirty });
        }
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path).map_err(|e| self.wrong(&e))
    }

    fn wrong(&self, error: &std::io::Error) -> Error {
        io_error(error, "write").in_file(self.target.show(&self.target.path))
    }

    /// A file of `len` bytes beside the output that loses its name at once, so that nothing is left of it.
    ///
    /// # Errors
    /// Io, also if the disk is too small for it.
    pub fn spool(&self, len: u64) -> Result<StagedFile> {
        enough_space(&self.target, len)?;
        let path = self.target.beside(".apr-spool");
        remove(&path);
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let handle = opened.map_err(|e| self.wrong(&e))?;
        remove(&path);
        handle.set_len(len).map_err(|e| self.wrong(&e))?;
        let shown = self.target.show(&path);
        Ok(StagedFile { handle, published: path.clone(), path, shown, dirty: AtomicBool::new(false) })
    }

    /// Leaves staging and journal for a later `--resume`.
    pub fn keep(mut self) {
        self.done = true;
    }

    /// Makes everything durable and gives it its final name. A reader never sees a mixed model.
    ///
    /// # Errors
    /// Io; also if something appeared under the final name meanwhile and `force` is not set.
    pub fn publish(mut self, force: bool) -> Result<Vec<PathBuf>> {
        for file in &self.files {
            file.handle.sync_all().map_err(|e| self.wrong(&e))?;
        }
        let finals: Vec<_> = self.files.iter().map(|f| f.published.clone()).collect();
        if !self.target.folder {
            self.rename(&self.stage, &self.target.path, force)?;
            sync_folder(self.target.parent())?;
        } else if self.target.path.is_dir() {
            self.publish_into_folder(force)?;
        } else {
            sync_folders(&self.stage, self.files.iter().map(|f| f.path.as_path()))?;
            self.rename(&self.stage, &self.target.path, false)?;
            sync_folder(self.target.parent())?;
        }
        self.done = true;
        remove(&self.target.beside(".apr-journal"));
        Ok(finals)
    }

    /// File by file: the old entry goes first and the new one comes last, so that no one opens half of each.
    fn publish_into_folder(&self, force: bool) -> Result<()> {
        let entry = &self.files[self.entry];
        if force && entry.published.exists() {
            std::fs::remove_file(&entry.published).map_err(|e| self.wrong(&e))?;
            sync_folder(&self.target.path)?;
        }
        let others = self.files.iter().enumerate().filter(|(n, _)| *n != self.entry).map(|(_, file)| file);
        let mut moved: Vec<&Path> = Vec::new();
        for file in others.chain([entry]) {
            if moved.len() + 1 == self.files.len() {
                // The entry is not to outlive a crash that its parts do not.
                sync_folders(&self.target.path, moved.iter().copied())?;
            }
            let parent = file.published.parent().map_or(Ok(()), |parent| self.make_folder(parent));
            let now = parent.and_then(|()| self.rename(&file.path, &file.published, force));
            if let Err(error) = now {
                // Without force nothing was replaced: what was put there is taken away again.
                moved.iter().filter(|_| !force).for_each(|path| remove(path));
                return Err(error);
            }
            moved.push(&file.published);
        }
        sync_folders(&self.target.path, moved.iter().copied())?;
        remove(&self.stage);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, force: bool) -> Result<()> {
        if force {
            return std::fs::rename(from, to).map_err(|e| self.wrong(&e));
        }
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => refuse_existing(&self.target, to),
            // A file system without this flag: the check and the rename are two steps there.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                refuse_existing(&self.target, to)?;
                std::fs::rename(from, to).map_err(|e| self.wrong(&e))
            }
            Err(errno) => Err(self.wrong(&errno.into())),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.done {
            remove(&self.stage);
            remove(&self.target.beside(".apr-journal"));
        }
    }
}

/// Holds the lock file of an output.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(target: &Target) -> Result<Lock> {
        let path = target.beside(".apr-lock");
        let folder = target.show(&target.home);
        loop {
            let file =
                OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(|e| {
                    let error = io_error(&e, "write in this folder").in_file(folder.clone());
                    error.hint("nothing was written: choose a folder you may write in")
                })?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let error =
                        Error::io("another apr is writing this output").in_file(target.show(&target.path));
                    return Err(error.hint("wait for it, or choose another name"));
                }
                Err(TryLockError::Error(e)) => {
                    return Err(io_error(&e, "lock").in_file(path.display().to_string()));
                }
            }
            // The holder before us may have removed the file between our open and our lock.
            let ours = file.metadata().map(|m| m.ino()).ok();
            if ours.is_some() && std::fs::metadata(&path).map(|m| m.ino()).ok() == ours {
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is held, so that no one else's lock is taken away.
        remove(&self.path);
    }
}

fn refuse_inputs(target: &Target, finals: &[PathBuf], inputs: &[(u64, u64)]) -> Result<()> {
    for path in finals {
        let Ok(meta) = std::fs::metadata(path) else { continue };
        if inputs.contains(&(meta.dev(), meta.ino())) {
            let error = Error::invalid_argument("the output is one of the inputs").in_file(target.show(path));
            return Err(error.hint("give the output another name; the input was not touched"));
        }
    }
    Ok(())
}

/// What even `--force` does not replace: a folder where a file is to be, a device, a pipe.
fn refuse_irreplaceable(target: &Target, path: &Path) -> Result<()> {
    let what = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => "a folder of this name exists",
        Ok(meta) if !meta.is_file() => "this is a device or a pipe, not a file",
        _ => return Ok(()),
    };
    let error = Error::invalid_argument(format!("{what}, nothing was written")).in_file(target.show(path));
    Err(error.hint("choose another name"))
}

fn refuse_existing(target: &Target, path: &Path) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let what = if meta.is_dir() {
        "a folder of this name exists".to_owned()
    } else {
        format!("it exists ({} bytes)", meta.len())
    };
    let error = Error::io(format!("{what}, nothing was written")).code("E007").in_file(target.show(path));
    Err(error.hint("choose another name, or --force to replace it once the new file is complete"))
}

fn enough_space(target: &Target, need: u64) -> Result<()> {
    let Ok(space) = rustix::fs::statvfs(&target.home) else { return Ok(()) };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    // Some file systems do not know their size.
    if space.f_blocks == 0 || need <= free {
        return Ok(());
    }
    let error = Error::io(format!("the output needs {need} bytes, {free} are free"));
    let hint = format!("free {} bytes or write elsewhere; nothing was written", need - free);
    Err(error.in_file(target.show(&target.home)).hint(hint))
}

/// Makes the names of files durable: their folders, up to `base`, the innermost first.
fn sync_folders<'a>(base: &Path, files: impl Iterator<Item = &'a Path>) -> Result<()> {
    let mut folders: BTreeSet<&Path> = BTreeSet::from([base]);
    for file in files {
        folders.extend(file.ancestors().skip(1).take_while(|folder| folder.starts_with(base)));
    }
    folders.into_iter().rev().try_for_each(sync_folder)
}

fn sync_folder(path: &Path) -> Result<()> {
    let sync = File::open(path).and_then(|folder| folder.sync_all());
    sync.map_err(|e| io_error(&e, "make durable").in_file(path.display().to_string()))
}

/// Removes a file or folder of ours, if it is there.
fn remove(path: &Path) {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => drop(std::fs::remove_dir_all(path)),
        Ok(_) => drop(std::fs::remove_file(path)),
        Err(_) => {}
    }
}
