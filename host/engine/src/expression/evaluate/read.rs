//! Reads payload of any kind in order: decoded, row-major, little-endian, a piece at a time.

use super::super::{Access, Expression, Granule, Panel};
use super::{Buffers, Evaluation};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::open::blocks::{BlockList, Decoder};
use crate::open::in_order::InOrder;
use apr_sdk::{Error, Extent, Result};
use std::ops::ControlFlow;

/// Fills a window with the bytes at an offset of the payload.
type Fill<'a> = dyn FnMut(u64, &mut [u8]) -> Result<()> + 'a;

/// A function that fills windows with a leaf's bytes; for a stream they must be consecutive.
fn filled<'a>(engine: &'a Engine, opened: &'a OpenedModel, leaf: Expression) -> Result<Box<Fill<'a>>> {
    let read = |extent: Extent, out: &mut [u8]| opened.read_at(engine, extent, out);
    if !leaf.is_leaf() {
        // The values of packed weights, in their own type.
        let granule = Granule::of(&leaf)?;
        let mut panel = Panel::default();
        let mut held = Vec::new();
        let mut buffers = Buffers::default();
        return Ok(Box::new(move |at, out| {
            let before = granule.before(out.len() as u64);
            held.resize(
                usize::try_from(before).map_err(|_| Error::limit("a row does not fit in memory"))?,
                0,
            );
            match leaf.access()? {
                Access::Unpack(unpack) => unpack.fill(&read, granule.before(at), &mut held, &mut panel)?,
                other => drop(other.fill(&read, granule.before(at), &mut held)?),
            }
            let of = Evaluation::new(granule, &engine.registry, &held, at)?;
            leaf.evaluate(&of, &mut buffers, out).map(drop)
        }));
    }
    Ok(match leaf.access()? {
        Access::Decode { tensor, codec } => {
            let list = BlockList::read(engine, opened, tensor)?;
            let mut decoder = Decoder::default();
            let codec = codec.clone();
            Box::new(move |at, out| decoder.fill(opened, tensor, &codec, &list, at, out))
        }
        Access::Stream { tensor } => {
            let mut stream = InOrder::begin(engine, opened, tensor)?;
            Box::new(move |_, out| stream.fill(out))
        }
        Access::Unpack(_) => {
            let mut panel = Panel::default();
            Box::new(move |at, out| match leaf.access()? {
                Access::Unpack(unpack) => unpack.fill(&read, at, out, &mut panel),
                other => other.fill(&read, at, out).map(drop),
            })
        }
        _ => Box::new(move |at, out| leaf.access()?.fill(&read, at, out).map(drop)),
    })
}

/// A leaf's bytes in order, a window at a time: as many as are best produced at once.
struct Windows<'a> {
    engine: &'a Engine,
    fill: Box<Fill<'a>>,
    buffer: Vec<u8>,
    window: u64,
    tile_len: u64,
    len: u64,
    at: u64,
}

impl<'a> Windows<'a> {
    fn new(
        engine: &'a Engine,
        opened: &'a OpenedModel,
        leaf: Expression,
        granule: u64,
    ) -> Result<Windows<'a>> {
        let len = leaf.byte_len()?;
        let access = leaf.access()?;
        let mut lens = [access.window(), access.tile_len()];
        if !leaf.is_leaf() {
            let own = Granule::of(&leaf)?;
            lens = lens.map(|len| own.after(len));
        }
        let [window, tile_len] = lens.map(|len| (len - len % granule).max(granule));
        let fill = filled(engine, opened, leaf)?;
        Ok(Windows { engine, fill, buffer: Vec::new(), window, tile_len, len, at: 0 })
    }

    /// Fills `buffer` with the next window; returns whether there was one.
    fn next(&mut self) -> Result<bool> {
        if self.at >= self.len {
            return Ok(false);
        }
        self.engine.check_cancelled()?;
        let n = (self.len - self.at).min(self.window);
        self.buffer.resize(usize::try_from(n).map_err(|_| Error::limit("a tile does not fit in memory"))?, 0);
        (self.fill)(self.at, &mut self.buffer)?;
        self.at += n;
        Ok(true)
    }
}

/// Reads a tensor's payload at ascending offsets, and no more than requested, unless it is sequential.
pub struct Ascending<'a> {
    engine: &'a Engine,
    fill: Box<Fill<'a>>,
    /// The last piece of a stream, and its offset: the next bytes may begin in it.
    held: Option<(u64, Vec<u8>)>,
}

impl<'a> Ascending<'a> {
    /// The payload of tensor number `tensor`.
    ///
    /// # Errors
    /// As [`InPieces::new`], without the file and the tensor.
    pub fn new(engine: &'a Engine, opened: &'a OpenedModel, tensor: usize) -> Result<Ascending<'a>> {
        let leaf = Expression::of(tensor, &opened.model.tensors[tensor])?;
        let held = matches!(leaf.access()?, Access::Stream { .. }).then(|| (0, Vec::new()));
        Ok(Ascending { engine, fill: filled(engine, opened, leaf)?, held })
    }

    /// Fills `out`, whole elements, with the bytes at `at`, which must not be before the start of the last
    /// call.
    ///
    /// # Errors
    /// As [`stream`], without the file and the tensor.
    pub fn read_at(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        /// Bytes of a stream skipped at once.
        const PASSED: u64 = 1 << 16;
        self.engine.check_cancelled()?;
        let Some((begin, held)) = &mut self.held else { return (self.fill)(at, out) };
        while *begin + (held.len() as u64) < at {
            *begin += held.len() as u64;
            held.resize(usize::try_from((at - *begin).min(PASSED)).unwrap_or(1), 0);
            (self.fill)(*begin, held)?;
        }
        let skipped = at.checked_sub(*begin).and_then(|n| usize::try_from(n).ok());
        let skipped = skipped.ok_or_else(|| Error::plugin("cannot read a stream backwards"))?;
        held.drain(..skipped);
        *begin = at;
        if held.len() < out.len() {
            let known = held.len();
            held.resize(out.len(), 0);
            (self.fill)(at + known as u64, &mut held[known..])?;
        }
        out.copy_from_slice(&held[..out.len()]);
        Ok(())
    }
}

/// Reads a tensor's payload in order, in pieces of any size.
pub struct InPieces<'a> {
    windows: Windows<'a>,
    opened: &'a OpenedModel,
    tensor: usize,
    /// Bytes of the window that were handed out.
    taken: usize,
    piece: Vec<u8>,
}

impl<'a> InPieces<'a> {
    /// The payload of tensor number `tensor`, before anything is read.
    ///
    /// # Errors
    /// Malformed if there are bytes although the shape needs none; any error from the reader. Errors carry
    /// the file as the user typed it and the tensor.
    pub fn new(engine: &'a Engine, opened: &'a OpenedModel, tensor: usize) -> Result<InPieces<'a>> {
        let decl = &opened.model.tensors[tensor];
        let leaf = Expression::of(tensor, decl);
        let windows = leaf.and_then(|leaf| Windows::new(engine, opened, leaf, 1));
        let windows = windows.map_err(|e| opened.files.show(e.tensor(&decl.name)))?;
        Ok(InPieces { windows, opened, tensor, taken: 0, piece: Vec::new() })
    }

    /// The next `size` bytes, or what is left; `None` at the end.
    ///
    /// # Errors
    /// As [`stream`].
    pub fn next(&mut self, size: usize) -> Result<Option<&[u8]>> {
        self.piece.clear();
        while self.piece.len() < size {
            if self.taken == self.windows.buffer.len() {
                let name = &self.opened.model.tensors[self.tensor].name;
                if !self.windows.next().map_err(|e| self.opened.files.show(e.tensor(name)))? {
                    break;
                }
                self.taken = 0;
            }
            let left = &self.windows.buffer[self.taken..];
            let n = (size - self.piece.len()).min(left.len());
            self.piece.extend_from_slice(&left[..n]);
            self.taken += n;
        }
        Ok((!self.piece.is_empty()).then_some(&self.piece))
    }
}

/// Passes the payload of tensor number `tensor` to `each`, in order, in pieces of at most one tile.
///
/// # Errors
/// Malformed if the payload's length does not match its shape; any error from reading, the reader or `each`.
/// Errors carry the file as the user typed it and the tensor.
pub fn stream(
    engine: &Engine,
    opened: &OpenedModel,
    tensor: usize,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let decl = &opened.model.tensors[tensor];
    let read = Expression::of(tensor, decl).and_then(|leaf| {
        in_pieces(engine, opened, leaf, 1, &mut |bytes| each(bytes).map(ControlFlow::Continue))
    });
    read.map_err(|e| opened.files.show(e.tensor(&decl.name)))
}

/// Passes the bytes of a leaf to `each`, in order, in pieces of at most one tile that are multiples of
/// `granule`, until it breaks.
///
/// # Errors
/// As [`stream`].
pub fn in_pieces(
    engine: &Engine,
    opened: &OpenedModel,
    leaf: Expression,
    granule: u64,
    each: &mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut windows = Windows::new(engine, opened, leaf, granule)?;
    let tile = usize::try_from(windows.tile_len).unwrap_or(1);
    while windows.next()? {
        for piece in windows.buffer.chunks(tile) {
            if each(piece)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
