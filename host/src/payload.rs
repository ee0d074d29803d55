//! A tensor's payload in order, whatever kind it is: decoded, row-major, little-endian, a piece at a time.

use crate::host::Host;
use crate::open::OpenedModel;
use crate::source::CallSource;
use crate::tile::{TILE, Work};
use apr_sdk::{BlockAt, BlockSink, Budget, Error, Extent, Limits, Payload, Result};

/// A block is decoded whole; nothing real has blocks above this.
const LARGEST_BLOCK: u64 = 256 << 20;

/// Hands the payload of tensor number `tensor` to `each`, in order, in pieces of at most one tile or block.
///
/// # Errors
/// Malformed if the payload does not have the length its shape says; what reading, the reader or `each` raise. With
/// the file as the user typed it and the tensor.
pub fn stream(
    host: &Host,
    opened: &OpenedModel,
    tensor: usize,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let decl = &opened.model.tensors[tensor];
    let len = decl.payload_len()?;
    let streamed = match &decl.payload {
        Payload::Extent { .. } => extent(host, opened, tensor, len, each),
        Payload::Blocks { codec } => blocks(host, opened, tensor, *codec, len, each),
        _ => sequential(host, opened, tensor, len, each),
    };
    streamed.map_err(|e| opened.files.show(e.tensor(&decl.name)))
}

fn extent(
    host: &Host,
    opened: &OpenedModel,
    tensor: usize,
    len: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let work = Work::new(&opened.model.tensors[tensor], None)?;
    let read = |extent: Extent, out: &mut [u8]| opened.files.read_at(extent.file, extent.offset, out);
    let tile_len = work.tile_len();
    let mut buffer = vec![0; usize::try_from(len.min(tile_len)).unwrap_or(0)];
    let mut at = 0;
    while at < len {
        host.check_cancelled()?;
        let n = usize::try_from((len - at).min(tile_len)).unwrap_or(0);
        work.fill(&read, at, &mut buffer[..n])?;
        each(&buffer[..n])?;
        at += n as u64;
    }
    Ok(())
}

fn blocks(
    host: &Host,
    opened: &OpenedModel,
    tensor: usize,
    codec: u32,
    len: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (origin, number) = opened.origin(tensor)?;
    let limits = Limits::default();
    let source = CallSource::new(&opened.files, origin.root, &limits.budget, host.progress.as_ref());
    let mut blocks = Blocks { list: Vec::new(), left: len, budget: &limits.budget };
    origin.open.blocks(&source, number, &mut blocks)?;
    if blocks.left != 0 {
        return Err(Error::malformed(format!("its blocks end {} bytes too early", blocks.left)));
    }
    let (mut stored, mut raw) = (Vec::new(), Vec::new());
    let fits = |n: u64| usize::try_from(n).map_err(|_| Error::limit("a block does not fit memory"));
    for (block, (extent, raw_len)) in (0u64..).zip(blocks.list) {
        host.check_cancelled()?;
        let extent = origin.root.translate(extent);
        // Read before it is decoded, and checked against the file before it costs memory.
        if extent.end().is_none_or(|end| opened.files.get(extent.file).is_ok_and(|f| end > f.len)) {
            return Err(Error::malformed("a block lies outside its file").at(extent.offset));
        }
        stored.resize(fits(extent.len)?, 0);
        raw.resize(fits(raw_len)?, 0);
        opened.files.read_at(extent.file, extent.offset, &mut stored)?;
        origin.open.decode(codec, BlockAt { tensor: number, block }, &stored, &mut raw)?;
        each(&raw)?;
    }
    Ok(())
}

fn sequential(
    host: &Host,
    opened: &OpenedModel,
    tensor: usize,
    len: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (origin, number) = opened.origin(tensor)?;
    let limits = Limits::default();
    let mut stream = origin.open.stream(number)?;
    let mut buffer = vec![0; usize::try_from(TILE).unwrap_or(0)];
    let mut done = 0;
    loop {
        host.check_cancelled()?;
        let source = CallSource::new(&opened.files, origin.root, &limits.budget, host.progress.as_ref());
        let n = stream.read(&source, &mut buffer)?.min(buffer.len());
        done += n as u64;
        if n == 0 || done > len {
            break;
        }
        each(&buffer[..n])?;
    }
    if done == len {
        Ok(())
    } else {
        Err(Error::malformed(format!("its stream has {done} bytes or more, not {len}")))
    }
}

struct Blocks<'a> {
    list: Vec<(Extent, u64)>,
    left: u64,
    budget: &'a Budget,
}

impl BlockSink for Blocks<'_> {
    fn block(&mut self, stored: Extent, raw_len: u64) -> Result<()> {
        self.left = self
            .left
            .checked_sub(raw_len)
            .ok_or_else(|| Error::malformed("its blocks are longer than it is"))?;
        if raw_len == 0 || raw_len > LARGEST_BLOCK || stored.len > LARGEST_BLOCK {
            return Err(Error::limit(format!("a block of {} bytes, {raw_len} raw", stored.len)));
        }
        self.budget.charge(size_of::<(Extent, u64)>() as u64)?;
        self.list.push((stored, raw_len));
        Ok(())
    }
}
