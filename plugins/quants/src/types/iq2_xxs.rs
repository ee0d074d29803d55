//! IQ2_XXS: 256 elements in 66 bytes, 2.0625 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   8 blocks of 32 elements:
//!             u8 point[4]     each stands for eight magnitudes
//!             u32             bits 7 * k ..: seven signs of group k, the eighth makes their number even
//!                             bits 28 ..: scale s
//!             element = d * (0.5 + s) / 4 * magnitude * sign
//! ```
//!
//! Source: `block_iq2_xxs`, `dequantize_row_iq2_xxs` and `quantize_row_iq2_xxs_impl` of ggml. It is not made without
//! importance.

use super::{BlockType, Rows};
use crate::grids::{Again, ELEMENTS, IQ2_XXS as CODEBOOK, Lattice, Packed, Search, even_signs, signed};
use crate::number::from_f16;
use crate::search::positive;
use crate::simd::Level;
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 66;

/// The type.
pub static IQ2_XXS: BlockType = BlockType { dtype: DType::IQ2_XXS, needs_importance: true, decode, encode };

static LATTICE: Lattice<8, 4> = Lattice {
    search: Search { codebook: &CODEBOOK, tries: 6, step: 0.1, again: Again::All },
    even: true,
    spread: 1.0,
    floor: 0.0,
    least: 1e-15,
    first_scale: Some(first_scale),
    factor: 1.0,
    pack,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = CODEBOOK.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (block, out) in block[2..].as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<32>().0) {
            let rest = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
            let scale = d * (0.5 + f32::from((rest >> 28).to_le_bytes()[0])) * 0.25;
            for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let signs = even_signs((rest >> (7 * k)).to_le_bytes()[0]);
                for (i, (out, value)) in out.iter_mut().zip(points[usize::from(block[k])]).enumerate() {
                    *out = signed(scale * f32::from(value), signs, i);
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
    let groups = packed.points.as_chunks::<4>().0.iter().zip(packed.signs.as_chunks::<4>().0);
    for ((out, (points, signs)), scale) in
        out[2..].as_chunks_mut::<8>().0.iter_mut().zip(groups).zip(packed.scales)
    {
        let rest =
            signs.iter().rev().fold(u32::from(scale), |rest, signs| rest << 7 | u32::from(signs & 127));
        out[..4].copy_from_slice(&points.map(|point| point.to_le_bytes()[0]));
        out[4..].copy_from_slice(&rest.to_le_bytes());
    }
}

/// The scale with which whole levels from 0 to 4 fit the magnitudes best.
fn first_scale(values: &[f32], weights: &[f32]) -> f32 {
    positive(4, values, weights, &mut [0; 32])
}
