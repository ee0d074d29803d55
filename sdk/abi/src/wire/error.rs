//! Errors on the wire: every field of `apr_sdk::Error`.

use super::ErrorNumber;
use abi_stable::StableAbi;
use abi_stable::std_types::{RBox, ROption, RResult, RString, RVec};

/// The result of every call that can fail. Boxed, so that the good case stays small.
pub type R<T> = RResult<T, RBox<WireError>>;

/// An error with its place.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct WireError {
    /// Its kind.
    pub kind: ErrorNumber,
    /// The sentence.
    pub message: RString,
    /// The explicit code.
    pub code: ROption<RString>,
    /// The file.
    pub file: ROption<RString>,
    /// The offset in it.
    pub offset: ROption<u64>,
    /// The tensor.
    pub tensor: ROption<RString>,
    /// The way out.
    pub hint: ROption<RString>,
    /// The causes, outermost first.
    pub causes: RVec<RString>,
    /// Zero.
    pub reserved: [u64; 2],
}
