//! The types as their definitions say, element by element, in F64.

use apr_sdk::DType;
use apr_sdk::half::{from_bf16, from_f16};

/// The bits of an element's code: `count` bits from `shift` of a byte.
fn bits(byte: u8, shift: usize, count: u32) -> i32 {
    i32::from(byte) >> shift & ((1 << count) - 1)
}

fn half(block: &[u8], at: usize) -> f64 {
    f64::from(from_f16(u16::from_le_bytes([block[at], block[at + 1]])))
}

fn signed(byte: u8) -> i32 {
    i32::from(byte as i8)
}

/// The sixth bits of Q4_K's and Q5_K's scales.
fn scale_and_minimum(s: &[u8], j: usize) -> (i32, i32) {
    if j < 4 {
        (bits(s[j], 0, 6), bits(s[j + 4], 0, 6))
    } else {
        let scale = bits(s[j + 4], 0, 4) + 16 * bits(s[j - 4], 6, 2);
        (scale, bits(s[j + 4], 4, 4) + 16 * bits(s[j], 6, 2))
    }
}

/// The element `i` of a block.
pub fn definition(dtype: DType, b: &[u8], i: usize) -> f64 {
    let int = f64::from;
    match dtype.name() {
        "F32" => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
        "F16" => half(b, 0),
        "BF16" => f64::from(from_bf16(u16::from_le_bytes([b[0], b[1]]))),
        "Q4_0" => half(b, 0) * int(bits(b[2 + i % 16], i / 16 * 4, 4) - 8),
        "Q4_1" => half(b, 0) * int(bits(b[4 + i % 16], i / 16 * 4, 4)) + half(b, 2),
        "Q5_0" | "Q5_1" => {
            let head = if dtype == DType::Q5_0 { 2 } else { 4 };
            let low = bits(b[head + 4 + i % 16], i / 16 * 4, 4);
            let code = int(low + 16 * bits(b[head + i / 8], i % 8, 1));
            half(b, 0) * if dtype == DType::Q5_0 { code - 16.0 } else { code }
                + if dtype == DType::Q5_1 { half(b, 2) } else { 0.0 }
        }
        "Q8_0" => half(b, 0) * int(signed(b[2 + i])),
        "Q4_K" | "Q5_K" => {
            let (scale, minimum) = scale_and_minimum(&b[4..16], i / 32);
            let codes = if dtype == DType::Q4_K { 16 } else { 48 };
            let low = bits(b[codes + i / 64 * 32 + i % 32], i / 32 % 2 * 4, 4);
            let high = if dtype == DType::Q4_K { 0 } else { bits(b[16 + i % 32], i / 32, 1) };
            half(b, 0) * int(scale) * int(low + 16 * high) - half(b, 2) * int(minimum)
        }
        "Q6_K" => {
            let (h, l) = (i / 128, i % 128);
            let low = bits(b[64 * h + l % 64], l / 64 * 4, 4);
            let high = bits(b[128 + 32 * h + l % 32], l / 32 * 2, 2);
            half(b, 208) * int(signed(b[192 + i / 16])) * int(low + 16 * high - 32)
        }
        other => panic!("no definition of {other}"),
    }
}

/// All elements of plain rows.
pub fn elements(dtype: DType, plain: &[u8]) -> Vec<f64> {
    let info = dtype.info().unwrap();
    let count = info.block_elements as usize;
    plain
        .chunks(info.block_bytes as usize)
        .flat_map(|block| (0..count).map(move |i| definition(dtype, block, i)))
        .collect()
}
