//! The facts about the bytes that reader and writer share.

/// The first bytes of every file; the digit is the version.
pub const MAGIC: [u8; 4] = *b"TOY1";
/// Payloads start at multiples of this.
pub const ALIGN: u64 = 64;
