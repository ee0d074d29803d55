//! TQ1_0: 256 elements, each -1, 0 or 1 times a scale, in 54 bytes: five digits to the base 3 in a byte.
//!
//! ```text
//! offset  0   u8[32]          byte m: elements m, m + 32, ..., m + 128, the first one the highest digit
//!        32   u8[16]          byte m: elements 160 + m, 176 + m, ..., 224 + m
//!        48   u8[4]           byte m: elements 240 + m, 244 + m, 248 + m, 252 + m, and no fifth
//!        52   half d          the largest magnitude; element = d * (digit - 1)
//! ```
//!
//! A byte is ceil(number * 256 / 243), so that digit n is the whole part of byte * 3ⁿ mod 256 * 3 / 256.
//!
//! Source: `block_tq1_0` and `quantize_row_tq1_0_ref` of ggml. Importance is not looked at.

use super::BlockType;
use crate::encode::{Encode, encode_each_block};
use crate::extremes::largest_magnitude;
use crate::number::{from_f16, half, nearest_digit};
use crate::simd::Level;
use apr_sdk::DType;

/// Elements of a block.
const ELEMENTS: usize = 256;
/// Bytes of a block.
const BYTES: usize = 54;
/// Where each run of bytes starts, how long it is, and how many elements each of its bytes holds.
const RUNS: [(usize, usize, usize); 3] = [(0, 32, 5), (32, 16, 5), (48, 4, 4)];

/// The type.
pub static TQ1_0: BlockType = BlockType {
    dtype: DType::TQ1_0,
    needs_importance: false,
    decode,
    encode: encode_each_block::<TQ10, BYTES, ELEMENTS>,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[52], block[53]]));
        let mut out = &mut out[..];
        for (start, width, digits) in RUNS {
            let mut bytes = [0; 32];
            bytes[..width].copy_from_slice(&block[start..start + width]);
            for _ in 0..digits {
                let (values, rest) = out.split_at_mut(width);
                for (value, byte) in values.iter_mut().zip(&mut bytes) {
                    let [rest, digit] = (u16::from(*byte) * 3).to_le_bytes();
                    *value = (f32::from(digit) - 1.0) * d;
                    *byte = rest;
                }
                out = rest;
            }
        }
    }
}

/// How it is encoded.
struct TQ10;

impl Encode<BYTES, ELEMENTS> for TQ10 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let d = largest_magnitude(values);
        // An infinite one, of the smallest scales, leaves no number, which `lroundf` makes 0 on x86-64.
        let inverse = if d == 0.0 || (1.0 / d).is_infinite() { 0.0 } else { 1.0 / d };
        let mut values = &values[..];
        for (start, width, digits) in RUNS {
            let bytes = &mut block[start..start + width];
            bytes.fill(0);
            for _ in 0..digits {
                let (of_digit, rest) = values.split_at(width);
                for (byte, value) in bytes.iter_mut().zip(of_digit) {
                    *byte = byte.wrapping_mul(3).wrapping_add(nearest_digit(value * inverse));
                }
                values = rest;
            }
            for byte in bytes {
                let number = if digits == 4 { byte.wrapping_mul(3) } else { *byte };
                *byte = ceiling(number);
            }
        }
        block[52..].copy_from_slice(&half(d).to_le_bytes());
    }
}

/// ceil(number * 256 / 243), in a byte.
fn ceiling(number: u8) -> u8 {
    (u32::from(number) * 256).div_ceil(243).to_le_bytes()[0]
}
