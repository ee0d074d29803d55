//! Planes: the bytes of elements, sorted by their place in the element.

/// Writes the planes of `raw`, whole little-endian elements of `width` bytes, to `out`: the lowest bytes of all elements
/// first, once each element's bits are rotated left by one. Both have the same length.
pub fn split(raw: &[u8], width: u8, out: &mut [u8]) {
    match width {
        1 => split_bytes(raw, out),
        2 => split_words::<2>(raw, out),
        4 => split_words::<4>(raw, out),
        _ => split_words::<8>(raw, out),
    }
}

/// The inverse of [`split`].
pub fn join(planes: &[u8], width: u8, out: &mut [u8]) {
    match width {
        1 => join_bytes(planes, out),
        2 => join_words::<2>(planes, out),
        4 => join_words::<4>(planes, out),
        _ => join_words::<8>(planes, out),
    }
}

fn split_bytes(raw: &[u8], out: &mut [u8]) {
    out.iter_mut().zip(raw).for_each(|(out, byte)| *out = byte.rotate_left(1));
}

fn join_bytes(plane: &[u8], out: &mut [u8]) {
    out.iter_mut().zip(plane).for_each(|(out, byte)| *out = byte.rotate_right(1));
}

/// Elements handled side by side: few enough for registers, enough for whole vectors.
const GROUP: usize = 32;

fn split_words<const WIDTH: usize>(raw: &[u8], out: &mut [u8]) {
    let elements = raw.as_chunks::<WIDTH>().0;
    let mut planes = out.chunks_exact_mut(elements.len().max(1));
    let mut planes: [&mut [u8]; WIDTH] = std::array::from_fn(|_| planes.next().unwrap_or_default());
    let (groups, rest) = elements.as_chunks::<GROUP>();
    for (number, group) in groups.iter().enumerate() {
        let at = number * GROUP;
        let rotated: [[u8; WIDTH]; GROUP] = std::array::from_fn(|n| rotated_left(group[n]));
        for (place, plane) in planes.iter_mut().enumerate() {
            let bytes: [u8; GROUP] = std::array::from_fn(|n| rotated[n][place]);
            plane[at..at + GROUP].copy_from_slice(&bytes);
        }
    }
    let at = groups.len() * GROUP;
    for (number, element) in rest.iter().enumerate() {
        for (plane, byte) in planes.iter_mut().zip(rotated_left(*element)) {
            plane[at + number] = byte;
        }
    }
}

fn join_words<const WIDTH: usize>(planes: &[u8], out: &mut [u8]) {
    let elements = out.as_chunks_mut::<WIDTH>().0;
    let len = elements.len();
    let mut each = planes.chunks_exact(len.max(1));
    let planes: [&[u8]; WIDTH] = std::array::from_fn(|_| each.next().unwrap_or_default());
    let (groups, rest) = elements.as_chunks_mut::<GROUP>();
    let n_grouped = groups.len() * GROUP;
    for (number, group) in groups.iter_mut().enumerate() {
        let at = number * GROUP;
        let bytes: [[u8; GROUP]; WIDTH] = std::array::from_fn(|place| {
            let mut bytes = [0; GROUP];
            bytes.copy_from_slice(&planes[place][at..at + GROUP]);
            bytes
        });
        *group = std::array::from_fn(|n| rotated_right(std::array::from_fn(|place| bytes[place][n])));
    }
    for (number, element) in rest.iter_mut().enumerate() {
        *element = rotated_right(std::array::from_fn(|place| planes[place][n_grouped + number]));
    }
}

/// The bits of a little-endian word, rotated left by one.
#[inline(always)]
fn rotated_left<const WIDTH: usize>(word: [u8; WIDTH]) -> [u8; WIDTH] {
    std::array::from_fn(|n| word[n] << 1 | word[if n == 0 { WIDTH - 1 } else { n - 1 }] >> 7)
}

/// The inverse of [`rotated_left`].
#[inline(always)]
fn rotated_right<const WIDTH: usize>(word: [u8; WIDTH]) -> [u8; WIDTH] {
    std::array::from_fn(|n| word[n] >> 1 | word[if n + 1 == WIDTH { 0 } else { n + 1 }] << 7)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a test's numbers are small"
    )]

    use super::*;

    #[test]
    fn the_exponents_of_floats_are_the_last_plane() {
        let values = [1.5f32, -0.25, 3e-9, f32::NEG_INFINITY];
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut planes = vec![0; raw.len()];
        split(&raw, 4, &mut planes);
        let exponents: Vec<u8> = values.iter().map(|value| (value.to_bits() >> 23 & 0xff) as u8).collect();
        assert_eq!(planes[12..], exponents);
        let signs: Vec<u8> = values.iter().map(|value| u8::from(value.is_sign_negative())).collect();
        assert_eq!(planes[..4].iter().map(|byte| byte & 1).collect::<Vec<_>>(), signs);
    }

    #[test]
    fn elements_of_any_width_and_number_come_back() {
        for width in [1u8, 2, 4, 8] {
            for count in [0usize, 1, 31, 32, 33, 100] {
                let raw: Vec<u8> = (0..count * usize::from(width)).map(|n| (n * 89 + n / 7) as u8).collect();
                let mut planes = vec![0; raw.len()];
                split(&raw, width, &mut planes);
                let mut back = vec![0; raw.len()];
                join(&planes, width, &mut back);
                assert_eq!(back, raw, "{count} of {width}");
            }
        }
    }

    #[test]
    fn words_are_rotated_as_integers_are() {
        for word in [0u16, 1, 0x8000, 0xffff, 0x3f80, 0xbf81] {
            assert_eq!(rotated_left(word.to_le_bytes()), word.rotate_left(1).to_le_bytes());
            assert_eq!(rotated_right(word.to_le_bytes()), word.rotate_right(1).to_le_bytes());
        }
    }
}
