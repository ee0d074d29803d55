//! Q4_0: 32 elements in 18 bytes.
//!
//! ```text
//! offset  0   half d          the scale: the element of the largest magnitude / -8
//!         2   u4 q[32]        byte j: elements j and j + 16; element = d * (q - 8)
//! ```
//!
//! Source: `block_q4_0` and `quantize_row_q4_0_ref` of ggml; `quantize_row_q4_0_impl` with importance.

use super::BlockType;
use crate::decode::{Decode, decode};
use crate::legacy::Packing;
use crate::legacy::symmetric::{self, Symmetric};
use crate::nibbles::{ELEMENTS, lanes, pack, unpack};
use crate::number::from_f16;
use crate::simd::{Floats, Ints, Lanes};
use apr_sdk::DType;

/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static Q4_0: BlockType = BlockType {
    dtype: DType::Q4_0,
    needs_importance: false,
    decode: decode::<Q40, BYTES, ELEMENTS>,
    encode: symmetric::encode::<Q40, BYTES>,
};

/// How it is laid out.
struct Q40;

impl Decode<BYTES, ELEMENTS> for Q40 {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, rest @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack(rest)) {
            *value = (f32::from(code) - 8.0) * d;
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, rest @ ..] = block;
        let d = v.floats(from_f16(u16::from_le_bytes([*d0, *d1])));
        for (code, out) in lanes::unpack(v, rest).into_iter().zip(out.chunks_exact_mut(V::COUNT)) {
            ((code.to_floats() - v.floats(8.0)) * d).store(out);
        }
    }
}

impl Packing<BYTES> for Q40 {
    #[inline(always)]
    fn pack(codes: &[u8; ELEMENTS], block: &mut [u8; BYTES]) {
        let [_, _, bytes @ ..] = block;
        pack(codes, bytes);
    }

    #[inline(always)]
    fn pack_vectors<V: Lanes>(_: V, codes: &lanes::Vectors<V::Ints>, block: &mut [u8; BYTES]) {
        let [_, _, bytes @ ..] = block;
        lanes::pack::<V>(codes, bytes);
    }
}

impl Symmetric<BYTES> for Q40 {
    const MIDDLE: u8 = 8;
}
