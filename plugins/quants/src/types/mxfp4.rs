//! MXFP4: 32 elements in 17 bytes: four-bit floats with one power of two.
//!
//! ```text
//! offset  0   u8 e            the scale: 2^(e - 127), E8M0
//!         1   u4 q[32]        byte j: elements j and j + 16; element = 2^(e - 128) * VALUES[q]
//! ```
//!
//! Source: the OCP Microscaling Formats specification 1.0; `block_mxfp4` and `quantize_row_mxfp4_ref` of ggml. Importance
//! is not looked at.

use super::BlockType;
use crate::decode::{Decode, decode};
use crate::encode::{Encode, encode_each_block};
use crate::extremes::largest_magnitude;
use crate::fp4::{VALUES, floor_log2, nearest};
use crate::nibbles::{ELEMENTS, lanes as in_vectors, pack, unpack};
use crate::number::low_byte;
use crate::simd::Lanes;
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 17;

/// The type.
pub static MXFP4: BlockType = BlockType {
    dtype: DType::MXFP4,
    needs_importance: false,
    decode: decode::<Mxfp4, BYTES, ELEMENTS>,
    encode: encode_each_block::<Mxfp4, BYTES, ELEMENTS>,
};

/// Half of the scale: the values of the codes are doubled.
fn half_scale(e: u8) -> f32 {
    let e = u32::from(e);
    // The two smallest are subnormal.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
}

/// How it is decoded.
struct Mxfp4;

impl Decode<BYTES, ELEMENTS> for Mxfp4 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [e, codes @ ..] = block;
        let d = half_scale(*e);
        for (value, code) in out.iter_mut().zip(unpack(codes)) {
            *value = VALUES[usize::from(code)] * d;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [e, codes @ ..] = block;
        in_vectors::looked_up(v, &VALUES, half_scale(*e), codes, out);
    }
}

impl Encode<BYTES, ELEMENTS> for Mxfp4 {
    #[inline(always)]
    fn block(values: &[f32; ELEMENTS], block: &mut [u8; BYTES]) {
        let [e, codes @ ..] = block;
        let amax = largest_magnitude(values);
        // Below 2^-125 this is negative, and what is stored is its low byte.
        *e = if amax > 0.0 { low_byte(floor_log2(amax) - 2.0 + 127.0) } else { 0 };
        pack(&nearest(values, half_scale(*e)), codes);
    }
}
