//! Byte order: reverses the multi-byte fields of each block, as listed in the dtype table.

use apr_sdk::DTypeInfo;

/// Reverses every multi-byte field of whole blocks in place.
pub fn reverse_fields(info: &DTypeInfo, bytes: &mut [u8]) {
    // A block that is a single run of fields consists of nothing else.
    match info.swap {
        [field] if u32::from(field.width) * u32::from(field.count) == info.block_bytes => match field.width {
            2 => reverse_all::<2>(bytes),
            4 => reverse_all::<4>(bytes),
            8 => reverse_all::<8>(bytes),
            _ => reverse_some(info, bytes),
        },
        _ => reverse_some(info, bytes),
    }
}

fn reverse_all<const WIDTH: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<WIDTH>().0.iter_mut().for_each(|field| field.reverse());
}

fn reverse_some(info: &DTypeInfo, bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(info.block_bytes as usize) {
        for field in info.swap {
            let [start, width] = [field.offset, field.width].map(usize::from);
            for piece in block[start..start + width * usize::from(field.count)].chunks_exact_mut(width) {
                piece.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;

    #[test]
    fn scalars_and_block_scales_are_reversed_and_nibbles_are_not() {
        let mut floats = [1, 2, 3, 4, 5, 6, 7, 8];
        reverse_fields(DType::F32.info().unwrap(), &mut floats);
        assert_eq!(floats, [4, 3, 2, 1, 8, 7, 6, 5]);
        let mut block: Vec<u8> = (0..18).collect();
        reverse_fields(DType::Q4_0.info().unwrap(), &mut block);
        assert_eq!(block[..4], [1, 0, 2, 3]);
    }

    #[test]
    fn twice_is_the_identity_for_every_dtype() {
        for info in DType::ALL {
            let original: Vec<u8> = (0..info.block_bytes * 3).map(|n| (n % 251) as u8).collect();
            let mut bytes = original.clone();
            reverse_fields(info, &mut bytes);
            reverse_fields(info, &mut bytes);
            assert_eq!(bytes, original, "{}", info.name);
            reverse_fields(info, &mut bytes);
            let mut slowly = original;
            reverse_some(info, &mut slowly);
            assert_eq!(bytes, slowly, "{}", info.name);
        }
    }
}
