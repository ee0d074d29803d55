//! Two payloads read side by side, piece by piece: memory stays bounded however long they are.

use crate::host::Host;
use crate::open::OpenedModel;
use crate::payload;
use apr_sdk::{Error, Result};
use std::sync::mpsc::sync_channel;

/// A payload of up to so many bytes is held whole: a thread of its own would cost more than reading it.
const SMALL: u64 = 1 << 20;

/// A tensor of an opened model, by its number.
type Side<'a> = (&'a OpenedModel, usize);

/// Takes a piece of a and the one of b that belongs to it, with their number.
type Each<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<()> + 'a;

/// Hands the payloads of two tensors to `each`, in order, in pieces of `sizes` bytes; the last ones may be shorter. Both
/// must have as many pieces.
///
/// # Errors
/// What reading either raises, and `each`; Malformed if one ends before the other.
pub fn side_by_side(
    host: &Host,
    a: Side<'_>,
    b: Side<'_>,
    sizes: [usize; 2],
    each: &mut Each<'_>,
) -> Result<()> {
    if a.0.model.tensors[a.1].payload_len()? <= SMALL {
        let mut whole = Vec::new();
        payload::stream(host, a.0, a.1, &mut |bytes| {
            whole.extend_from_slice(bytes);
            Ok(())
        })?;
        let mut pieces = whole.chunks(sizes[0]);
        in_pieces(host, b, sizes[1], &mut |number, b| each(number, pieces.next().ok_or_else(uneven)?, b))?;
        return if pieces.next().is_none() { Ok(()) } else { Err(uneven()) };
    }
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Vec<u8>>(1);
        let reading = scope.spawn(move || {
            in_pieces(host, a, sizes[0], &mut |_, bytes| {
                // The other side stopped: its error is the one that counts.
                send.send(bytes.to_vec()).map_err(|_| Error::cancelled("not needed any more"))
            })
        });
        let mut ended = false;
        let other = in_pieces(host, b, sizes[1], &mut |number, b| match receive.recv() {
            Ok(a) => each(number, &a, b),
            Err(_) => {
                ended = true;
                Err(uneven())
            }
        });
        let more = other.is_ok() && receive.recv().is_ok();
        drop(receive);
        let one = reading.join().map_err(|_| Error::io("a thread failed"))?;
        match (ended, more) {
            (true, _) => one.and(other),
            (_, true) => Err(uneven()),
            _ => other.and(one),
        }
    })
}

fn uneven() -> Error {
    Error::malformed("one payload ends before the other")
}

/// Reads a payload in order, in pieces of `size` bytes; the last may be shorter.
pub fn in_pieces(
    host: &Host,
    (opened, tensor): Side<'_>,
    size: usize,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut number, mut piece) = (0, Vec::new());
    payload::stream(host, opened, tensor, &mut |mut bytes| {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at((size - piece.len()).min(bytes.len()));
            piece.extend_from_slice(now);
            bytes = later;
            if piece.len() == size {
                each(number, &piece)?;
                piece.clear();
                number += 1;
            }
        }
        Ok(())
    })?;
    if piece.is_empty() { Ok(()) } else { each(number, &piece) }
}
