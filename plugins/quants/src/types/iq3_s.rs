//! IQ3_S: 256 elements in 110 bytes, 3.4375 bits each.
//!
//! ```text
//! offset  0   half d
//!         2   u8 points[64]   of each four elements the low byte of the point, which stands for four magnitudes
//!        66   u8 high[8]      bit 8 of the points, eight in a byte, the low bits first
//!        74   u8 signs[32]    of each eight elements the signs
//!       106   u8 scales[4]    of each 32 elements a scale s of four bits, the low ones first
//!             element = d * (1 + 2 * s) * magnitude * sign
//! ```
//!
//! Source: `block_iq3_s`, `dequantize_row_iq3_s` and `quantize_row_iq3_s_impl` of ggml.

use super::{BlockType, Rows};
use crate::grids::{Again, ELEMENTS, IQ3_S as CODEBOOK, Lattice, Packed, Search, signed};
use crate::number::from_f16;
use crate::simd::Level;
use apr_sdk::{DType, Result};

/// Bytes of a super-block.
const BYTES: usize = 110;

/// The type.
pub static IQ3_S: BlockType = BlockType { dtype: DType::IQ3_S, needs_importance: false, decode, encode };

static LATTICE: Lattice<4, 8> = Lattice {
    search: Search { codebook: &CODEBOOK, tries: 9, step: 0.2, again: Again::AllIfOff },
    even: false,
    spread: 2.0,
    floor: 0.0,
    least: 0.0,
    first_scale: None,
    factor: 1.033,
    pack,
};

fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    let points = CODEBOOK.values();
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        let d = from_f16(u16::from_le_bytes([block[0], block[1]]));
        for (k, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let scale = block[106 + k / 16] >> (k / 8 % 2 * 4) & 15;
            let scale = d * f32::from(1 + 2 * scale);
            let high = block[66 + k / 8] >> (k % 8) & 1;
            let point = usize::from(u16::from_le_bytes([block[2 + k], high]));
            for (i, (out, value)) in out.iter_mut().zip(points[point]).enumerate() {
                *out = signed(scale * f32::from(value), block[74 + k / 2], k % 2 * 4 + i);
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
    out[74..106].copy_from_slice(&packed.signs);
    for (k, point) in packed.points.iter().enumerate() {
        let [low, high] = point.to_le_bytes();
        out[2 + k] = low;
        out[66 + k / 8] |= high << (k % 8);
    }
    for (out, [low, high]) in out[106..].iter_mut().zip(packed.scales.as_chunks::<2>().0) {
        *out = low | high << 4;
    }
}
