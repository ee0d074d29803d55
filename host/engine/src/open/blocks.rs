//! Random access to payload in compressed blocks: a tensor's blocks are listed when it is first needed, and
//! decoded on demand.

use crate::engine::Engine;
use crate::open::source::CallSource;
use crate::open::{OpenedModel, Origin, way_out};
use apr_sdk::{BlockAt, BlockSink, Budget, Codec, Error, Extent, Limits, Result};

/// Bytes of a block, which is decoded as a whole; no real file has larger ones.
const LARGEST: u64 = 256 << 20;
/// Tensors whose blocks are at most this large are decoded on several threads, with one block in memory each.
pub const SHARED: u64 = 4 << 20;

/// The blocks of a tensor.
pub struct BlockList {
    /// The stored place of each block, and the offset of its raw bytes in the tensor.
    blocks: Vec<(Extent, u64)>,
    /// Length of the tensor in bytes.
    len: u64,
    /// True if every block has at most [`SHARED`] bytes, raw and stored.
    pub small: bool,
}

impl BlockList {
    /// Asks the reader for the blocks of tensor number `tensor`.
    ///
    /// # Errors
    /// Malformed if their raw lengths do not add up to the payload's; LimitExceeded; any error from the
    /// reader.
    pub fn read(engine: &Engine, opened: &OpenedModel, tensor: usize) -> Result<BlockList> {
        let len = opened.model.tensors[tensor].payload_len()?;
        let (origin, number) = opened.origin(tensor)?;
        let limits = Limits::default();
        let source = CallSource::new(&opened.files, origin.root, &limits.budget, engine.progress.as_ref());
        let list = BlockList { blocks: Vec::new(), len, small: true };
        let mut taker = Taker { list, at: 0, origin, budget: &limits.budget };
        origin.open.blocks(&source, number, &mut taker).map_err(way_out)?;
        if taker.at != len {
            let message = format!("its blocks are {} bytes too short", len - taker.at);
            return Err(way_out(Error::malformed(message)));
        }
        Ok(taker.list)
    }

    /// The stored place of each block, and its raw length.
    pub fn blocks(&self) -> impl Iterator<Item = (Extent, u64)> {
        (0..self.blocks.len()).map(|block| {
            let (begin, end) = self.raw(block);
            (self.blocks[block].0, end - begin)
        })
    }

    /// The raw bytes of a block, as start and end.
    fn raw(&self, block: usize) -> (u64, u64) {
        (self.blocks[block].1, self.blocks.get(block + 1).map_or(self.len, |(_, next)| *next))
    }
}

struct Taker<'a> {
    list: BlockList,
    at: u64,
    origin: &'a Origin,
    budget: &'a Budget,
}

impl BlockSink for Taker<'_> {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        let end = self.at.checked_add(raw_len).filter(|end| *end <= self.list.len);
        let end = end.ok_or_else(|| Error::malformed("its blocks are longer than its payload"))?;
        if raw_len == 0 || raw_len > LARGEST || stored.len > LARGEST {
            return Err(Error::limit(format!(
                "a block of {} bytes ({raw_len} uncompressed) is empty or too large",
                stored.len
            )));
        }
        self.budget.charge(size_of::<(Extent, u64)>() as u64)?;
        self.list.small &= raw_len.max(stored.len) <= SHARED;
        self.list.blocks.push((self.origin.root.translate(stored), self.at));
        self.at = end;
        Ok(())
    }
}

/// Decodes blocks one by one and keeps the last: the next tile may begin in it.
#[derive(Default)]
pub struct Decoder {
    stored: Vec<u8>,
    /// The blocks that are kept, the last one used at the end.
    held: Vec<Held>,
    /// Bytes that they may take up; one is kept in any case.
    room: usize,
}

/// A decoded block.
struct Held {
    /// Index of the tensor, index of the block.
    of: (usize, usize),
    raw: Vec<u8>,
}

impl Decoder {
    /// A decoder that keeps up to `room` bytes of blocks.
    pub fn keeping(room: usize) -> Decoder {
        Decoder { room, ..Decoder::default() }
    }

    /// Fills `out` with the raw bytes at offset `at` of tensor number `tensor`.
    ///
    /// # Errors
    /// Malformed, with the block's offset; any error from reading or the reader.
    pub fn fill(
        &mut self,
        opened: &OpenedModel,
        tensor: usize,
        codec: &Codec,
        list: &BlockList,
        mut at: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let mut rest = out;
        let mut block = list.blocks.partition_point(|(_, begin)| *begin <= at).saturating_sub(1);
        while !rest.is_empty() {
            let (begin, end) = list.raw(block);
            let n = in_memory((end - at).min(rest.len() as u64))?;
            let (now, later) = rest.split_at_mut(n);
            if n as u64 == end - begin {
                self.decode(opened, tensor, codec, list, block, now)?;
            } else {
                let raw = self.held(opened, tensor, codec, list, block)?;
                now.copy_from_slice(&raw[in_memory(at - begin)?..][..n]);
            }
            at += n as u64;
            block += 1;
            rest = later;
        }
        Ok(())
    }

    /// The raw bytes of a block, which are kept.
    fn held(
        &mut self,
        opened: &OpenedModel,
        tensor: usize,
        codec: &Codec,
        list: &BlockList,
        block: usize,
    ) -> Result<&[u8]> {
        let of = (tensor, block);
        match self.held.iter().position(|held| held.of == of) {
            Some(at) => self.held[at..].rotate_left(1),
            None => {
                let (begin, end) = list.raw(block);
                let len = in_memory(end - begin)?;
                let mut raw = Vec::new();
                while self.held.iter().map(|held| held.raw.len()).sum::<usize>() + len > self.room
                    && !self.held.is_empty()
                {
                    raw = self.held.remove(0).raw;
                }
                raw.resize(len, 0);
                self.decode(opened, tensor, codec, list, block, &mut raw)?;
                self.held.push(Held { of, raw });
            }
        }
        Ok(self.held.last().map_or(&[], |held| &held.raw))
    }

    fn decode(
        &mut self,
        opened: &OpenedModel,
        tensor: usize,
        codec: &Codec,
        list: &BlockList,
        block: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let (origin, number) = opened.origin(tensor)?;
        let (extent, _) = list.blocks[block];
        let file = opened.files.get(extent.file)?;
        let placed = |e: Error| way_out(e.at(extent.offset).in_file(file.name.clone()));
        // The extent is checked against the file before memory is allocated for it.
        if extent.end().is_none_or(|end| end > file.len) {
            return Err(placed(Error::malformed("a block extends past the end of its file")));
        }
        self.stored.resize(usize::try_from(extent.len).unwrap_or(0), 0);
        opened.files.read_at(extent.file, extent.offset, &mut self.stored)?;
        let at = BlockAt { tensor: number, block: block as u64 };
        origin.open.decode(codec, at, &self.stored, out).map_err(placed)
    }
}

/// A count of bytes that fits the memory's addresses.
fn in_memory(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::limit("a block does not fit in memory"))
}
