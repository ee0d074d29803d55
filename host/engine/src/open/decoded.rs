//! Compressed payload as if it lay in a file of its own: read at any offset, decoded block by block.

use super::OpenedModel;
use super::blocks::{BlockList, Decoder};
use crate::engine::Engine;
use apr_sdk::{Error, Extent, FileId, Payload, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The bit of a file's number that says that it is the decoded payload of the tensor with the number in the other bits: no
/// model has that many files.
const DECODED: FileId = 1 << 31;
/// Bytes of decoded blocks that a thread keeps: rows may be needed in another order than they are stored.
const KEPT: usize = 4 << 20;

/// The decoded payload of tensor number `tensor`, of `len` bytes, as an extent for [`OpenedModel::read_at`].
///
/// # Errors
/// LimitExceeded for more tensors than there are numbers.
pub fn decoded_extent(tensor: usize, len: u64) -> Result<Extent> {
    let number = FileId::try_from(tensor).ok().filter(|number| *number < DECODED - 1);
    let number = number.ok_or_else(|| Error::limit("too many tensors"))?;
    Ok(Extent::new(DECODED | number, 0, len))
}

/// The blocks of tensors that were read, and idle decoders.
#[derive(Default)]
pub(super) struct Decoded {
    lists: Mutex<HashMap<usize, Arc<BlockList>>>,
    decoders: Mutex<Vec<Decoder>>,
}

impl OpenedModel {
    /// Fills `out` with the bytes at the start of an extent: of a file, or of a tensor's decoded payload.
    ///
    /// # Errors
    /// Any error from reading and the reader.
    pub fn read_at(&self, engine: &Engine, extent: Extent, out: &mut [u8]) -> Result<()> {
        if extent.file & DECODED == 0 {
            return self.files.read_at(extent.file, extent.offset, out);
        }
        let tensor = usize::try_from(extent.file & !DECODED).unwrap_or(usize::MAX);
        let payload = self.model.tensors.get(tensor).map(|tensor| &tensor.payload);
        let Some(Payload::Blocks { codec }) = payload else {
            return Err(Error::plugin(format!("tensor {tensor} has no compressed blocks")));
        };
        let list = self.list_of(engine, tensor)?;
        let idle = self.decoded.decoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut decoder = idle.unwrap_or_else(|| Decoder::keeping(KEPT));
        decoder.fill(self, tensor, codec, &list, extent.offset, out)?;
        self.decoded.decoders.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
        Ok(())
    }

    fn list_of(&self, engine: &Engine, tensor: usize) -> Result<Arc<BlockList>> {
        let mut lists = self.decoded.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = lists.get(&tensor) {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(BlockList::read(engine, self, tensor)?);
        lists.insert(tensor, Arc::clone(&list));
        Ok(list)
    }
}
