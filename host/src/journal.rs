//! What a stopped conversion leaves behind so that `--resume` need not begin anew.
//!
//! The file `.NAME.apr-journal` is one line of JSON (what the work was: plan digest, plugins, inputs), then records of
//! 32 bytes, little-endian: tile number u64, CRC-32 of the written bytes u32, CRC-32 of the source's bytes u32, and how many
//! values a cast rounded, made infinite, met that were not finite, and would not give back, u32 each.
//! Records are appended only after the data they speak of is durable.

use crate::cast::Changes;
use crate::contract::Watch;
use crate::files::io_error;
use crate::sink::StagedFile;
use crate::small_file::open_regular;
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use apr_sdk::{Error, Result};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a record.
const RECORD: usize = 32;

/// A journal being written.
pub struct Journal {
    path: PathBuf,
    file: File,
    recorded: Vec<bool>,
}

impl Journal {
    /// Begins a journal; `work` describes the job in one line.
    ///
    /// # Errors
    /// Io.
    pub fn create(path: &Path, work: &serde_json::Value, n_tiles: usize) -> Result<Journal> {
        let wrong = |e: std::io::Error| io_error(&e, "write the journal").in_file(path.display().to_string());
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(wrong)?;
        file.write_all(format!("{work}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
        Ok(Journal { path: path.to_owned(), file, recorded: vec![false; n_tiles] })
    }

    /// The records of the journal at `path`, if it is of this work; and where they begin in it. Nothing is changed.
    ///
    /// # Errors
    /// InvalidArgument if there is none, or if it is of other work: then it says what changed.
    pub fn records(path: &Path, work: &serde_json::Value) -> Result<(Vec<u8>, u64)> {
        let shown = path.display().to_string();
        let begin = "run it without --resume to begin anew";
        let mut bytes = Vec::new();
        // A link under the journal's name leads to a file of someone else's choice.
        let opened =
            if path.is_symlink() { Err(std::io::ErrorKind::NotFound.into()) } else { open_regular(path) };
        let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
        // One that was stopped before its first line was whole says nothing of any work.
        let end = read.ok().and_then(|_| bytes.iter().position(|&b| b == b'\n'));
        let Some(end) = end else {
            return Err(Error::invalid_argument("there is nothing to resume: no journal")
                .in_file(shown)
                .hint(begin));
        };
        let old: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap_or_default();
        if old != *work {
            let changed: Vec<_> = ["plan", "plugins", "inputs", "program"]
                .into_iter()
                .filter(|k| old.get(k) != work.get(k))
                .collect();
            let message =
                format!("the work differs from the interrupted one: changed {}", changed.join(", "));
            return Err(Error::invalid_argument(message).in_file(shown).hint(begin));
        }
        let records = bytes.split_off(bytes.len().min(end + 1));
        Ok((records, bytes.len() as u64))
    }

    /// Takes up a journal: tiles it knows are checked against the staged files and noted in `sums`.
    ///
    /// # Errors
    /// As [`Journal::records`]; Io; what `watch` finds.
    pub fn resume(
        path: &Path,
        work: &serde_json::Value,
        (tiles, watch): (&Tiles, &Watch<'_>),
        outputs: &[StagedFile],
        sums: &TileSums,
    ) -> Result<Journal> {
        let (records, begin) = Journal::records(path, work)?;
        let wrong = |e: std::io::Error| io_error(&e, "open").in_file(path.display().to_string());
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)
            .map_err(wrong)?;
        // A crash may have torn the last record: what follows must not begin in the middle of one.
        let whole = records.chunks_exact(RECORD);
        let torn = whole.remainder().len();
        file.set_len(begin + (records.len() - torn) as u64).map_err(wrong)?;
        let mut journal = Journal { path: path.to_owned(), file, recorded: vec![false; tiles.count] };
        for record in whole {
            journal.take_up(record, (tiles, watch), outputs, sums)?;
        }
        Ok(journal)
    }

    /// Believes a record only if the staged bytes still have its checksum.
    fn take_up(
        &mut self,
        record: &[u8],
        (tiles, watch): (&Tiles, &Watch<'_>),
        outputs: &[StagedFile],
        sums: &TileSums,
    ) -> Result<()> {
        let word = |at: usize| record[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or(0);
        let number = u64::from(word(0)) | u64::from(word(4)) << 32;
        let Some(number) = usize::try_from(number).ok().filter(|&n| n < tiles.count) else { return Ok(()) };
        let (out, source) = (word(8), word(12));
        let tile = tiles.tile(number);
        let stretch = &tiles.stretches[tile.stretch];
        let mut bytes = vec![0; usize::try_from(tile.len).unwrap_or(0)];
        let there = outputs[stretch.file].read_at(stretch.offset + tile.at, &mut bytes);
        if there.is_ok() && crc32fast::hash(&bytes) == out {
            let [rounded, overflowed, nonfinite, not_undone] = [16, 20, 24, 28].map(|at| u64::from(word(at)));
            sums.set(number, (out, source), Changes { rounded, overflowed, nonfinite, not_undone });
            self.recorded[number] = true;
            watch.see(tiles, tile.stretch, tile.at, &bytes)?;
        }
        Ok(())
    }

    /// Makes the outputs durable, then records every tile finished before that.
    ///
    /// # Errors
    /// Io.
    pub fn record(&mut self, outputs: &[StagedFile], sums: &TileSums) -> Result<()> {
        let wrong =
            |e: std::io::Error| io_error(&e, "write the journal").in_file(self.path.display().to_string());
        let mut records = Vec::new();
        let mut news = Vec::new();
        for (number, _) in self.recorded.iter().enumerate().filter(|(_, known)| !**known) {
            if let Some((out, source)) = sums.get(number) {
                records.extend_from_slice(&(number as u64).to_le_bytes());
                records.extend_from_slice(&out.to_le_bytes());
                records.extend_from_slice(&source.to_le_bytes());
                let Changes { rounded, overflowed, nonfinite, not_undone } = sums.changes(number);
                for n in [rounded, overflowed, nonfinite, not_undone] {
                    records.extend_from_slice(&u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
                }
                news.push(number);
            }
        }
        outputs.iter().try_for_each(StagedFile::sync_data)?;
        self.file.write_all(&records).and_then(|()| self.file.sync_data()).map_err(wrong)?;
        news.into_iter().for_each(|number| self.recorded[number] = true);
        Ok(())
    }
}
