//! A file that keeps the images of all weights for the next time.
//!
//! ```text
//! "APRIMG2\n" | length of the header u64 | header (JSON) | zeros up to 4096 x n | images, 64-byte aligned
//! | CRC-32 u32 of each MiB of all before, the last one shorter | CRC-32 u32 of those
//! ```
//!
//! The file's name is its key: a digest of everything that the images follow from. A file under another key is never
//! looked at, so weights that changed, or a backend with another layout, lead to a new file. Every piece is compared with its
//! checksum before the file is used: what a disk or another program did to it must not become an answer.

use crate::storage::lock::untroubled;
use crate::storage::mapping::Mapping;
use crate::storage::open_file::is_at;
use apr_engine::crew::{Crew, map};
use apr_sdk::{Error, ImageSpec, Result, escape};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::json;
use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// First bytes of a file of images.
const MAGIC: &[u8; 8] = b"APRIMG2\n";
/// Images begin at a multiple of this in a file. 4 KiB.
const PAGE: u64 = 4096;
/// Bytes that a checksum covers. 1 MiB: some thousand for a large model, each of which a thread reads at once.
const PIECE: u64 = 1 << 20;
/// Suffix of a file's name while it is written.
const STAGED: &str = ".apr-part";

/// The beginning of a file of images, up to the first of them.
pub fn beginning(key: &str, specs: &[ImageSpec]) -> Vec<u8> {
    let images: Vec<_> = specs.iter().map(|spec| json!([spec.layout, spec.bytes])).collect();
    let header = json!({ "schema": "apr.images/2", "key": key, "images": images }).to_string();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    let whole = (bytes.len() as u64).next_multiple_of(PAGE);
    bytes.resize(usize::try_from(whole).unwrap_or(bytes.len()), 0);
    bytes
}

/// The folder for such files, made if it is missing. `None` if others may write into it: then nothing in it is believed.
///
/// # Errors
/// Io if it cannot be made.
pub fn private_folder(folder: &Path) -> io::Result<Option<()>> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = folder.metadata()?;
    if !meta.is_dir() || !is_own(&meta) || meta.mode() & 0o022 != 0 {
        return Ok(None);
    }
    if meta.mode() & 0o777 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(Some(()))
}

fn is_own(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

/// The contents under the name of a file of images.
pub enum Held {
    /// Nothing.
    Nothing,
    /// A whole file, mapped.
    Images(Mapping),
    /// Something else, in words.
    Other(&'static str),
}

/// Opens the file at `path` and compares all of it with its checksums: `begin`, images up to `end`, the checksums.
///
/// # Errors
/// Cancelled.
pub fn open(path: &Path, begin: &[u8], end: u64, crew: &dyn Crew) -> Result<Held> {
    // A pipe with this name would wait for its writer, and a link may lead anywhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Held::Nothing),
        Err(_) => return Ok(Held::Other("they cannot be read")),
        Ok(file) => file,
    };
    let Some(meta) = file.metadata().ok().filter(|meta| meta.is_file() && is_own(meta)) else {
        return Ok(Held::Other("it is not a file of this user"));
    };
    let mut held = vec![0; begin.len()];
    if meta.len() != whole_len(end) || file.read_exact(&mut held).is_err() || held != begin {
        return Ok(Held::Other("the file is truncated or belongs to something else"));
    }
    // Checked where it lies: pages that are read now need not be read by the first step.
    let Ok(mapping) = Mapping::file(&file, whole_len(end), false) else {
        return Ok(Held::Other("the file cannot be mapped"));
    };
    Ok(match is_whole(&mapping, end, crew)? {
        true => Held::Images(mapping),
        false => Held::Other("checksum mismatch"),
    })
}

/// Number of pieces before `end`.
fn pieces(end: u64) -> usize {
    usize::try_from(end.div_ceil(PIECE)).unwrap_or(usize::MAX)
}

/// Length of a file whose images end at `end`.
pub fn whole_len(end: u64) -> u64 {
    end.saturating_add(4 * (pieces(end) as u64 + 1))
}

fn is_whole(mapping: &Mapping, end: u64, crew: &dyn Crew) -> Result<bool> {
    let bytes = mapping.bytes();
    let (images, table) = bytes.split_at(usize::try_from(end).unwrap_or(bytes.len()).min(bytes.len()));
    let piece = usize::try_from(PIECE).unwrap_or(usize::MAX);
    let pieces: Vec<&[u8]> = images.chunks(piece).collect();
    let sums = map(crew, pieces.len(), &|_, number| Ok(crc32fast::hash(pieces[number])))?;
    Ok(table == with_sum(sums) && !mapping.is_cut())
}

/// Checksums as they lie in the file, with that of all of them.
fn with_sum(sums: Vec<u32>) -> Vec<u8> {
    let mut table: Vec<u8> = sums.into_iter().flat_map(u32::to_le_bytes).collect();
    let sum = crc32fast::hash(&table);
    table.extend(sum.to_le_bytes());
    table
}

/// The checksums of what was written to a file up to `end`.
fn checksums(file: &File, end: u64, crew: &dyn Crew) -> Result<Vec<u8>> {
    let sums = map(crew, pieces(end), &|_, number| {
        let at = number as u64 * PIECE;
        let mut piece = vec![0; usize::try_from((end - at).min(PIECE)).unwrap_or(0)];
        file.read_exact_at(&mut piece, at).map_err(|error| Error::io(error.to_string()))?;
        Ok(crc32fast::hash(&piece))
    })?;
    Ok(with_sum(sums))
}

/// A file that is being written. It goes if it is not finished.
pub struct Staged {
    /// Locked, by which others know that it is not one that was left.
    pub file: File,
    path: PathBuf,
    /// The name that it gets.
    pub target: PathBuf,
    /// End of its images.
    end: u64,
    is_finished: bool,
}

impl Staged {
    /// A new file beside `target`, with room for images up to `end`. Another process may have the same id, where it runs in a
    /// container of its own.
    ///
    /// # Errors
    /// Io.
    pub fn new(folder: &Path, key: &str, target: &Path, begin: &[u8], end: u64) -> Result<Staged> {
        sweep(folder);
        let mut staged =
            Staged::created(folder, key, target, end).map_err(|error| Error::io(error.to_string()))?;
        staged.file.write_all(begin).map_err(|error| Error::io(error.to_string()))?;
        let len = whole_len(end);
        take_room(&mut staged.file, begin.len() as u64, len).map_err(|error| {
            let error = Error::io(format!("cannot allocate {len} bytes on disk: {error}"));
            error.hint("remove --cache-image, or set XDG_CACHE_HOME to another disk")
        })?;
        Ok(staged)
    }

    fn created(folder: &Path, key: &str, target: &Path, end: u64) -> io::Result<Staged> {
        for number in 0..1000 {
            let path = folder.join(format!(".{key}.{}-{number}{STAGED}", std::process::id()));
            let file = match File::options().create_new(true).read(true).write(true).mode(0o600).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Who sweeps may have come between.
            if !matches!(untroubled(|| file.try_lock()), Err(TryLockError::WouldBlock)) && is_at(&file, &path)
            {
                return Ok(Staged { file, path, target: target.to_owned(), end, is_finished: false });
            }
        }
        Err(io::Error::other("it is full of unfinished files (`.apr-part`): remove them"))
    }

    /// Adds the checksums and gives it its name. Where locks are known to one machine alone, another one may have swept it:
    /// then nothing is kept.
    ///
    /// # Errors
    /// Io.
    pub fn finish(&mut self, crew: &dyn Crew) -> Result<()> {
        let table = checksums(&self.file, self.end, crew)?;
        let written = self.file.write_all_at(&table, self.end).and_then(|()| self.file.sync_all());
        let named = written.and_then(|()| match is_at(&self.file, &self.path) {
            true => fs::rename(&self.path, &self.target),
            false => Ok(()),
        });
        named.map_err(|error| Error::io(error.to_string()))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_finished {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Removes what processes that were killed have left: files that nobody writes.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_staged = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(STAGED));
        if !is_staged || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        // Network file systems lock only what can be written. A link or a pipe may have come into its place.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        if let Ok(file) = File::options().read(true).write(true).custom_flags(flags).open(&path)
            && file.try_lock().is_ok()
            && is_at(&file, &path)
        {
            fs::remove_file(&path).ok();
        }
    }
}

/// Takes the room for a file of `end` bytes, of which `begin` are written. A full disk found while pages are written through
/// would end the process.
fn take_room(file: &mut File, begin: u64, end: u64) -> io::Result<()> {
    match rustix::fs::fallocate(&*file, rustix::fs::FallocateFlags::empty(), 0, end) {
        // File systems that cannot reserve room.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, end - begin),
        taken => Ok(taken?),
    }
}

fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(bytes), file)?;
    Ok(())
}

/// The warning that a file of images is made anew.
pub fn damaged(path: &Path, why: &str) -> String {
    let shown = escape(&path.display().to_string(), 400);
    format!("the prepared weights in {shown} are not used and will be prepared again: {why}")
}

/// The warning that no images are kept.
pub fn shared(folder: &Path) -> String {
    let shown = escape(&folder.display().to_string(), 400);
    format!(
        "--cache-image has no effect: {shown} is not a folder of this user, or others can write to it; run \
         `chmod 700` on it, or remove it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_by_zeros_where_it_cannot_be_otherwise() {
        let path = std::env::temp_dir().join(format!("apr-images-room-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"begin").unwrap();
        write_zeros(&mut file, 200_000).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 200_005 && bytes[5..].iter().all(|byte| *byte == 0));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_of_whole_pieces_has_no_checksum_more() {
        assert_eq!((pieces(0), pieces(1), pieces(PIECE), pieces(PIECE + 1)), (0, 1, 1, 2));
        assert_eq!(whole_len(PIECE), PIECE + 8);
    }
}
