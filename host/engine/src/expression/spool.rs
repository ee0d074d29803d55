//! What cannot be read the way a region wants it, such as a stream whose rows change places, is first written to scratch,
//! row-major and little-endian, and read from there.

use super::{Access, Expression};
use apr_sdk::{Error, FileId, Result};
use std::collections::{BTreeSet, HashMap};

/// The scratch file's number in an extent: no model has so many files.
pub const SPOOL: FileId = FileId::MAX;

/// An expression that is written to scratch before it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spool {
    /// What is written.
    pub of: Expression,
    /// Where it lies in the scratch file, once [`Spools::place`] gave it a place.
    pub at: u64,
}

impl Spool {
    /// Reads `of` by way of the scratch file.
    pub(super) fn of(of: Expression) -> Expression {
        Expression::Spool(Box::new(Spool { of, at: 0 }))
    }
}

impl Expression {
    /// Makes it one whose bytes can be had from the first to the last, a tile at a time: what is gathered in
    /// short runs is spooled.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown.
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

/// Everything that is spooled for a model, each once.
#[derive(Clone, Debug, Default)]
pub struct Spools {
    /// What is spooled, and where each lies.
    all: Vec<(Expression, u64)>,
    /// The places of those that are there.
    places: HashMap<Expression, u64>,
    /// The files of the source that some of it is gathered from.
    files: BTreeSet<FileId>,
    /// Bytes of all of them.
    pub len: u64,
}

impl Spools {
    /// Gives every spool in `expression` its place.
    ///
    /// # Errors
    /// Unsupported for more bytes than a file can have, or a dtype that is unknown.
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
        let too_long = || Error::unsupported("what must be spooled passes 2^64 bytes");
        let (at, end) = (self.len, self.len.checked_add(of.byte_len()?).ok_or_else(too_long)?);
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

    /// Whether some of it is gathered from this file of the source.
    pub fn gathers(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }

    /// What gets into the scratch file, and where. What a spool is made of comes before it.
    pub fn all(&self) -> &[(Expression, u64)] {
        &self.all
    }

    /// The most memory that a thread needs to fill it, in bytes.
    ///
    /// # Errors
    /// Unsupported for a dtype that is unknown.
    pub fn memory(&self) -> Result<u64> {
        let parts = self.all.iter().flat_map(|(of, _)| of.parts());
        parts.map(Expression::memory).try_fold(0, |most, memory| Ok(memory?.max(most)))
    }
}
