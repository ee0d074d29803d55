//! The dtype table. Block sizes and the offsets of multi-byte fields come from ggml's published block
//! structs, the small floats from the OCP MX and OFP8 specifications. Numbers never change: append new rows,
//! here and to the wire's list of numbers (`sdk/abi/tests/numbers.txt`).

use crate::{DType, DTypeInfo, DTypeKind, Error, Packing, Result, SwapField, escape, run_time_dtypes};

impl DType {
    /// IEEE 754 binary64.
    pub const F64: DType = DType(0);
    /// IEEE 754 binary32.
    pub const F32: DType = DType(1);
    /// IEEE 754 binary16.
    pub const F16: DType = DType(2);
    /// bfloat16: the upper half of a binary32.
    pub const BF16: DType = DType(3);
    /// 8 bits: 4 exponent, 3 mantissa, no infinity (OFP8 E4M3FN).
    pub const F8_E4M3: DType = DType(4);
    /// 8 bits: 5 exponent, 2 mantissa (OFP8 E5M2).
    pub const F8_E5M2: DType = DType(5);
    /// E4M3 without negative zero; bias 8.
    pub const F8_E4M3FNUZ: DType = DType(6);
    /// E5M2 without negative zero; bias 16.
    pub const F8_E5M2FNUZ: DType = DType(7);
    /// 8 exponent bits, nothing else: a power of two (OCP MX scale).
    pub const F8_E8M0: DType = DType(8);
    /// 6 bits: 2 exponent, 3 mantissa (OCP MX), packed across bytes.
    pub const F6_E2M3: DType = DType(9);
    /// 6 bits: 3 exponent, 2 mantissa (OCP MX), packed across bytes.
    pub const F6_E3M2: DType = DType(10);
    /// 4 bits: 2 exponent, 1 mantissa (OCP MX), packed across bytes.
    pub const F4_E2M1: DType = DType(11);
    /// 2-bit signed integer, packed across bytes.
    pub const I2: DType = DType(12);
    /// 4-bit signed integer, packed across bytes.
    pub const I4: DType = DType(13);
    /// 8-bit signed integer.
    pub const I8: DType = DType(14);
    /// 16-bit signed integer.
    pub const I16: DType = DType(15);
    /// 32-bit signed integer.
    pub const I32: DType = DType(16);
    /// 64-bit signed integer.
    pub const I64: DType = DType(17);
    /// 2-bit unsigned integer, packed across bytes.
    pub const U2: DType = DType(18);
    /// 4-bit unsigned integer, packed across bytes.
    pub const U4: DType = DType(19);
    /// 8-bit unsigned integer.
    pub const U8: DType = DType(20);
    /// 16-bit unsigned integer.
    pub const U16: DType = DType(21);
    /// 32-bit unsigned integer.
    pub const U32: DType = DType(22);
    /// 64-bit unsigned integer.
    pub const U64: DType = DType(23);
    /// One byte, 0 or 1.
    pub const BOOL: DType = DType(24);
    /// Two binary32: real, imaginary.
    pub const C64: DType = DType(25);
    /// Two binary64: real, imaginary.
    pub const C128: DType = DType(26);
    /// 128 elements in 18 bytes (1.125 bits each).
    pub const Q1_0: DType = DType(27);
    /// 64 elements in 18 bytes (2.25 bits each).
    pub const Q2_0: DType = DType(28);
    /// 32 elements in 18 bytes (4.5 bits each).
    pub const Q4_0: DType = DType(29);
    /// 32 elements in 20 bytes (5 bits each).
    pub const Q4_1: DType = DType(30);
    /// 32 elements in 22 bytes (5.5 bits each).
    pub const Q5_0: DType = DType(31);
    /// 32 elements in 24 bytes (6 bits each).
    pub const Q5_1: DType = DType(32);
    /// 32 elements in 34 bytes (8.5 bits each).
    pub const Q8_0: DType = DType(33);
    /// 32 elements in 36 bytes (9 bits each).
    pub const Q8_1: DType = DType(34);
    /// 256 elements in 84 bytes (2.625 bits each).
    pub const Q2_K: DType = DType(35);
    /// 256 elements in 110 bytes (3.4375 bits each).
    pub const Q3_K: DType = DType(36);
    /// 256 elements in 144 bytes (4.5 bits each).
    pub const Q4_K: DType = DType(37);
    /// 256 elements in 176 bytes (5.5 bits each).
    pub const Q5_K: DType = DType(38);
    /// 256 elements in 210 bytes (6.5625 bits each).
    pub const Q6_K: DType = DType(39);
    /// 256 elements in 292 bytes (9.125 bits each).
    pub const Q8_K: DType = DType(40);
    /// 256 elements in 50 bytes (1.5625 bits each).
    pub const IQ1_S: DType = DType(41);
    /// 256 elements in 56 bytes (1.75 bits each).
    pub const IQ1_M: DType = DType(42);
    /// 256 elements in 66 bytes (2.0625 bits each).
    pub const IQ2_XXS: DType = DType(43);
    /// 256 elements in 74 bytes (2.3125 bits each).
    pub const IQ2_XS: DType = DType(44);
    /// 256 elements in 82 bytes (2.5625 bits each).
    pub const IQ2_S: DType = DType(45);
    /// 256 elements in 98 bytes (3.0625 bits each).
    pub const IQ3_XXS: DType = DType(46);
    /// 256 elements in 110 bytes (3.4375 bits each).
    pub const IQ3_S: DType = DType(47);
    /// 32 elements in 18 bytes (4.5 bits each).
    pub const IQ4_NL: DType = DType(48);
    /// 256 elements in 136 bytes (4.25 bits each).
    pub const IQ4_XS: DType = DType(49);
    /// 256 elements in 54 bytes (1.6875 bits each).
    pub const TQ1_0: DType = DType(50);
    /// 256 elements in 66 bytes (2.0625 bits each).
    pub const TQ2_0: DType = DType(51);
    /// 32 elements in 17 bytes (4.25 bits each).
    pub const MXFP4: DType = DType(52);
    /// 64 elements in 36 bytes (4.5 bits each).
    pub const NVFP4: DType = DType(53);
}

const fn row(
    dtype: DType,
    name: &'static str,
    block: (u32, u32),
    kind: DTypeKind,
    packing: Packing,
    swap: &'static [SwapField],
) -> DTypeInfo {
    DTypeInfo { dtype, name, block_elements: block.0, block_bytes: block.1, kind, packing, swap }
}

const fn swap(offset: u16, width: u16, count: u16) -> SwapField {
    SwapField { offset, width, count }
}

use DTypeKind::{Block, Bool, Complex, Float, Int, Uint};
use Packing::{Flat, Row};

#[rustfmt::skip] // one row per line: it is a table
const TABLE: &[DTypeInfo] = &[
    row(DType::F64, "F64", (1, 8), Float, Row, &[swap(0, 8, 1)]),
    row(DType::F32, "F32", (1, 4), Float, Row, &[swap(0, 4, 1)]),
    row(DType::F16, "F16", (1, 2), Float, Row, &[swap(0, 2, 1)]),
    row(DType::BF16, "BF16", (1, 2), Float, Row, &[swap(0, 2, 1)]),
    row(DType::F8_E4M3, "F8_E4M3", (1, 1), Float, Row, &[]),
    row(DType::F8_E5M2, "F8_E5M2", (1, 1), Float, Row, &[]),
    row(DType::F8_E4M3FNUZ, "F8_E4M3FNUZ", (1, 1), Float, Row, &[]),
    row(DType::F8_E5M2FNUZ, "F8_E5M2FNUZ", (1, 1), Float, Row, &[]),
    row(DType::F8_E8M0, "F8_E8M0", (1, 1), Float, Row, &[]),
    row(DType::F6_E2M3, "F6_E2M3", (4, 3), Float, Flat, &[]),
    row(DType::F6_E3M2, "F6_E3M2", (4, 3), Float, Flat, &[]),
    row(DType::F4_E2M1, "F4_E2M1", (2, 1), Float, Flat, &[]),
    row(DType::I2, "I2", (4, 1), Int, Flat, &[]),
    row(DType::I4, "I4", (2, 1), Int, Flat, &[]),
    row(DType::I8, "I8", (1, 1), Int, Row, &[]),
    row(DType::I16, "I16", (1, 2), Int, Row, &[swap(0, 2, 1)]),
    row(DType::I32, "I32", (1, 4), Int, Row, &[swap(0, 4, 1)]),
    row(DType::I64, "I64", (1, 8), Int, Row, &[swap(0, 8, 1)]),
    row(DType::U2, "U2", (4, 1), Uint, Flat, &[]),
    row(DType::U4, "U4", (2, 1), Uint, Flat, &[]),
    row(DType::U8, "U8", (1, 1), Uint, Row, &[]),
    row(DType::U16, "U16", (1, 2), Uint, Row, &[swap(0, 2, 1)]),
    row(DType::U32, "U32", (1, 4), Uint, Row, &[swap(0, 4, 1)]),
    row(DType::U64, "U64", (1, 8), Uint, Row, &[swap(0, 8, 1)]),
    row(DType::BOOL, "BOOL", (1, 1), Bool, Row, &[]),
    row(DType::C64, "C64", (1, 8), Complex, Row, &[swap(0, 4, 2)]),
    row(DType::C128, "C128", (1, 16), Complex, Row, &[swap(0, 8, 2)]),
    row(DType::Q1_0, "Q1_0", (128, 18), Block, Row, &[swap(0, 2, 1)]),
    row(DType::Q2_0, "Q2_0", (64, 18), Block, Row, &[swap(0, 2, 1)]),
    row(DType::Q4_0, "Q4_0", (32, 18), Block, Row, &[swap(0, 2, 1)]),
    row(DType::Q4_1, "Q4_1", (32, 20), Block, Row, &[swap(0, 2, 2)]),
    row(DType::Q5_0, "Q5_0", (32, 22), Block, Row, &[swap(0, 2, 1)]),
    row(DType::Q5_1, "Q5_1", (32, 24), Block, Row, &[swap(0, 2, 2)]),
    row(DType::Q8_0, "Q8_0", (32, 34), Block, Row, &[swap(0, 2, 1)]),
    row(DType::Q8_1, "Q8_1", (32, 36), Block, Row, &[swap(0, 2, 2)]),
    row(DType::Q2_K, "Q2_K", (256, 84), Block, Row, &[swap(80, 2, 2)]),
    row(DType::Q3_K, "Q3_K", (256, 110), Block, Row, &[swap(108, 2, 1)]),
    row(DType::Q4_K, "Q4_K", (256, 144), Block, Row, &[swap(0, 2, 2)]),
    row(DType::Q5_K, "Q5_K", (256, 176), Block, Row, &[swap(0, 2, 2)]),
    row(DType::Q6_K, "Q6_K", (256, 210), Block, Row, &[swap(208, 2, 1)]),
    row(DType::Q8_K, "Q8_K", (256, 292), Block, Row, &[swap(0, 4, 1), swap(260, 2, 16)]),
    row(DType::IQ1_S, "IQ1_S", (256, 50), Block, Row, &[swap(0, 2, 1), swap(34, 2, 8)]),
    row(DType::IQ1_M, "IQ1_M", (256, 56), Block, Row, &[swap(48, 2, 4)]),
    row(DType::IQ2_XXS, "IQ2_XXS", (256, 66), Block, Row, &[swap(0, 2, 33)]),
    row(DType::IQ2_XS, "IQ2_XS", (256, 74), Block, Row, &[swap(0, 2, 33)]),
    row(DType::IQ2_S, "IQ2_S", (256, 82), Block, Row, &[swap(0, 2, 1)]),
    row(DType::IQ3_XXS, "IQ3_XXS", (256, 98), Block, Row, &[swap(0, 2, 1)]),
    row(DType::IQ3_S, "IQ3_S", (256, 110), Block, Row, &[swap(0, 2, 1)]),
    row(DType::IQ4_NL, "IQ4_NL", (32, 18), Block, Row, &[swap(0, 2, 1)]),
    row(DType::IQ4_XS, "IQ4_XS", (256, 136), Block, Row, &[swap(0, 2, 2)]),
    row(DType::TQ1_0, "TQ1_0", (256, 54), Block, Row, &[swap(52, 2, 1)]),
    row(DType::TQ2_0, "TQ2_0", (256, 66), Block, Row, &[swap(64, 2, 1)]),
    row(DType::MXFP4, "MXFP4", (32, 17), Block, Row, &[]),
    row(DType::NVFP4, "NVFP4", (64, 36), Block, Row, &[]),
];

impl DType {
    /// Every type of this version, ordered by number. Plugins may bring more ([`crate::BlockType`]).
    pub const ALL: &'static [DTypeInfo] = TABLE;

    /// The type's table row, or `None` for an unknown number.
    pub fn info(self) -> Option<&'static DTypeInfo> {
        TABLE.get(self.0 as usize).or_else(|| run_time_dtypes::find(self).map(run_time_dtypes::Row::info))
    }

    /// The type's table row.
    ///
    /// # Errors
    /// Unsupported for a number that is not in the table.
    pub fn require(self) -> Result<&'static DTypeInfo> {
        self.info().ok_or_else(|| {
            Error::unsupported(format!("dtype number {} is not in this version's table", self.0))
        })
    }

    /// Looks up a type of this version or of a plugin by its exact name.
    pub fn from_name(name: &str) -> Option<DType> {
        let built_in = TABLE.iter().find(|row| row.name == name).map(|row| row.dtype);
        built_in.or_else(|| run_time_dtypes::named(name))
    }

    /// The type of a name, for a quantizer that brings it.
    ///
    /// # Errors
    /// Plugin if there is none: the plugin's manifest does not declare it, or nothing has read that manifest.
    pub fn named(name: &str) -> Result<DType> {
        DType::from_name(name).ok_or_else(|| {
            Error::plugin(format!("no block type `{}` is provided", escape(name, 64)))
                .hint("declare it in the plugin's manifest: QUANTIZER.dtype.NAME=ELEMENTS BYTES")
        })
    }

    /// The type's name, or `?` for an unknown number.
    pub fn name(self) -> &'static str {
        self.info().map_or("?", |row| row.name)
    }

    /// Returns whether this is a quantized block type.
    pub fn is_block(self) -> bool {
        self.info().is_some_and(|row| row.kind == DTypeKind::Block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions_and_names_are_unique() {
        for (n, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype.0 as usize, n, "{}", row.name);
            assert_eq!(DType::from_name(row.name), Some(row.dtype), "{}", row.name);
        }
    }

    #[test]
    fn swap_fields_lie_inside_their_block() {
        for row in TABLE {
            for field in row.swap {
                let end = u32::from(field.offset) + u32::from(field.width) * u32::from(field.count);
                assert!(end <= row.block_bytes, "{}", row.name);
            }
        }
    }
}
