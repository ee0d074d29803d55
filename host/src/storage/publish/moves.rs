//! Carries out the moves in a record from wherever they stand, or undoes them.

use crate::storage::publish::command;
use crate::storage::publish::folder::Folder;
use crate::storage::publish::record::{Moving, NAME, Record};
use apr_sdk::{Error, Result};
use rustix::fs::{FileType, Stat};

/// Moves every file that is not yet where the record wants it. On failure, undoes everything if possible.
///
/// # Errors
/// The failure. It says whether the folder is as it was before, is as planned, or is neither and still holds
/// the record.
pub fn carry_out(folder: &Folder, record: &Record) -> Result<()> {
    let moved = check(folder, record).and_then(|()| forward(folder, record));
    if let Err(error) = moved {
        return Err(undo(folder, record, error));
    }
    // From here on, the folder holds the new files.
    let all = record.coming.iter().chain(&record.leaving).map(|file| file.name.as_str());
    let synced = folder.sync(all);
    if let Err(error) = folder.remove(NAME) {
        return Err(in_place(&error).hint(command(&folder.show(""))));
    }
    let synced = synced.and_then(|()| folder.sync(std::iter::empty()));
    clear(folder, record);
    synced.map_err(|error| in_place(&error).hint("run `sync`, or copy the output to another disk"))
}

/// An error that occurred when the output was already in place.
pub fn in_place(error: &Error) -> Error {
    let message =
        format!("the output is complete, but may be lost if the system crashes now: {}", error.message());
    Error::io(message).in_file(error.file().unwrap_or_default())
}

/// Removes what is left of the old files and of the staging folder.
pub fn clear(folder: &Folder, record: &Record) {
    folder.clear(&record.old);
    folder.clear(&record.stage);
}

/// Fails unless every new file is staged or in place: otherwise someone has removed or changed one.
fn check(folder: &Folder, record: &Record) -> Result<()> {
    for file in &record.coming {
        let staged = folder.stat(&record.staged(&file.name))?;
        let there = folder.stat(&file.name)?;
        if !file.is(staged.as_ref()) && !file.is(there.as_ref()) {
            let error = Error::io("the temporary file for this name is missing or was changed");
            return Err(error.in_file(folder.show(&file.name)));
        }
    }
    Ok(())
}

fn forward(folder: &Folder, record: &Record) -> Result<()> {
    for file in &record.leaving {
        if file.is(folder.stat(&file.name)?.as_ref()) {
            let moved = folder.rename(&file.name, &record.kept(&file.name));
            moved.map_err(|error| error.with_file(folder.show(&file.name)))?;
        }
    }
    // Programs that know nothing about records find no entry file while others are moved, even after a crash.
    folder.sync(record.leaving.iter().map(|file| file.name.as_str()))?;
    let Some((entry, others)) = record.coming.split_last() else { return Ok(()) };
    for file in others {
        place(folder, record, file)?;
    }
    folder.sync(others.iter().map(|file| file.name.as_str()))?;
    place(folder, record, entry)
}

fn place(folder: &Folder, record: &Record, file: &Moving) -> Result<()> {
    if file.is(folder.stat(&record.staged(&file.name))?.as_ref()) {
        folder.rename(&record.staged(&file.name), &file.name)?;
    }
    Ok(())
}

/// Moves every file back, entry files last, and removes the record.
fn undo(folder: &Folder, record: &Record, error: Error) -> Error {
    let undone = back(folder, record).and_then(|()| {
        let all = record.leaving.iter().chain(&record.coming).map(|file| file.name.as_str());
        // The files are back; if the folder cannot be made durable now, it could not be before.
        let _ = folder.sync(all);
        folder.remove(NAME)
    });
    match undone {
        Ok(()) => {
            let _ = folder.sync(std::iter::empty());
            folder.clear(&record.old);
            let message = format!("{}; all files are unchanged", error.message());
            let mut out = Error::new(error.kind(), message).code(error.stable_code().unwrap_or("E007"));
            out = out.in_file(error.file().unwrap_or_default());
            match error.hint_text() {
                Some(hint) => out.hint(hint),
                None => out.hint("make sure the files in it can be replaced, or choose another folder"),
            }
        }
        Err(second) => {
            let message = format!(
                "{}; the old files could not be restored either: {}",
                error.message(),
                second.message()
            );
            let out = Error::io(message).in_file(error.file().unwrap_or_default());
            out.hint(format!("once that is fixed, run: {}", command(&folder.show(""))))
        }
    }
}

fn back(folder: &Folder, record: &Record) -> Result<()> {
    for file in record.coming.iter().rev() {
        if file.is(folder.stat(&file.name)?.as_ref()) {
            folder.rename(&file.name, &record.staged(&file.name))?;
        }
    }
    for file in record.leaving.iter().rev() {
        let kept = folder.stat(&record.kept(&file.name))?;
        if file.is(kept.as_ref()) {
            folder.rename(&record.kept(&file.name), &file.name)?;
        } else if !file.is(folder.stat(&file.name)?.as_ref()) {
            let error = Error::io("the previous file is missing or was changed");
            return Err(error.in_file(folder.show(&file.name)));
        }
    }
    Ok(())
}

/// Fails for what can be neither moved nor replaced: a folder, a device.
///
/// # Errors
/// Io.
pub fn is_movable(folder: &Folder, name: &str, stat: &Stat) -> Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Symlink => Ok(()),
        _ => Err(Error::io("this is not a file and will not be replaced").in_file(folder.show(name))),
    }
}
