//! Removes below a folder without following any link there, whoever changes it meanwhile.

use crate::cache::error::io_error;
use apr_sdk::Result;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, statat, unlinkat};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// The open folder of a cache.
pub struct Root {
    folder: OwnedFd,
}

impl Root {
    /// Opens the folder, which itself may be a link: the user named it.
    ///
    /// # Errors
    /// NotFound; Io.
    pub fn open(path: &Path) -> Result<Root> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty());
        folder.map(|folder| Root { folder }).map_err(|error| io_error(&error.into(), "open", path))
    }

    /// Removes a file or link if it still is the one with this device and inode; returns whether it was.
    ///
    /// # Errors
    /// Any error of the system's, but for one that it is gone already.
    pub fn remove_file(&self, below: &Path, identity: (u64, u64)) -> std::io::Result<bool> {
        self.at(below, |folder, name| {
            let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if (stat.st_dev, stat.st_ino) != identity {
                return Ok(false);
            }
            unlinkat(folder, name, AtFlags::empty()).map(|()| true)
        })
    }

    /// Removes a folder if it is empty; returns whether it was.
    ///
    /// # Errors
    /// Any error of the system's, but for one that it is gone already, or is not empty.
    pub fn remove_folder(&self, below: &Path) -> std::io::Result<bool> {
        self.at(below, |folder, name| match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            done => done.map(|()| true),
        })
    }

    fn at(
        &self,
        below: &Path,
        act: impl FnOnce(rustix::fd::BorrowedFd<'_>, &Path) -> rustix::io::Result<bool>,
    ) -> std::io::Result<bool> {
        let Some(name) = below.file_name() else { return Ok(false) };
        let done = self.folder_of(below).and_then(|folder| act(folder.as_fd(), Path::new(name)));
        match done {
            // Gone already, or its folder became a link.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(false),
            done => Ok(done?),
        }
    }

    /// Opens the folder of a path, folder by folder.
    fn folder_of(&self, below: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut folder = openat(&self.folder, ".", flags, Mode::empty())?;
        for part in below.parent().unwrap_or(Path::new("")).components() {
            match part {
                Component::Normal(name) => folder = openat(&folder, name, flags, Mode::empty())?,
                _ => return Err(Errno::NOENT),
            }
        }
        Ok(folder)
    }
}
