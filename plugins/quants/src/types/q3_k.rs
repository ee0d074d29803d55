//! Q3_K: 256 elements in 110 bytes, sixteen sub-blocks of 16.
//!
//! ```text
//! offset  0   u8 hmask[32]    bit 2 of the codes: bit n of byte l is that of element l of the nth 32
//!        32   u8 q[64]        bits 0 and 1: byte l of 32 holds elements l, l + 32, l + 64 and l + 96 of 128
//!        96   u8 scales[12]   six bits per scale: byte j of 0..8 holds the low four bits of scale j, and above them those of
//!                             scale j + 8; byte 8 + j of 0..4 the top two bits of scales j, j + 4, j + 8 and j + 12
//!       108   half d          what scale - 32 is multiplied with
//!
//! element = d * (scale - 32) * (code - 4)
//! ```
//!
//! Source: `block_q3_K`, `quantize_row_q3_K_ref` and, with importance, `quantize_row_q3_K_impl` of ggml.

use super::BlockType;
use crate::number::{from_f16, half, nearest_int};
use crate::simd::{Lanes, Level};
use crate::super_block::codes::{
    Codes, pack_bit, pack_two_bits, symmetric_elements, unpack_bit, unpack_two_bits,
};
use crate::super_block::symmetric::{Form, SUBS, SymmetricType};
use crate::super_block::{Batch, ELEMENTS, SuperBlock, encode, symmetric};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 110;

/// The type.
pub static Q3_K: BlockType =
    BlockType { dtype: DType::Q3_K, needs_importance: false, decode, encode: encode::<Q3K> };

/// How it is encoded.
struct Q3K;

impl SymmetricType for Q3K {
    const FORM: Form = Form { most: 4, scale_most: Some(32) };

    #[inline(always)]
    fn write_scales(scales: &[f32; SUBS], out: &mut [u8]) -> Option<()> {
        let step = |(max, amax): (f32, f32), &scale: &f32| {
            if scale.abs() > amax { (scale, scale.abs()) } else { (max, amax) }
        };
        let (max, _) = scales.iter().fold((0.0, 0.0), step);
        let mut codes = [0; SUBS];
        if max == 0.0 {
            // Zeros, which mean -32.
            Q3K::write_found(0.0, &codes, out);
            return Some(());
        }
        let inverse = -32.0 / max;
        for (code, scale) in codes.iter_mut().zip(scales) {
            // C keeps the low byte, with its sign, before it looks at the ends.
            let l = nearest_int(inverse * scale).to_le_bytes()[0].cast_signed();
            *code = (l.clamp(-32, 31) + 32).cast_unsigned();
        }
        Q3K::write_found(1.0 / inverse, &codes, out);
        Some(())
    }

    #[inline(always)]
    fn write_found(d: f32, codes: &[u8; SUBS], out: &mut [u8]) {
        for j in 0..8 {
            out[96 + j] = codes[j] & 15 | (codes[j + 8] & 15) << 4;
        }
        for j in 0..4 {
            let top = |sub: usize| codes[sub] >> 4;
            out[104 + j] = top(j) | top(j + 4) << 2 | top(j + 8) << 4 | top(j + 12) << 6;
        }
        out[108..110].copy_from_slice(&half(d).to_le_bytes());
    }

    #[inline(always)]
    fn factors(block: &[u8]) -> [f32; SUBS] {
        let d = from_f16(u16::from_le_bytes([block[108], block[109]]));
        let mut codes = [0; SUBS];
        for j in 0..8 {
            (codes[j], codes[j + 8]) = (block[96 + j] & 15, block[96 + j] >> 4);
        }
        for j in 0..4 {
            let top = |n: usize| (block[104 + j] >> (2 * n) & 3) << 4;
            for n in 0..4 {
                codes[n * 4 + j] |= top(n);
            }
        }
        codes.map(|code| d * (f32::from(code) - 32.0))
    }

    #[inline(always)]
    fn write_codes(codes: &Codes, out: &mut [u8]) {
        pack_bit(codes, 2, &mut out[..32]);
        pack_two_bits(codes, &mut out[32..96]);
    }
}

impl SuperBlock for Q3K {
    const BYTES: usize = BYTES;

    fn encode(values: &[f32; ELEMENTS], importance: Option<&[f32; ELEMENTS]>, out: &mut [u8]) {
        symmetric::encode::<Q3K>(values, importance, out);
    }

    #[inline(always)]
    fn encode_lanes<V: Lanes>(v: V, batch: Batch<'_>, out: &mut [u8]) {
        symmetric::encode_lanes::<Q3K, V>(v, batch, out);
    }
}

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let mut codes = unpack_two_bits(&block[32..96]);
        unpack_bit(&block[..32], 2, &mut codes);
        symmetric_elements(&codes, &Q3K::factors(block), 4, out);
    }
}
