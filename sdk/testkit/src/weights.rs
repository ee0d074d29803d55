//! Weights that are a pure function of a seed, a tensor's name and an element's number, so that a checkpoint of any size
//! is kept as names and shapes. `tests/golden/weights.py` is the same function in Python; both sides' hashes are checked in.
//!
//! ```text
//! state     = FNV-1a 64 of the name, xor seed × 9E3779B97F4A7C15
//! bits(i)   = SplitMix64's mix of state + (i + 1) × 9E3779B97F4A7C15
//! spread(i) = top 24 bits of bits(i) as a number in [-1/4, 1/4), times 2^-16 where the low 6 bits are zero
//! value(i)  = center + spread(i) in f32, then rounded to nearest even; integers count from 0 instead
//! byte(i)   = top 8 bits of bits(i), the codes of packed weights; around 1 the top 7, scales of E8M0 up to 1; for E4M3 the top 7
//!             without the last, positive numbers
//! ```
//! One element in 64 is that small, so that adding 1 to a norm is not always exact and F16 has subnormal numbers.

use apr_sdk::half::{to_bf16, to_f16};
use apr_sdk::{DType, Error, Result, checked_elements};

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The payload of a tensor of a seeded checkpoint, little-endian: floats around `center` (1 for the weights of a norm that
/// multiplies by them, else 0), integers counting from 0, any bytes (up to 127 if `center` is 1).
///
/// # Errors
/// Unsupported if `dtype` is not F32, F16, BF16, I32, I64, U8 or F8_E4M3; LimitExceeded if the shape does not fit memory.
pub fn weight_bytes(seed: u64, name: &str, dtype: DType, shape: &[u64], center: f32) -> Result<Vec<u8>> {
    let count = checked_elements(shape)?;
    let state = fnv1a(name) ^ seed.wrapping_mul(GOLDEN);
    let encode: &dyn Fn(u64, &mut Vec<u8>) = match dtype {
        DType::F32 => &|i, out| out.extend_from_slice(&(center + spread(state, i)).to_le_bytes()),
        DType::F16 => &|i, out| out.extend_from_slice(&to_f16(center + spread(state, i)).to_le_bytes()),
        DType::BF16 => &|i, out| out.extend_from_slice(&to_bf16(center + spread(state, i)).to_le_bytes()),
        DType::I32 => &|i, out| out.extend_from_slice(&i.to_le_bytes()[..4]),
        DType::I64 => &|i, out| out.extend_from_slice(&i.to_le_bytes()),
        DType::F8_E4M3 => &|i, out| out.push(mixed(state, i).to_be_bytes()[0] >> 1 & 0x7e),
        DType::U8 if center > 0.0 => &|i, out| out.push(mixed(state, i).to_be_bytes()[0] >> 1),
        DType::U8 => &|i, out| out.push(mixed(state, i).to_be_bytes()[0]),
        other => return Err(Error::unsupported(format!("seeded weights of dtype {}", other.0))),
    };
    let mut out = Vec::new();
    (0..count).for_each(|i| encode(i, &mut out));
    Ok(out)
}

fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn mixed(state: u64, index: u64) -> u64 {
    let mut bits = state.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1)));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn spread(state: u64, index: u64) -> f32 {
    let bits = mixed(state, index);
    // Exact: 24 bits into an f32's 24, a power of two after that.
    let [.., low, middle, high] = bits.to_le_bytes();
    let number = i32::from_le_bytes([low, middle, high, 0]) - (1 << 23);
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32's significand")]
    let value = number as f32 / (1_u32 << 25) as f32;
    if bits & 63 == 0 { value / 65536.0 } else { value }
}
