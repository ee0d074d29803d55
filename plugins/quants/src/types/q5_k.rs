//! Q5_K: 256 elements in 176 bytes, eight sub-blocks of 32.
//!
//! ```text
//! offset  0   half d          what the codes of scales are multiplied with
//!         2   half dmin       what the codes of minima are multiplied with
//!         4   u8 scales[12]   six bits per scale and per minimum of the eight sub-blocks; for j of 0..4
//!                             byte j       scale j, and above it the top two bits of scale j + 4
//!                             byte j + 4   minimum j, and above it the top two bits of minimum j + 4
//!                             byte j + 8   the low four bits of scale j + 4, and above them those of minimum j + 4
//!        16   u8 qh[32]       bit 4 of the codes: bit n of byte l is that of element l of the nth 32
//!        48   u8 ql[128]      bits 0 to 3: byte l of 32 holds element l of 64, and above it element l + 32
//!
//! element = d * scale * (ql + 16 * qh) - dmin * minimum
//! ```
//!
//! Source: `block_q5_K`, `quantize_row_q5_K_ref` and, with importance, `quantize_row_q5_K_impl` of ggml.

use super::BlockType;
use crate::decode::{Decode, decode};
use crate::search::{Error, Steps};
use crate::simd::Lanes;
use crate::super_block::affine::{AffineType, Form, MOST_SUBS, Scales};
use crate::super_block::codes::{
    Codes, elements, four_bit_elements, pack_bit, pack_four_bits, unpack_bit, unpack_four_bits,
};
use crate::super_block::{Batch, ELEMENTS, SuperBlock, affine, encode, six_bits};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 176;

/// The type.
pub static Q5_K: BlockType = BlockType {
    dtype: DType::Q5_K,
    needs_importance: false,
    decode: decode::<Q5K, BYTES, ELEMENTS>,
    encode: encode::<Q5K>,
};

/// How it is encoded.
struct Q5K;

impl AffineType for Q5K {
    const FORM: Form = Form {
        steps: Steps { most: 31, first: -0.5, step: 0.1, count: 15 },
        error: Error::Square,
        adds_root: true,
        sigma: 2.0,
        scale_most: 63,
    };

    #[inline(always)]
    fn scales(scales: &[f32], offsets: &[f32]) -> Scales {
        six_bits::coded(scales, offsets)
    }

    #[inline(always)]
    fn write_scales(scales: &Scales, out: &mut [u8]) {
        // Unlike Q4_K, where what negative scales left in the low byte is kept whole.
        let held = |codes: [u8; MOST_SUBS]| codes.map(|code| code.min(63));
        let held = Scales { scales: held(scales.scales), offsets: held(scales.offsets), ..*scales };
        six_bits::write(&held, out);
    }

    #[inline(always)]
    fn factors(block: &[u8]) -> ([f32; MOST_SUBS], [f32; MOST_SUBS]) {
        six_bits::factors(block)
    }

    #[inline(always)]
    fn write_codes(codes: &Codes, out: &mut [u8]) {
        pack_bit(codes, 4, &mut out[16..48]);
        pack_four_bits(codes, &mut out[48..]);
    }
}

impl SuperBlock for Q5K {
    const BYTES: usize = BYTES;

    fn encode(values: &[f32; ELEMENTS], importance: Option<&[f32; ELEMENTS]>, out: &mut [u8]) {
        affine::encode::<Q5K, 32, 8>(values, importance, out);
    }

    #[inline(always)]
    fn encode_lanes<V: Lanes>(v: V, batch: Batch<'_>, out: &mut [u8]) {
        affine::encode_lanes::<Q5K, V, 32, 8>(v, batch, out);
    }
}

impl Decode<BYTES, ELEMENTS> for Q5K {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let (scales, offsets) = Q5K::factors(block);
        elements::<32>(&read_codes(block), &scales, &offsets, out);
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let (scales, offsets) = Q5K::factors(block);
        four_bit_elements(v, (&block[48..], Some(&block[16..48])), &scales, &offsets, out);
    }
}

/// The codes, of five bits.
fn read_codes(block: &[u8]) -> Codes {
    let mut codes = unpack_four_bits(&block[48..]);
    unpack_bit(&block[16..48], 4, &mut codes);
    codes
}
