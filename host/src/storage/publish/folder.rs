//! A folder whose files are moved and removed by relative paths. No path leaves it: each component is opened
//! from the one before, and a link on the way is an error.

use crate::storage::error::{io_error, path_error};
use crate::storage::publish::steps::{Step, Steps};
use apr_sdk::{Error, ErrorKind, Result};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, mkdirat, open, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags for opening folders on the way to a file.
const INSIDE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder.
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    shown: PathBuf,
    steps: Arc<dyn Steps>,
}

impl Folder {
    /// Opens the folder at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// NotFound; Io.
    pub fn open(path: &Path, shown: &str, steps: Arc<dyn Steps>) -> Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty())
            .map_err(|e| io_error(&e.into(), "open this folder").in_file(shown.to_owned()))?;
        Ok(Folder { handle, path: path.to_owned(), shown: PathBuf::from(shown), steps })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the folder, for messages.
    pub fn show(&self, relative: &str) -> String {
        self.shown.join(relative).display().to_string()
    }

    fn wrong(&self, errno: Errno, verb: &str, relative: &str) -> Error {
        let error = match errno {
            Errno::LOOP | Errno::NOTDIR => {
                Error::io(format!("cannot {verb}: part of its path is a link, or not a folder"))
            }
            Errno::XDEV => Error::io(format!("cannot {verb}: its folder is on another file system")),
            _ => io_error(&errno.into(), verb),
        };
        error.in_file(self.show(relative))
    }

    fn announce(&self, step: Step, verb: &str, relative: &str) -> Result<()> {
        let heard = self.steps.before(step, &self.path.join(relative));
        heard.map_err(|e| io_error(&e, verb).in_file(self.show(relative)))
    }

    /// The folder that contains a path's last component, and that component.
    fn inside<'p>(
        &self,
        relative: &'p str,
        make: bool,
    ) -> std::result::Result<(Option<OwnedFd>, &'p str), Errno> {
        let Some((folders, name)) = relative.rsplit_once('/') else { return Ok((None, relative)) };
        let mut at: Option<OwnedFd> = None;
        for folder in folders.split('/') {
            let above = at.as_ref().unwrap_or(&self.handle);
            if make {
                match mkdirat(above, folder, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
            }
            at = Some(openat(above, folder, INSIDE, Mode::empty())?);
        }
        Ok((at, name))
    }

    /// The status of a path, without following a link; `None` if there is nothing.
    ///
    /// # Errors
    /// Io; also if a folder on the way is a link.
    pub fn stat(&self, relative: &str) -> Result<Option<Stat>> {
        let stat = self.inside(relative, false).and_then(|(at, name)| {
            statat(at.as_ref().unwrap_or(&self.handle), name, AtFlags::SYMLINK_NOFOLLOW)
        });
        match stat {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.wrong(errno, "look at it", relative)),
        }
    }

    /// Opens a file for reading; does not follow links or wait for pipes.
    ///
    /// # Errors
    /// NotFound; Io, also for anything but a file.
    pub fn file(&self, relative: &str) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = self
            .inside(relative, false)
            .and_then(|(at, name)| openat(at.as_ref().unwrap_or(&self.handle), name, flags, Mode::empty()));
        let file: File = opened.map_err(|errno| self.wrong(errno, "open it", relative))?.into();
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(Error::io("this is not a file").in_file(self.show(relative)));
        }
        Ok(file)
    }

    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// Io.
    pub fn create(&self, name: &str) -> Result<File> {
        self.announce(Step::Create, "write", name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::from_raw_mode(0o666));
        file.map(File::from).map_err(|errno| self.wrong(errno, "write", name))
    }

    /// Opens a file for writing: a new one, or with `again` the existing one; creates the folders on the way.
    /// A new file gets the permissions `mode`, minus the umask.
    ///
    /// # Errors
    /// Io; also for a link, for anything but a file, and for a file with several links.
    pub fn staged(&self, relative: &str, mode: u32, again: bool) -> Result<File> {
        self.announce(Step::Create, "write", relative)?;
        let how = if again { OFlags::empty() } else { OFlags::EXCL };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
        let opened = self.inside(relative, true).and_then(|(at, name)| {
            openat(at.as_ref().unwrap_or(&self.handle), name, flags, Mode::from_raw_mode(mode))
        });
        let file: File = opened.map_err(|errno| self.wrong(errno, "write", relative))?.into();
        if !file.metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1) {
            return Err(Error::io("cannot write: the file with the temporary name was not created by apr"));
        }
        Ok(file)
    }

    /// Makes a file's data durable.
    ///
    /// # Errors
    /// Io.
    pub fn sync_file(&self, file: &File, name: &str) -> Result<()> {
        self.announce(Step::Sync, "write", name)?;
        file.sync_all().map_err(|e| io_error(&e, "write").in_file(self.show(name)))
    }

    /// The status of the folder itself.
    pub fn own_stat(&self) -> Option<Stat> {
        fstat(&self.handle).ok()
    }

    /// Renames a file to an unused name; creates the folders on the way.
    ///
    /// # Errors
    /// Io; with E007 if the name is in use.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.announce(Step::Rename, "move it", to)?;
        let renamed = self.inside(from, false).and_then(|(from_folder, from_name)| {
            let (to_folder, to_name) = self.inside(to, true)?;
            let from_folder = from_folder.as_ref().unwrap_or(&self.handle);
            let to_folder = to_folder.as_ref().unwrap_or(&self.handle);
            match renameat_with(from_folder, from_name, to_folder, to_name, RenameFlags::NOREPLACE) {
                // On a file system without this flag, check and rename are separate steps.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    match statat(to_folder, to_name, AtFlags::SYMLINK_NOFOLLOW) {
                        Err(Errno::NOENT) => renameat(from_folder, from_name, to_folder, to_name),
                        Ok(_) => Err(Errno::EXIST),
                        Err(errno) => Err(errno),
                    }
                }
                renamed => renamed,
            }
        });
        renamed.map_err(|errno| match errno {
            Errno::EXIST => {
                let error = Error::io("a file with this name appeared while apr was writing").code("E007");
                error.in_file(self.show(to)).hint("move it elsewhere, or choose another folder")
            }
            errno => self.wrong(errno, "move it", to),
        })
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// Io.
    pub fn remove(&self, relative: &str) -> Result<()> {
        self.announce(Step::Remove, "remove it", relative)?;
        let removed = self
            .inside(relative, false)
            .and_then(|(at, name)| unlinkat(at.as_ref().unwrap_or(&self.handle), name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.wrong(errno, "remove it", relative)),
        }
    }

    /// Removes a subfolder and its contents, as far as possible.
    pub fn clear(&self, name: &str) {
        let stat = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
            && self.announce(Step::Remove, "remove it", name).is_ok()
        {
            // This does not follow links either.
            drop(std::fs::remove_dir_all(self.path.join(name)));
        }
    }

    /// Makes the names of files in it durable: their folders, innermost first, and itself last.
    ///
    /// # Errors
    /// Io.
    pub fn sync<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        let mut folders: BTreeSet<&str> = BTreeSet::new();
        for name in names {
            let mut above = name;
            while let Some((folder, _)) = above.rsplit_once('/') {
                folders.insert(folder);
                above = folder;
            }
        }
        for folder in folders.into_iter().rev() {
            self.announce(Step::Sync, "make it durable", folder)?;
            let opened = self.inside(folder, false).and_then(|(at, name)| {
                openat(at.as_ref().unwrap_or(&self.handle), name, INSIDE, Mode::empty())
            });
            match opened {
                // A folder that is gone needs nothing.
                Err(Errno::NOENT) => {}
                opened => opened
                    .map_err(std::io::Error::from)
                    .and_then(|handle| durable(&File::from(handle)))
                    .map_err(|e| io_error(&e, "make it durable").in_file(self.show(folder)))?,
            }
        }
        self.announce(Step::Sync, "make it durable", "")?;
        let own = self.handle.try_clone().and_then(|handle| durable(&File::from(handle)));
        own.map_err(|e| io_error(&e, "make it durable").in_file(self.show("")))
    }
}

/// Makes a folder durable, if its file system can.
fn durable(folder: &File) -> std::io::Result<()> {
    match folder.sync_all() {
        Err(error)
            if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS)) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Makes the names in the folder at `path` durable.
///
/// # Errors
/// Io.
pub fn sync_folder(path: &Path, steps: &dyn Steps) -> Result<()> {
    let synced = steps.before(Step::Sync, path).and_then(|()| durable(&File::open(path)?));
    synced.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::Io, "the folder no longer exists"),
        _ => path_error(&e, "make durable", path),
    })
}
