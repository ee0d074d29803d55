//! Payload that cannot be read the way an op wants it, such as a stream whose rows change places, is first written beside
//! the output, row-major and little-endian, and read from there. The file has no name, so that nothing is left of it.

use crate::compose::boxed;
use crate::host::Host;
use crate::open::OpenedModel;
use crate::pipeline::{self, Job};
use crate::sink::{StagedFile, Staging};
use crate::tile::{Portion, Tiles, Work};
use crate::tile_sums::TileSums;
use apr_sdk::{Endian, Error, Extent, FileId, Payload, Result, Tensor};
use std::collections::{BTreeSet, HashMap};

/// The spool's number in an extent. No model has so many files.
pub const FILE: FileId = FileId::MAX;

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
        boxed(tensor, Extent::new(FILE, offset, len), Endian::Little, start, dims)
    }

    /// Whether some of it is gathered from this file of the source.
    pub fn gathers(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }

    /// How a tensor of the source gets into the spool.
    fn works(&self, source: &[Tensor]) -> Result<Vec<(u64, Portion)>> {
        let work = |&(number, offset): &(usize, u64)| {
            let tensor = &source[number];
            let (work, len) = (Work::new(tensor, number)?, tensor.payload_len()?);
            Ok((offset, Portion { work, source: Some(number), recode: None, len }))
        };
        self.tensors.iter().map(work).collect()
    }

    /// The most memory that a thread needs to spool, in bytes.
    ///
    /// # Errors
    /// As [`Work::new`].
    pub fn memory(&self, source: &[Tensor]) -> Result<u64> {
        Ok(self.works(source)?.iter().map(|(_, portion)| portion.work.memory()).max().unwrap_or(0))
    }

    /// Writes the file, if there is anything to spool.
    ///
    /// # Errors
    /// What reading and writing raise; Cancelled.
    pub fn fill(&self, host: &Host, source: &OpenedModel, staging: &Staging) -> Result<Option<StagedFile>> {
        if self.tensors.is_empty() {
            return Ok(None);
        }
        let files = [staging.spool(self.len)?];
        let mut tiles = Tiles::default();
        for ((offset, portion), (tensor, _)) in
            self.works(&source.model.tensors)?.into_iter().zip(&self.tensors)
        {
            tiles.push(Some(*tensor), portion, 0, offset);
        }
        tiles.seal();
        let sums = TileSums::new(&tiles);
        let job = Job {
            source,
            model: &source.model,
            tiles: &tiles,
            outputs: &files,
            sums: &sums,
            watch: None,
            losses: None,
            spool: None,
            allow_nonfinite: true,
        };
        pipeline::run(host, job, None)?;
        let [file] = files;
        Ok(Some(file))
    }
}
