//! IQ4_NL: 32 elements in 18 bytes: codes of sixteen values that lie denser near zero.
//!
//! ```text
//! offset  0   half d          the scale
//!         2   u4 q[32]        byte j: elements j and j + 16; element = d * VALUES[q]
//! ```
//!
//! Source: `block_iq4_nl` and `quantize_iq4_nl` of ggml (not `quantize_row_iq4_nl_ref`, which files do not get).

use super::{BlockType, Rows};
use crate::decode::{Decode, decode};
use crate::nibbles::{ELEMENTS, lanes as in_vectors, pack, unpack};
use crate::nonlinear::{Search, VALUES, codes, scale, variance, weights_of};
use crate::number::{from_f16, half};
use crate::simd::{Lanes, Task, run};
use apr_sdk::{DType, Result};

/// Bytes of a block.
const BYTES: usize = 18;

/// The type.
pub static IQ4_NL: BlockType = BlockType {
    dtype: DType::IQ4_NL,
    needs_importance: false,
    decode: decode::<IQ4NL, BYTES, ELEMENTS>,
    encode,
};

/// How it is decoded.
struct IQ4NL;

impl Decode<BYTES, ELEMENTS> for IQ4NL {
    fn scalar(block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, codes @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        for (value, code) in out.iter_mut().zip(unpack(codes)) {
            *value = d * VALUES[usize::from(code)];
        }
    }

    #[inline(always)]
    fn vectors<V: Lanes>(v: V, block: &[u8; BYTES], out: &mut [f32; ELEMENTS]) {
        let [d0, d1, codes @ ..] = block;
        let d = from_f16(u16::from_le_bytes([*d0, *d1]));
        in_vectors::looked_up(v, &VALUES, d, codes, out);
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    let (blocks, out) = (rows.values.as_chunks::<ELEMENTS>().0, out.as_chunks_mut::<BYTES>().0);
    let of_row = rows.row_len / ELEMENTS;
    let importance = rows.importance.map(|all| &all.as_chunks::<ELEMENTS>().0[..of_row]);
    if run(rows.level, InLanes { blocks, importance, out: &mut *out }).is_none() {
        for (at, (values, block)) in blocks.iter().zip(out).enumerate() {
            let importance = importance.map(|all| &all[at % of_row]);
            let d = scale(values, &weights_of(values, importance, variance(values)));
            let inverse = write_scale(d, block);
            pack(&codes(values, inverse), codes_of(block));
        }
    }
    Ok(())
}

/// Writes a block's scale; gives what its elements are to be multiplied with.
fn write_scale(d: f32, block: &mut [u8; BYTES]) -> f32 {
    block[..2].copy_from_slice(&half(d).to_le_bytes());
    // From the scale before it is rounded to a half.
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// The places of a block's codes.
fn codes_of(block: &mut [u8; BYTES]) -> &mut [u8; 16] {
    let [_, _, bytes @ ..] = block;
    bytes
}

/// The vector form: as many blocks at once as there are lanes.
struct InLanes<'a> {
    blocks: &'a [[f32; ELEMENTS]],
    importance: Option<&'a [[f32; ELEMENTS]]>,
    out: &'a mut [[u8; BYTES]],
}

impl Task for InLanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self, lanes: V) {
        let search = Search::new(lanes);
        let groups = self.blocks.chunks(V::COUNT).zip(self.out.chunks_mut(V::COUNT));
        for (group, (blocks, out)) in groups.enumerate() {
            let importance = self.importance.map(|all| move |at| &all[(group * V::COUNT + at) % all.len()]);
            let scales = search.scales(blocks, importance, |_| None);
            for ((values, block), d) in blocks.iter().zip(out).zip(scales) {
                let inverse = write_scale(d, block);
                pack(&search.codes(values, inverse), codes_of(block));
            }
        }
    }
}
