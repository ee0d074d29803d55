//! The quantizer that is checked, and the ways in which it is called.

use crate::Random;
use crate::subject::guarded;
use apr_sdk::{BlockType, DTypeInfo, Error, ErrorKind, Quantizer, Result};

/// Blocks in a row that the checks use. 3: a row is neither a single block nor a power of two.
const BLOCKS: usize = 3;
/// Rows that the checks use.
pub(super) const ROWS: usize = 4;

/// A quantizer, and the block types that its plugin's manifest declares.
pub struct Subject<'a> {
    pub(super) quantizer: &'a dyn Quantizer,
    pub(super) declared: &'a [BlockType],
    pub(super) listed: Vec<&'static DTypeInfo>,
}

/// Rows of a type, and their blocks.
pub(super) struct Encoded {
    pub(super) of: &'static DTypeInfo,
    pub(super) rows: Vec<f32>,
    pub(super) blocks: Vec<u8>,
}

impl<'a> Subject<'a> {
    /// A quantizer whose declared types have numbers already ([`BlockType::provide`]).
    ///
    /// # Errors
    /// Failed if it cannot list its types, or lists unknown ones.
    pub fn new(quantizer: &'a dyn Quantizer, declared: &'a [BlockType]) -> Result<Subject<'a>> {
        let listed = guarded(|| quantizer.dtypes())??;
        let known = listed.iter().map(|dtype| {
            let unknown = || Error::failed(format!("it lists the unknown dtype number {}", dtype.0));
            dtype.info().ok_or_else(unknown)
        });
        Ok(Subject { quantizer, declared, listed: known.collect::<Result<_>>()? })
    }

    /// Elements of a row of whole blocks.
    pub(super) fn row_len(of: &DTypeInfo) -> usize {
        of.block_elements as usize * BLOCKS
    }

    /// Bytes of so many rows.
    pub(super) fn bytes(of: &DTypeInfo, rows: usize) -> usize {
        of.block_bytes as usize * BLOCKS * rows
    }

    /// Rows of values as weights have them.
    pub(super) fn rows(of: &DTypeInfo, rows: usize) -> Vec<f32> {
        Random::new(of.block_elements.into()).normals(Subject::row_len(of) * rows)
    }

    /// Encodes whole rows, with importance if there is no other way. The outer error is a finding, the inner one a refusal.
    pub(super) fn encode(&self, of: &DTypeInfo, rows: &[f32]) -> Result<Result<Vec<u8>>> {
        let row_len = Subject::row_len(of);
        let encode = |importance: Option<&[f32]>| {
            let mut out = vec![0x5a; Subject::bytes(of, rows.len() / row_len)];
            guarded(|| {
                self.quantizer.encode(of.dtype, rows, row_len as u64, importance, &mut out).map(|()| out)
            })
        };
        match encode(None)? {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => encode(Some(&vec![1.0; row_len])),
            encoded => Ok(encoded),
        }
    }

    /// Decodes whole rows that must be right.
    pub(super) fn decode(&self, of: &DTypeInfo, blocks: &[u8]) -> Result<Vec<f32>> {
        let row_len = Subject::row_len(of);
        // What is left is seen.
        let mut out = vec![f32::MIN; row_len * (blocks.len() / Subject::bytes(of, 1))];
        guarded(|| self.quantizer.decode(of.dtype, blocks, row_len as u64, &mut out))?.map_err(about(of))?;
        Ok(out)
    }

    /// The types that can be encoded, each with rows and their blocks.
    pub(super) fn encoded(&self) -> Result<Vec<Encoded>> {
        let mut all = Vec::new();
        for of in &self.listed {
            let rows = Subject::rows(of, ROWS);
            match self.encode(of, &rows)? {
                Ok(blocks) => all.push(Encoded { of, rows, blocks }),
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(about(of)(error)),
            }
        }
        Ok(all)
    }
}

/// Adds which type a finding is about.
pub(super) fn about(of: &DTypeInfo) -> impl Fn(Error) -> Error {
    let name = of.name;
    move |error| Error::failed(format!("{name}: {}", error.message()))
}
