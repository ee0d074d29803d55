//! Finds the pickles in files that lie in others: in archives that are no checkpoints, and in compressed files.

use super::container::{Decompressed, HELD, Inside, Kind};
use super::names::Verdict;
use super::places::{
    Found, begins, is_checkpoint, is_named_pickle, records, run_all, sequence, tar_checkpoint,
};
use super::{refused_file, tar};
use crate::legacy_stream;
use crate::pickle::bare;
use apr_sdk::{Cursor, Error, ErrorKind, FileId, Limits, Look, MemorySource, Result, Source, escape};
use apr_zip::{Archive, Entry, Inflate, Method};

/// How many files may lie in each other.
const DEEPEST: usize = 4;

/// What an array file of NumPy begins with.
const ARRAY: &[u8] = b"\x93NUMPY";

/// The pickles in a file that holds others.
///
/// # Errors
/// Any error from the source.
pub fn contents(
    source: &dyn Source,
    file: FileId,
    kind: Kind,
    limits: &Limits,
    found: &mut Found,
) -> Result<()> {
    if found.depth >= DEEPEST {
        found.fail("it is not looked into: files are nested too deeply");
        return Ok(());
    }
    found.depth += 1;
    let looked = match kind {
        Kind::Closed(name) => {
            found.fail(&format!(
                "it is not looked into: apr does not read {name}; unpack it, and scan what it holds"
            ));
            Ok(())
        }
        Kind::Zip => zip(source, file, limits, found),
        Kind::Tar => members_of_tar(source, file, limits, found),
        Kind::Gzip | Kind::Zlib => compressed(source, file, kind == Kind::Gzip, limits, found),
    };
    found.depth -= 1;
    match looked {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => Err(error),
        Err(error) => {
            found.fail(error.message());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn zip(source: &dyn Source, file: FileId, limits: &Limits, found: &mut Found) -> Result<()> {
    let archive = Archive::open(source, file, limits)?;
    if is_checkpoint(&archive) {
        found.is_archive = false;
        records(source, &archive, limits, found)?;
        // The outermost file is opened when all files are scanned.
        let is_known = found.traces.iter().all(|trace| trace.verdict() == Verdict::Known);
        if found.depth > 1
            && is_known
            && let Some(why) = refused_file(source, file, limits)?
        {
            found.fail(&format!("it does not load: {why}"));
        }
        return Ok(());
    }
    archive.entries().iter().try_for_each(|entry| zip_member(source, &archive, entry, limits, found))
}

fn zip_member(
    source: &dyn Source,
    archive: &Archive,
    entry: &Entry,
    limits: &Limits,
    found: &mut Found,
) -> Result<()> {
    if entry.method == Method::Stored {
        return member(&Inside::new(source, entry.data, &entry.name), limits, found);
    }
    let mut head = vec![0; usize::try_from(entry.raw_len).unwrap_or(usize::MAX).min(Look::HEAD)];
    let looked = if head.is_empty() { Ok(()) } else { Inflate::new(entry).fill(source, &mut head) };
    let bytes = match looked {
        Ok(()) if !may_hold_a_pickle(&entry.name, &head) => return Ok(()),
        Ok(()) if entry.raw_len > HELD => Err(Error::limit("it is too long to be decompressed")),
        Ok(()) => archive.read(source, entry, limits),
        Err(error) => Err(error),
    };
    match bytes {
        Ok(bytes) => {
            found.allow(bytes.len() as u64);
            member(&MemorySource::new(entry.name.clone(), bytes), limits, found)
        }
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => Err(error),
        Err(error) => {
            found.fail(&format!("`{}`: {}", escape(&entry.name, 120), error.message()));
            Ok(())
        }
    }
}

fn members_of_tar(source: &dyn Source, file: FileId, limits: &Limits, found: &mut Found) -> Result<()> {
    let mut members = Vec::new();
    let listed = tar::members(source, file, limits, &mut members);
    if ["pickle", "sys_info", "storages", "tensors"]
        .iter()
        .all(|name| members.iter().any(|m| m.name == **name))
    {
        found.is_archive = false;
        return tar_checkpoint(source, file, limits, found);
    }
    for one in &members {
        member(&Inside::new(source, one.extent, &one.name), limits, found)?;
    }
    listed
}

fn compressed(
    source: &dyn Source,
    file: FileId,
    is_gzip: bool,
    limits: &Limits,
    found: &mut Found,
) -> Result<()> {
    let name = source.name(file);
    let own = name.rsplit('/').next().unwrap_or(&name);
    let own = [".gz", ".gzip", ".z", ".zlib"].iter().find_map(|ext| own.strip_suffix(ext)).unwrap_or(own);
    let mut data = Decompressed::new(source, file, is_gzip, limits)?;
    data.read_to(Look::HEAD as u64)?;
    let head = &data.bytes[..data.bytes.len().min(Look::HEAD)];
    if may_hold_a_pickle(own, head) {
        data.read_to(HELD)?;
        if data.bytes.len() as u64 > HELD {
            found.fail("it is too long to be decompressed; decompress it, and scan the result");
        }
    }
    if let Some(problem) = &data.problem {
        found.fail(problem);
    }
    found.allow(data.bytes.len() as u64);
    member(&MemorySource::new(own, data.bytes), limits, found)
}

/// Returns whether a file with this name that begins like this may be, or hold, a pickle.
fn may_hold_a_pickle(name: &str, head: &[u8]) -> bool {
    is_named_pickle(name)
        || Kind::of(head).is_some()
        || head.starts_with(ARRAY)
        || begins(head)
        || bare::begins(head)
}

/// The pickles in file 0 of a source, which lies in another.
fn member(source: &dyn Source, limits: &Limits, found: &mut Found) -> Result<()> {
    let (name, len) = (source.name(0), source.len(0)?);
    let mut head = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(Look::HEAD)];
    source.read_at(0, 0, &mut head)?;
    limits.budget.earn(head.len() as u64);
    let mut inner = found.inner();
    let is_named = is_named_pickle(&name);
    let own = Limits::default();
    if let Some(kind) = Kind::of(&head) {
        contents(source, 0, kind, limits, &mut inner)?;
    } else if legacy_stream::is_stream(&head) {
        sequence(source, 0, &mut inner)?;
    } else if head.starts_with(ARRAY) {
        objects(source, &head, &mut inner)?;
    } else if is_named || begins(&head) || bare::begins(&head) {
        let certain = is_named || bare::begins(&head);
        run_all(&mut Cursor::new(source, 0, 0, &own)?, "", usize::from(certain), &mut inner);
    }
    found.absorb(inner, &name);
    Ok(())
}

/// The pickle behind the header of an array of Python objects.
fn objects(source: &dyn Source, head: &[u8], found: &mut Found) -> Result<()> {
    let length = |range: std::ops::Range<usize>| {
        head.get(range).unwrap_or_default().iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte))
    };
    let start = if head.get(6) == Some(&1) { 10 } else { 12 };
    let end = start + length(8..start);
    let Some(header) = head.get(start..end) else {
        found.fail("the header of an array is damaged or too long");
        return Ok(());
    };
    // No other type is spelled with an `O`, unless by an escape.
    let is_suspect =
        header.iter().any(|byte| b"O\\".contains(byte)) || header.windows(6).any(|word| word == b"object");
    if is_suspect {
        let own = Limits::default();
        let mut cursor = Cursor::with_end(source, 0, end as u64, source.len(0)?, &own)?;
        run_all(&mut cursor, "", 1, found);
    }
    Ok(())
}
