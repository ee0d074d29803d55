//! Blocks that become blocks of another type without any loss: the same values, in other bits.

use crate::number::{from_f16, half};
use crate::simd::Level;
use crate::types::{Rows, block_type};
use apr_sdk::{DType, Error, Result};

/// The pairs: before, after.
pub const PAIRS: &[(DType, DType)] = &[
    (DType::Q4_0, DType::Q8_0),
    (DType::Q5_0, DType::Q8_0),
    (DType::Q1_0, DType::Q8_0),
    (DType::Q2_0, DType::Q8_0),
    (DType::TQ1_0, DType::Q8_0),
    (DType::TQ2_0, DType::Q8_0),
    (DType::TQ1_0, DType::TQ2_0),
    (DType::TQ2_0, DType::TQ1_0),
];

/// Elements of a block of Q8_0, and its bytes.
const EIGHT: (usize, usize) = (32, 34);

/// Makes whole blocks of `to` of whole blocks of `from`.
///
/// # Errors
/// Unsupported for types that are no pair; Failed for a block whose values the other type does not hold.
pub fn repack(from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
    if !PAIRS.contains(&(from, to)) {
        return Err(Error::unsupported(format!("{from} cannot be repacked as {to} without loss")));
    }
    let (before, after) = (from.require()?, to.require()?);
    let elements = (before.block_elements as usize).max(after.block_elements as usize);
    let bytes =
        |info: &apr_sdk::DTypeInfo| elements / info.block_elements as usize * info.block_bytes as usize;
    let scale_at =
        from.scales().and_then(|scales| scales.first()).map_or(0, |scale| usize::from(scale.offset));
    let (mut values, mut again) = (vec![0.0; elements], vec![0.0; elements]);
    for (block, out) in blocks.chunks_exact(bytes(before)).zip(out.chunks_exact_mut(bytes(after))) {
        (block_type(from)?.decode)(Level::Scalar, block, &mut values);
        if to == DType::Q8_0 {
            // All these types have one scale, and every element is a whole number times it.
            let scale = from_f16(u16::from_le_bytes([block[scale_at], block[scale_at + 1]]));
            multiples(scale, &values, out);
        } else {
            let rows = Rows { values: &values, row_len: elements, importance: None, level: Level::Scalar };
            (block_type(to)?.encode)(&rows, out)?;
        }
        (block_type(to)?.decode)(Level::Scalar, out, &mut again);
        if values != again {
            return Err(Error::failed(format!("a block of {from} has values that {to} cannot represent")));
        }
    }
    Ok(())
}

/// Q8_0 of values that are multiples of one scale.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a multiple beyond a byte is seen when it is decoded again"
)]
fn multiples(scale: f32, values: &[f32], out: &mut [u8]) {
    for (values, block) in values.chunks_exact(EIGHT.0).zip(out.chunks_exact_mut(EIGHT.1)) {
        block[..2].copy_from_slice(&half(scale).to_le_bytes());
        for (code, value) in block[2..].iter_mut().zip(values) {
            let multiple = if scale == 0.0 { 0.0 } else { (value / scale).round() };
            *code = (multiple as i8).cast_unsigned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of any bits, but for scales that are finite.
    fn blocks(dtype: DType, n: usize) -> Vec<u8> {
        let info = dtype.info().unwrap();
        let size = info.block_bytes as usize;
        let mut out: Vec<u8> = (0..n * size).map(|at| u8::try_from(at * 167 % 251).unwrap()).collect();
        let at = usize::from(dtype.scales().unwrap()[0].offset);
        for (number, block) in out.chunks_exact_mut(size).enumerate() {
            let sign = if number % 2 == 0 { 1.0 } else { -1.0 };
            block[at..at + 2].copy_from_slice(
                &half(sign * 0.01 * f32::from(u16::try_from(number).unwrap())).to_le_bytes(),
            );
            if matches!(dtype, DType::TQ2_0) {
                // Of four codes it uses three.
                block[..at].iter_mut().for_each(|byte| *byte &= !(*byte >> 1 & 0x55));
            }
        }
        out
    }

    #[test]
    fn every_pair_keeps_every_value() {
        for &(from, to) in PAIRS {
            let (before, after) = (from.info().unwrap(), to.info().unwrap());
            let blocks = blocks(from, 2048 / before.block_elements as usize);
            let mut out = vec![0; 2048 / after.block_elements as usize * after.block_bytes as usize];
            let made = repack(from, to, &blocks, &mut out);
            // A ternary type has no scale below zero.
            if to == DType::TQ1_0 || to == DType::TQ2_0 {
                continue;
            }
            made.unwrap();
            let (mut values, mut again) = (vec![0.0; 2048], vec![0.0; 2048]);
            (block_type(from).unwrap().decode)(Level::Scalar, &blocks, &mut values);
            (block_type(to).unwrap().decode)(Level::Scalar, &out, &mut again);
            assert!(values == again && values.iter().any(|value| *value != 0.0), "{from} {to}");
        }
    }

    #[test]
    fn ternary_blocks_go_to_and_fro_and_a_fourth_code_is_refused() {
        let values: Vec<f32> = (0..512).map(|n| f32::from(i8::try_from(n % 3).unwrap() - 1) * 0.5).collect();
        let rows = Rows { values: &values, row_len: 256, importance: None, level: Level::Scalar };
        let mut two = vec![0; 2 * 66];
        (block_type(DType::TQ2_0).unwrap().encode)(&rows, &mut two).unwrap();
        let (mut one, mut back) = (vec![0; 2 * 54], vec![0; 2 * 66]);
        repack(DType::TQ2_0, DType::TQ1_0, &two, &mut one).unwrap();
        repack(DType::TQ1_0, DType::TQ2_0, &one, &mut back).unwrap();
        assert_eq!(two, back);
        two[5] |= 3;
        assert!(repack(DType::TQ2_0, DType::TQ1_0, &two, &mut one).is_err());
        assert!(repack(DType::Q8_0, DType::Q4_0, &[], &mut []).is_err());
    }
}
