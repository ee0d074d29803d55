//! A file that a verb writes besides models, or beside one: a report, a page, a picture, an array. It is complete, or as
//! it was.

use crate::storage::error::io_error;
use crate::storage::overwrite::{self, Inputs, Outputs, refuse_existing};
use crate::storage::staged_file::keep_attributes;
use crate::storage::target::followed;
use apr_sdk::{Error, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, rename};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file that is to be written.
#[derive(Clone, Debug)]
pub struct OutputFile {
    /// As typed, for messages.
    typed: PathBuf,
    /// Its name in messages: `report`, `picture`.
    noun: &'static str,
    /// True if it replaces a file that exists.
    force: bool,
}

impl OutputFile {
    /// The file at `path`, which messages call `noun`; an existing one is replaced only with `force`.
    pub fn new(path: &Path, noun: &'static str, force: bool) -> OutputFile {
        OutputFile { typed: path.to_owned(), noun, force }
    }

    /// Fails unless it may be written, and its folder is there.
    ///
    /// # Errors
    /// As [`overwrite::check`]; NotFound.
    pub fn check(&self, inputs: &Inputs) -> Result<()> {
        self.refuse_missing_folder(&[])?;
        self.refuse(inputs, false)
    }

    /// Fails unless it may be written beside the files of an output: it must be none of these, but may lie in their folder,
    /// which need not exist yet. It may be a device.
    ///
    /// # Errors
    /// As [`OutputFile::check`].
    pub fn check_beside(&self, outputs: &[PathBuf], inputs: &Inputs) -> Result<()> {
        if outputs.iter().any(|output| place(output) == place(&self.typed)) {
            let message = format!("the {} and the output are the same file", self.noun);
            let hint = format!("choose another name for the {}", self.noun);
            return Err(Error::invalid_argument(message).in_file(self.shown()).hint(hint));
        }
        self.refuse_missing_folder(outputs)?;
        self.refuse(inputs, true)
    }

    fn refuse(&self, inputs: &Inputs, takes_devices: bool) -> Result<()> {
        let outputs = Outputs {
            paths: &[place(&self.typed)],
            show: &|_| self.shown(),
            noun: self.noun,
            force: self.force,
            takes_devices,
        };
        overwrite::check(&outputs, inputs)
    }

    fn refuse_missing_folder(&self, outputs: &[PathBuf]) -> Result<()> {
        let at = followed(&self.typed);
        let folder = folder(&at);
        if folder.is_dir() || outputs.iter().any(|output| place(output).starts_with(place(folder))) {
            return Ok(());
        }
        let error = Error::not_found(format!("the folder of the {} does not exist", self.noun));
        Err(error.in_file(folder.display().to_string()).hint("create it, or choose another"))
    }

    /// Writes all of it. A device is written to.
    ///
    /// # Errors
    /// Io; as [`Staged::finish`].
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        if self.typed.metadata().is_ok_and(|meta| !meta.is_file()) {
            let opened = OpenOptions::new().write(true).open(&self.typed);
            return opened.and_then(|mut file| file.write_all(bytes)).map_err(|error| self.failed(&error));
        }
        let mut staged = self.create()?;
        staged.write_all(bytes).map_err(|error| staged.file.failed(&error))?;
        staged.finish()
    }

    /// Begins to write it, under another name until it is complete.
    ///
    /// # Errors
    /// Io.
    pub fn create(self) -> Result<Staged> {
        let path = place(&self.typed);
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.apr-part", std::process::id()));
        let at = path.with_file_name(name);
        let out = File::create_new(&at).map_err(|error| self.failed(&error))?;
        Ok(Staged { out: BufWriter::with_capacity(1 << 20, out), at, path, file: self, is_done: false })
    }

    fn shown(&self) -> String {
        self.typed.display().to_string()
    }

    /// The error of the system, with this file.
    pub fn failed(&self, error: &io::Error) -> Error {
        io_error(error, "write").in_file(self.shown())
    }
}

/// A file that is being written. If it is dropped unfinished, nothing is left of it.
pub struct Staged {
    out: BufWriter<File>,
    /// Its present path.
    at: PathBuf,
    /// Its final path.
    path: PathBuf,
    /// The file to write.
    pub file: OutputFile,
    is_done: bool,
}

impl Staged {
    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// Io, with the code E007 if a file has come into its place that may not be replaced.
    pub fn finish(mut self) -> Result<()> {
        self.complete().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let shown = self.file.shown();
                refuse_existing(&self.path, &shown).err().unwrap_or_else(|| self.file.failed(&error))
            }
            _ => self.file.failed(&error),
        })?;
        self.is_done = true;
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let file = self.out.get_ref();
        if let Ok(old) = self.path.metadata() {
            keep_attributes(file, &old)?;
        }
        file.sync_all()?;
        if self.file.force {
            return rename(&self.at, &self.path);
        }
        match renameat_with(CWD, &self.at, CWD, &self.path, RenameFlags::NOREPLACE) {
            // On a file system without this flag, what was checked before must do.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename(&self.at, &self.path),
            renamed => Ok(renamed?),
        }
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for Staged {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_done {
            drop(std::fs::remove_file(&self.at));
        }
    }
}

/// The folder of a path's file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path with its folder in canonical form, and links to files resolved.
fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let path = followed(path);
        let folder = folder(&path);
        let known = folder.canonicalize().unwrap_or_else(|_| std::path::absolute(folder).unwrap_or_default());
        known.join(path.file_name().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_complete_and_replaces_none_that_came_meanwhile() {
        let folder = std::env::temp_dir().join(format!("apr-output-file-{}", std::process::id()));
        // A killed test of this number may have left it.
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("page");
        let file = |force| OutputFile::new(&path, "page", force);
        let mut staged = file(false).create().unwrap();
        staged.write_all(b"half").unwrap();
        drop(staged);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let mut staged = file(false).create().unwrap();
        staged.write_all(b"new").unwrap();
        std::fs::write(&path, "of another").unwrap();
        assert_eq!(staged.finish().unwrap_err().explicit_code(), Some("E007"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another");
        assert!(file(false).check(&Inputs::default()).is_err());
        file(true).check(&Inputs::default()).unwrap();
        file(true).write(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let mut inputs = Inputs::default();
        inputs.add(&folder);
        assert!(file(true).check(&inputs).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
