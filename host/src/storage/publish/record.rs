//! The record of a publication: the planned moves, made durable before the first file is moved.
//!
//! It is stored in the folder as `.apr-publish`:
//!
//! ```text
//! apr.publish/1 1f0c99ab\n     version, and the CRC-32 of all that follows
//! {"stage": ".d.apr-part", "old": ".d.apr-old", "work": "…", "leaving": [...], "coming": [...]}\n
//! ```
//!
//! First, files in `leaving` move from the folder into `old`, in that order; then files in `coming` move from
//! `stage` into the folder. Each is identified by inode, length and modification time, so that whoever finds
//! the record can tell how far each file has come. Nothing in a record leads out of its folder.

use crate::storage::error::io_error;
use crate::storage::lock::untroubled;
use crate::storage::publish::command;
use crate::storage::publish::folder::Folder;
use apr_sdk::{Error, Result, escape};
use rustix::fs::{FileType, Stat};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

/// The record's name in its folder.
pub const NAME: &str = ".apr-publish";

/// The start of a record, before its version.
const MAGIC: &str = "apr.publish/";
/// The version that is written and understood.
const VERSION: &str = "1";
/// Bytes of a record. 16 MiB: two entries for each of the 1024 files that an output may have, with the
/// longest possible paths.
const MAX_LEN: u64 = 16 << 20;

/// A file to be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moving {
    /// The file's path in the folder.
    pub name: String,
    inode: u64,
    bytes: i64,
    /// Modification time, in nanoseconds since 1970.
    modified: String,
}

impl Moving {
    /// The file with this name and status.
    pub fn new(name: &str, stat: &Stat) -> Moving {
        Moving {
            name: name.to_owned(),
            inode: stat.st_ino,
            bytes: stat.st_size,
            modified: modified(stat).to_string(),
        }
    }

    /// Returns whether `found` is this file. In a copy of the whole folder, inodes differ and times usually do not.
    pub fn is(&self, found: Option<&Stat>) -> bool {
        found.is_some_and(|stat| {
            let same = stat.st_ino == self.inode || modified(stat).to_string() == self.modified;
            self.bytes == stat.st_size && same
        })
    }
}

fn modified(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// The planned moves in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The subfolder that holds the new files.
    pub stage: String,
    /// The subfolder for the old files.
    pub old: String,
    /// A digest of the conversion, to recognise the same one when it is requested again.
    pub work: String,
    /// The old files to move away, in order.
    pub leaving: Vec<Moving>,
    /// The new files, in the order in which they appear.
    pub coming: Vec<Moving>,
}

impl Record {
    /// The base of the output's hidden names.
    pub fn hidden(&self) -> &str {
        self.stage.strip_suffix(".apr-part").unwrap_or(&self.stage)
    }

    /// The path of a new file before it is in place.
    pub fn staged(&self, name: &str) -> String {
        format!("{}/{name}", self.stage)
    }

    /// The path of an old file once it is out of the way.
    pub fn kept(&self, name: &str) -> String {
        format!("{}/{name}", self.old)
    }

    fn to_text(&self) -> Result<String> {
        let json = serde_json::to_string(self)
            .map_err(|e| Error::plugin(format!("the record is not valid JSON: {e}")))?;
        Ok(format!("{MAGIC}{VERSION} {:08x}\n{json}\n", crc32fast::hash(format!("{json}\n").as_bytes())))
    }

    /// Parses a record file; `None` for anything else.
    ///
    /// # Errors
    /// Unsupported for another version, and for a record that leads out of its folder.
    fn from_text(text: &[u8]) -> Result<Option<Record>> {
        let Some(end) = text.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let (head, body) = text.split_at(end + 1);
        let head = std::str::from_utf8(head).ok().and_then(|head| head.trim_end().strip_prefix(MAGIC));
        let Some((version, sum)) = head.and_then(|head| head.split_once(' ')) else { return Ok(None) };
        if sum != format!("{:08x}", crc32fast::hash(body)) {
            return Ok(None);
        }
        if version != VERSION {
            return Err(odd(format!("unknown version {}", escape(version, 20))));
        }
        let record: Record =
            serde_json::from_slice(body).map_err(|e| odd(format!("invalid line {}", e.line())))?;
        match record.odd_name() {
            Some(name) => Err(odd(format!("invalid name `{}`", escape(&name, 120)))),
            None => Ok(Some(record)),
        }
    }

    /// A name that no conversion writes: one that leads elsewhere, occurs twice, or is apr's own.
    fn odd_name(&self) -> Option<String> {
        if !is_own(&self.stage, ".apr-part") || !is_own(&self.old, ".apr-old") {
            return Some(self.stage.clone());
        }
        for list in [&self.leaving, &self.coming] {
            let mut seen = HashSet::new();
            if let Some(odd) = list.iter().find(|file| !is_plain(&file.name) || !seen.insert(&file.name)) {
                return Some(odd.name.clone());
            }
        }
        None
    }
}

fn odd(what: String) -> Error {
    Error::unsupported(format!("{what} in the record of a conversion"))
}

fn is_own(name: &str, suffix: &str) -> bool {
    name.starts_with('.') && name.ends_with(suffix) && !name.contains(['/', '\0'])
}

/// Returns whether a name stays in the folder it is relative to, and is not one that apr uses there itself.
pub fn is_plain(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    !name.contains('\0')
        && name.split('/').all(|piece| !matches!(piece, "" | "." | ".."))
        && !(first.starts_with('.') && first.contains(".apr-"))
}

/// A record in its folder, locked against others.
pub struct Held {
    /// The contents of the record.
    pub record: Record,
    _lock: File,
}

/// The contents of a folder under the record's name.
pub enum Found {
    /// Nothing, or nothing that counts.
    None,
    /// A conversion that is moving its files now.
    Busy,
    /// An interrupted one; nobody else can finish it while this is held.
    Stopped(Held),
}

impl Held {
    /// Writes the record durably as `new`, then renames it to its name.
    ///
    /// # Errors
    /// Io; E007 if the folder has one already. Nothing is left behind then.
    pub fn create(folder: &Folder, new: &str, record: Record) -> Result<Held> {
        folder.remove(new)?;
        let written = Held::write(folder, new, &record).and_then(|lock| {
            match folder.rename(new, NAME) {
                // What is under our name and no record is in the way of one.
                Err(_) if matches!(Held::find(folder, true), Ok(Found::None)) => {
                    folder.remove(NAME)?;
                    folder.rename(new, NAME)?;
                }
                renamed => renamed?,
            }
            Ok(lock)
        });
        let lock = match written {
            Ok(lock) => lock,
            Err(error) => {
                let _ = folder.remove(new);
                return Err(error);
            }
        };
        let held = Held { record, _lock: lock };
        match folder.sync(std::iter::empty()) {
            Ok(()) => Ok(held),
            // Nothing has been moved yet.
            Err(error) => Err(match folder.remove(NAME) {
                Ok(()) => error,
                Err(_) => error.hint(command(&folder.show(""))),
            }),
        }
    }

    fn write(folder: &Folder, new: &str, record: &Record) -> Result<File> {
        let text = record.to_text()?;
        if text.len() as u64 > MAX_LEN {
            return Err(Error::unsupported(format!("the record would have {} bytes", text.len())));
        }
        let mut file = folder.create(new)?;
        let written = file.lock().and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(|e| io_error(&e, "write").in_file(folder.show(new)))?;
        folder.sync_file(&file, new)?;
        Ok(file)
    }

    /// Finds the record in `folder`; locks it if it is to be finished.
    ///
    /// # Errors
    /// Io; Unsupported for a record that cannot be followed.
    pub fn find(folder: &Folder, to_finish: bool) -> Result<Found> {
        let Some(stat) = folder.stat(NAME)? else { return Ok(Found::None) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !counts(folder, &stat)? {
            return Ok(Found::None);
        }
        let file = folder.file(NAME)?;
        let locked = untroubled(|| if to_finish { file.try_lock() } else { file.try_lock_shared() });
        let busy = match locked {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(e)) => return Err(io_error(&e, "read it").in_file(folder.show(NAME))),
        };
        let mut text = Vec::new();
        let read = (&file).take(MAX_LEN + 1).read_to_end(&mut text);
        read.map_err(|e| io_error(&e, "read it").in_file(folder.show(NAME)))?;
        let Some(record) = Record::from_text(&text).map_err(|e| e.in_file(folder.show(NAME)))? else {
            return Ok(Found::None);
        };
        if busy {
            return Ok(Found::Busy);
        }
        // The previous holder may have finished between our check and our lock.
        let ours = file.metadata().map(|meta| meta.ino()).ok();
        let there = folder.stat(NAME)?.map(|stat| stat.st_ino);
        Ok(if ours == there { Found::Stopped(Held { record, _lock: file }) } else { Found::None })
    }
}

/// Returns whether the owner of a record may speak for the folder. Where anyone may create files but not move those of
/// others, as in `/tmp`, only the folder's owner and we ourselves may.
fn counts(folder: &Folder, record: &Stat) -> Result<bool> {
    let Some(of_folder) = folder.own_stat() else { return Ok(true) };
    const STICKY: u32 = 0o1000;
    let trusted = [geteuid().as_raw(), of_folder.st_uid, 0];
    Ok(of_folder.st_mode & STICKY == 0 || trusted.contains(&record.st_uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Moving {
        Moving { name: name.to_owned(), inode: 7, bytes: 8, modified: "9".to_owned() }
    }

    fn record(coming: &str) -> Record {
        Record {
            stage: ".d.apr-part".to_owned(),
            old: ".d.apr-old".to_owned(),
            work: String::new(),
            leaving: vec![file("config.json")],
            coming: vec![file(coming), file("1_Pooling/config.json")],
        }
    }

    #[test]
    fn a_record_is_whole_or_none() {
        let text = record("config.json").to_text().unwrap();
        assert_eq!(Record::from_text(text.as_bytes()).unwrap(), Some(record("config.json")));
        for end in 0..text.len() {
            assert_eq!(Record::from_text(&text.as_bytes()[..end]).unwrap(), None, "{end} bytes");
        }
        assert_eq!(Record::from_text(text.replace("config", "Config").as_bytes()).unwrap(), None);
    }

    #[test]
    fn a_record_of_another_version_or_with_names_that_lead_elsewhere_is_refused() {
        let names =
            ["../x", "/etc/passwd", "a//b", "", "a/../b", ".", "1_Pooling/config.json", ".d.apr-lock"];
        for name in names {
            let text = record(name).to_text().unwrap();
            assert!(Record::from_text(text.as_bytes()).is_err(), "{name}");
        }
        for stage in [".d.apr-part/..", "d", "/.d.apr-part", "../.apr-part"] {
            let text = Record { stage: stage.to_owned(), ..record("x") }.to_text().unwrap();
            assert!(Record::from_text(text.as_bytes()).is_err(), "{stage}");
        }
        let later = record("x").to_text().unwrap().replace("apr.publish/1", "apr.publish/2");
        assert!(Record::from_text(later.as_bytes()).unwrap_err().message().contains("version"));
    }
}
