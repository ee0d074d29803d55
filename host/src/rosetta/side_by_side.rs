//! Two payloads read side by side, piece by piece: memory stays bounded however long they are.

use crate::host::Host;
use crate::open::OpenedModel;
use crate::payload;
use apr_sdk::{Error, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Payloads up to so many bytes are held whole: a thread for each side would cost more than reading them.
const SMALL: u64 = 1 << 20;

/// Elements that are handed over at once.
const PIECE: usize = 1 << 16;

/// Hands two payloads to `each`, as many elements of both at a time; `widths` are their elements' bytes. The shapes must
/// be equal, so that the element counts are.
///
/// # Errors
/// What reading either raised; Malformed if one ends before the other.
pub fn side_by_side(
    host: &Host,
    a: (&OpenedModel, usize),
    b: (&OpenedModel, usize),
    widths: (usize, usize),
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<()> {
    let len = |(opened, tensor): (&OpenedModel, usize)| opened.model.tensors[tensor].payload_len();
    let (len_a, len_b) = (len(a)?, len(b)?);
    if len_a.max(len_b) <= SMALL {
        let (x, y) = (whole(host, a)?, whole(host, b)?);
        // Elements of one byte may stand for a type whose elements cannot be told apart: then lengths may differ.
        each(&x, &y);
        return Ok(());
    }
    std::thread::scope(|scope| {
        let (mut left, mut right) = (Pull::new(widths.0), Pull::new(widths.1));
        for (side, sender) in [(a, left.open()), (b, right.open())] {
            scope.spawn(move || {
                let sent = payload::stream(host, side.0, side.1, &mut |bytes| {
                    // The other end is gone once the other side failed: that error is the one to tell.
                    sender.send(Ok(bytes.to_vec())).map_err(|_| Error::cancelled("not needed any more"))
                });
                if let Err(error) = sent {
                    let _ = sender.send(Err(error));
                }
            });
        }
        loop {
            let n = left.fill()?.min(right.fill()?);
            if n == 0 {
                break;
            }
            each(left.take(n), right.take(n));
        }
        if left.is_done() && right.is_done() {
            Ok(())
        } else {
            Err(Error::malformed("one payload ends before the other"))
        }
    })
}

fn whole(host: &Host, (opened, tensor): (&OpenedModel, usize)) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    payload::stream(host, opened, tensor, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

/// One side: what came and was not handed over yet.
struct Pull {
    width: usize,
    pieces: Option<Receiver<Result<Vec<u8>>>>,
    buffer: Vec<u8>,
    taken: usize,
}

impl Pull {
    fn new(width: usize) -> Pull {
        Pull { width, pieces: None, buffer: Vec::new(), taken: 0 }
    }

    fn open(&mut self) -> SyncSender<Result<Vec<u8>>> {
        let (sender, receiver) = sync_channel(1);
        self.pieces = Some(receiver);
        sender
    }

    /// Waits until a piece is there or nothing is left; gives how many whole elements can be taken.
    fn fill(&mut self) -> Result<usize> {
        self.buffer.drain(..std::mem::take(&mut self.taken));
        while self.buffer.len() < self.width * PIECE {
            let Some(Ok(piece)) = self.pieces.as_ref().map(Receiver::recv) else { break };
            self.buffer.extend_from_slice(&piece?);
        }
        Ok((self.buffer.len() / self.width).min(PIECE))
    }

    fn take(&mut self, n: usize) -> &[u8] {
        self.taken = n * self.width;
        &self.buffer[..self.taken]
    }

    fn is_done(&self) -> bool {
        self.buffer.len() == self.taken
    }
}
