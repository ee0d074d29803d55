//! The place where the host writes: a staged file or folder beside the output, published only once it is complete and verified.
//!
//! Names beside an output `NAME`, or inside it if it is an existing folder: `.NAME.apr-part` (what is being
//! written), `.NAME.apr-lock` (one writer at a time), `.NAME.apr-journal` (what a later `--resume` may keep).
//! Publishing adds more: see [`crate::storage::publication`].

use super::error::io_error;
use super::lock::Lock;
use super::publish;
use super::publish::folder::Folder;
use super::publish::record::is_plain;
use super::publish::steps::{Step, Steps};
use super::staged_file::{StagedFile, permissions_of, scratch_file};
use super::target::{Target, remove};
use crate::storage::overwrite::{self, Inputs, Outputs, refuse_existing, refuse_removing};
use apr_engine::layout::{Layout, OutputFile};
use apr_engine::place::Backing;
use apr_engine::tiles::TileSink;
use apr_sdk::{Error, Result, escape};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An output that is being written. If dropped without [`Staging::publish`] or [`Staging::keep`], it leaves
/// nothing behind.
pub struct Staging {
    pub(crate) target: Target,
    pub(crate) stage: PathBuf,
    /// Indices of the files that a model is opened by, outermost first.
    pub(crate) entries: Vec<usize>,
    /// The files, in layout order.
    pub files: Vec<Arc<StagedFile>>,
    /// The fewest bytes that each of them can have.
    least: Vec<u64>,
    /// A warning of a disk that may be too small.
    pub warning: Option<String>,
    /// True if staged files remain when this is dropped.
    pub(crate) done: bool,
    pub(crate) steps: Arc<dyn Steps>,
    // Last field: the lock is released only after everything else is cleaned up.
    _lock: Lock,
    _counted: Counted,
}

/// Counts an output that is being written.
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

/// The files to stage, and the state of the program that stages them.
pub struct Wanted<'a> {
    /// The files with their lengths.
    pub layout: &'a Layout,
    /// Bytes that they, and what is spooled beside them, take up.
    pub need: Need,
    /// Files that are read, which no output may replace.
    pub inputs: &'a Inputs,
    /// True to replace an existing output.
    pub force: bool,
    /// True to keep the staged files of an interrupted run.
    pub resume: bool,
    /// Notified before a name on disk changes.
    pub steps: &'a Arc<dyn Steps>,
    /// The number of outputs being written.
    pub outputs: &'a Arc<AtomicUsize>,
}

impl Staging {
    /// Takes the lock and creates the staged files with their full length, or that before their first encoded payload.
    ///
    /// # Errors
    /// Io if the output exists without `force`, another writer holds the lock, the folder is not writable or
    /// the disk is too small for what the layout takes up at least; InvalidArgument if the output is one of `inputs` or not a regular file; Unsupported for a file with one of our hidden names.
    pub fn create(target: Target, wanted: Wanted<'_>) -> Result<Staging> {
        let Wanted { layout, need, inputs, force, resume, steps, outputs } = wanted;
        let finals = target.finals(layout);
        refuse_own_names(&target, layout)?;
        let counted = Counted::new(outputs);
        let lock = Lock::take(&target)?;
        // The previous holder of the lock may have been interrupted between two files.
        publish::finish(target.home(), &target.show(target.home()), steps)?;
        overwrite::check(
            &Outputs {
                paths: &finals,
                show: &|path| target.show(path),
                noun: "output",
                force,
                takes_devices: false,
            },
            inputs,
        )?;
        let stale = [".apr-part", ".apr-journal", ".apr-old", ".apr-record"].map(|name| target.beside(name));
        stale.iter().try_for_each(|path| refuse_removing(path, &target.show(path), inputs))?;
        let stage = target.beside(".apr-part");
        if !resume {
            stale.iter().for_each(|path| remove(path));
        }
        let mut warning = None;
        if !(resume && stage.exists()) {
            warning = need.check(&target)?;
        }
        // An interrupted run's files are not lost just because they cannot be opened now.
        let mut staging = Staging {
            stage,
            entries: layout.entries.clone(),
            files: Vec::new(),
            least: layout.files.iter().map(OutputFile::least_len).collect(),
            warning,
            done: resume,
            steps: Arc::clone(steps),
            _lock: lock,
            _counted: counted,
            target,
        };
        staging.open_files(layout, &finals, resume)?;
        staging.done = false;
        Ok(staging)
    }

    fn open_files(&mut self, layout: &Layout, finals: &[PathBuf], resume: bool) -> Result<()> {
        // Opened within the folder and never through a link: do not write to what someone put under our
        // names.
        let home = self.target.home().to_owned();
        let home = Folder::open(&home, &self.target.show(&home), Arc::clone(&self.steps))?;
        let stage = self.target.hidden(".apr-part");
        for (file, published) in layout.files.iter().zip(finals) {
            let inner = if self.target.folder { format!("{stage}/{}", file.name) } else { stage.clone() };
            let shown = self.target.show(published);
            // Never accessible to more people than the file it replaces; writable for us in any case.
            let mode = permissions_of(published).map_or(0o666, |mode| mode | 0o600);
            let handle = home.staged(&inner, mode, resume).map_err(|e| e.with_file(shown.clone()))?;
            // Encoded payload makes the file as long as it turns out to be, and an earlier run's is kept.
            let there = handle.metadata().map_or(0, |meta| meta.len());
            let len = if file.floats_from.is_some() { file.fixed_len().max(there) } else { file.len };
            handle.set_len(len).map_err(|e| self.wrong(&e))?;
            let path = self.target.home().join(&inner);
            self.files.push(Arc::new(StagedFile::new(handle, path, published.clone(), shown)));
        }
        Ok(())
    }

    fn file(&self, file: usize) -> Result<&Arc<StagedFile>> {
        self.files.get(file).ok_or_else(|| Error::io(format!("the output has no file {file}")))
    }

    pub(crate) fn make_folder(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path).map_err(|e| self.wrong(&e))
    }

    fn wrong(&self, error: &std::io::Error) -> Error {
        io_error(error, "write").in_file(self.target.show(&self.target.path))
    }

    /// Returns whether staged files remain or are published.
    pub fn is_kept(&self) -> bool {
        self.done
    }

    /// Leaves staged files and journal for a later `--resume`.
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
            Err(rustix::io::Errno::EXIST) => refuse_existing(to, &self.target.show(to)),
            // On a file system without this flag, check and rename are separate steps.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                refuse_existing(to, &self.target.show(to))?;
                std::fs::rename(from, to).map_err(|e| self.wrong(&e))
            }
            Err(errno) => Err(self.wrong(&errno.into())),
        }
    }
}

impl TileSink for Staging {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file(file)?.write_at(offset, bytes)
    }

    fn set_len(&self, file: usize, len: u64) -> Result<()> {
        self.file(file)?.set_len(len)
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        Ok(Arc::clone(self.file(file)?) as Arc<dyn Backing>)
    }

    fn show(&self, file: usize) -> String {
        self.files.get(file).map(|file| file.shown.clone()).unwrap_or_default()
    }

    /// Creates a file beside the output and unlinks it at once, so that nothing is left of it.
    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        // The output itself will need what is not allocated for it yet.
        let rest = self.files.iter().zip(&self.least);
        let rest = rest.map(|(file, least)| least.saturating_sub(file.allocated().unwrap_or(*least)));
        Need::exactly(rest.fold(len, u64::saturating_add)).check(&self.target)?;
        let path = self.target.beside(".apr-spool");
        let shown = self.target.show(&path);
        scratch_file(path, shown, len)
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

/// Refuses files with names that apr uses itself: a model may bring files with any name.
fn refuse_own_names(target: &Target, layout: &Layout) -> Result<()> {
    match layout.files.iter().find(|file| target.folder && !is_plain(&file.name)) {
        Some(file) => {
            let name = escape(&file.name, 120);
            let message = format!("the output would have a file `{name}`, a name reserved for apr");
            Err(Error::unsupported(message).in_file(target.show(&target.path)))
        }
        None => Ok(()),
    }
}

/// Bytes that must be free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The fewest.
    pub least: u64,
    /// The most, which is more if payload is encoded.
    pub most: u64,
}

impl Need {
    /// So many bytes.
    pub fn exactly(bytes: u64) -> Need {
        Need { least: bytes, most: bytes }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Need) -> Need {
        Need { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    /// Refuses a disk that is certainly too small, and returns a warning of one that may be.
    fn check(self, target: &Target) -> Result<Option<String>> {
        let Ok(space) = rustix::fs::statvfs(target.home()) else { return Ok(None) };
        let Need { least, most } = self;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let home = target.show(target.home());
        // Some file systems do not know their size.
        if space.f_blocks == 0 || most <= free {
            return Ok(None);
        }
        if least <= free {
            return Ok(Some(format!(
                "the output may need up to {most} bytes, but only {free} are free in {}: if they run out, \
                 the work stops with an error",
                escape(&home, 200)
            )));
        }
        let at_least = if least == most { "" } else { "at least " };
        let error = Error::io(format!("the output needs {at_least}{least} bytes, but only {free} are free"));
        let hint = format!("free {} bytes, or write elsewhere; nothing was written", least - free);
        Err(error.in_file(home).hint(hint))
    }
}
