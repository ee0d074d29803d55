//! Q2_K: 256 elements in 84 bytes, sixteen sub-blocks of 16.
//!
//! ```text
//! offset  0   u8 scales[16]   per sub-block the code of its scale, and above it that of its minimum, four bits each
//!        16   u8 q[64]        two bits per element: byte l of 32 holds elements l, l + 32, l + 64 and l + 96 of 128
//!        80   half d          what the codes of scales are multiplied with
//!        82   half dmin       what the codes of minima are multiplied with
//!
//! element = d * scale * q - dmin * minimum
//! ```
//!
//! Source: `block_q2_K`, `quantize_row_q2_K_ref` and, with importance, `quantize_row_q2_K_impl` of ggml.

use super::BlockType;
use crate::number::{from_f16, half, nearest_int};
use crate::search::{Error, Steps};
use crate::simd::{Lanes, Level};
use crate::super_block::affine::{AffineType, Form, MOST_SUBS, Scales};
use crate::super_block::codes::{Codes, elements, pack_two_bits, unpack_two_bits};
use crate::super_block::{Batch, ELEMENTS, SuperBlock, affine, encode};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 84;

/// The type.
pub static Q2_K: BlockType =
    BlockType { dtype: DType::Q2_K, needs_importance: false, decode, encode: encode::<Q2K> };

/// How it is encoded.
struct Q2K;

impl AffineType for Q2K {
    const FORM: Form = Form {
        steps: Steps { most: 3, first: -0.5, step: 0.1, count: 15 },
        error: Error::Magnitude,
        adds_root: false,
        sigma: 1.0,
        scale_most: 15,
    };

    #[inline(always)]
    fn scales(scales: &[f32], offsets: &[f32]) -> Scales {
        let mut out = Scales::default();
        let code = |of: &[f32], codes: &mut [u8; MOST_SUBS]| {
            let most = of.iter().fold(0.0f32, |most, &value| if value > most { value } else { most });
            if most <= 0.0 {
                return 0.0;
            }
            let inverse = 15.0 / most;
            for (code, value) in codes.iter_mut().zip(of) {
                *code = nearest_int(inverse * value).to_le_bytes()[0];
            }
            most / 15.0
        };
        out.d = code(scales, &mut out.scales);
        out.dmin = code(offsets, &mut out.offsets);
        out
    }

    #[inline(always)]
    fn write_scales(scales: &Scales, out: &mut [u8]) {
        for (out, (scale, offset)) in out.iter_mut().zip(scales.scales.iter().zip(&scales.offsets)) {
            *out = scale | offset << 4;
        }
        out[80..82].copy_from_slice(&half(scales.d).to_le_bytes());
        out[82..84].copy_from_slice(&half(scales.dmin).to_le_bytes());
    }

    #[inline(always)]
    fn factors(block: &[u8]) -> ([f32; MOST_SUBS], [f32; MOST_SUBS]) {
        let d = from_f16(u16::from_le_bytes([block[80], block[81]]));
        let dmin = from_f16(u16::from_le_bytes([block[82], block[83]]));
        let (mut scales, mut offsets) = ([0.0; MOST_SUBS], [0.0; MOST_SUBS]);
        for (sub, code) in block.iter().enumerate().take(MOST_SUBS) {
            scales[sub] = d * f32::from(code & 15);
            offsets[sub] = dmin * f32::from(code >> 4);
        }
        (scales, offsets)
    }

    #[inline(always)]
    fn write_codes(codes: &Codes, out: &mut [u8]) {
        pack_two_bits(codes, &mut out[16..80]);
    }
}

impl SuperBlock for Q2K {
    const BYTES: usize = BYTES;

    fn encode(values: &[f32; ELEMENTS], importance: Option<&[f32; ELEMENTS]>, out: &mut [u8]) {
        affine::encode::<Q2K, 16, 16>(values, importance, out);
    }

    #[inline(always)]
    fn encode_lanes<V: Lanes>(v: V, batch: Batch<'_>, out: &mut [u8]) {
        affine::encode_lanes::<Q2K, V, 16, 16>(v, batch, out);
    }
}

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let (scales, offsets) = Q2K::factors(block);
        elements::<16>(&unpack_two_bits(&block[16..80]), &scales, &offsets, out);
    }
}
