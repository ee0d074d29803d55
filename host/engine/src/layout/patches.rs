//! Patches that a writer fills in after its payload is written.

use super::{Layout, Scope};
use apr_sdk::{Error, PatchSink, Result, Sum};
use std::collections::HashSet;

/// A patch to be applied once the bytes around it are written.
#[derive(Clone, Debug)]
pub enum Patch {
    /// Bytes for a hole.
    Fill {
        /// The hole's id in the layout.
        id: u32,
        /// Exactly as many bytes as the hole.
        bytes: Vec<u8>,
    },
    /// A CRC-32 for a hole.
    Crc32 {
        /// The hole's id in the layout.
        id: u32,
        /// Index of the file that is summed.
        file: usize,
        /// Start of the range, in bytes.
        start: u64,
        /// End of the range, in bytes.
        end: u64,
        /// Encoding of the value.
        sum: Sum,
    },
    /// Bytes to append to a file.
    Append {
        /// Index of the file.
        file: usize,
        /// The bytes to append.
        bytes: Vec<u8>,
    },
}

/// The host's [`PatchSink`].
pub struct PatchCollector<'a> {
    layout: &'a Layout,
    scope: &'a Scope,
    patches: Vec<Patch>,
    filled: HashSet<u32>,
}

impl<'a> PatchCollector<'a> {
    /// A collector for the holes of one writer in `layout`.
    pub fn new(layout: &'a Layout, scope: &'a Scope) -> PatchCollector<'a> {
        PatchCollector { layout, scope, patches: Vec::new(), filled: HashSet::new() }
    }

    /// The patches, if every hole is filled.
    ///
    /// # Errors
    /// Plugin, with the hole's id.
    pub fn finish(self) -> Result<Vec<Patch>> {
        match self.scope.holes.keys().filter(|id| !self.filled.contains(id)).min() {
            Some(id) => Err(Error::plugin(format!("the writer did not fill hole {id}"))),
            None => Ok(self.patches),
        }
    }

    /// Records that hole `id` is filled with `len` bytes; returns its id in the layout.
    fn fills(&mut self, id: u32, len: u64) -> Result<u32> {
        let number = self.scope.holes.get(&id).copied();
        let hole = number.and_then(|number| Some((number, self.layout.hole(number)?.2)));
        match hole {
            Some((number, hole)) if hole == len && self.filled.insert(id) => Ok(number),
            Some((_, hole)) => Err(Error::plugin(format!(
                "the writer filled hole {id} of {hole} bytes with {len} bytes, or more than once"
            ))),
            None => Err(Error::plugin(format!("the writer filled hole {id}, which it did not create"))),
        }
    }

    /// The index in the layout of the writer's file `file`.
    fn file(&self, file: u32) -> Option<usize> {
        self.scope.files.get(file as usize).copied()
    }
}

impl PatchSink for PatchCollector<'_> {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        let id = self.fills(id, bytes.len() as u64)?;
        self.patches.push(Patch::Fill { id, bytes: bytes.to_vec() });
        Ok(())
    }

    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()> {
        let id = self.fills(id, sum.of_crc32(0)?.len() as u64)?;
        let number = self.file(file);
        let Some(file) = number.filter(|&file| start <= end && end <= self.layout.files[file].len) else {
            return Err(Error::plugin(format!(
                "the writer requested the {sum} of {start}..{end} of file {file}"
            )));
        };
        self.patches.push(Patch::Crc32 { id, file, start, end, sum });
        Ok(())
    }

    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()> {
        let Some(file) = self.file(file) else {
            return Err(Error::plugin(format!(
                "the writer appended to file {file}, which it did not create"
            )));
        };
        self.patches.push(Patch::Append { file, bytes: bytes.to_vec() });
        Ok(())
    }
}
