//! Q6_K: 256 elements in 210 bytes, sixteen sub-blocks of 16.
//!
//! ```text
//! offset  0   u8 ql[128]      bits 0 to 3 of the codes: byte l of 64 holds element l of 128, and above it element l + 64
//!       128   u8 qh[64]       bits 4 and 5: byte l of 32 holds those of elements l, l + 32, l + 64 and l + 96 of 128
//!       192   i8 scales[16]   the codes of the scales
//!       208   half d          what they are multiplied with
//!
//! element = d * scale * (code - 32)
//! ```
//!
//! Source: `block_q6_K`, `quantize_row_q6_K_ref` and, with importance, `quantize_row_q6_K_impl` of ggml.

use super::BlockType;
use crate::number::{from_f16, half, nearest_int};
use crate::search::ZERO_BELOW;
use crate::simd::{Lanes, Level};
use crate::super_block::codes::{Codes, pack_two_bits, symmetric_elements, unpack_two_bits};
use crate::super_block::symmetric::{Form, SUBS, SymmetricType};
use crate::super_block::{Batch, ELEMENTS, SuperBlock, encode, symmetric};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 210;

/// The type.
pub static Q6_K: BlockType =
    BlockType { dtype: DType::Q6_K, needs_importance: false, decode, encode: encode::<Q6K> };

/// How it is encoded.
struct Q6K;

impl SymmetricType for Q6K {
    const FORM: Form = Form { most: 32, scale_most: None };

    #[inline(always)]
    fn write_scales(scales: &[f32; SUBS], out: &mut [u8]) -> Option<()> {
        let step = |(max, amax): (f32, f32), &scale: &f32| {
            if scale.abs() > amax { (scale, scale.abs()) } else { (max, amax) }
        };
        let (max, amax) = scales.iter().fold((0.0, 0.0), step);
        if amax < ZERO_BELOW {
            return None;
        }
        let inverse = -128.0 / max;
        let mut codes = [0; SUBS];
        for (code, scale) in codes.iter_mut().zip(scales) {
            *code = nearest_int(inverse * scale).min(127).to_le_bytes()[0];
        }
        Q6K::write_found(1.0 / inverse, &codes, out);
        Some(())
    }

    #[inline(always)]
    fn write_found(d: f32, codes: &[u8; SUBS], out: &mut [u8]) {
        out[192..208].copy_from_slice(codes);
        out[208..210].copy_from_slice(&half(d).to_le_bytes());
    }

    #[inline(always)]
    fn factors(block: &[u8]) -> [f32; SUBS] {
        let d = from_f16(u16::from_le_bytes([block[208], block[209]]));
        let mut out = [0.0; SUBS];
        for (out, code) in out.iter_mut().zip(&block[192..208]) {
            *out = d * f32::from(code.cast_signed());
        }
        out
    }

    #[inline(always)]
    fn write_codes(codes: &Codes, out: &mut [u8]) {
        let (low, high) = out.split_at_mut(128);
        for (codes, low) in codes.as_chunks::<128>().0.iter().zip(low.as_chunks_mut::<64>().0) {
            for (l, low) in low.iter_mut().enumerate() {
                *low = codes[l] & 15 | codes[l + 64] << 4;
            }
        }
        pack_two_bits(&codes.map(|code| code >> 4), &mut high[..64]);
    }
}

impl SuperBlock for Q6K {
    const BYTES: usize = BYTES;

    fn encode(values: &[f32; ELEMENTS], importance: Option<&[f32; ELEMENTS]>, out: &mut [u8]) {
        symmetric::encode::<Q6K>(values, importance, out);
    }

    #[inline(always)]
    fn encode_lanes<V: Lanes>(v: V, batch: Batch<'_>, out: &mut [u8]) {
        symmetric::encode_lanes::<Q6K, V>(v, batch, out);
    }
}

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let mut codes = unpack_two_bits(&block[128..192]);
        for (low, codes) in block.as_chunks::<64>().0.iter().zip(codes.as_chunks_mut::<128>().0) {
            let (first, second) = codes.split_at_mut(64);
            for ((first, second), low) in first.iter_mut().zip(second).zip(low) {
                (*first, *second) = (*first << 4 | low & 15, *second << 4 | low >> 4);
            }
        }
        symmetric_elements(&codes, &Q6K::factors(block), 32, out);
    }
}
