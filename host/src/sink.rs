//! Where the host writes: a staged file or folder beside the output, published only when it is whole and verified.
//!
//! Names beside an output `NAME`, or inside it if it is a folder that exists: `.NAME.apr-part` (what is being written),
//! `.NAME.apr-lock` (one writer at a time), `.NAME.apr-journal` (what a later `--resume` may keep). What publishing adds to
//! them is in [`crate::publish`].

use crate::files::io_error;
use crate::host::Host;
use crate::layout::{Layout, OutputFile};
use crate::publish;
use crate::publish::folder::Folder;
use crate::publish::record::is_plain;
use crate::publish::steps::{Step, Steps};
use apr_sdk::{Error, ErrorKind, Result, escape};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
                Error::not_found("the output's folder does not exist").hint("create it first: mkdir -p")
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

    /// The folder that the hidden names lie in.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Whether files are put into a folder that exists, one by one.
    pub fn is_within(&self) -> bool {
        self.folder && self.home == self.path
    }

    /// The path of this target's hidden name that ends in `suffix`.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        self.home.join(self.hidden(suffix))
    }

    /// The hidden name of this target that ends in `suffix`.
    pub fn hidden(&self, suffix: &str) -> String {
        let name = self.name.as_deref().or(self.path.file_name()).unwrap_or_default().to_string_lossy();
        // File systems take 255 bytes; a long name is cut, the lock file tells two such outputs apart.
        let cut = (0..=name.len().min(200)).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
        format!(".{}{suffix}", &name[..cut])
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

/// A file that has no name.
#[cfg(target_os = "linux")]
fn in_memory() -> std::io::Result<File> {
    let made = rustix::fs::memfd_create("apr", rustix::fs::MemfdFlags::CLOEXEC);
    Ok(File::from(made?))
}

#[cfg(not(target_os = "linux"))]
fn in_memory() -> std::io::Result<File> {
    Err(std::io::ErrorKind::Unsupported.into())
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
    /// The files of a layout as they would be staged, in memory and without payload: none of them is on a disk.
    ///
    /// # Errors
    /// Io where the system has no such files.
    pub fn in_memory(target: &Target, layout: &Layout) -> Result<Vec<StagedFile>> {
        let wrong = |e: std::io::Error| io_error(&e, "plan").in_file(target.show(&target.path));
        let made = |(file, published): (&OutputFile, PathBuf)| {
            let handle =
                in_memory().and_then(|handle| handle.set_len(file.len).map(|()| handle)).map_err(wrong)?;
            let path = format!("/proc/self/fd/{}", handle.as_raw_fd()).into();
            let shown = target.show(&published);
            Ok(StagedFile { handle, path, published, shown, dirty: AtomicBool::new(false) })
        };
        layout.files.iter().zip(target.finals(layout)).map(made).collect()
    }

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

    /// Makes all of it durable, its length too.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn sync_all(&self, steps: &dyn Steps) -> Result<()> {
        let synced = steps.before(Step::Sync, &self.path).and_then(|()| self.handle.sync_all());
        synced.map_err(|e| self.wrong(&e, "write"))
    }

    /// Gives it the permissions of the file that it replaces, if there is one.
    ///
    /// # Errors
    /// Io, with the final path.
    pub fn keep_permissions(&self) -> Result<()> {
        let Some(mode) = permissions_of(&self.published) else { return Ok(()) };
        let kept = self.handle.metadata().and_then(|meta| {
            // A file system without permissions says the same of all files, and refuses to set them.
            if meta.mode() & 0o777 == mode {
                return Ok(());
            }
            self.handle.set_permissions(std::fs::Permissions::from_mode(mode))
        });
        kept.map_err(|e| self.wrong(&e, "keep the permissions"))
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
    pub(crate) target: Target,
    pub(crate) stage: PathBuf,
    /// The numbers of the files that a model is opened by, the outermost first.
    pub(crate) entries: Vec<usize>,
    /// The files, in the layout's order.
    pub files: Vec<StagedFile>,
    /// Whether what is staged is to stay when this is dropped.
    pub(crate) done: bool,
    pub(crate) steps: Arc<dyn Steps>,
    // Last: the lock is let go only after everything else is cleaned up.
    _lock: Lock,
    _counted: Counted,
}

/// One of the outputs that are being written.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(outputs: &Arc<AtomicUsize>) -> Counted {
        outputs.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(outputs))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Staging {
    /// Takes the lock and makes the staged files, with their full length.
    ///
    /// # Errors
    /// Io if the output exists and `force` is not set, another writer holds the lock, the folder cannot be written or
    /// the disk is too small for the layout; InvalidArgument if the output is one of `inputs` (device
    /// and inode) or no regular file; Unsupported for a file with one of our own hidden names.
    pub fn create(
        host: &Host,
        target: Target,
        layout: &Layout,
        inputs: &[(u64, u64)],
        force: bool,
        resume: bool,
    ) -> Result<Staging> {
        let finals = target.finals(layout);
        refuse_own_names(&target, layout)?;
        let counted = Counted::new(&host.outputs);
        let lock = Lock::take(&target)?;
        // Whoever held the lock before us may have been stopped between two files.
        publish::finish(target.home(), &target.show(target.home()), &host.steps)?;
        refuse_inputs(&target, &finals, inputs)?;
        finals.iter().try_for_each(|path| refuse_irreplaceable(&target, path))?;
        if !force {
            finals.iter().try_for_each(|path| refuse_existing(&target, path))?;
        }
        let stage = target.beside(".apr-part");
        if !resume {
            for stale in [".apr-part", ".apr-journal", ".apr-old", ".apr-record"] {
                remove(&target.beside(stale));
            }
        }
        if !(resume && stage.exists()) {
            enough_space(&target, layout.total())?;
        }
        let (entries, steps) = (layout.entries.clone(), Arc::clone(&host.steps));
        // What there is to resume is not lost because it cannot be opened now.
        let mut staging = Staging {
            stage,
            entries,
            files: Vec::new(),
            done: resume,
            steps,
            _lock: lock,
            _counted: counted,
            target,
        };
        staging.open_files(layout, &finals, resume)?;
        staging.done = false;
        Ok(staging)
    }

    fn open_files(&mut self, layout: &Layout, finals: &[PathBuf], resume: bool) -> Result<()> {
        // Opened within the folder and never through a link: what someone put under our names is not written to.
        let home = self.target.home().to_owned();
        let home = Folder::open(&home, &self.target.show(&home), Arc::clone(&self.steps))?;
        let stage = self.target.hidden(".apr-part");
        for (file, published) in layout.files.iter().zip(finals) {
            let inner = if self.target.folder { format!("{stage}/{}", file.name) } else { stage.clone() };
            let shown = self.target.show(published);
            // Never open to more people than what it replaces; we write it ourselves, whatever that allows.
            let mode = permissions_of(published).map_or(0o666, |mode| mode | 0o600);
            let handle = home.staged(&inner, mode, resume).map_err(|e| e.with_file(shown.clone()))?;
            handle.set_len(file.len).map_err(|e| self.wrong(&e))?;
            let path = self.target.home().join(&inner);
            let (published, dirty) = (published.clone(), AtomicBool::new(false));
            self.files.push(StagedFile { handle, path, published, shown, dirty });
        }
        Ok(())
    }

    pub(crate) fn make_folder(&self, path: &Path) -> Result<()> {
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

    /// Whether what is staged stays, or is published.
    pub fn is_kept(&self) -> bool {
        self.done
    }

    /// Leaves staging and journal for a later `--resume`.
    pub fn keep(mut self) {
        self.done = true;
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path, force: bool) -> Result<()> {
        self.steps.before(Step::Rename, to).map_err(|e| self.wrong(&e))?;
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
        Lock::at(path, &target.show(&target.home), &target.show(&target.path))
    }

    /// The lock file at `path`, which lies in `folder` and is that of `output`, in words.
    fn at(path: PathBuf, folder: &str, output: &str) -> Result<Lock> {
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            // A link of this name leads to a file of someone else's choice; a pipe waits for its reader.
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
            let irregular = || {
                let error = Error::io("this is not a regular file, and apr's lock file has this name");
                error.in_file(path.display().to_string()).hint("remove it, or write elsewhere")
            };
            let file = options.open(&path).map_err(|e| {
                if std::fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
                    return irregular();
                }
                let error = io_error(&e, "write in this folder").in_file(folder);
                error.hint("choose a folder you may write in; nothing was written")
            })?;
            if !file.metadata().is_ok_and(|meta| meta.is_file()) {
                return Err(irregular());
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let error = Error::io("another apr is writing this output").in_file(output);
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

/// Removes a lock file that nobody holds any more.
pub(crate) fn sweep_lock(path: &Path) {
    if path.symlink_metadata().is_ok() {
        drop(Lock::at(path.to_owned(), "", ""));
    }
}

/// A model may bring files with any name; those that apr makes itself are not among an output's.
fn refuse_own_names(target: &Target, layout: &Layout) -> Result<()> {
    match layout.files.iter().find(|file| target.folder && !is_plain(&file.name)) {
        Some(file) => {
            let name = escape(&file.name, 120);
            let message = format!("the output would have a file `{name}`, a name that apr uses itself");
            Err(Error::unsupported(message).in_file(target.show(&target.path)))
        }
        None => Ok(()),
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

/// The permission bits of the file at `path`, if there is one.
fn permissions_of(path: &Path) -> Option<u32> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    meta.is_file().then(|| meta.mode() & 0o777)
}

pub(crate) fn refuse_existing(target: &Target, path: &Path) -> Result<()> {
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

/// Removes a file or folder of ours, if it is there.
pub(crate) fn remove(path: &Path) {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => drop(std::fs::remove_dir_all(path)),
        Ok(_) => drop(std::fs::remove_file(path)),
        Err(_) => {}
    }
}
