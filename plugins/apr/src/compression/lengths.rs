//! The list of a tensor's blocks: from the table of lengths, or by walking the frames.

use super::frame::{HEAD_LEN, Head};
use super::{BLOCK, Method};
use apr_sdk::{BlockSink, Error, Extent, Result, Source};

/// The blocks of one compressed tensor.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Their compression.
    pub method: Method,
    /// The stored bytes of all.
    pub extent: Extent,
    /// Length of the payload once decoded.
    pub raw_len: u64,
    /// Where the table of lengths has those of this tensor, if the file has a table.
    pub table: Option<Extent>,
}

/// Bytes of a length in the table.
const LENGTH_LEN: u64 = 4;
/// Lengths read at once.
const PIECE: usize = 4096;

impl Blocks {
    /// Number of blocks of a payload of `raw_len` bytes.
    fn count(raw_len: u64) -> u64 {
        raw_len.div_ceil(BLOCK)
    }

    /// Bytes of the lengths of these blocks in the table.
    pub fn table_len(raw_len: u64) -> u64 {
        Blocks::count(raw_len) * LENGTH_LEN
    }

    /// Checks the table's lengths, if the file has a table: each against what its block can take, all against the tensor's.
    ///
    /// # Errors
    /// Malformed, at the length; any error from reading.
    pub fn check_table(&self, source: &dyn Source) -> Result<()> {
        let Some(table) = self.table else { return Ok(()) };
        let mut lengths = Lengths::new(source, table);
        let mut sum = 0;
        for block in 0..Blocks::count(self.raw_len) {
            let at = table.offset + block * LENGTH_LEN;
            let len = lengths.next()?;
            let (least, most) = self.method.stored_bounds(self.raw_len_of(block));
            if !(least..=most).contains(&len) {
                let message = format!(
                    "the table of block lengths gives block {block} a length of {len} bytes, expected {least} to {most}"
                );
                return Err(Error::malformed(message).at(at));
            }
            sum += len;
        }
        if sum == self.extent.len {
            return Ok(());
        }
        let message = format!(
            "the lengths of its blocks add up to {sum} bytes, but the index gives the tensor {}",
            self.extent.len
        );
        Err(Error::malformed(message).at(table.offset))
    }

    /// Bytes of a block once decoded.
    fn raw_len_of(&self, block: u64) -> u64 {
        (self.raw_len - block * BLOCK).min(BLOCK)
    }

    /// Pushes each block.
    ///
    /// # Errors
    /// Malformed for lengths that do not add up to the tensor's; any error from reading.
    pub fn list(&self, source: &dyn Source, sink: &mut dyn BlockSink) -> Result<()> {
        let mut lengths = self.table.map(|table| Lengths::new(source, table));
        let mut at = self.extent.offset;
        let end = at + self.extent.len;
        for block in 0..Blocks::count(self.raw_len) {
            let raw_len = self.raw_len_of(block);
            let len = match &mut lengths {
                Some(lengths) => lengths.next()?,
                None => self.walk(source, at, raw_len)?,
            };
            let next = at.checked_add(len).filter(|next| *next <= end && len > 0);
            let next = next.ok_or_else(|| {
                let message = format!(
                    "block {block} has a length of {len} bytes, but {} of its tensor are left",
                    end - at
                );
                Error::malformed(message).at(at)
            })?;
            sink.block(Extent::new(self.extent.file, at, len), raw_len)?;
            at = next;
        }
        if at == end {
            return Ok(());
        }
        Err(Error::malformed(format!("{} bytes follow the last block of the tensor", end - at)).at(at))
    }

    /// Stored bytes of the block at `at`, according to its frames.
    fn walk(&self, source: &dyn Source, at: u64, raw_len: u64) -> Result<u64> {
        let raw_len = raw_len / u64::from(self.method.planes);
        let end = self.extent.offset + self.extent.len;
        let mut next = at;
        for _ in 0..self.method.planes {
            let mut head = [0; 4];
            if next.checked_add(HEAD_LEN).is_none_or(|head_end| head_end > end) {
                return Err(Error::malformed("a block extends past the end of its tensor").at(next));
            }
            source.read_at(self.extent.file, next, &mut head)?;
            let head = Head::from_bytes(head);
            head.check(raw_len).map_err(|e| e.at(next))?;
            next += HEAD_LEN + u64::from(head.len);
        }
        Ok(next - at)
    }
}

/// Numbers of the table, in order.
struct Lengths<'s> {
    source: &'s dyn Source,
    left: Extent,
    held: std::vec::IntoIter<u32>,
}

impl<'s> Lengths<'s> {
    fn new(source: &'s dyn Source, table: Extent) -> Lengths<'s> {
        Lengths { source, left: table, held: Vec::new().into_iter() }
    }

    /// The next number.
    fn next(&mut self) -> Result<u64> {
        if let Some(len) = self.held.next() {
            return Ok(len.into());
        }
        let n = (self.left.len / LENGTH_LEN).min(PIECE as u64);
        let mut bytes = [0; PIECE * 4];
        let bytes = &mut bytes[..n as usize * 4];
        self.source.read_at(self.left.file, self.left.offset, bytes)?;
        self.left.offset += n * LENGTH_LEN;
        self.left.len -= n * LENGTH_LEN;
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        self.held = numbers.collect::<Vec<_>>().into_iter();
        let cut = || Error::malformed("the table of block lengths is too short");
        self.held.next().map(u64::from).ok_or_else(cut)
    }
}
