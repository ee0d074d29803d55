//! Places of the scales of quantized blocks, so that a block's health can be judged without decoding it. Offsets are
//! those of ggml's published block structs, as in the dtype table.

use crate::DType;

/// The number format of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// OCP MX scale, a power of two; the last code is NaN.
    E8M0,
    /// OFP8 E4M3 without a sign; the last code is NaN.
    UE4M3,
}

/// Consecutive scales within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleField {
    /// Offset of the first scale in the block, in bytes.
    pub offset: u16,
    /// The number format of each scale.
    pub kind: ScaleKind,
    /// Number of scales.
    pub count: u16,
}

impl ScaleKind {
    /// Bytes of one scale.
    pub fn width(self) -> usize {
        match self {
            ScaleKind::F16 => 2,
            ScaleKind::F32 => 4,
            ScaleKind::E8M0 | ScaleKind::UE4M3 => 1,
        }
    }

    /// Returns whether these bytes, exactly one scale, encode infinity or NaN.
    pub fn is_bad(self, scale: &[u8]) -> bool {
        match (self, scale) {
            (ScaleKind::F16, [.., high]) => high & 0x7c == 0x7c,
            (ScaleKind::F32, [.., low, high]) => high & 0x7f == 0x7f && low & 0x80 == 0x80,
            (ScaleKind::E8M0, [code]) => *code == 0xff,
            (ScaleKind::UE4M3, [code]) => code & 0x7f == 0x7f,
            _ => false,
        }
    }
}

impl ScaleField {
    /// Number of these scales that are infinite or NaN in `block`.
    pub fn bad(&self, block: &[u8]) -> u64 {
        let width = self.kind.width();
        let from = usize::from(self.offset);
        let scales = block.get(from..from + width * usize::from(self.count)).unwrap_or_default();
        scales.chunks_exact(width).filter(|scale| self.kind.is_bad(scale)).count() as u64
    }
}

const fn at(offset: u16, kind: ScaleKind, count: u16) -> ScaleField {
    ScaleField { offset, kind, count }
}

use ScaleKind::{E8M0, F16, F32, UE4M3};

/// Every block type with its scales, or `None` if a scale is not whole bytes (IQ1_M spreads the bits of one).
static SCALES: &[(DType, Option<&[ScaleField]>)] = &[
    (DType::Q1_0, Some(&[at(0, F16, 1)])),
    (DType::Q2_0, Some(&[at(0, F16, 1)])),
    (DType::Q4_0, Some(&[at(0, F16, 1)])),
    (DType::Q4_1, Some(&[at(0, F16, 2)])),
    (DType::Q5_0, Some(&[at(0, F16, 1)])),
    (DType::Q5_1, Some(&[at(0, F16, 2)])),
    (DType::Q8_0, Some(&[at(0, F16, 1)])),
    (DType::Q8_1, Some(&[at(0, F16, 2)])),
    (DType::Q2_K, Some(&[at(80, F16, 2)])),
    (DType::Q3_K, Some(&[at(108, F16, 1)])),
    (DType::Q4_K, Some(&[at(0, F16, 2)])),
    (DType::Q5_K, Some(&[at(0, F16, 2)])),
    (DType::Q6_K, Some(&[at(208, F16, 1)])),
    (DType::Q8_K, Some(&[at(0, F32, 1)])),
    (DType::IQ1_S, Some(&[at(0, F16, 1)])),
    (DType::IQ1_M, None),
    (DType::IQ2_XXS, Some(&[at(0, F16, 1)])),
    (DType::IQ2_XS, Some(&[at(0, F16, 1)])),
    (DType::IQ2_S, Some(&[at(0, F16, 1)])),
    (DType::IQ3_XXS, Some(&[at(0, F16, 1)])),
    (DType::IQ3_S, Some(&[at(0, F16, 1)])),
    (DType::IQ4_NL, Some(&[at(0, F16, 1)])),
    (DType::IQ4_XS, Some(&[at(0, F16, 1)])),
    (DType::TQ1_0, Some(&[at(52, F16, 1)])),
    (DType::TQ2_0, Some(&[at(64, F16, 1)])),
    (DType::MXFP4, Some(&[at(0, E8M0, 1)])),
    (DType::NVFP4, Some(&[at(0, UE4M3, 4)])),
];

/// The scales in a block of a type of this version's table.
pub(crate) fn built_in_scales(dtype: DType) -> Option<&'static [ScaleField]> {
    SCALES.iter().find(|(of, _)| *of == dtype).and_then(|(_, scales)| *scales)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_type_is_spoken_of() {
        for info in DType::ALL {
            let listed = SCALES.iter().filter(|(dtype, _)| *dtype == info.dtype).count();
            assert_eq!(listed, usize::from(info.dtype.is_block()), "{}", info.name);
        }
    }

    #[test]
    fn wide_scales_are_fields_of_the_dtype_table_and_inside_the_block() {
        for info in DType::ALL {
            for field in info.dtype.scales().unwrap_or_default() {
                let width = u16::try_from(field.kind.width()).unwrap();
                let end = field.offset + width * field.count;
                assert!(u32::from(end) <= info.block_bytes, "{}", info.name);
                let inside = info.swap.iter().any(|swap| {
                    swap.width == width
                        && swap.offset <= field.offset
                        && end <= swap.offset + swap.width * swap.count
                });
                assert!(width == 1 || inside, "{}", info.name);
            }
        }
    }

    #[test]
    fn bad_scales_are_seen_where_they_lie() {
        for info in DType::ALL {
            let Some(fields) = info.dtype.scales() else { continue };
            let block = vec![0x35; usize::try_from(info.block_bytes).unwrap()];
            assert_eq!(fields.iter().map(|field| field.bad(&block)).sum::<u64>(), 0, "{}", info.name);
            for field in fields {
                let mut bad = block.clone();
                let last = usize::from(field.offset) + field.kind.width() * usize::from(field.count - 1);
                bad[last..last + field.kind.width()].fill(0xff);
                assert_eq!(field.bad(&bad), 1, "{}", info.name);
            }
        }
        assert!(F16.is_bad(&0x7c00u16.to_le_bytes()) && !F16.is_bad(&0x7bffu16.to_le_bytes()));
        assert!(F32.is_bad(&f32::INFINITY.to_le_bytes()) && !F32.is_bad(&f32::MAX.to_le_bytes()));
    }
}
