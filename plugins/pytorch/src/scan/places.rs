//! Finds the pickles in a file: in an archive's records, in a tar's members, in sequence from the start, and
//! after the local headers of a broken archive.

use super::container::Kind;
use super::members;
use super::names::Verdict;
use super::trace::Trace;
use crate::layout::DATA;
use crate::legacy_tar;
use apr_sdk::{Cursor, Error, ErrorKind, FileId, Limits, MemorySource, Result, Source, escape};
use apr_zip::{Archive, Entry, Method};

/// Bytes that are traced: four times the file, and this for small ones whose few places overlap.
const TRACED: u64 = 1 << 20;

/// Pickles that a legacy stream begins with, and that torch loads one after another.
const STREAM: usize = 5;

/// Pickles of one file that are looked at.
const MOST: usize = 4096;

/// How much of a broken archive is searched for headers.
const SEARCHED: u64 = 64 << 20;

/// The longest deflated record that is looked into.
const INFLATED: u64 = 32 << 20;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The pickles.
    pub traces: Vec<Trace>,
    /// What is wrong with the file around them.
    pub problem: Option<String>,
    /// True for an archive or a compressed file that is no checkpoint: it need not hold a pickle.
    pub is_archive: bool,
    /// How many files this one lies in.
    pub depth: usize,
    /// Bytes that may still be traced: places in a file may overlap.
    left: u64,
    /// Opcodes that may still be kept.
    steps: usize,
}

impl Found {
    /// Notes what is wrong, unless something is already.
    pub fn fail(&mut self, problem: &str) {
        self.problem.get_or_insert_with(|| problem.to_owned());
    }

    /// Lets as much be traced as `bytes` that were decompressed may need.
    pub fn allow(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes.saturating_mul(4));
    }

    /// What is to be found in a file inside, with what is left for it.
    pub fn inner(&self) -> Found {
        Found { left: self.left, steps: self.steps, depth: self.depth, ..Found::default() }
    }

    /// Takes what was found in the file `name` inside.
    pub fn absorb(&mut self, inner: Found, name: &str) {
        (self.left, self.steps) = (inner.left, inner.steps);
        if let Some(problem) = inner.problem {
            self.fail(&format!("{}: {problem}", escape(name, 120)));
        }
        for mut trace in inner.traces {
            let rest = if trace.place.is_empty() { String::new() } else { format!(": {}", trace.place) };
            trace.place = format!("{name}{rest}");
            self.traces.push(trace);
        }
        if self.traces.len() > MOST {
            self.traces.truncate(MOST);
            self.fail("it contains more pickles than are scanned");
        }
    }
}

/// The pickles of a file.
///
/// # Errors
/// Any error from the source.
pub fn traces(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Found> {
    let len = source.len(file)?;
    let mut head = vec![0; usize::try_from(len.min(512)).unwrap_or(0)];
    source.read_at(file, 0, &mut head)?;
    limits.budget.earn(head.len() as u64);
    let left = len.saturating_mul(4).saturating_add(TRACED);
    let mut found = Found { left, steps: super::LISTED, ..Found::default() };
    if legacy_tar::is_tar(&head) {
        tar_checkpoint(source, file, limits, &mut found)?;
        return Ok(found);
    }
    if let Some(kind) = Kind::of(&head).filter(|kind| *kind != Kind::Zip) {
        found.is_archive = true;
        members::contents(source, file, kind, limits, &mut found)?;
        return Ok(found);
    }
    match Archive::open(source, file, limits) {
        Ok(archive) if head.starts_with(b"PK") && !is_checkpoint(&archive) => {
            found.is_archive = true;
            members::contents(source, file, Kind::Zip, limits, &mut found)?;
            return Ok(found);
        }
        Ok(archive) => {
            records(source, &archive, limits, &mut found)?;
            // An archive behind something else: torch loads what comes first.
            if !head.starts_with(b"PK") {
                sequence(source, file, &mut found)?;
            }
            return Ok(found);
        }
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(error) if head.starts_with(b"PK") => found.problem = Some(error.message().to_owned()),
        Err(_) => sequence(source, file, &mut found)?,
    }
    headers(source, file, len, limits, &mut found)?;
    Ok(found)
}

/// Whether bytes begin as a pickle does: of protocol 2 and up by its first opcode, before that by a name or a mark.
pub fn begins(head: &[u8]) -> bool {
    match head {
        [0x80, 0..=5, ..] => true,
        [b'c', first, ..] => first.is_ascii_alphabetic() || *first == b'_',
        [b'(' | b']' | b'}', next, ..] => b"(]}cdilpqSUVXIKMJNoht.".contains(next),
        _ => false,
    }
}

/// Whether a file of this name is a pickle, whatever it begins with.
pub fn is_named_pickle(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".pkl", ".pickle", ".p", ".joblib", ".dill"].iter().any(|ext| name.ends_with(ext))
}

/// Whether an archive is a checkpoint: torch loads its `data.pkl`.
pub fn is_checkpoint(archive: &Archive) -> bool {
    archive.entries().iter().any(|entry| entry.name == "data.pkl" || entry.name.ends_with("/data.pkl"))
}

/// The pickles in the records of a checkpoint.
///
/// # Errors
/// Any error from the source.
pub fn records(source: &dyn Source, archive: &Archive, limits: &Limits, found: &mut Found) -> Result<()> {
    archive.entries().iter().try_for_each(|entry| record(source, archive, entry, limits, found))
}

/// A storage's or text's bytes may look like a pickle: only one that names something bad is told.
fn is_told(trace: &Trace, certain: bool) -> bool {
    match trace.verdict() {
        Verdict::Dangerous => true,
        Verdict::Unknown => certain || trace.problem.is_none(),
        Verdict::Known => certain,
    }
}

fn record(
    source: &dyn Source,
    archive: &Archive,
    entry: &Entry,
    limits: &Limits,
    found: &mut Found,
) -> Result<()> {
    if entry.raw_len == 0 {
        return Ok(());
    }
    let name = entry.name.to_ascii_lowercase();
    let certain = is_named_pickle(&name);
    let own = Limits { budget: apr_sdk::Budget::default(), ..Limits::default() };
    if entry.method == Method::Deflated {
        if !certain && name.contains(&format!("/{DATA}")) {
            return Ok(());
        }
        if entry.raw_len > INFLATED {
            let name = escape(&entry.name, 120);
            found.problem = Some(format!("`{name}` is deflated and too long to scan"));
            return Ok(());
        }
        let bytes = match archive.read(source, entry, limits) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
            Err(error) => {
                found.problem = Some(error.message().to_owned());
                return Ok(());
            }
        };
        if certain || begins(&bytes) {
            let inflated = MemorySource::new(entry.name.clone(), bytes);
            let mut cursor = Cursor::new(&inflated, 0, 0, &own)?;
            run_all(&mut cursor, &entry.name, usize::from(certain), found);
        }
        return Ok(());
    }
    let end = entry.data.offset.saturating_add(entry.data.len);
    span(source, entry.data.file, entry.data.offset, end, &entry.name, certain, found)
}

/// The pickles in `start..end`, if it begins with one.
fn span(
    source: &dyn Source,
    file: FileId,
    start: u64,
    end: u64,
    place: &str,
    certain: bool,
    found: &mut Found,
) -> Result<()> {
    let mut head = [0; 2];
    if end.saturating_sub(start) < 2 {
        return Ok(());
    }
    source.read_at(file, start, &mut head)?;
    if certain || begins(&head) {
        let own = Limits::default();
        let mut cursor = Cursor::with_end(source, file, start, end, &own)?;
        run_all(&mut cursor, place, usize::from(certain), found);
    }
    Ok(())
}

/// Pickles one after another. The first `certain` of them are told whatever they are.
pub fn run_all(cursor: &mut Cursor<'_>, place: &str, certain: usize, found: &mut Found) {
    let mut n = 0;
    while cursor.left() > 0 {
        if found.traces.len() >= MOST || found.left == 0 {
            found.problem = Some("it contains more pickles than are scanned".to_owned());
            return;
        }
        let trace = Trace::of(cursor, place, found.steps);
        found.left = found.left.saturating_sub(trace.end.saturating_sub(trace.start).max(1));
        let stopped = trace.problem.is_none();
        // Behind those that are certain, whatever follows need not be one.
        if is_told(&trace, n < certain) || (certain > 0 && stopped) {
            found.steps -= trace.steps.len().min(found.steps);
            found.traces.push(trace);
        }
        n += 1;
        if !stopped {
            break;
        }
    }
}

/// Pickles one after another from the file's beginning, as a legacy stream has them, or a file that is only a pickle.
///
/// # Errors
/// Any error from the source.
pub fn sequence(source: &dyn Source, file: FileId, found: &mut Found) -> Result<()> {
    let own = Limits::default();
    let mut cursor = Cursor::new(source, file, 0, &own)?;
    run_all(&mut cursor, "the file", STREAM, found);
    Ok(())
}

/// The pickles in a tar that torch wrote.
///
/// # Errors
/// Any error from the source.
pub fn tar_checkpoint(source: &dyn Source, file: FileId, limits: &Limits, found: &mut Found) -> Result<()> {
    match legacy_tar::members(source, file, limits) {
        Ok(members) => {
            for (name, start, end) in members {
                span(source, file, start, end, &name, name == "pickle" || name == "sys_info", found)?;
            }
            // The other two mix pickles and data; whoever can read them all knows that there is nothing else.
            let opened = legacy_tar::open(source, file, &Limits::default());
            if let Err(error) = opened {
                found.problem.get_or_insert_with(|| error.message().to_owned());
            }
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => Err(error),
        Err(error) => {
            found.problem = Some(error.message().to_owned());
            Ok(())
        }
    }
}

/// What follows each local header of an archive whose directory cannot be read.
fn headers(source: &dyn Source, file: FileId, len: u64, limits: &Limits, found: &mut Found) -> Result<()> {
    const PIECE: u64 = 1 << 20;
    let until = len.min(SEARCHED);
    let mut at = 0;
    while at < until {
        if source.cancelled() {
            return Err(Error::cancelled("stopped"));
        }
        // Three bytes more, so that a header on the border is seen.
        let size = (PIECE + 3).min(len - at);
        let mut piece = vec![0; usize::try_from(size).unwrap_or(0)];
        source.read_at(file, at, &mut piece)?;
        limits.budget.earn(size);
        for (n, _) in piece.windows(4).enumerate().filter(|(_, run)| *run == b"PK\x03\x04") {
            if found.left == 0 || found.traces.len() >= MOST {
                found.problem = Some("it contains more pickles than are scanned".to_owned());
                return Ok(());
            }
            let header_at = at + n as u64;
            let mut header = [0; 30];
            if header_at + 30 > len {
                continue;
            }
            source.read_at(file, header_at, &mut header)?;
            let short = |n: usize| u64::from(u16::from_le_bytes([header[n], header[n + 1]]));
            let (name_len, extra_len) = (short(26), short(28));
            let start = header_at + 30 + name_len + extra_len;
            if start >= len {
                continue;
            }
            let mut name = vec![0; usize::try_from(name_len).unwrap_or(0)];
            source.read_at(file, header_at + 30, &mut name)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            span(source, file, start, len, &name, name.ends_with(".pkl"), found)?;
        }
        at += PIECE;
    }
    Ok(())
}
