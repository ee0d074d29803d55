//! Payload that cannot be read the way an op wants it, such as a stream whose rows change places, is first written to
//! scratch, row-major and little-endian, and read from there.

use crate::expression::compose::boxed;
use crate::expression::work::{Portion, SPOOL, Work};
use apr_sdk::{Endian, Error, Extent, FileId, Payload, Result, Tensor};
use std::collections::{BTreeSet, HashMap};

/// Which tensors of the source are spooled, and where each lies in the file.
#[derive(Clone, Debug, Default)]
pub struct Spool {
    tensors: Vec<(usize, u64)>,
    /// Where the tensor of this number lies.
    offsets: HashMap<usize, u64>,
    /// The files of the source that some of it is gathered from.
    files: BTreeSet<FileId>,
    /// Bytes of all of them.
    pub len: u64,
}

impl Spool {
    /// Makes room for tensor number `number` of the source, if it has none, and gives the work for a box of it.
    ///
    /// # Errors
    /// Unsupported for more bytes than a file can have, or a dtype that is unknown.
    pub fn read(&mut self, tensor: &Tensor, number: usize, start: u64, dims: &[(u64, u64)]) -> Result<Work> {
        let len = tensor.payload_len()?;
        let offset = match self.offsets.get(&number) {
            Some(offset) => *offset,
            None => {
                let too_long = || Error::unsupported("what must be spooled passes 2^64 bytes");
                let end = self.len.checked_add(len).ok_or_else(too_long)?;
                self.tensors.push((number, self.len));
                self.offsets.insert(number, self.len);
                if let Payload::Extent { extent, .. } = &tensor.payload {
                    self.files.insert(extent.file);
                }
                std::mem::replace(&mut self.len, end)
            }
        };
        boxed(tensor, Extent::new(SPOOL, offset, len), Endian::Little, start, dims)
    }

    /// Whether some of it is gathered from this file of the source.
    pub fn gathers(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }

    /// Whether nothing is spooled.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// What gets into the spool: for each tensor of the source its number, its place there, and how its bytes are made.
    ///
    /// # Errors
    /// As [`Work::new`].
    pub fn works(&self, source: &[Tensor]) -> Result<Vec<(usize, u64, Portion)>> {
        let work = |&(number, offset): &(usize, u64)| {
            let tensor = &source[number];
            let (work, len) = (Work::new(tensor, number)?, tensor.payload_len()?);
            Ok((number, offset, Portion { work, source: Some(number), transcode: None, len }))
        };
        self.tensors.iter().map(work).collect()
    }

    /// The most memory that a thread needs to spool, in bytes.
    ///
    /// # Errors
    /// As [`Work::new`].
    pub fn memory(&self, source: &[Tensor]) -> Result<u64> {
        Ok(self.works(source)?.iter().map(|(_, _, portion)| portion.work.memory()).max().unwrap_or(0))
    }
}
