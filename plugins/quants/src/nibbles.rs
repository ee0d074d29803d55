//! Codes of four and five bits as blocks of 32 elements hold them: byte j has the low bits of elements j and j + 16.

pub mod lanes;
mod search;

pub use search::Blocks;

/// Elements of a block.
pub const ELEMENTS: usize = 32;

/// The bytes of codes. Bits above the fourth of a code spill as they do in ggml, where a byte is the first code, or-ed with
/// the second moved by four.
#[inline(always)]
pub fn pack(codes: &[u8; ELEMENTS], out: &mut [u8; 16]) {
    let (low, high) = codes.split_at(16);
    for ((byte, low), high) in out.iter_mut().zip(low).zip(high) {
        *byte = low | high << 4;
    }
}

/// The codes in bytes.
#[inline(always)]
pub fn unpack(bytes: &[u8; 16]) -> [u8; ELEMENTS] {
    std::array::from_fn(|at| if at < 16 { bytes[at] & 15 } else { bytes[at - 16] >> 4 })
}

/// The bytes of codes of five bits, and the word of their fifth bits: bit j is that of element j.
#[inline(always)]
pub fn pack_five(codes: &[u8; ELEMENTS], out: &mut [u8; 16]) -> [u8; 4] {
    let (mut low, mut fifth) = ([0; ELEMENTS], 0u32);
    for (at, (low, code)) in low.iter_mut().zip(codes).enumerate() {
        *low = code & 15;
        fifth |= u32::from(code >> 4 & 1) << at;
    }
    pack(&low, out);
    fifth.to_le_bytes()
}

/// The codes of five bits in bytes and a word of fifth bits.
#[inline(always)]
pub fn unpack_five(bytes: &[u8; 16], fifth: [u8; 4]) -> [u8; ELEMENTS] {
    let fifth = u32::from_le_bytes(fifth);
    let mut codes = unpack(bytes);
    for (at, code) in codes.iter_mut().enumerate() {
        *code |= if fifth >> at & 1 == 1 { 16 } else { 0 };
    }
    codes
}
