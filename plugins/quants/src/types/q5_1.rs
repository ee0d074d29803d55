//! Q5_1: 32 elements in 24 bytes.
//!
//! ```text
//! offset  0   half d          the scale: (largest - smallest) / 31
//!         2   half m          the smallest
//!         4   u32             bit j: the fifth bit of element j
//!         8   u4 q[32]        byte j: elements j and j + 16; element = d * q + m
//! ```
//!
//! Source: `block_q5_1` and `quantize_row_q5_1_ref` of ggml; `quantize_row_q5_1_impl` with importance.

use super::BlockType;
use crate::legacy::Packing;
use crate::legacy::affine::{self, Affine, steps};
use crate::nibbles::{ELEMENTS, lanes, pack_five, unpack_five};
use crate::number::from_f16;
use crate::search::Steps;
use crate::simd::{Lanes, Level};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 24;

/// The type.
pub static Q5_1: BlockType =
    BlockType { dtype: DType::Q5_1, needs_importance: false, decode, encode: affine::encode::<Q51, BYTES> };

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let [d0, d1, m0, m1, f0, f1, f2, f3, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        let m = from_f16(u16::from_le_bytes([*m0, *m1]));
        for (value, code) in out.iter_mut().zip(unpack_five(rest, [*f0, *f1, *f2, *f3])) {
            *value = f32::from(code) * d + m;
        }
    }
}

/// How its codes lie.
struct Q51;

impl Packing<BYTES> for Q51 {
    #[inline(always)]
    fn pack(codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]) {
        let [_, _, _, _, f0, f1, f2, f3, bytes @ ..] = block;
        [*f0, *f1, *f2, *f3] = pack_five(codes, bytes);
    }

    #[inline(always)]
    fn pack_vectors<V: Lanes>(v: V, codes: &lanes::Vectors<V::Ints>, block: &mut [u8; BYTES]) {
        let [_, _, _, _, f0, f1, f2, f3, bytes @ ..] = block;
        [*f0, *f1, *f2, *f3] = lanes::pack_five(v, codes, bytes);
    }
}

impl Affine<BYTES> for Q51 {
    const MOST: u8 = 31;
    const STEPS: Steps = steps(31);
}
