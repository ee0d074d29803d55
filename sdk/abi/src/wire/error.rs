//! Errors on the wire, with every field of `apr_sdk::Error`.

use super::ErrorNumber;
use abi_stable::StableAbi;
use abi_stable::std_types::{RBox, ROption, RResult, RString, RVec};

/// The result of every fallible call. The error is boxed to keep the success case small.
pub type R<T> = RResult<T, RBox<WireError>>;

/// An error with its place.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct WireError {
    /// The kind, which decides the exit code.
    pub kind: ErrorNumber,
    /// The sentence that says what is wrong.
    pub message: RString,
    /// The code that was set explicitly.
    pub code: ROption<RString>,
    /// The file's name, as whoever raised the error knows it.
    pub file: ROption<RString>,
    /// Absolute offset in the file, in bytes.
    pub offset: ROption<u64>,
    /// The tensor's name.
    pub tensor: ROption<RString>,
    /// Advice to the user.
    pub hint: ROption<RString>,
    /// The causes, outermost first.
    pub causes: RVec<RString>,
    /// Zero.
    pub reserved: [u64; 2],
}
