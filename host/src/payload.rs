//! A tensor's payload in order, whatever kind it is: decoded, row-major, little-endian, a piece at a time.

use crate::blocks::{BlockList, Decoder};
use crate::host::Host;
use crate::in_order::InOrder;
use crate::open::OpenedModel;
use crate::tile::Work;
use apr_sdk::{Extent, Result};
use std::ops::ControlFlow;

/// Fills a piece with the bytes at an offset of the payload.
type Fill<'a> = dyn FnMut(u64, &mut [u8]) -> Result<()> + 'a;

/// Hands the payload of tensor number `tensor` to `each`, in order, in pieces of at most one tile.
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
    let mut each = |bytes: &[u8]| each(bytes).map(ControlFlow::Continue);
    let mut pieces = || in_pieces(host, opened, decl.payload_len()?, &Work::new(decl, tensor)?, &mut each);
    pieces().map_err(|e| opened.files.show(e.tensor(&decl.name)))
}

/// Hands `len` bytes of some work to `each`, in order, in pieces of at most one tile, until it breaks.
///
/// # Errors
/// As [`stream`].
pub fn in_pieces(
    host: &Host,
    opened: &OpenedModel,
    len: u64,
    work: &Work,
    each: &mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let read = |extent: Extent, out: &mut [u8]| opened.files.read_at(extent.file, extent.offset, out);
    let mut fill: Box<Fill<'_>> = match work {
        Work::Copy(_) | Work::Swap(..) | Work::Gather(_) | Work::Made(_) => {
            Box::new(|at, out| work.fill(&read, at, out).map(drop))
        }
        Work::Decode { tensor, codec } => {
            let (list, mut decoder) = (BlockList::read(host, opened, *tensor)?, Decoder::default());
            Box::new(move |at, out| decoder.fill(opened, (*tensor, codec), &list, at, out))
        }
        Work::Stream { tensor } => {
            let mut stream = InOrder::begin(host, opened, *tensor)?;
            Box::new(move |_, out| stream.fill(out))
        }
    };
    let (window, tile) = (work.window(), usize::try_from(work.tile_len()).unwrap_or(1));
    let mut buffer = vec![0; usize::try_from(len.min(window)).unwrap_or(0)];
    let mut at = 0;
    while at < len {
        host.check_cancelled()?;
        let n = usize::try_from((len - at).min(window)).unwrap_or(0);
        fill(at, &mut buffer[..n])?;
        for piece in buffer[..n].chunks(tile) {
            if each(piece)?.is_break() {
                return Ok(());
            }
        }
        at += n as u64;
    }
    Ok(())
}
