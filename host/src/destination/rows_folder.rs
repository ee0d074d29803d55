//! A folder of files that grow row by row, each behind a header that is known at the end. The folder has its name once all of it
//! is written.

use crate::storage::error::io_error;
use crate::storage::overwrite::refuse_existing;
use apr_sdk::{Error, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, create_dir, remove_dir_all, rename};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A header for so many rows of so many columns, always of the same length.
pub type Header = fn(usize, usize) -> Vec<u8>;

/// A folder that is being written. If it is dropped unfinished, nothing is left of it.
pub struct RowsFolder {
    /// As typed, for messages.
    typed: PathBuf,
    /// Its present path.
    at: PathBuf,
    header: Header,
    shapes: BTreeMap<String, Shape>,
    is_done: bool,
}

/// Rows and columns of a file.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
}

impl RowsFolder {
    /// Fails if there is something at `path`: a folder of results is never mixed with what was there.
    ///
    /// # Errors
    /// Io with the code E007; NotFound if the folder around it is not there.
    pub fn check(path: &Path) -> Result<()> {
        let around = around(path);
        if !around.is_dir() {
            let error = Error::not_found("the folder around the new one does not exist");
            return Err(error.in_file(around.display().to_string()).hint("create it, or choose another"));
        }
        refuse_existing(path, &path.display().to_string())
            .map_err(|error| error.with_hint("choose another name, or remove it".to_owned()))
    }

    /// Begins the folder.
    ///
    /// # Errors
    /// As [`RowsFolder::check`]; Io.
    pub fn create(path: &Path, header: Header) -> Result<RowsFolder> {
        RowsFolder::check(path)?;
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.apr-part", std::process::id()));
        let at = around(path).join(name);
        create_dir(&at).map_err(|error| failed(&error, path))?;
        Ok(RowsFolder { typed: path.to_owned(), at, header, shapes: BTreeMap::new(), is_done: false })
    }

    /// Appends rows of so many columns to a file.
    ///
    /// # Errors
    /// Io.
    pub fn append(&mut self, file: &str, columns: usize, rows: &[f32]) -> Result<()> {
        let written = self.rows(file, columns, rows);
        written.map_err(|error| failed(&error, &self.typed.join(file)))
    }

    fn rows(&mut self, file: &str, columns: usize, rows: &[f32]) -> io::Result<()> {
        let path = self.at.join(file);
        let is_new = !self.shapes.contains_key(file);
        let shape = self.shapes.entry(file.to_owned()).or_insert(Shape { rows: 0, columns });
        shape.rows += rows.len() / columns.max(1);
        let opened = OpenOptions::new().append(true).create(true).open(path)?;
        let mut out = BufWriter::new(opened);
        if is_new {
            out.write_all(&vec![0; (self.header)(0, 0).len()])?;
        }
        for x in rows {
            out.write_all(&x.to_le_bytes())?;
        }
        out.flush()
    }

    /// Writes the headers, makes all durable, and gives the folder its name. Returns the number of files.
    ///
    /// # Errors
    /// Io, with the code E007 if something has come into its place.
    pub fn finish(mut self) -> Result<usize> {
        let done = self.complete();
        done.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                RowsFolder::check(&self.typed).err().unwrap_or_else(|| failed(&error, &self.typed))
            }
            _ => failed(&error, &self.typed),
        })?;
        self.is_done = true;
        Ok(self.shapes.len())
    }

    fn complete(&self) -> io::Result<()> {
        for (file, shape) in &self.shapes {
            let mut out = OpenOptions::new().write(true).open(self.at.join(file))?;
            out.seek(SeekFrom::Start(0))?;
            out.write_all(&(self.header)(shape.rows, shape.columns))?;
            out.sync_all()?;
        }
        File::open(&self.at)?.sync_all()?;
        match renameat_with(CWD, &self.at, CWD, &self.typed, RenameFlags::NOREPLACE) {
            // On a file system without this flag, what was checked before must do.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename(&self.at, &self.typed),
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for RowsFolder {
    fn drop(&mut self) {
        if !self.is_done {
            drop(remove_dir_all(&self.at));
        }
    }
}

/// The folder that a path lies in.
fn around(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(error: &io::Error, path: &Path) -> Error {
    io_error(error, "write").in_file(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(rows: usize, columns: usize) -> Vec<u8> {
        format!("{rows:03}x{columns:03};").into_bytes()
    }

    #[test]
    fn a_folder_is_there_when_it_is_complete_and_replaces_none() {
        let folder = std::env::temp_dir().join(format!("apr-rows-folder-{}", std::process::id()));
        // A killed test of this number may have left it.
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows");
        let mut rows = RowsFolder::create(&path, header).unwrap();
        rows.append("a", 2, &[1.0, 2.0]).unwrap();
        drop(rows);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let mut rows = RowsFolder::create(&path, header).unwrap();
        rows.append("a", 2, &[1.0, 2.0]).unwrap();
        rows.append("a", 2, &[3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(rows.finish().unwrap(), 1);
        let bytes = std::fs::read(path.join("a")).unwrap();
        assert_eq!((&bytes[..8], bytes.len()), (&b"003x002;"[..], 8 + 24));
        let error = RowsFolder::create(&path, header).err().unwrap();
        assert_eq!(error.explicit_code(), Some("E007"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
