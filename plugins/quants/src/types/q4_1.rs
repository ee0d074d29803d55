//! Q4_1: 32 elements in 20 bytes.
//!
//! ```text
//! offset  0   half d          the scale: (largest - smallest) / 15
//!         2   half m          the smallest
//!         4   u4 q[32]        byte j: elements j and j + 16; element = d * q + m
//! ```
//!
//! Source: `block_q4_1` and `quantize_row_q4_1_ref` of ggml; `quantize_row_q4_1_impl` with importance.

use super::BlockType;
use crate::decode::{Decode, decode};
use crate::legacy::Packing;
use crate::legacy::affine::{self, Affine, steps};
use crate::nibbles::{ELEMENTS, lanes, pack, unpack};
use crate::number::from_f16;
use crate::search::Steps;
use crate::simd::{Floats, Ints, Lanes};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 20;

/// The type.
pub static Q4_1: BlockType = BlockType {
    dtype: DType::Q4_1,
    needs_importance: false,
    decode: decode::<Q41, BYTES, ELEMENTS>,
    encode: affine::encode::<Q41, BYTES>,
};

/// How it is laid out.
struct Q41;

impl Decode<BYTES, ELEMENTS> for Q41 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, m0, m1, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        let m = from_f16(u16::from_le_bytes([*m0, *m1]));
        for (value, code) in out.iter_mut().zip(unpack(rest)) {
            *value = f32::from(code) * d + m;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, m0, m1, rest @ ..] = block;
        let d = v.floats(from_f16(u16::from_le_bytes([*d0, *d1])));
        let m = v.floats(from_f16(u16::from_le_bytes([*m0, *m1])));
        for (code, out) in lanes::unpack(v, rest).into_iter().zip(out.chunks_exact_mut(V::COUNT)) {
            (code.to_floats() * d + m).store(out);
        }
    }
}

impl Packing<BYTES> for Q41 {
    #[inline(always)]
    fn pack(codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]) {
        let [_, _, _, _, bytes @ ..] = block;
        pack(codes, bytes);
    }

    #[inline(always)]
    fn pack_vectors<V: Lanes>(_: V, codes: &lanes::Vectors<V::Ints>, block: &mut [u8; BYTES]) {
        let [_, _, _, _, bytes @ ..] = block;
        lanes::pack::<V>(codes, bytes);
    }
}

impl Affine<BYTES> for Q41 {
    const MOST: u8 = 15;
    const STEPS: Steps = steps(15);
}
