//! IQ2_XS: 256 elements in 74 bytes, 2.3125 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   u16[32]         of each eight elements: bits 0..9 the point, which stands for eight magnitudes, bits 9..16
//!                             seven signs, the eighth makes their number even
//!        66   u8 scales[8]    of each 16 elements a scale s of four bits, the low ones first
//!             element = d * (0.5 + s) / 4 * magnitude * sign
//! ```
//!
//! Source: `block_iq2_xs`, `dequantize_row_iq2_xs` and `quantize_row_iq2_xs_impl` of ggml. It is not made without
//! importance.

use super::{BlockType, Rows};
use crate::grids::{Again, ELEMENTS, IQ2_XS as CODEBOOK, Lattice, Packed, Search, even_signs, signed};
use crate::number::from_f16;
use crate::simd::Level;
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 74;

/// The type.
pub static IQ2_XS: BlockType = BlockType { dtype: DType::IQ2_XS, needs_importance: true, decode, encode };

static LATTICE: Lattice<8, 2> = Lattice {
    search: Search { codebook: &CODEBOOK, tries: 9, step: 0.1, again: Again::Off },
    even: true,
    spread: 1.0,
    floor: 0.0,
    least: 1e-15,
    first_scale: None,
    factor: 1.0,
    pack,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = CODEBOOK.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        let words = block[2..66].as_chunks::<2>().0;
        for (k, (word, out)) in words.iter().zip(out.as_chunks_mut::<8>().0).enumerate() {
            let word = u16::from_le_bytes(*word);
            let scale = block[66 + k / 4] >> (k / 2 % 2 * 4) & 15;
            let scale = d * (0.5 + f32::from(scale)) * 0.25;
            let signs = even_signs((word >> 9).to_le_bytes()[0]);
            for (i, (out, value)) in out.iter_mut().zip(points[usize::from(word & 511)]).enumerate() {
                *out = signed(scale * f32::from(value), signs, i);
            }
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    LATTICE.encode(rows, BYTES, out)
}

fn pack(packed: &Packed, out: &mut [u8]) {
    out.fill(0);
    if packed.is_zero {
        return;
    }
    out[..2].copy_from_slice(&packed.d.to_le_bytes());
    let groups = packed.points.iter().zip(packed.signs);
    for (out, (point, signs)) in out[2..66].as_chunks_mut::<2>().0.iter_mut().zip(groups) {
        *out = (point | u16::from(signs & 127) << 9).to_le_bytes();
    }
    for (out, [low, high]) in out[66..].iter_mut().zip(packed.scales.as_chunks::<2>().0) {
        *out = low | high << 4;
    }
}
