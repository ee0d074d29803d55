//! Payload that cannot be read the way a region needs it, such as a stream whose rows are reordered, is first
//! written to scratch, row-major and little-endian, and read from there.

mod spools;

pub use spools::Spools;

use super::Expression;
use apr_sdk::FileId;

/// The scratch file's number in an extent: no model has that many files.
pub const SPOOL: FileId = FileId::MAX;

/// An expression that is written to scratch before it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spool {
    /// The expression that is written.
    pub of: Expression,
    /// Offset in the scratch file, once [`Spools::place`] has assigned it.
    pub at: u64,
}

impl Spool {
    /// Reads `of` by way of the scratch file.
    pub(super) fn of(of: Expression) -> Expression {
        Expression::Spool(Box::new(Spool { of, at: 0 }))
    }
}
