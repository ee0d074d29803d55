//! Converts quantization blocks of older layouts: the same values in today's blocks, or as F32.
//!
//! A block has a scale `d`, in some types a minimum `m` and the fifth bits, then one nibble or byte per
//! element. Element `i` used to share a byte with its neighbour; since May 2023, with element `i ± 16`.
//! Scales were f32 and became f16: such a block has an equivalent today only if its scales happen to be f16
//! numbers.

use apr_sdk::half::{from_f16, to_f16};
use apr_sdk::{DType, Error, Result};

/// How a block stores its scale and minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    F16,
    F32,
}

/// One older block layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The type's name, as in messages.
    pub name: &'static str,
    /// Today's type of the same values; `None` if there is none.
    pub today: Option<DType>,
    /// Elements in a block.
    pub elements: u64,
    /// Bytes of a block.
    pub bytes: u64,
    scale: Width,
    has_min: bool,
    /// Bits of an element: 4, 5 or 8.
    bits: u32,
    /// Whether neighbours share a byte.
    pairs: bool,
}

const fn layout(
    name: &'static str,
    today: Option<DType>,
    (elements, bytes): (u64, u64),
    scale: Width,
    (has_min, bits, pairs): (bool, u32, bool),
) -> Layout {
    Layout { name, today, elements, bytes, scale, has_min, bits, pairs }
}

impl Layout {
    /// f32 scale, neighbours share a byte.
    pub const Q4_0_PAIRS: Layout = layout("Q4_0", Some(DType::Q4_0), (32, 20), Width::F32, (false, 4, true));
    /// f32 scale and minimum, neighbours share a byte.
    pub const Q4_1_PAIRS: Layout = layout("Q4_1", Some(DType::Q4_1), (32, 24), Width::F32, (true, 4, true));
    /// f16 scale, blocks of 16; removed.
    pub const Q4_2: Layout = layout("Q4_2", None, (16, 10), Width::F16, (false, 4, true));
    /// f16 scale and minimum, blocks of 16; removed.
    pub const Q4_3: Layout = layout("Q4_3", None, (16, 12), Width::F16, (true, 4, true));
    /// Neighbours share a byte.
    pub const Q5_0_PAIRS: Layout = layout("Q5_0", Some(DType::Q5_0), (32, 22), Width::F16, (false, 5, true));
    /// Neighbours share a byte.
    pub const Q5_1_PAIRS: Layout = layout("Q5_1", Some(DType::Q5_1), (32, 24), Width::F16, (true, 5, true));
    /// f32 scale.
    pub const Q4_0_HALVES: Layout =
        layout("Q4_0", Some(DType::Q4_0), (32, 20), Width::F32, (false, 4, false));
    /// f32 scale and minimum.
    pub const Q4_1_HALVES: Layout = layout("Q4_1", Some(DType::Q4_1), (32, 24), Width::F32, (true, 4, false));
    /// f32 scale.
    pub const Q8_0_F32: Layout = layout("Q8_0", Some(DType::Q8_0), (32, 36), Width::F32, (false, 8, false));

    /// Every layout.
    #[cfg(test)]
    pub const ALL: [Layout; 9] = [
        Layout::Q4_0_PAIRS,
        Layout::Q4_1_PAIRS,
        Layout::Q4_2,
        Layout::Q4_3,
        Layout::Q5_0_PAIRS,
        Layout::Q5_1_PAIRS,
        Layout::Q4_0_HALVES,
        Layout::Q4_1_HALVES,
        Layout::Q8_0_F32,
    ];

    /// Rewrites one block as today's. Elements keep their order, so every value stays the same to the bit.
    ///
    /// # Errors
    /// Unsupported if a scale is no f16 number, or there is no such type today.
    pub fn rewrite(&self, block: &[u8], out: &mut [u8]) -> Result<()> {
        if self.today.is_none() {
            return Err(Error::unsupported(format!("no current type has the blocks of {}", self.name)));
        }
        let block = self.read(block)?;
        let mut bytes = Vec::with_capacity(out.len());
        bytes.extend(self.today_scale("scale", block.scale)?);
        if self.has_min {
            bytes.extend(self.today_scale("minimum", block.min)?);
        }
        let quants = block.quants.get(..self.count()).unwrap_or_default();
        if self.bits == 8 {
            bytes.extend(quants);
        } else {
            if self.bits == 5 {
                let fifth = (0..).zip(quants).fold(0, |bits, (n, q)| bits | u32::from(q >> 4 & 1) << n);
                bytes.extend(fifth.to_le_bytes());
            }
            let (low, high) = quants.split_at(quants.len() / 2);
            bytes.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
        }
        if bytes.len() != out.len() {
            return Err(self.wrong_size());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    /// Decodes one block to little-endian f32, as ggml did: one multiplication, and one addition if there is a minimum.
    ///
    /// # Errors
    /// Malformed if the slices are not one block.
    pub fn decode(&self, block: &[u8], out: &mut [u8]) -> Result<()> {
        let block = self.read(block)?;
        let quants = block.quants.get(..self.count()).unwrap_or_default();
        if out.len() != 4 * quants.len() {
            return Err(self.wrong_size());
        }
        for (out, &quant) in out.chunks_exact_mut(4).zip(quants) {
            let signed = f32::from(quant.cast_signed());
            let value = match (self.has_min, self.bits) {
                (true, _) => signed * block.scale.value + block.min.value,
                (false, 4) => (signed - 8.0) * block.scale.value,
                (false, 5) => (signed - 16.0) * block.scale.value,
                (false, _) => signed * block.scale.value,
            };
            out.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    fn count(&self) -> usize {
        usize::try_from(self.elements).unwrap_or(0)
    }

    fn wrong_size(&self) -> Error {
        Error::malformed(format!("the size of a {} block is not {} bytes", self.name, self.bytes))
    }

    /// Takes a block apart; its elements in their order.
    fn read(&self, block: &[u8]) -> Result<Block> {
        if block.len() as u64 != self.bytes {
            return Err(self.wrong_size());
        }
        let mut rest = block;
        let scale = self.scale(&mut rest)?;
        let min = if self.has_min { self.scale(&mut rest)? } else { Scale::default() };
        let fifth = if self.bits == 5 { u32::from_le_bytes(self.take(&mut rest)?) } else { 0 };
        let mut quants = [0; 32];
        for (n, quant) in quants.iter_mut().take(self.count()).enumerate() {
            let half = self.count() / 2;
            let (at, high) = match (self.bits, self.pairs) {
                (8, _) => (n, false),
                (_, true) => (n / 2, n % 2 == 1),
                (_, false) => (n % half, n >= half),
            };
            let byte = *rest.get(at).ok_or_else(|| self.wrong_size())?;
            *quant = match (self.bits, high) {
                (8, _) => byte,
                (_, false) => byte & 15,
                (_, true) => byte >> 4,
            };
            *quant |= u8::from(fifth >> n & 1 == 1) << 4;
        }
        Ok(Block { scale, min, quants })
    }

    fn scale(&self, rest: &mut &[u8]) -> Result<Scale> {
        Ok(match self.scale {
            Width::F16 => {
                let half = u16::from_le_bytes(self.take(rest)?);
                Scale { value: from_f16(half), half: Some(half) }
            }
            Width::F32 => {
                let value = f32::from_le_bytes(self.take(rest)?);
                Scale { value, half: narrow(value) }
            }
        })
    }

    fn take<const N: usize>(&self, rest: &mut &[u8]) -> Result<[u8; N]> {
        let (taken, after) = rest.split_first_chunk::<N>().ok_or_else(|| self.wrong_size())?;
        *rest = after;
        Ok(*taken)
    }

    fn today_scale(&self, what: &str, scale: Scale) -> Result<[u8; 2]> {
        scale.half.map(u16::to_le_bytes).ok_or_else(|| {
            let value = scale.value;
            Error::unsupported(format!("the {what} {value:e} of a {} block is not an f16 number", self.name))
        })
    }
}

/// A block taken apart.
struct Block {
    scale: Scale,
    min: Scale,
    quants: [u8; 32],
}

/// A scale, and the f16 number that is the same, if there is one.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    value: f32,
    half: Option<u16>,
}

/// The f16 number of exactly this value (of these bits, for a NaN), if there is one.
fn narrow(value: f32) -> Option<u16> {
    let near = to_f16(value);
    // The nearest of a NaN is quiet.
    let loud = near & !0x200;
    [near, loud].into_iter().find(|half| from_f16(*half).to_bits() == value.to_bits())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn every_f16_number_is_found_again_and_its_neighbours_are_not() {
        for half in 0..=u16::MAX {
            let value = from_f16(half);
            assert_eq!(narrow(value), Some(half), "{half:#06x}");
            // The next f32 number is never an f16 number, NaN included.
            if value.to_bits() & 0x7fff_ffff != 0 {
                assert_eq!(narrow(f32::from_bits(value.to_bits() ^ 1)), None, "{half:#06x}");
            }
        }
    }

    #[test]
    fn widening_agrees_with_known_numbers() {
        for (half, value) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0x7bff, 65504.0),
            (0xc000, -2.0),
        ] {
            assert!((from_f16(half) - value).abs() == 0.0, "{half:#06x}");
        }
        assert!(from_f16(0x7c00).is_infinite() && from_f16(0x7e00).is_nan());
        assert_eq!(narrow(65536.0), None);
        assert_eq!(narrow(f32::MIN_POSITIVE / 2.0), None);
        assert_eq!(narrow(5.960_464_5e-8 / 2.0), None);
    }

    /// Today's layout of the same type, so that a rewritten block can be decoded too.
    fn today(layout: &Layout) -> Layout {
        let bytes = layout.today.unwrap().info().unwrap().block_bytes;
        Layout { bytes: u64::from(bytes), scale: Width::F16, pairs: false, ..*layout }
    }

    #[test]
    fn a_rewritten_block_has_the_same_values_in_the_same_order() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        for layout in Layout::ALL.iter().filter(|layout| layout.today.is_some()) {
            for _ in 0..2_000 {
                let mut block: Vec<u8> = (0..layout.bytes).map(|_| byte()).collect();
                if layout.scale == Width::F32 {
                    for at in [0, 4].into_iter().take(1 + usize::from(layout.has_min)) {
                        let scale = from_f16(u16::from_le_bytes([byte(), byte()]));
                        block[at..at + 4].copy_from_slice(&scale.to_le_bytes());
                    }
                }
                let new = today(layout);
                let mut rewritten = vec![0; usize::try_from(new.bytes).unwrap()];
                layout.rewrite(&block, &mut rewritten).unwrap();
                let (mut before, mut after) = ([0; 128], [0; 128]);
                layout.decode(&block, &mut before).unwrap();
                new.decode(&rewritten, &mut after).unwrap();
                // NaN times anything may be any NaN.
                for (a, b) in before.chunks(4).zip(after.chunks(4)) {
                    let (a, b) = (
                        f32::from_le_bytes(a.try_into().unwrap()),
                        f32::from_le_bytes(b.try_into().unwrap()),
                    );
                    assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{}", layout.name);
                }
                let mut again = vec![0; rewritten.len()];
                new.rewrite(&rewritten, &mut again).unwrap();
                assert_eq!(again, rewritten, "{}: today's order is kept", layout.name);
            }
        }
    }

    #[test]
    fn blocks_of_another_size_are_refused() {
        for layout in Layout::ALL {
            let len = usize::try_from(layout.bytes).unwrap();
            assert!(layout.decode(&vec![0; len - 1], &mut [0; 128]).is_err());
            assert!(layout.decode(&vec![0; len], &mut [0; 12]).is_err());
            assert!(layout.rewrite(&vec![0; len], &mut [0; 3]).is_err());
        }
    }
}
