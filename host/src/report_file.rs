//! Writes the file of a report, beside a model's output or by itself. It must not destroy anything of the user's either.

use crate::storage::error::io_error;
use apr_sdk::{Error, Result};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Fails unless a report can be written to `path`: it must be none of the files that are read, given by
/// device and inode, and none of the `outputs`; an existing file is only replaced with `force`.
///
/// # Errors
/// InvalidArgument for such a path, a folder, or a pipe; NotFound if its folder is missing.
pub fn check(path: &Path, inputs: &[(u64, u64)], outputs: &[PathBuf], force: bool) -> Result<()> {
    let wrong = |message: &str, hint: &str| {
        Err(Error::invalid_argument(message).in_file(path.display().to_string()).hint(hint))
    };
    if outputs.iter().any(|output| place(output) == place(path)) {
        return wrong("the report and the output are the same file", "give the report another name");
    }
    let Ok(meta) = std::fs::metadata(path) else {
        let folder = folder(path);
        // The folder of an output need not exist yet.
        if folder.is_dir() || outputs.iter().any(|output| place(output).starts_with(place(folder))) {
            return Ok(());
        }
        let error = Error::not_found("the report's folder does not exist");
        return Err(error.in_file(folder.display().to_string()).hint("create it, or choose another"));
    };
    if inputs.contains(&(meta.dev(), meta.ino())) {
        return wrong("the report would overwrite an input", "give the report another name");
    }
    if meta.is_dir() {
        return wrong("the report is a folder, not a file", "name a file in it");
    }
    if meta.file_type().is_fifo() {
        // It would wait for a reader once the work is done.
        return wrong("the report cannot be written to a pipe", "name a file");
    }
    if !force {
        return wrong("the report already exists", "pass --force to replace it and the output");
    }
    Ok(())
}

/// Fails unless a report that is the only output can be written to `path`: `path` must not be one of the input files, given
/// by device and inode, and an existing file is replaced only with `force`.
///
/// # Errors
/// InvalidArgument for such a path, a folder, a device; Io with the code E007 for what exists; NotFound if its folder is
/// missing.
pub fn check_alone(path: &Path, inputs: &[(u64, u64)], force: bool) -> Result<()> {
    let shown = || path.display().to_string();
    let wrong = |message: &str, hint: &str| Err(Error::invalid_argument(message).in_file(shown()).hint(hint));
    let Ok(meta) = std::fs::metadata(path) else {
        let folder = folder(path);
        if folder.is_dir() {
            return Ok(());
        }
        let error = Error::not_found("the folder to write to does not exist");
        return Err(error.in_file(folder.display().to_string()).hint("create it, or choose another"));
    };
    if inputs.contains(&(meta.dev(), meta.ino())) {
        let hint = "give the output another name; the input was not touched";
        return wrong("the output is one of the inputs", hint);
    }
    if meta.is_dir() {
        return wrong("a folder with this name already exists; nothing was written", "choose another name");
    }
    if !meta.is_file() {
        return wrong(
            "this is a device or a pipe, not a file, nothing was written",
            "pass `-o -` for stdout",
        );
    }
    if !force {
        let message = format!("already exists ({} bytes); nothing was written", meta.len());
        let error = Error::io(message).code("E007").in_file(shown());
        return Err(error.hint("choose another name, or pass --force to replace it"));
    }
    Ok(())
}

/// Writes a report: the file is complete, or as it was. Links are followed; devices are written to.
///
/// # Errors
/// Any error from writing.
pub fn write(path: &Path, text: &str) -> Result<()> {
    put(path, text).map_err(|error| io_error(&error, "write").in_file(path.display().to_string()))
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if path.metadata().as_ref().is_ok_and(|meta: &Metadata| !meta.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.apr-part", std::process::id()));
    let staged = folder(path).join(name);
    let written = File::create_new(&staged).and_then(|mut file| {
        if let Ok(old) = path.metadata() {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&staged, path)
    });
    if written.is_err() {
        drop(std::fs::remove_file(&staged));
    }
    written
}

/// The folder of a path's file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path with its folder in canonical form, and links to files resolved.
fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = folder(path);
        let known = folder.canonicalize().unwrap_or_else(|_| std::path::absolute(folder).unwrap_or_default());
        known.join(path.file_name().unwrap_or_default())
    })
}
