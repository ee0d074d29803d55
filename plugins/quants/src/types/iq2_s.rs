//! IQ2_S: 256 elements in 82 bytes, 2.5625 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   u8 points[32]   of each eight elements the low byte of the point, which stands for eight magnitudes
//!        34   u8 signs[32]    of each eight elements the signs
//!        66   u8 high[8]      bits 8 and 9 of the points, four in a byte, the low bits first
//!        74   u8 scales[8]    of each 16 elements a scale s of four bits, the low ones first
//!             element = d * (0.5 + s) / 4 * magnitude * sign
//! ```
//!
//! Source: `block_iq2_s`, `dequantize_row_iq2_s` and `quantize_row_iq2_s_impl` of ggml.

use super::{BlockType, Rows};
use crate::grids::{Again, ELEMENTS, IQ2_S as CODEBOOK, Lattice, Packed, Search, signed};
use crate::number::from_f16;
use crate::simd::Level;
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 82;

/// The type.
pub static IQ2_S: BlockType = BlockType { dtype: DType::IQ2_S, needs_importance: false, decode, encode };

static LATTICE: Lattice<8, 2> = Lattice {
    search: Search { codebook: &CODEBOOK, tries: 9, step: 0.1, again: Again::Off },
    even: false,
    spread: 2.0,
    floor: 0.25,
    least: 1e-8,
    first_scale: None,
    factor: 0.9875,
    pack,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = CODEBOOK.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = block[74 + k / 4] >> (k / 2 % 2 * 4) & 15;
            let scale = d * (0.5 + f32::from(scale)) * 0.25;
            let high = block[66 + k / 4] >> (k % 4 * 2) & 3;
            let point = usize::from(u16::from_le_bytes([block[2 + k], high]));
            for (i, (out, value)) in out.iter_mut().zip(points[point]).enumerate() {
                *out = signed(scale * f32::from(value), block[34 + k], i);
            }
        }
    }
}

fn encode(rows: &Rows<'_>, out: &mut [u8]) -> Result<()> {
    LATTICE.encode(rows, BYTES, out)
}

fn pack(packed: &Packed, out: &mut [u8]) {
    out.fill(0);
    out[..2].copy_from_slice(&packed.d.to_le_bytes());
    out[34..66].copy_from_slice(&packed.signs);
    for (k, point) in packed.points[..32].iter().enumerate() {
        let [low, high] = point.to_le_bytes();
        out[2 + k] = low;
        out[66 + k / 4] |= high << (k % 4 * 2);
    }
    for (out, [low, high]) in out[74..].iter_mut().zip(packed.scales.as_chunks::<2>().0) {
        *out = low | high << 4;
    }
}
