//! The program's own quantized types, read as types of today that hold the same values.
//!
//! ```text
//! AprQ4   per 32 elements of the flattened tensor: f16 scale, 16 bytes of two elements each, the even one in the
//!         low half; the last block is filled up. value = (element - 8) * scale, which is exact in F32
//! AprQ8   f32 scale, then one i8 per element. value = element * scale, rounded to F32 as the program does
//! ```
//!
//! Where rows are whole blocks, an AprQ4 tensor is read as Q4_0, whose blocks differ only in the order of elements.

use apr_sdk::half::from_f16;
use apr_sdk::{Error, Result};

/// Blocks of `AprQ4`.
pub struct Q4;

impl Q4 {
    /// Elements of a block.
    pub const ELEMENTS: u64 = 32;
    /// Bytes of a block, here and in Q4_0.
    pub const LEN: u64 = 18;

    const SCALE_LEN: usize = 2;
    const BLOCK: usize = 18;
    const HALF: usize = 16;

    /// Rewrites blocks as those of Q4_0.
    ///
    /// # Errors
    /// Plugin for a number of bytes that the host must not ask for.
    pub fn rewrite(stored: &[u8], out: &mut [u8]) -> Result<()> {
        if stored.len() != out.len() || !stored.len().is_multiple_of(Q4::BLOCK) {
            return Err(wrong_size(stored, out));
        }
        for (block, out) in stored.chunks_exact(Q4::BLOCK).zip(out.chunks_exact_mut(Q4::BLOCK)) {
            out[..Q4::SCALE_LEN].copy_from_slice(&block[..Q4::SCALE_LEN]);
            for n in 0..Q4::HALF {
                out[Q4::SCALE_LEN + n] = Q4::element(block, n) | Q4::element(block, n + Q4::HALF) << 4;
            }
        }
        Ok(())
    }

    /// Decodes blocks to F32, the last of which may be longer than what is left of the tensor.
    ///
    /// # Errors
    /// Plugin for a number of bytes that the host must not ask for.
    pub fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
        let (values, odd) = out.as_chunks_mut::<4>();
        let blocks = values.len().div_ceil(2 * Q4::HALF);
        if !odd.is_empty() || blocks * Q4::BLOCK != stored.len() {
            return Err(wrong_size(stored, out));
        }
        for (block, values) in stored.chunks_exact(Q4::BLOCK).zip(values.chunks_mut(2 * Q4::HALF)) {
            let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
            for (n, value) in values.iter_mut().enumerate() {
                *value = ((f32::from(Q4::element(block, n)) - 8.0) * scale).to_le_bytes();
            }
        }
        Ok(())
    }

    /// Element number `n` of a block: four bits.
    fn element(block: &[u8], n: usize) -> u8 {
        block[Q4::SCALE_LEN + n / 2] >> (4 * (n % 2)) & 15
    }
}

/// The codes of `AprQ8`.
pub struct Q8;

impl Q8 {
    /// Bytes of the scale before the codes.
    pub const SCALE_LEN: u64 = 4;

    /// Decodes codes to F32.
    ///
    /// # Errors
    /// Plugin for a number of bytes that the host must not ask for.
    pub fn decode(scale: f32, codes: &[u8], out: &mut [u8]) -> Result<()> {
        let (values, odd) = out.as_chunks_mut::<4>();
        if !odd.is_empty() || values.len() != codes.len() {
            return Err(wrong_size(codes, out));
        }
        for (code, value) in codes.iter().zip(values) {
            *value = (f32::from(code.cast_signed()) * scale).to_le_bytes();
        }
        Ok(())
    }
}

#[cold]
fn wrong_size(stored: &[u8], out: &[u8]) -> Error {
    Error::plugin(format!("{} bytes of blocks do not become {} bytes", stored.len(), out.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of the elements 0 to 15, each twice in a row, with the scale 0.5.
    fn block() -> Vec<u8> {
        [0x00, 0x38].into_iter().chain((0..16).map(|n| n | n << 4)).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    }

    #[test]
    fn neighbours_share_a_byte_here_and_elements_16_apart_in_q4_0() {
        let mut rewritten = [0; 18];
        Q4::rewrite(&block(), &mut rewritten).unwrap();
        let element = |n: usize| rewritten[2 + n % 16] >> (4 * (n / 16)) & 15;
        assert_eq!((0..32).map(element).collect::<Vec<_>>(), (0..32).map(|n| n / 2).collect::<Vec<_>>());
        assert_eq!(rewritten[..2], [0x00, 0x38]);
    }

    #[test]
    fn values_are_exact_and_the_last_block_may_be_cut() {
        let mut out = vec![0; 4 * 32];
        Q4::decode(&block(), &mut out).unwrap();
        assert_eq!(floats(&out)[..4], [-4.0, -4.0, -3.5, -3.5]);
        assert_eq!(floats(&out)[30..], [3.5, 3.5]);
        let mut cut = vec![0; 4 * 35];
        Q4::decode(&[block(), block()].concat(), &mut cut).unwrap();
        assert_eq!(floats(&cut)[32..], [-4.0, -4.0, -3.5]);
        let mut codes = [0; 12];
        Q8::decode(0.1, &[127, 0x80, 0], &mut codes).unwrap();
        assert_eq!(floats(&codes), [127.0 * 0.1, -128.0 * 0.1, 0.0]);
    }

    #[test]
    fn other_sizes_are_refused() {
        assert!(Q4::rewrite(&[0; 18], &mut [0; 17]).is_err());
        assert!(Q4::rewrite(&[0; 17], &mut [0; 17]).is_err());
        assert!(Q4::decode(&[0; 18], &mut [0; 132]).is_err());
        assert!(Q4::decode(&[0; 36], &mut [0; 128]).is_err());
        assert!(Q4::decode(&[0; 18], &mut [0; 3]).is_err());
        assert!(Q8::decode(1.0, &[0; 2], &mut [0; 4]).is_err());
    }
}
