//! Blocks of ggml, written from codes and scales that are theirs already. Layouts: `ggml-common.h` of llama.cpp.

use apr_sdk::half::to_f16;
use apr_sdk::{Error, Result};

/// Bytes of a block of MXFP4: the scale, and 32 codes.
pub const MXFP4_BYTES: usize = 17;

/// Bytes of a block of Q8_0: the scale, and 32 codes.
pub const Q8_0_BYTES: usize = 34;

/// Blocks of MXFP4 from codes in pairs, the lower bits first, and a scale in E8M0 for each 32.
///
/// # Errors
/// Malformed for scale 255, which is no number, but one in ggml.
pub fn mxfp4(codes: &[u8], scales: &[u8], out: &mut [u8]) -> Result<()> {
    let blocks = out.as_chunks_mut::<MXFP4_BYTES>().0.iter_mut();
    for ((out, codes), &scale) in blocks.zip(codes.as_chunks::<16>().0).zip(scales) {
        if scale == 255 {
            return Err(Error::malformed("a scale is 255, which means no number"));
        }
        let [first, out @ ..] = out;
        *first = scale;
        // Byte j: element j in the lower bits, element j + 16 in the upper ones.
        for (j, out) in out.iter_mut().enumerate() {
            let code = |element: usize| codes[element / 2] >> (element % 2 * 4) & 15;
            *out = code(j) | code(j + 16) << 4;
        }
    }
    Ok(())
}

/// A block of Q8_0.
pub fn q8_0(scale: f32, codes: impl Iterator<Item = i8>, out: &mut [u8]) {
    let (first, rest) = out.split_at_mut(2);
    first.copy_from_slice(&to_f16(scale).to_le_bytes());
    rest.iter_mut().zip(codes).for_each(|(out, code)| *out = code.cast_unsigned());
}
