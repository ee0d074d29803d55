//! Codes of four bits as blocks of 32 elements hold them: byte j has the low bits of elements j and j + 16.

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
