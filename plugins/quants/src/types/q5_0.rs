//! Q5_0: 32 elements in 22 bytes.
//!
//! ```text
//! offset  0   half d          the scale: the element of the largest magnitude / -16
//!         2   u32             bit j: the fifth bit of element j
//!         6   u4 q[32]        byte j: elements j and j + 16; element = d * (q - 16)
//! ```
//!
//! Source: `block_q5_0` and `quantize_row_q5_0_ref` of ggml; `quantize_row_q5_0_impl` with importance.

use super::BlockType;
use crate::legacy::Packing;
use crate::legacy::symmetric::{self, Symmetric};
use crate::nibbles::{ELEMENTS, lanes, pack_five, unpack_five};
use crate::number::from_f16;
use crate::simd::{Lanes, Level};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 22;

/// The type.
pub static Q5_0: BlockType = BlockType {
    dtype: DType::Q5_0,
    needs_importance: false,
    decode,
    encode: symmetric::encode::<Q50, BYTES>,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let [d0, d1, f0, f1, f2, f3, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack_five(rest, [*f0, *f1, *f2, *f3])) {
            *value = (f32::from(code) - 16.0) * d;
        }
    }
}

/// How its codes lie.
struct Q50;

impl Packing<BYTES> for Q50 {
    #[inline(always)]
    fn pack(codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]) {
        let [_, _, f0, f1, f2, f3, bytes @ ..] = block;
        [*f0, *f1, *f2, *f3] = pack_five(codes, bytes);
    }

    #[inline(always)]
    fn pack_vectors<V: Lanes>(v: V, codes: &lanes::Vectors<V::Ints>, block: &mut [u8; BYTES]) {
        let [_, _, f0, f1, f2, f3, bytes @ ..] = block;
        [*f0, *f1, *f2, *f3] = lanes::pack_five(v, codes, bytes);
    }
}

impl Symmetric<BYTES> for Q50 {
    const MIDDLE: u8 = 16;
}
