//! Deflated data as a sequential stream, bounded by the raw length in the directory.

use crate::archive::Entry;
use apr_sdk::{Error, Extent, Result, Source, Stream, escape};
use flate2::{Decompress, FlushDecompress, Status};

/// The most raw bytes that one deflated byte can expand to: a match of 258 bytes in two bits (RFC 1951,
/// 3.2.5), which is 1032 at the limit.
pub(crate) const MOST_EXPANSION: u64 = 1032;

/// Deflated bytes read at once: few at first, since often only a header is needed.
const INPUT: [usize; 2] = [4 * 1024, 64 * 1024];

/// Bytes inflated at once only to be skipped.
const SKIPPED: u64 = 16 * 1024;

/// The raw data of a deflated entry, in order. The stream ends at the raw length stated in the directory,
/// provided that the deflated data ends there too and the CRC-32 matches.
pub struct Inflate {
    name: String,
    data: Extent,
    raw_len: u64,
    expected: Option<u32>,
    taken: u64,
    made: u64,
    /// Raw bytes still to be skipped.
    skip: u64,
    input: Vec<u8>,
    input_at: usize,
    state: Decompress,
    crc: crc32fast::Hasher,
    finished: bool,
}

impl Inflate {
    /// A stream from the start of `entry`, which must be deflated.
    pub fn new(entry: &Entry) -> Inflate {
        Inflate {
            name: entry.name.clone(),
            data: entry.data,
            raw_len: entry.raw_len,
            expected: entry.expected(),
            taken: 0,
            made: 0,
            skip: 0,
            input: Vec::new(),
            input_at: 0,
            state: Decompress::new(false),
            crc: crc32fast::Hasher::new(),
            finished: false,
        }
    }

    /// Skips the first `n` bytes, such as a header.
    pub fn skipping(mut self, n: u64) -> Inflate {
        self.skip = n.min(self.raw_len);
        self
    }

    /// Leaves the comparison of the CRC-32 to the caller.
    #[must_use]
    pub fn unchecked(mut self) -> Inflate {
        self.expected = None;
        self
    }

    /// Raw bytes left in the stream.
    pub fn left(&self) -> u64 {
        self.raw_len - self.made - self.skip
    }

    /// Deflated bytes consumed so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Fills `out` completely.
    ///
    /// # Errors
    /// As [`Stream::read`]; Malformed if the data ends early.
    pub fn fill(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<()> {
        if out.len() as u64 > self.left() {
            let message = format!("expected {} bytes, only {} are left", out.len(), self.left());
            return Err(self.wrong(&message).in_file(source.name(self.data.file)));
        }
        let mut done = 0;
        while done < out.len() {
            done += self.read(source, &mut out[done..])?;
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        Error::malformed(format!("entry `{}`: {what}", escape(&self.name, 120)))
            .at(self.data.offset.saturating_add(self.taken))
    }

    /// Inflates into `out`, which must not be empty; returns how many bytes, and whether the deflated data
    /// ended.
    fn step(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<(usize, bool)> {
        loop {
            if self.input_at == self.input.len() {
                let left = self.data.len - self.taken;
                let most = INPUT[usize::from(self.taken > 0)] as u64;
                self.input.resize(usize::try_from(left.min(most)).unwrap_or_default(), 0);
                self.input_at = 0;
                let at = self.data.offset.saturating_add(self.taken);
                if let Err(error) = source.read_at(self.data.file, at, &mut self.input) {
                    self.input.clear();
                    return Err(error);
                }
                self.taken += self.input.len() as u64;
            }
            let in_before = self.state.total_in();
            let out_before = self.state.total_out();
            let status = self
                .state
                .decompress(&self.input[self.input_at..], out, FlushDecompress::None)
                .map_err(|_| self.wrong("the deflated data is corrupt"))?;
            let used = usize::try_from(self.state.total_in() - in_before).unwrap_or_default();
            let filled = usize::try_from(self.state.total_out() - out_before).unwrap_or_default();
            self.input_at += used;
            let ended = status == Status::StreamEnd;
            if filled > 0 || ended {
                return Ok((filled, ended));
            }
            if self.input_at == self.input.len() && self.taken == self.data.len {
                return Err(self.wrong("unexpected end of the deflated data"));
            }
            if used == 0 && self.input_at < self.input.len() {
                return Err(self.wrong("the deflated data is corrupt"));
            }
        }
    }

    /// Inflates the next bytes into `out`, which must not be empty, and checks the end when it gets there.
    fn advance(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let (made, mut ended) = self.step(source, out)?;
        self.crc.update(&out[..made]);
        self.made += made as u64;
        let mut more = self.made > self.raw_len;
        if self.made == self.raw_len && !ended {
            // No further byte may come.
            let (made, end) = self.step(source, &mut [0])?;
            (more, ended) = (made > 0, end);
        }
        if more {
            return Err(self.wrong(&format!("it inflates to more than its {} bytes", self.raw_len)));
        }
        if ended {
            if self.made < self.raw_len {
                let message = format!("it inflates to {} bytes, expected {}", self.made, self.raw_len);
                return Err(self.wrong(&message));
            }
            if self.taken - (self.input.len() - self.input_at) as u64 != self.data.len {
                return Err(self.wrong("extra bytes after the deflated data"));
            }
            check(&self.name, self.expected, self.crc.clone().finalize())
                .map_err(|e| e.at(self.data.offset))?;
            self.finished = true;
        }
        Ok(made)
    }
}

impl Stream for Inflate {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        self.read_some(source, out).map_err(|e| e.in_file(source.name(self.data.file)))
    }
}

impl Inflate {
    fn read_some(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let mut scratch = Vec::new();
        while self.skip > 0 {
            scratch.resize(usize::try_from(self.skip.min(SKIPPED)).unwrap_or(1), 0);
            self.skip -= self.advance(source, &mut scratch)? as u64;
        }
        if self.left() == 0 {
            // Data of length 0 must end properly as well.
            if !self.finished {
                self.advance(source, &mut [0])?;
            }
            return Ok(0);
        }
        let most = usize::try_from(self.left()).unwrap_or(usize::MAX).min(out.len());
        if most == 0 {
            return Ok(0);
        }
        self.advance(source, &mut out[..most])
    }
}

/// Compares the CRC-32 of an entry's raw data with its header.
///
/// # Errors
/// Failed if they differ.
pub(crate) fn check_crc(entry: &Entry, found: u32) -> Result<()> {
    check(&entry.name, entry.expected(), found)
}

fn check(name: &str, expected: Option<u32>, found: u32) -> Result<()> {
    let Some(expected) = expected.filter(|expected| *expected != found) else { return Ok(()) };
    let message = format!(
        "entry `{}`: the CRC-32 of its data is {found:08x}, but its header states {expected:08x}",
        escape(name, 120)
    );
    Err(Error::failed(message).hint("get the file again: it is corrupt").code("E004"))
}
