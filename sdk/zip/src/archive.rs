//! The index of an archive: which entry is where. Reads no data until [`Archive::read`].

use crate::end::{End, read, u16_at};
use crate::inflate::{Inflate, MOST_EXPANSION};
use crate::local::{Central, data_start};
use crate::window::Window;
use apr_sdk::{
    Checksum, Coding, Error, ErrorKind, Extent, Fact, FileId, Limits, Look, ModelSink, Result, Source,
    Stream, Sum, escape,
};
use std::collections::HashSet;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// The fewest bytes an entry takes up in the central directory.
const CENTRAL_LEN: u64 = 46;

/// Bytes of stored data read at once.
const PIECE: u64 = 16 << 20;

/// Storage method of an entry's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Uncompressed (method 0).
    Stored,
    /// Deflate (method 8).
    Deflated,
}

/// One entry, on which the central directory and the local header agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any text: callers that use it as a path must check it.
    pub name: String,
    /// Storage method of the data.
    pub method: Method,
    /// Offset of the local header in the file.
    pub header: u64,
    /// Offset of its record in the central directory.
    pub central: u64,
    /// The data as stored.
    pub data: Extent,
    /// Length of the data once inflated; that of `data` for a stored entry.
    pub raw_len: u64,
    /// CRC-32 of the raw data.
    pub crc32: u32,
}

impl Entry {
    /// The CRC-32 of its raw data, if someone computed it. For an entry with data, 0 means that nobody did:
    /// `torch.save` can be told not to.
    pub(crate) fn expected(&self) -> Option<u32> {
        (self.raw_len == 0 || self.crc32 != 0).then_some(self.crc32)
    }
}

/// The index of an archive. It keeps neither the source nor any data.
#[derive(Clone, Debug)]
pub struct Archive {
    entries: Vec<Entry>,
    /// Indices of the entries that have both data and a CRC-32.
    summed: Vec<usize>,
    directory: Extent,
}

/// Returns whether a file looks like a ZIP archive: it begins with a local header, or with the end record of an empty archive.
pub fn is_zip(look: &Look<'_>) -> bool {
    look.head_is(&crate::local::LOCAL) || look.head_is(&crate::end::END)
}

impl Archive {
    /// Reads the end records, the central directory, and each entry's local header.
    ///
    /// # Errors
    /// Malformed for a truncated directory, duplicate names, entries that overlap or leave the file, headers
    /// that disagree; Unsupported for encryption, methods other than stored and deflate, multiple disks;
    /// LimitExceeded; any error from the source. All name the file.
    pub fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Archive> {
        Archive::read_index(source, file, limits).map_err(|e| e.in_file(source.name(file)))
    }

    fn read_index(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Archive> {
        let end = End::find(source, file, limits)?;
        let count = limits
            .count("the entry count", end.count, limits.tensors, CENTRAL_LEN, end.size)
            .map_err(|e| e.at(end.start))?;
        let mut window = Window::new(source, file, &end, limits);
        let listed = list(&mut window, count, limits);
        let listed = match window.failure.take() {
            Some(failure) => Err(failure),
            None => listed.map_err(|e| e.at(end.start)),
        }?;
        let mut names = HashSet::with_capacity(listed.len());
        let mut entries = Vec::with_capacity(listed.len());
        for (listed, central_at) in &listed {
            if !names.insert(listed.name.as_str()) {
                let error = Error::malformed("duplicate entry name");
                return Err(named(&listed.name, error.at(*central_at)));
            }
            if source.cancelled() {
                return Err(Error::cancelled("stopped"));
            }
            let entry = listed.check(source, file, end.start, *central_at, limits);
            entries.push(entry.map_err(|e| named(&listed.name, e.at(*central_at)))?);
        }
        check_overlap(&entries)?;
        check_whole(source, file, &end, &entries, limits)?;
        let numbered = entries.iter().enumerate();
        let summed = numbered.filter(|(_, entry)| entry.raw_len > 0 && entry.expected().is_some());
        let summed = summed.map(|(n, _)| n).collect();
        Ok(Archive { entries, summed, directory: Extent::new(file, end.start, end.size) })
    }

    /// The entries, in central directory order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Finds the entry of exactly this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The extent of the central directory. The end records follow it.
    pub fn directory(&self) -> Extent {
        self.directory
    }

    /// Pushes the CRC-32 of every entry that has data. For deflated entries, `streamed` returns the number of
    /// the tensor whose stream reads all of the entry, if there is one.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn checksums(
        &self,
        sink: &mut dyn ModelSink,
        streamed: &dyn Fn(&Entry) -> Option<u64>,
    ) -> Result<()> {
        for entry in self.summed.iter().filter_map(|&number| self.entries.get(number)) {
            let stored = entry.crc32.to_le_bytes().as_slice().into();
            let coding = match entry.method {
                Method::Stored => Coding::Raw,
                Method::Deflated => streamed(entry).map_or(Coding::Encoded, Coding::Streamed),
            };
            let checksum = Checksum::raw(entry.data, stored, Sum::CRC32);
            sink.fact(Fact::Checksum(Checksum { coding, ..checksum }))?;
        }
        Ok(())
    }

    /// The raw data of the entry whose CRC-32 [`Archive::checksums`] pushed as number `checksum`, without
    /// comparing it.
    ///
    /// # Errors
    /// InvalidArgument if there is no such checksum, or its entry is not deflated.
    pub fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        let number = usize::try_from(checksum).ok().and_then(|n| self.summed.get(n));
        let entry = number.and_then(|&n| self.entries.get(n)).filter(|e| e.method == Method::Deflated);
        let entry = entry.ok_or_else(|| Error::invalid_argument("no deflated entry has this checksum"))?;
        Ok(Box::new(Inflate::new(entry).unchecked()))
    }

    /// Reads a small entry's raw data, charged to the budget and checked against its CRC-32.
    ///
    /// # Errors
    /// LimitExceeded; Malformed for data that does not match its length and CRC-32; any error from the
    /// source.
    pub fn read(&self, source: &dyn Source, entry: &Entry, limits: &Limits) -> Result<Vec<u8>> {
        read_entry(source, entry, limits)
            .map_err(|e| e.at(entry.data.offset).in_file(source.name(entry.data.file)))
    }
}

/// Prefixes the entry's name to an error, except where the machine or the user caused it.
fn named(name: &str, error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported) {
        return error;
    }
    let message = format!("entry `{}`: {}", escape(name, 120), error.message());
    let mut named = Error::new(error.kind(), message);
    if let Some(at) = error.offset() {
        named = named.at(at);
    }
    match error.hint_text() {
        Some(hint) => named.hint(hint),
        None => named,
    }
}

fn read_entry(source: &dyn Source, entry: &Entry, limits: &Limits) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut inflate = Inflate::new(entry);
    let mut crc = crc32fast::Hasher::new();
    while (out.len() as u64) < entry.raw_len {
        let done = out.len() as u64;
        let piece = (entry.raw_len - done).min(PIECE);
        limits.budget.charge(piece)?;
        let len = usize::try_from(done + piece).map_err(|_| {
            Error::limit(format!("entry `{}` does not fit in memory", escape(&entry.name, 120)))
        })?;
        let piece_at = out.len();
        out.resize(len, 0);
        match entry.method {
            Method::Stored => {
                source.read_at(entry.data.file, entry.data.offset + done, &mut out[piece_at..])?;
                crc.update(&out[piece_at..]);
                limits.budget.earn(piece);
            }
            Method::Deflated => {
                let read = inflate.taken();
                inflate.fill(source, &mut out[piece_at..])?;
                limits.budget.earn(inflate.taken() - read);
            }
        }
    }
    match entry.method {
        Method::Stored => crate::inflate::check_crc(entry, crc.finalize())?,
        Method::Deflated => {
            inflate.read(source, &mut [])?;
        }
    }
    Ok(out)
}

/// An entry as the central directory lists it.
struct Listed {
    name: String,
    raw_name: Vec<u8>,
    method: CompressionMethod,
    encrypted: bool,
    header: u64,
    stored_len: u64,
    raw_len: u64,
    crc32: u32,
}

impl Listed {
    fn check(
        &self,
        source: &dyn Source,
        file: FileId,
        limit: u64,
        central: u64,
        limits: &Limits,
    ) -> Result<Entry> {
        let (method, number) = match self.method {
            CompressionMethod::Stored => (Method::Stored, 0),
            CompressionMethod::DEFLATE => (Method::Deflated, 8),
            other => {
                let message = format!("its data uses an unsupported compression method ({other})");
                return Err(Error::unsupported(message).hint("write the archive again without compression"));
            }
        };
        if self.encrypted {
            return Err(Error::unsupported("its data is encrypted").hint("decrypt the archive first"));
        }
        let possible = match method {
            Method::Stored => self.raw_len == self.stored_len,
            Method::Deflated => self.raw_len / MOST_EXPANSION <= self.stored_len,
        };
        if !possible {
            return Err(Error::malformed(format!(
                "{} stored bytes cannot decompress to {}",
                self.stored_len, self.raw_len
            )));
        }
        let record = Central {
            name: &self.raw_name,
            method: number,
            header: self.header,
            stored_len: self.stored_len,
            raw_len: self.raw_len,
            crc32: self.crc32,
        };
        let start = data_start(source, file, &record, limit, limits)?;
        Ok(Entry {
            name: self.name.clone(),
            method,
            header: self.header,
            central,
            data: Extent::new(file, start, self.stored_len),
            raw_len: self.raw_len,
            crc32: self.crc32,
        })
    }
}

/// Memory that an entry may take besides its name, here and in the index of the `zip` crate: an estimate on
/// the safe side, not measured.
const RECORD_COST: usize = 1024;

fn refused(error: ZipError) -> Error {
    Error::malformed(format!("the central directory: {error}"))
}

/// The entries of the central directory, each with the offset of its record.
fn list(window: &mut Window<'_>, count: usize, limits: &Limits) -> Result<Vec<(Listed, u64)>> {
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let archive = ZipArchive::with_config(config, window).map_err(refused)?;
    if archive.has_duplicate_names() {
        let message = format!("the central directory has {count} entries, but only {} names", archive.len());
        return Err(Error::malformed(message)
            .hint("write the archive again: entries share a name, so it is ambiguous"));
    }
    let mut listed = Vec::new();
    for n in 0..archive.len() {
        let entry = archive.by_index_data(n).map_err(refused)?;
        // An extra field can give another name, which other tools ignore. If so, this is that other name, and
        // it will not match the one in the local header.
        let name = entry.name().map_err(refused)?.into_owned();
        limits.budget.charge((3 * name.len() + RECORD_COST) as u64)?;
        let item = Listed {
            name,
            raw_name: entry.name_raw().to_vec(),
            method: entry.compression(),
            encrypted: entry.encrypted(),
            header: entry.header_start(),
            stored_len: entry.compressed_size(),
            raw_len: entry.size(),
            crc32: entry.crc32(),
        };
        listed.push((item, entry.central_header_start()));
    }
    Ok(listed)
}

/// Refuses a directory that continues after the last counted entry: some tools trust the count, some the
/// size.
fn check_whole(
    source: &dyn Source,
    file: FileId,
    end: &End,
    entries: &[Entry],
    limits: &Limits,
) -> Result<()> {
    let mut at = end.start;
    if let Some(last) = entries.iter().map(|entry| entry.central).max() {
        let record = read(source, file, last, CENTRAL_LEN, limits)?;
        at = last + CENTRAL_LEN + u64::from(u16_at(&record, 28)) + u64::from(u16_at(&record, 30));
        at += u64::from(u16_at(&record, 32));
    }
    if at == end.directory_end() {
        return Ok(());
    }
    let message =
        format!("the {} entries of the central directory do not fill its {} bytes", end.count, end.size);
    Err(Error::malformed(message).at(at))
}

/// Refuses entries whose headers and data overlap: otherwise a small file could hold any number of them.
fn check_overlap(entries: &[Entry]) -> Result<()> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_unstable_by_key(|entry| entry.header);
    for pair in sorted.windows(2) {
        if pair[0].data.end().is_none_or(|end| end > pair[1].header) {
            let [a, b] = [pair[0], pair[1]].map(|entry| escape(&entry.name, 120));
            return Err(Error::malformed(format!("entries `{a}` and `{b}` overlap")).at(pair[1].header));
        }
    }
    Ok(())
}
