//! All that is spooled for a model, and what has to be.

use super::Spool;
use crate::expression::Expression;
use crate::expression::evaluate::access::Access;
use apr_sdk::{Error, FileId, Result};
use std::collections::{BTreeSet, HashMap};

impl Expression {
    /// Spools compressed payload wherever regions of it are wanted, so that each block is decoded once.
    pub fn spool_compressed(&mut self) {
        let parts = match self {
            Expression::Concat(parts) => parts.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for part in parts {
            let mut leaf = part.leaf().clone();
            match &mut leaf {
                Expression::Region(region) if region.of.source_codec().is_some() => {
                    region.of = Spool::of(region.of.clone());
                }
                Expression::Region(region) => region.of.spool_compressed(),
                Expression::Spool(spool) => spool.of.spool_compressed(),
                _ => continue,
            }
            part.set_leaf(leaf);
        }
    }

    /// Spools packed rows that are wanted column by column, where each would be unpacked for every element.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn spool_columns(&mut self) -> Result<()> {
        let parts = match self {
            Expression::Concat(parts) => parts.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for part in parts {
            if !matches!(part.access()?, Access::Unpack(unpack) if !unpack.is_ascending()) {
                continue;
            }
            let spooled = match part.leaf().clone() {
                Expression::Region(mut region) => {
                    region.of = Spool::of(region.of);
                    Expression::Region(region)
                }
                other => Spool::of(other),
            };
            part.set_leaf(spooled);
        }
        Ok(())
    }

    /// Makes the expression readable from start to end, a tile at a time: spools what would be gathered in
    /// short runs.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn ascend(&mut self) -> Result<()> {
        let parts = match self {
            Expression::Concat(parts) => parts.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for part in parts {
            let is_across = matches!(part.access()?, Access::Gather(gather) if !gather.is_ascending());
            if is_across {
                let leaf = part.leaf().clone();
                part.set_leaf(Spool::of(leaf));
            }
        }
        Ok(())
    }
}

/// Everything that is spooled for a model, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Spools {
    /// The spooled expressions, each with its offset.
    all: Vec<(Expression, u64)>,
    /// The offset of each spooled expression.
    places: HashMap<Expression, u64>,
    /// The source files that any of it is gathered from.
    files: BTreeSet<FileId>,
    /// Total length in bytes.
    pub len: u64,
}

impl Spools {
    /// Assigns an offset to every spool in `expression`.
    ///
    /// # Errors
    /// Unsupported for more bytes than a file can hold, or an unknown dtype.
    pub fn place(&mut self, expression: &mut Expression) -> Result<()> {
        let mut failed = None;
        expression.each_mut(&mut |below| {
            if let Expression::Spool(spool) = below
                && failed.is_none()
            {
                match self.placed(&spool.of) {
                    Ok(at) => spool.at = at,
                    Err(error) => failed = Some(error),
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn placed(&mut self, of: &Expression) -> Result<u64> {
        if let Some(at) = self.places.get(of) {
            return Ok(*at);
        }
        let at = self.len;
        let Some(end) = at.checked_add(of.byte_len()?) else {
            return Err(Error::unsupported("the data to spool exceeds 2^64 bytes"));
        };
        for part in of.parts() {
            if let Access::Gather(gather) = part.access()? {
                self.files.insert(gather.extent().file);
            }
        }
        self.all.push((of.clone(), at));
        self.places.insert(of.clone(), at);
        self.len = end;
        Ok(at)
    }

    /// Returns whether any of it is gathered from this source file.
    pub fn gathers(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }

    /// The expressions written to the scratch file, with their offsets. A spool comes after those that it is computed from.
    pub fn all(&self) -> &[(Expression, u64)] {
        &self.all
    }

    /// The most memory that `threads` threads need together to fill it, in bytes.
    ///
    /// # Errors
    /// Unsupported for an unknown dtype.
    pub fn memory(&self, threads: usize) -> Result<u64> {
        let parts = self.all.iter().flat_map(|(of, _)| of.parts());
        parts.map(|part| part.memory(threads, 0)).try_fold(0, |most, memory| Ok(memory?.max(most)))
    }
}
