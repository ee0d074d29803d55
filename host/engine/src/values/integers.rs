//! Integers of 8 or 4 bits with one scale per row: a row's greatest magnitude becomes 127 or 7, and every
//! value the nearest multiple of the scale, ties to even. Two 4-bit integers share a byte, the first in the
//! low half.

/// The greatest integer of so many bits, symmetric around zero.
pub fn most(bits: u32) -> u8 {
    if bits == 4 { 7 } else { 127 }
}

/// The scale of a row; 1 for a row of zeros.
fn scale(row: &[f32], most: f32) -> f32 {
    let greatest = row.iter().fold(0.0f32, |greatest, value| greatest.max(value.abs()));
    let scale = greatest / most;
    if scale > 0.0 { scale } else { 1.0 }
}

/// Writes the scale of each row of `values` to `out`.
pub fn scales(most: f32, values: &[f32], row_len: usize, out: &mut [u8]) {
    for (row, out) in values.chunks(row_len.max(1)).zip(out.as_chunks_mut::<4>().0) {
        *out = scale(row, most).to_le_bytes();
    }
}

/// Encodes each row of `values` to `out`, and writes the decoded values to `again`.
pub fn encode(bits: u32, values: &[f32], row_len: usize, out: &mut [u8], again: &mut [f32]) {
    let greatest = f32::from(most(bits));
    let row_bytes = (row_len * bits as usize / 8).max(1);
    let row_len = row_len.max(1);
    for ((row, again), out) in
        values.chunks(row_len).zip(again.chunks_mut(row_len)).zip(out.chunks_mut(row_bytes))
    {
        let scale = scale(row, greatest);
        again.iter_mut().zip(row).for_each(|(again, value)| *again = code(*value, scale, greatest) * scale);
        if bits == 8 {
            out.iter_mut().zip(row).for_each(|(out, value)| *out = byte(code(*value, scale, greatest)));
        } else {
            for (out, pair) in out.iter_mut().zip(row.chunks(2)) {
                let high = pair.get(1).map_or(0, |value| byte(code(*value, scale, greatest)));
                *out = byte(code(pair[0], scale, greatest)) & 15 | high << 4;
            }
        }
    }
}

/// The nearest integer of a value in a row with this scale.
#[inline(always)]
fn code(value: f32, scale: f32, greatest: f32) -> f32 {
    (value / scale).round_ties_even().clamp(-greatest, greatest)
}

/// An integer between -128 and 127 as a byte.
#[allow(clippy::cast_possible_truncation, reason = "it was clamped before")]
fn byte(code: f32) -> u8 {
    (code as i8).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_as_what_was_told() {
        let values: Vec<f32> = (0..24u8).map(|n| (f32::from(n) - 11.0) * 0.37).chain([0.0; 8]).collect();
        for bits in [8, 4] {
            let mut codes = vec![0; values.len() * bits as usize / 8];
            let mut told = vec![0.0; 32];
            let mut back = vec![9.0; 32];
            let mut written = vec![0; 16];
            encode(bits, &values, 8, &mut codes, &mut told);
            scales(f32::from(most(bits)), &values, 8, &mut written);
            let read: Vec<f32> = written.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            for (n, back) in back.iter_mut().enumerate() {
                // The low half first; shifted up and back to extend its sign.
                let code = codes[n * bits as usize / 8] >> (n * bits as usize % 8);
                *back = f32::from((code << (8 - bits)).cast_signed() >> (8 - bits));
            }
            back.chunks_mut(8).zip(&read).for_each(|(row, scale)| row.iter_mut().for_each(|x| *x *= scale));
            assert_eq!(told, back, "{bits}");
            for (n, (value, back)) in values.iter().zip(&back).enumerate() {
                assert!((value - back).abs() <= read[n / 8] * 0.5001);
            }
            // The greatest value of a row becomes the greatest integer; a row of zeros has scale 1.
            assert_eq!((back[0], read[3]), (values[0], 1.0));
        }
    }
}
