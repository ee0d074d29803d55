//! Files that hold other files: what kind they are, by their first bytes, and what lies in them.

use crate::legacy_tar;
use apr_sdk::{Error, Extent, FileId, Limits, LogLevel, Result, Source};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{BufRead, BufReader, Read};

/// The most bytes that a compressed file may have when it is decompressed. 256 MiB: several are held where files are nested.
pub const HELD: u64 = 256 << 20;

/// Bytes decompressed at once.
const PIECE: u64 = 1 << 20;

/// The first bytes of compressed files and archives that are not looked into, and what they are called.
#[rustfmt::skip] // a table
const CLOSED: [(&[u8], &str); 10] = [
    (b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x5d\0\0\x80\0\xff\xff\xff\xff", "lzma"), (b"\x5d\0\0\x01\0\xff\xff\xff\xff", "lzma"),
    (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4"), (b"ZF0x", "joblib's own zlib"), (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"), (b"\x1f\x9d", "compress"),
];

/// A kind of file that holds others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A ZIP archive.
    Zip,
    /// A tar archive.
    Tar,
    /// One file, compressed with gzip.
    Gzip,
    /// One file, compressed with zlib: joblib's default.
    Zlib,
    /// Something that is not looked into.
    Closed(&'static str),
}

impl Kind {
    /// The kind of a file that begins with `head`.
    pub fn of(head: &[u8]) -> Option<Kind> {
        if [&b"PK\x03\x04"[..], b"PK\x05\x06", b"PK\x07\x08"].iter().any(|magic| head.starts_with(magic)) {
            return Some(Kind::Zip);
        }
        if head.starts_with(b"\x1f\x8b\x08") {
            return Some(Kind::Gzip);
        }
        if is_zlib(head) {
            return Some(Kind::Zlib);
        }
        if legacy_tar::looks_like_tar(head) {
            return Some(Kind::Tar);
        }
        let closed = CLOSED.iter().find(|(magic, _)| head.starts_with(magic));
        closed.map(|(_, name)| Kind::Closed(name))
    }
}

/// Returns whether bytes begin a zlib stream. Its header is two bytes that a text may begin with as well, so that what follows
/// must decompress; a text that happens to must also end as a stream.
fn is_zlib(head: &[u8]) -> bool {
    let [0x78, flags, ..] = *head else { return false };
    if (0x7800 + u16::from(flags)) % 31 != 0 || flags & 0x20 != 0 {
        return false;
    }
    let is_text = head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let mut state = Decompress::new(true);
    let status = state.decompress(head, &mut [0; 64 << 10], FlushDecompress::None);
    match status {
        Ok(Status::StreamEnd) => true,
        Ok(Status::Ok | Status::BufError) => !is_text && state.total_out() > 0,
        Err(_) => false,
    }
}

/// A run of bytes of a source as a file of its own, without other files beside it.
pub struct Inside<'a> {
    source: &'a dyn Source,
    extent: Extent,
    name: &'a str,
}

impl<'a> Inside<'a> {
    /// The bytes of `extent`, under this name.
    pub fn new(source: &'a dyn Source, extent: Extent, name: &'a str) -> Inside<'a> {
        Inside { source, extent, name }
    }

    /// The place of a run of its bytes in the source.
    fn place(&self, offset: u64, len: u64) -> Result<Extent> {
        if offset.checked_add(len).is_none_or(|end| end > self.extent.len) {
            let message = format!("expected at least {len} bytes, found {}", self.extent.len);
            return Err(Error::malformed(message).at(offset).in_file(self.name.to_owned()));
        }
        Ok(Extent::new(self.extent.file, self.extent.offset + offset, len))
    }
}

impl Source for Inside<'_> {
    fn name(&self, _: FileId) -> String {
        self.name.to_owned()
    }

    fn len(&self, _: FileId) -> Result<u64> {
        Ok(self.extent.len)
    }

    fn read_at(&self, _: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let place = self.place(offset, out.len() as u64)?;
        self.source.read_at(place.file, place.offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.source.view(self.place(extent.offset, extent.len)?)
    }

    fn sibling(&self, _: &str) -> Result<FileId> {
        Err(Error::not_found("a file in an archive has no others beside it"))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(vec![self.name.to_owned()])
    }

    fn cancelled(&self) -> bool {
        self.source.cancelled()
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.source.log(level, message);
    }
}

/// A compressed file, decompressed in order.
pub struct Decompressed<'a> {
    decoder: Decoder<'a>,
    limits: &'a Limits,
    /// What was decompressed so far.
    pub bytes: Vec<u8>,
    /// What is wrong with the compressed bytes.
    pub problem: Option<String>,
}

enum Decoder<'a> {
    Gzip(MultiGzDecoder<BufReader<Bytes<'a>>>),
    Zlib(ZlibDecoder<BufReader<Bytes<'a>>>),
}

impl<'a> Decompressed<'a> {
    /// The contents of a file that is compressed with gzip, or else with zlib.
    ///
    /// # Errors
    /// Any error from the source.
    pub fn new(source: &'a dyn Source, file: FileId, is_gzip: bool, limits: &'a Limits) -> Result<Self> {
        let reader =
            BufReader::new(Bytes { source, file, at: 0, len: source.len(file)?, limits, failed: None });
        let decoder = match is_gzip {
            true => Decoder::Gzip(MultiGzDecoder::new(reader)),
            false => Decoder::Zlib(ZlibDecoder::new(reader)),
        };
        Ok(Decompressed { decoder, limits, bytes: Vec::new(), problem: None })
    }

    /// Decompresses up to `len` bytes in all, and one more to see if there are any. Damage is a problem, not an error: Python runs a pickle as far as it gets.
    ///
    /// # Errors
    /// Io and Cancelled, from the source; LimitExceeded for more than is in proportion to what was read.
    pub fn read_to(&mut self, len: u64) -> Result<()> {
        while self.problem.is_none() && self.bytes.len() as u64 <= len {
            let before = self.bytes.len() as u64;
            let piece = (len + 1 - before).min(PIECE);
            let read = match &mut self.decoder {
                Decoder::Gzip(decoder) => decoder.by_ref().take(piece).read_to_end(&mut self.bytes),
                Decoder::Zlib(decoder) => decoder.by_ref().take(piece).read_to_end(&mut self.bytes),
            };
            let reader = match &mut self.decoder {
                Decoder::Gzip(decoder) => decoder.get_mut(),
                Decoder::Zlib(decoder) => decoder.get_mut(),
            };
            if let Some(failed) = reader.get_mut().failed.take() {
                return Err(failed);
            }
            self.limits.budget.charge(self.bytes.len() as u64 - before)?;
            match read {
                Err(error) => self.problem = Some(format!("the compressed data is damaged: {error}")),
                Ok(0) => {
                    if reader.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
                        self.problem = Some("something follows the compressed data".to_owned());
                    }
                    break;
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// A file of a source, in order.
struct Bytes<'a> {
    source: &'a dyn Source,
    file: FileId,
    at: u64,
    len: u64,
    limits: &'a Limits,
    /// The source's error, which is not the data's fault.
    failed: Option<Error>,
}

impl Read for Bytes<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = usize::try_from(self.len - self.at).unwrap_or(usize::MAX).min(out.len());
        if let Err(error) = self.source.read_at(self.file, self.at, &mut out[..len]) {
            self.failed = Some(error);
            return Err(std::io::Error::other("it cannot be read"));
        }
        self.at += len as u64;
        self.limits.budget.earn(len as u64);
        Ok(len)
    }
}
