//! IQ3_XXS: 256 elements in 98 bytes, 3.0625 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   u8 points[64]   each stands for four magnitudes
//!        66   u32[8]          of each 32 elements: bits 7 * k ..: seven signs of eight elements, the eighth makes their
//!                             number even; bits 28 ..: scale s
//!             element = d * (0.5 + s) / 2 * magnitude * sign
//! ```
//!
//! Source: `block_iq3_xxs`, `dequantize_row_iq3_xxs` and `quantize_row_iq3_xxs_impl` of ggml.

use super::{BlockType, Rows};
use crate::grids::{Again, ELEMENTS, IQ3_XXS as CODEBOOK, Lattice, Packed, Search, even_signs, signed};
use crate::number::from_f16;
use crate::simd::Level;
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 98;

/// The type.
pub static IQ3_XXS: BlockType = BlockType { dtype: DType::IQ3_XXS, needs_importance: false, decode, encode };

static LATTICE: Lattice<4, 8> = Lattice {
    search: Search { codebook: &CODEBOOK, tries: 15, step: 0.2, again: Again::Off },
    even: true,
    spread: 2.0,
    floor: 0.0,
    least: 1e-8,
    first_scale: None,
    factor: 1.0125,
    pack,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = CODEBOOK.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        let (of_points, rests) = block[2..].split_at(64);
        let blocks = of_points.as_chunks::<8>().0.iter().zip(rests.as_chunks::<4>().0);
        for ((of_points, rest), out) in blocks.zip(out.as_chunks_mut::<32>().0) {
            let rest = u32::from_le_bytes(*rest);
            let scale = d * (0.5 + f32::from((rest >> 28).to_le_bytes()[0])) * 0.5;
            for (k, (point, out)) in of_points.iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
                let signs = even_signs((rest >> (k / 2 * 7)).to_le_bytes()[0]);
                for (i, (out, value)) in out.iter_mut().zip(points[usize::from(*point)]).enumerate() {
                    *out = signed(scale * f32::from(value), signs, k % 2 * 4 + i);
                }
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
    for (out, point) in out[2..66].iter_mut().zip(packed.points) {
        *out = point.to_le_bytes()[0];
    }
    let blocks = packed.signs.as_chunks::<4>().0.iter().zip(packed.scales);
    for (out, (signs, scale)) in out[66..].as_chunks_mut::<4>().0.iter_mut().zip(blocks) {
        let rest =
            signs.iter().rev().fold(u32::from(scale), |rest, signs| rest << 7 | u32::from(signs & 127));
        *out = rest.to_le_bytes();
    }
}
