//! IQ4_NL: 32 elements in 18 bytes: codes of sixteen values that lie denser near zero.
//!
//! ```text
//! offset  0   half d          the scale
//!         2   u4 q[32]        byte j: elements j and j + 16; element = d * VALUES[q]
//! ```
//!
//! Source: `block_iq4_nl` and `quantize_iq4_nl` of ggml (not `quantize_row_iq4_nl_ref`, which files do not get).

use super::{BlockType, Rows};
use crate::nibbles::{ELEMENTS, pack, unpack};
use crate::nonlinear::{VALUES, nearest, scale, variance, weights_of};
use crate::number::{from_half, half};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static IQ4_NL: BlockType = BlockType { dtype: DType::IQ4_NL, needs_importance: false, decode, encode };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let [d0, d1, codes @ ..] = block;
        let d = from_half(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack(codes)) {
            *value = d * VALUES[usize::from(code)];
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let of_row = rows.row_len / ELEMENTS;
    let blocks = rows.values.as_chunks::<ELEMENTS>().0.iter().zip(out.as_chunks_mut::<BYTES>().0);
    for (at, (values, block)) in blocks.enumerate() {
        let importance = rows.importance.map(|all| &all.as_chunks::<ELEMENTS>().0[at % of_row]);
        let [d0, d1, codes @ ..] = block;
        let d = scale(values, &weights_of(values, importance, variance(values)));
        // From the scale before it is rounded to a half.
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        [*d0, *d1] = half(d).to_le_bytes();
        pack(&values.map(|value| nearest(inverse * value).to_le_bytes()[0]), codes);
    }
    Ok(())
}
