//! Packed weights: the rows that a scheme unpacks.

use abi_stable::StableAbi;
use abi_stable::std_types::{RSlice, RStr};

/// `apr_sdk::PackedRows`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WirePackedRows<'a> {
    /// The plugin's name for how they are packed.
    pub scheme: RStr<'a>,
    /// Its parameters.
    pub numbers: RSlice<'a, u64>,
    /// Number of rows.
    pub rows: u64,
    /// Elements per row.
    pub row_len: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::HeldRows`, and the rows among them that are wanted.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireHeldRows<'a> {
    /// The first row held.
    pub held_first: u64,
    /// The row after the last one held.
    pub held_end: u64,
    /// The first row wanted.
    pub first: u64,
    /// The row after the last one wanted.
    pub end: u64,
    /// The bytes of each part.
    pub parts: RSlice<'a, RSlice<'a, u8>>,
    /// Zero.
    pub reserved: [u64; 2],
}
