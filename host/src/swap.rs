//! Byte order: reverses the multi-byte fields of each block, as the dtype table says.

use apr_sdk::DTypeInfo;

/// Reverses every multi-byte field of whole blocks in place.
pub fn reverse_fields(info: &DTypeInfo, bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(info.block_bytes as usize) {
        for field in info.swap {
            let (start, width) = (usize::from(field.offset), usize::from(field.width));
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
        }
    }
}
