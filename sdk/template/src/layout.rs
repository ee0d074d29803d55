//! What both sides know of the bytes.

/// The first bytes of every file; the digit is the version.
pub const MAGIC: [u8; 4] = *b"TOY1";
/// Payloads begin at multiples of this.
pub const ALIGN: u64 = 64;
