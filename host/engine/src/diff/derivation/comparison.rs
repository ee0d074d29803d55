//! A sink that holds payload against the tensors of an opened model instead of writing it.

use super::blocks::{Blocks, Tally};
use crate::diff::reproduction::MakeScratch;
use crate::engine::Engine;
use crate::expression::evaluate::read::Ascending;
use crate::layout::Layout;
use crate::open::OpenedModel;
use crate::place::Backing;
use crate::tiles::TileSink;
use apr_sdk::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The payload of one tensor in the layout, and its counterpart.
struct Counterpart {
    file: usize,
    offset: u64,
    len: u64,
    /// The tensor's number in the opened model.
    tensor: usize,
    blocks: Blocks,
    tally: Mutex<Tally>,
}

/// Compares payload, which is never written.
pub struct Comparison<'a> {
    engine: &'a Engine,
    there: &'a OpenedModel,
    /// By file and offset.
    counterparts: Vec<Counterpart>,
    scratch: &'a MakeScratch<'a>,
}

impl<'a> Comparison<'a> {
    /// For a layout of raw payload, of which `counterparts` names the tensors that are compared: numbers in the layout's
    /// model and in `there`.
    ///
    /// # Errors
    /// Unsupported for a type without a size.
    pub fn new(
        engine: &'a Engine,
        layout: &Layout,
        there: &'a OpenedModel,
        counterparts: &HashMap<usize, usize>,
        scratch: &'a MakeScratch<'a>,
    ) -> Result<Comparison<'a>> {
        let mut all = Vec::new();
        for (file, placed, number) in layout.payloads() {
            let Some(&tensor) = counterparts.get(&number) else { continue };
            let dtype = there.model.tensors[tensor].dtype;
            let info = dtype.info().ok_or_else(|| Error::unsupported(format!("{dtype} has no size")))?;
            all.push(Counterpart {
                file,
                offset: placed.offset,
                len: placed.len,
                tensor,
                blocks: Blocks::new(&engine.registry, info),
                tally: Mutex::default(),
            });
        }
        all.sort_by_key(|counterpart| (counterpart.file, counterpart.offset));
        Ok(Comparison { engine, there, counterparts: all, scratch })
    }

    /// What was counted of each tensor: its number in the opened model, and the counts.
    pub fn finish(self) -> impl Iterator<Item = (usize, Tally)> {
        self.counterparts.into_iter().map(|counterpart| {
            let tally = counterpart.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
            (counterpart.tensor, tally)
        })
    }

    fn at(&self, file: usize, offset: u64) -> Option<&Counterpart> {
        let behind = self.counterparts.partition_point(|one| (one.file, one.offset) <= (file, offset));
        let one = self.counterparts.get(behind.checked_sub(1)?)?;
        (one.file == file && offset - one.offset < one.len).then_some(one)
    }
}

impl TileSink for Comparison<'_> {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(one) = self.at(file, offset) else { return Ok(()) };
        let at = offset - one.offset;
        let len = one.blocks.block_len();
        if !at.is_multiple_of(len as u64) || !bytes.len().is_multiple_of(len) {
            return Err(Error::plugin("payload was cut inside of a block"));
        }
        let mut there = vec![0; bytes.len()];
        let name = &self.there.model.tensors[one.tensor].name;
        let mut payload = Ascending::new(self.engine, self.there, one.tensor)?;
        payload.read_at(at, &mut there).map_err(|e| self.there.files.show(e).tensor(name))?;
        let found = one.blocks.compare(&there, bytes).map_err(|e| e.tensor(name))?;
        one.tally.lock().unwrap_or_else(PoisonError::into_inner).add(&found);
        Ok(())
    }

    fn set_len(&self, _file: usize, _len: u64) -> Result<()> {
        Ok(())
    }

    fn read_back(&self, _file: usize) -> Result<Arc<dyn Backing>> {
        Err(Error::plugin("what is only compared was read back"))
    }

    fn show(&self, _file: usize) -> String {
        self.there.path.display().to_string()
    }

    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        (self.scratch)(len)
    }
}
