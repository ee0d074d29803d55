//! Lays out an archive: stored entries only, with holes for the CRC-32s of data that the host moves.
//!
//! Equal entries give equal bytes: every entry has the earliest time that ZIP can express. Where Python's
//! `zipfile` leaves no choice to its caller, the bytes match it.

use crate::end::{end_record, end64_records};
use crate::local::{LOCAL, LOCAL_LEN, ZIP64};
use apr_sdk::{Encoding, Error, LayoutSink, PatchSink, Result, Sum, Written, escape};
use std::collections::{HashMap, HashSet};

/// Sizes and offsets above this use the ZIP64 form: the limit of Python's `zipfile`. Some readers treat the
/// 32-bit numbers as signed.
const LIMIT_32: u64 = i32::MAX as u64;

/// The id of the padding extra field, as PyTorch numbers it.
const PADDING: u16 = u16::from_le_bytes(*b"FB");

/// 1980-01-01 00:00: time, date.
const EARLIEST: [u16; 2] = [0, 0x21];

/// The flag for a name in UTF-8.
const UTF_8: u16 = 1 << 11;

/// The permissions that Python's `zipfile` records for an entry: 0600.
const OWNER_READS_AND_WRITES: u32 = 0o600 << 16;

/// The first hole number that [`ZipLayout`] uses; a writer's own must be below.
pub const FIRST_HOLE: u32 = 1 << 31;

/// Hole numbers reserved for each entry; the remainder modulo 8 tells their meaning. Holes without length
/// mark where the data begins and ends, so that [`patch`] needs nothing but [`Written`]; the others are the
/// CRC-32s.
pub(crate) const PER_ENTRY: u32 = 8;
pub(crate) const DATA_START: u32 = 0;
pub(crate) const DATA_END: u32 = 1;
pub(crate) const LOCAL_CRC: u32 = 2;
pub(crate) const CENTRAL_CRC: u32 = 3;
pub(crate) const DESCRIPTOR_CRC: u32 = 4;

/// Lays out an archive, entry by entry, in the current file of a sink.
#[derive(Debug, Default)]
pub struct ZipLayout {
    zip64_headers: bool,
    entries: Vec<Laid>,
    names: HashSet<String>,
    holes: HoleNumbers,
}

/// Allocates hole numbers. All archives in one layout must share one allocator, so that their holes stay
/// distinct.
#[derive(Debug, Default)]
pub struct HoleNumbers {
    next: u32,
}

impl HoleNumbers {
    /// Reserves the numbers of an entry's holes; returns the first.
    ///
    /// # Errors
    /// Unsupported if none are left.
    pub(crate) fn take(&mut self) -> Result<u32> {
        let next = self.next.checked_add(PER_ENTRY).filter(|&next| next < FIRST_HOLE).ok_or_else(too_many)?;
        Ok(FIRST_HOLE + std::mem::replace(&mut self.next, next))
    }
}

/// An entry that has been laid out.
#[derive(Debug)]
struct Laid {
    name: String,
    header: u64,
    len: u64,
    crc: Crc,
    zip64: bool,
}

/// A known CRC-32, or the number of the entry's first hole.
#[derive(Clone, Copy, Debug)]
enum Crc {
    Known(u32),
    Hole(u32),
}

impl ZipLayout {
    /// Begins an archive without entries.
    pub fn new() -> ZipLayout {
        ZipLayout::default()
    }

    /// Stores sizes in the ZIP64 form in every local header, like programs that do not know the sizes
    /// beforehand.
    pub fn with_zip64_headers(mut self) -> ZipLayout {
        self.zip64_headers = true;
        self
    }

    /// The hole numbers, for another archive in the same layout that is replayed instead of laid out here.
    pub fn holes(&mut self) -> &mut HoleNumbers {
        &mut self.holes
    }

    /// Adds an entry with these bytes, aligned to `align`.
    ///
    /// # Errors
    /// Unsupported for a duplicate name or one longer than 65535 bytes; any error from the sink.
    pub fn inline(&mut self, sink: &mut dyn LayoutSink, name: &str, bytes: &[u8], align: u64) -> Result<()> {
        let crc = Crc::Known(crc32fast::hash(bytes));
        self.local_header(sink, name, bytes.len() as u64, crc, 0, align)?;
        sink.inline(bytes)
    }

    /// Adds an entry that consists of `prefix` and the payload of tensor number `tensor`, which has `len`
    /// bytes and is aligned to `align`. [`patch`] fills in its CRC-32.
    ///
    /// # Errors
    /// As [`ZipLayout::inline`].
    pub fn payload(
        &mut self,
        sink: &mut dyn LayoutSink,
        name: &str,
        prefix: &[u8],
        tensor: u64,
        len: u64,
        align: u64,
    ) -> Result<()> {
        let hole = self.holes.take()?;
        let prefix_len = prefix.len() as u64;
        let whole = len.checked_add(prefix_len).ok_or_else(|| about(name, "it is longer than 2^64 bytes"))?;
        self.local_header(sink, name, whole, Crc::Hole(hole), prefix_len, align)?;
        sink.hole(hole + DATA_START, 0)?;
        sink.inline(prefix)?;
        sink.payload(tensor, 1, Encoding::Raw)?;
        sink.hole(hole + DATA_END, 0)
    }

    /// Adds the central directory and the end records. The layout is then empty again, ready for another
    /// archive in the next file of the same sink.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn finish(&mut self, sink: &mut dyn LayoutSink) -> Result<()> {
        let start = position(sink)?;
        let count = self.entries.len() as u64;
        self.names.clear();
        for entry in self.entries.drain(..) {
            entry.central(sink)?;
        }
        let size = position(sink)? - start;
        if count > u64::from(u16::MAX) || start > LIMIT_32 || size > LIMIT_32 {
            sink.inline(&end64_records(count, start, size))?;
        }
        sink.inline(&end_record(count, start, size))
    }

    /// Pushes the header of an entry of `len` bytes; whatever follows its first `prefix` bytes is aligned to
    /// `align`.
    fn local_header(
        &mut self,
        sink: &mut dyn LayoutSink,
        name: &str,
        len: u64,
        crc: Crc,
        prefix: u64,
        align: u64,
    ) -> Result<()> {
        if name.len() > usize::from(u16::MAX) {
            return Err(about(name, "the name is longer than the ZIP limit of 65535 bytes"));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(about(name, "two entries would have this name"));
        }
        let header = position(sink)?;
        let zip64 = self.zip64_headers || len > LIMIT_32;
        let mut extra = Vec::new();
        if zip64 {
            extra.extend_from_slice(&[ZIP64, 16].map(u16::to_le_bytes).concat());
            extra.extend_from_slice(&[len, len].map(u64::to_le_bytes).concat());
        }
        let before = header + (LOCAL_LEN + name.len() + extra.len()) as u64 + prefix;
        pad(&mut extra, before, align).map_err(|message| about(name, message))?;
        let entry = Laid { name: name.to_owned(), header, len, crc, zip64 };
        let size = if zip64 { u32::MAX } else { low(len) };
        sink.inline(&LOCAL)?;
        entry.fields(sink, LOCAL_CRC, size, extra.len())?;
        sink.inline(name.as_bytes())?;
        sink.inline(&extra)?;
        self.entries.push(entry);
        Ok(())
    }
}

impl Laid {
    fn version(&self) -> u16 {
        if self.zip64 { 45 } else { 20 }
    }

    /// The fields common to both headers, from the version needed to the length of the extra fields.
    fn fields(&self, sink: &mut dyn LayoutSink, crc: u32, size: u32, extra: usize) -> Result<()> {
        let flags = if self.name.is_ascii() { 0 } else { UTF_8 };
        let [time, date] = EARLIEST;
        sink.inline(&[self.version(), flags, 0, time, date].map(u16::to_le_bytes).concat())?;
        match self.crc {
            Crc::Known(value) => sink.inline(&value.to_le_bytes())?,
            Crc::Hole(hole) => sink.hole(hole + crc, 4)?,
        }
        sink.inline(&[size, size].map(u32::to_le_bytes).concat())?;
        // Both were checked when the entry was added.
        let [name, extra] = [self.name.len(), extra].map(|len| u16::try_from(len).unwrap_or(u16::MAX));
        sink.inline(&[name, extra].map(u16::to_le_bytes).concat())
    }

    /// Pushes the record for the central directory.
    fn central(mut self, sink: &mut dyn LayoutSink) -> Result<()> {
        let long = self.len > LIMIT_32;
        let far = self.header > LIMIT_32;
        let mut numbers = Vec::new();
        numbers.extend(long.then_some([self.len; 2]).into_iter().flatten());
        numbers.extend(far.then_some(self.header));
        let mut extra = Vec::new();
        if !numbers.is_empty() {
            self.zip64 = true;
            let len = u16::try_from(numbers.len() * 8).unwrap_or(u16::MAX);
            extra.extend_from_slice(&[ZIP64, len].map(u16::to_le_bytes).concat());
            numbers.iter().for_each(|number| extra.extend_from_slice(&number.to_le_bytes()));
        }
        // Made on Unix, which defines the attributes below.
        let made_by = self.version() | 3 << 8;
        sink.inline(b"PK\x01\x02")?;
        sink.inline(&made_by.to_le_bytes())?;
        self.fields(sink, CENTRAL_CRC, if long { u32::MAX } else { low(self.len) }, extra.len())?;
        sink.inline(&[0; 6])?; // comment, disk, internal attributes
        let header = if far { u32::MAX } else { low(self.header) };
        sink.inline(&[OWNER_READS_AND_WRITES, header].map(u32::to_le_bytes).concat())?;
        sink.inline(self.name.as_bytes())?;
        sink.inline(&extra)
    }
}

/// Fills the holes of every archive in `written`; call it from [`apr_sdk::Writer::finish`]. Holes numbered
/// below [`FIRST_HOLE`] are left to the caller.
///
/// # Errors
/// Plugin if an entry's holes are incomplete; any error from the sink.
pub fn patch(written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
    let mut places: HashMap<u32, [Option<(u32, u64)>; 2]> = HashMap::new();
    let ours: Vec<_> =
        written.holes.iter().filter_map(|hole| Some((hole, hole.id.checked_sub(FIRST_HOLE)?))).collect();
    for (hole, number) in &ours {
        let place = places.entry(number / PER_ENTRY).or_default();
        match number % PER_ENTRY {
            DATA_START => place[0] = Some((hole.file, hole.offset)),
            DATA_END => place[1] = Some((hole.file, hole.offset)),
            _ => continue,
        }
        sink.fill(hole.id, &[])?;
    }
    for (hole, number) in ours {
        if number % PER_ENTRY <= DATA_END {
            continue;
        }
        let Some([Some((file, start)), Some((_, end))]) = places.get(&(number / PER_ENTRY)) else {
            return Err(Error::plugin(format!("hole {} has no data to compute its CRC-32 from", hole.id)));
        };
        sink.fill_digest(hole.id, *file, *start, *end, Sum::CRC32)?;
    }
    Ok(())
}

/// Appends a padding field to `extra`, so that the data after the first `before` bytes is aligned to `align`.
fn pad(extra: &mut Vec<u8>, before: u64, align: u64) -> std::result::Result<(), &'static str> {
    let mut padding = match before.checked_rem(align) {
        Some(0) => return Ok(()),
        Some(past) => align - past,
        None => return Err("its data cannot be aligned to a multiple of 0"),
    };
    // Room for the field's own header.
    while padding < 4 {
        padding += align;
    }
    let zeros = usize::try_from(padding - 4).unwrap_or(usize::MAX);
    let len = extra.len().saturating_add(4).saturating_add(zeros);
    let (Ok(size), true) = (u16::try_from(zeros), len <= usize::from(u16::MAX)) else {
        return Err("its alignment is too large: an extra field holds at most 65535 bytes");
    };
    extra.extend_from_slice(&[PADDING, size].map(u16::to_le_bytes).concat());
    extra.resize(len, 0);
    Ok(())
}

fn position(sink: &dyn LayoutSink) -> Result<u64> {
    sink.position().ok_or_else(|| Error::plugin("an archive cannot follow encoded payload in its file"))
}

/// A number that is known to be small.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn about(name: &str, what: &str) -> Error {
    Error::unsupported(format!("entry `{}`: {what}", escape(name, 120)))
}

fn too_many() -> Error {
    Error::unsupported(format!("an archive with more than {} tensors", FIRST_HOLE / PER_ENTRY))
}
