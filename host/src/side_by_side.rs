//! Two payloads read side by side, piece by piece: memory stays bounded however long they are.

use crate::host::Host;
use crate::open::OpenedModel;
use crate::payload;
use apr_sdk::{Error, Result};
use std::sync::mpsc::sync_channel;

/// A payload of up to so many bytes is held whole: a thread of its own would cost more than reading it.
const SMALL: u64 = 1 << 20;

/// How much of a is held at a time where no thread can be had to read it beside b.
const HELD: usize = 32 << 20;

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
    let (send, receive) = sync_channel::<Vec<u8>>(1);
    let mut one = Ok(());
    let reading = &mut one;
    let read_a = move || {
        *reading = in_pieces(host, a, sizes[0], &mut |_, bytes| {
            // The other side stopped: its error is the one that counts.
            send.send(bytes.to_vec()).map_err(|_| Error::cancelled("not needed any more"))
        });
    };
    let other = host.crew().beside(read_a, |there_is| {
        if !there_is {
            return (false, false, in_windows(host, a, b, sizes, each));
        }
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
        (ended, more, other)
    })?;
    match other {
        (true, _, other) => one.and(other),
        (_, true, _) => Err(uneven()),
        (_, _, other) => other.and(one),
    }
}

/// The same by one thread: a window of a is held, and b is read past it; then the next, with both read from their begin.
fn in_windows(host: &Host, a: Side<'_>, b: Side<'_>, sizes: [usize; 2], each: &mut Each<'_>) -> Result<()> {
    let per_window = (HELD / sizes[0].max(1)).max(1) as u64;
    let mut begin = 0;
    loop {
        let end = begin + per_window;
        let (mut held, mut n_a, mut is_full) = (Vec::new(), 0, false);
        let read = in_pieces(host, a, sizes[0], &mut |number, bytes| {
            n_a = number + 1;
            if number >= begin {
                held.push(bytes.to_vec());
            }
            is_full = n_a == end;
            // Any error stops the reading.
            if is_full { Err(uneven()) } else { Ok(()) }
        });
        read.or_else(|error| if is_full { Ok(()) } else { Err(error) })?;
        let (mut n_b, mut is_past) = (0, false);
        let read = in_pieces(host, b, sizes[1], &mut |number, bytes| {
            n_b = number + 1;
            if number >= begin {
                let index = usize::try_from(number - begin).unwrap_or(usize::MAX);
                each(number, held.get(index).ok_or_else(uneven)?, bytes)?;
            }
            is_past = is_full && n_b == end;
            if is_past { Err(uneven()) } else { Ok(()) }
        });
        read.or_else(|error| if is_past { Ok(()) } else { Err(error) })?;
        match (n_a == n_b, is_full) {
            (false, _) => return Err(uneven()),
            (_, false) => return Ok(()),
            _ => begin = end,
        }
    }
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
