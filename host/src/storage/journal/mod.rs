//! The journal that an interrupted conversion leaves behind for `--resume` to continue from.
//!
//! The file `.NAME.apr-journal` starts with one line of JSON (a description of the work: plan digest,
//! plugins, inputs). Then come records: the tile's index (u64, little-endian), the length of the engine's
//! record (u32), that record, and the CRC-32 of all these. Records are appended only after the data they
//! describe is durable.

mod schedule;

use super::error::path_error;
use super::small_file::open_regular;
use super::staged_file::StagedFile;
use apr_engine::tiles::TileRecord;
use apr_sdk::{Error, Result};
use rustix::fs::OFlags;
pub use schedule::Journaling;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a record before the engine's part.
const HEAD: usize = 12;

/// A journal that is being written.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Starts a journal; `work` describes the job in one line.
    ///
    /// # Errors
    /// Io.
    pub fn create(path: &Path, work: &serde_json::Value) -> Result<Journal> {
        let created = OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
            file.write_all(format!("{work}\n").as_bytes())?;
            file.sync_all()?;
            Ok(file)
        });
        let file = created.map_err(|e| path_error(&e, "write the journal", path))?;
        Ok(Journal { path: path.to_owned(), file })
    }

    /// The records of the journal at `path`, if it belongs to this work, and the offset where they begin.
    /// Changes nothing.
    ///
    /// # Errors
    /// InvalidArgument if there is none, or if it belongs to other work, saying what changed.
    pub fn records(path: &Path, work: &serde_json::Value) -> Result<(Vec<u8>, u64)> {
        let shown = path.display().to_string();
        let begin = "run the command without --resume to start over";
        let mut bytes = Vec::new();
        // A link with the journal's name may lead to any file, chosen by someone else.
        let opened =
            if path.is_symlink() { Err(std::io::ErrorKind::NotFound.into()) } else { open_regular(path) };
        let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
        // A journal without a complete first line does not belong to any work.
        let end = read.ok().and_then(|_| bytes.iter().position(|&b| b == b'\n'));
        let Some(end) = end else {
            return Err(Error::invalid_argument("nothing to resume: no journal").in_file(shown).hint(begin));
        };
        let old: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap_or_default();
        if old != *work {
            let changed: Vec<_> = ["plan", "plugins", "inputs", "program"]
                .into_iter()
                .filter(|k| old.get(k) != work.get(k))
                .collect();
            let message =
                format!("this conversion differs from the interrupted one in: {}", changed.join(", "));
            return Err(Error::invalid_argument(message).in_file(shown).hint(begin));
        }
        let records = bytes.split_off(bytes.len().min(end + 1));
        Ok((records, bytes.len() as u64))
    }

    /// Opens a journal to continue it, and returns its records by tile.
    ///
    /// # Errors
    /// As [`Journal::records`]; Io.
    pub fn take_up(path: &Path, work: &serde_json::Value) -> Result<(Journal, Vec<(u64, TileRecord)>)> {
        let (records, begin) = Journal::records(path, work)?;
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(|e| path_error(&e, "open", path))?;
        // A crash may have torn the last record, or a disk damaged one: new records must not begin in the
        // middle of one, nor may damaged ones count.
        let mut whole = Vec::new();
        let mut rest = &records[..];
        while let Some((number, record, later)) = first_record(rest) {
            whole.push((number, record.into()));
            rest = later;
        }
        let len = begin + (records.len() - rest.len()) as u64;
        file.set_len(len).map_err(|e| path_error(&e, "open", path))?;
        Ok((Journal { path: path.to_owned(), file }, whole))
    }

    /// Makes the outputs durable, then records tiles that were finished before.
    ///
    /// # Errors
    /// Io.
    pub fn record(&mut self, outputs: &[Arc<StagedFile>], tiles: &[(u64, TileRecord)]) -> Result<()> {
        let mut records = Vec::new();
        for (number, record) in tiles {
            let begin = records.len();
            records.extend_from_slice(&number.to_le_bytes());
            let len =
                u32::try_from(record.len()).map_err(|_| Error::limit("a journal record is too long"))?;
            records.extend_from_slice(&len.to_le_bytes());
            records.extend_from_slice(record);
            let sum = crc32fast::hash(&records[begin..]);
            records.extend_from_slice(&sum.to_le_bytes());
        }
        outputs.iter().try_for_each(|output| output.sync_data())?;
        let written = self.file.write_all(&records).and_then(|()| self.file.sync_data());
        written.map_err(|e| path_error(&e, "write the journal", &self.path))
    }
}

/// The first record, if it is complete and undamaged: its tile, the engine's record, and the remaining bytes.
fn first_record(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (number, len) = head.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(len.try_into().ok()?)).ok()?;
    let (record, rest) = rest.split_at_checked(len)?;
    let (sum, later) = rest.split_first_chunk()?;
    let is_right = crc32fast::hash(&bytes[..HEAD + len]) == u32::from_le_bytes(*sum);
    is_right.then_some((u64::from_le_bytes(*number), record, later))
}
