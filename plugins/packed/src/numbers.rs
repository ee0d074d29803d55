//! Numbers as checkpoints store them, widened to F32: each is exact.

use apr_sdk::half::{from_bf16, from_f16};
use apr_sdk::{DType, Error, Result};

/// The values of the four-bit float E2M1, by code (OCP Microscaling Formats 1.0, section 5.3.3).
pub const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The values of two codes of E2M1 in a byte, the lower bits first: one look instead of two.
pub static PAIRS: [[f32; 2]; 256] = {
    let mut values = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = [E2M1[byte & 15], E2M1[byte >> 4]];
        byte += 1;
    }
    values
};

/// The values of the six-bit float E2M3, by code (OCP Microscaling Formats 1.0, section 5.3.2).
pub const E2M3: [f32; 64] = {
    let mut values = [0.0; 64];
    let mut code = 0u8;
    while code < 32 {
        let (exponent, mantissa) = (code / 8, code % 8);
        let eighths = if exponent == 0 { mantissa } else { (8 + mantissa) << (exponent - 1) };
        values[code as usize] = eighths as f32 / 8.0;
        values[code as usize + 32] = -values[code as usize];
        code += 1;
    }
    values
};

/// A float of 8 bits with a sign: E4M3 has no infinity (OFP8, section 5).
fn small_float(code: u8, mantissa_bits: u32, bias: i32) -> f32 {
    let exponent_bits = 7 - mantissa_bits;
    let mantissa = u32::from(code) & ((1 << mantissa_bits) - 1);
    let exponent = u32::from(code) >> mantissa_bits & ((1 << exponent_bits) - 1);
    let unit = (-bias - mantissa_bits.cast_signed()).clamp(-126, 127);
    // Both factors are exact, and so is the product.
    let magnitude = match exponent {
        0 => small(mantissa) * power(unit + 1),
        exponent => small((1 << mantissa_bits) + mantissa) * power(unit + exponent.cast_signed()),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// A whole number below 2^24.
#[allow(clippy::cast_precision_loss, reason = "mantissas have at most 4 bits")]
fn small(number: u32) -> f32 {
    number as f32
}

/// 2 to a power from -126 to 127.
fn power(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).cast_unsigned() << 23)
}

/// The value of an E8M0 scale: a power of two (OCP Microscaling Formats 1.0, section 5.4.1). Code 255 is NaN.
pub fn e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        code => f32::from_bits(u32::from(code) << 23),
    }
}

/// The values of a type of one byte, by code; `None` for other types.
pub fn of_bytes(dtype: DType) -> Option<[f32; 256]> {
    let value: fn(u8) -> f32 = match dtype {
        DType::F8_E4M3 => |code| if code & 0x7f == 0x7f { f32::NAN } else { small_float(code, 3, 7) },
        DType::F8_E5M2 => |code| match code & 0x7f {
            0x7c => f32::INFINITY.copysign(if code == 0x7c { 1.0 } else { -1.0 }),
            0x7d.. => f32::NAN,
            _ => small_float(code, 2, 15),
        },
        DType::F8_E4M3FNUZ => |code| if code == 0x80 { f32::NAN } else { small_float(code, 3, 8) },
        DType::F8_E5M2FNUZ => |code| if code == 0x80 { f32::NAN } else { small_float(code, 2, 16) },
        DType::F8_E8M0 => e8m0,
        DType::I8 => |code| f32::from(code.cast_signed()),
        DType::U8 => |code| f32::from(code),
        _ => return None,
    };
    let mut values = [0.0; 256];
    for (code, out) in (0u8..=255).zip(&mut values) {
        *out = value(code);
    }
    Some(values)
}

/// Appends the values of little-endian numbers of a type.
///
/// # Errors
/// Unsupported for a type that is no float, and no integer of 8 bits.
pub fn values(dtype: DType, bytes: &[u8], out: &mut Vec<f32>) -> Result<()> {
    match dtype {
        DType::F32 => out.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
        DType::F16 => out.extend(bytes.as_chunks().0.iter().map(|b| from_f16(u16::from_le_bytes(*b)))),
        DType::BF16 => out.extend(bytes.as_chunks().0.iter().map(|b| from_bf16(u16::from_le_bytes(*b)))),
        dtype => match of_bytes(dtype) {
            Some(table) => out.extend(bytes.iter().map(|code| table[usize::from(*code)])),
            None => return Err(Error::unsupported(format!("scales of type {dtype}"))),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_have_their_published_values() {
        let e4m3 = of_bytes(DType::F8_E4M3).unwrap_or([0.0; 256]);
        assert_eq!(
            [e4m3[0x7e], e4m3[0x01], e4m3[0x08], e4m3[0x38], e4m3[0xb8]],
            [448.0, 0.001_953_125, 0.015_625, 1.0, -1.0]
        );
        assert!(e4m3[0x7f].is_nan() && e4m3[0xff].is_nan());
        let e5m2 = of_bytes(DType::F8_E5M2).unwrap_or([0.0; 256]);
        assert_eq!([e5m2[0x7b], e5m2[0x01], e5m2[0x3c]], [57344.0, 2f32.powi(-16), 1.0]);
        assert!(e5m2[0x7c].is_infinite() && e5m2[0x7d].is_nan());
        let fnuz = of_bytes(DType::F8_E4M3FNUZ).unwrap_or([0.0; 256]);
        assert_eq!([fnuz[0x7f], fnuz[0x40]], [240.0, 1.0]);
        assert!(fnuz[0x80].is_nan());
        assert_eq!([e8m0(127), e8m0(0), e8m0(254)], [1.0, 2f32.powi(-127), 2f32.powi(127)]);
        assert_eq!(
            [E2M3[1], E2M3[8], E2M3[15], E2M3[16], E2M3[31], E2M3[63]],
            [0.125, 1.0, 1.875, 2.0, 7.5, -7.5]
        );
    }
}
