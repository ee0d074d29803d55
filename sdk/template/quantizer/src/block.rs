//! One block: 32 values as a scale and 4 bits each.

use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{Error, Result};

/// Values in a block.
pub const ELEMENTS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 18;

/// Rounds values to the nearest codes.
///
/// # Errors
/// Failed for values that a scale cannot hold: NaN, infinity, and beyond 16 bits.
pub fn encode(values: &[f32], block: &mut [u8]) -> Result<()> {
    let most =
        values.iter().fold(0f32, |most, value| if value.is_nan() { f32::NAN } else { most.max(value.abs()) });
    let scale = to_f16(most / 7.0);
    let unit = from_f16(scale);
    if most.is_nan() || !unit.is_finite() {
        return Err(Error::failed("a value is not finite, or too large for a scale of 16 bits"));
    }
    let code =
        |value: f32| if unit == 0.0 { 8 } else { ((value / unit).round() + 8.0).clamp(0.0, 15.0) as u8 };
    block[..2].copy_from_slice(&scale.to_le_bytes());
    let (low, high) = values.split_at(ELEMENTS / 2);
    for (byte, (low, high)) in block[2..].iter_mut().zip(low.iter().zip(high)) {
        *byte = code(*low) | code(*high) << 4;
    }
    Ok(())
}

/// Computes the values of a block.
pub fn decode(block: &[u8], values: &mut [f32]) {
    let unit = from_f16(u16::from_le_bytes([block[0], block[1]]));
    let (low, high) = values.split_at_mut(ELEMENTS / 2);
    for (byte, (low, high)) in block[2..].iter().zip(low.iter_mut().zip(high)) {
        *low = (f32::from(byte & 15) - 8.0) * unit;
        *high = (f32::from(byte >> 4) - 8.0) * unit;
    }
}
