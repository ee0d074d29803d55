//! ggml itself, from the library that `APR_GGML` names (`tests/interop/ggml.sh` builds it). Only the ignored tests use it.

use apr_sdk::DType;
use libloading::Library;
use std::ffi::{c_int, c_void};

/// The variable with the library's path.
pub const VARIABLE: &str = "APR_GGML";

/// Rows to blocks: `ggml_quantize_chunk`.
type QuantizeChunk = unsafe extern "C" fn(c_int, *const f32, *mut c_void, i64, i64, i64, *const f32) -> usize;
/// Blocks to floats: `dequantize_row_*`.
type DequantizeRow = unsafe extern "C" fn(*const c_void, *mut f32, i64);

/// ggml's number and function of each type.
const TYPES: &[(DType, c_int, &str)] = &[
    (DType::Q4_0, 2, "q4_0"),
    (DType::Q4_1, 3, "q4_1"),
    (DType::Q5_0, 6, "q5_0"),
    (DType::Q5_1, 7, "q5_1"),
    (DType::Q8_0, 8, "q8_0"),
    (DType::Q8_1, 9, "q8_1"),
    (DType::Q2_K, 10, "q2_K"),
    (DType::Q3_K, 11, "q3_K"),
    (DType::Q4_K, 12, "q4_K"),
    (DType::Q5_K, 13, "q5_K"),
    (DType::Q6_K, 14, "q6_K"),
    (DType::Q8_K, 15, "q8_K"),
    (DType::IQ2_XXS, 16, "iq2_xxs"),
    (DType::IQ2_XS, 17, "iq2_xs"),
    (DType::IQ3_XXS, 18, "iq3_xxs"),
    (DType::IQ1_S, 19, "iq1_s"),
    (DType::IQ4_NL, 20, "iq4_nl"),
    (DType::IQ3_S, 21, "iq3_s"),
    (DType::IQ2_S, 22, "iq2_s"),
    (DType::IQ4_XS, 23, "iq4_xs"),
    (DType::IQ1_M, 29, "iq1_m"),
    (DType::TQ1_0, 34, "tq1_0"),
    (DType::TQ2_0, 35, "tq2_0"),
    (DType::MXFP4, 39, "mxfp4"),
    (DType::NVFP4, 40, "nvfp4"),
    (DType::Q1_0, 41, "q1_0"),
    (DType::Q2_0, 42, "q2_0"),
];

/// ggml's shared library, loaded at run time.
pub struct Ggml(Library);

impl Ggml {
    /// The library that the variable names.
    pub fn load() -> Ggml {
        let path = std::env::var(VARIABLE).unwrap_or_else(|_| panic!("{VARIABLE} names no library of ggml"));
        // SAFETY: a plain C library without initialisers of its own, built by our script without -ffast-math.
        Ggml(unsafe { Library::new(path) }.unwrap())
    }

    /// The blocks of whole rows.
    pub fn encode(&self, dtype: DType, rows: &[f32], row_len: usize, importance: Option<&[f32]>) -> Vec<u8> {
        let info = dtype.info().unwrap();
        let mut out = vec![0u8; rows.len() / info.block_elements as usize * info.block_bytes as usize];
        self.encode_into(dtype, rows, row_len, importance, &mut out);
        out
    }

    /// The same, in place. Q8_1 and Q8_K, which files do not hold, by their row functions.
    pub fn encode_into(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) {
        let (_, number, name) = TYPES.iter().find(|(of, ..)| *of == dtype).unwrap();
        let info = dtype.info().unwrap();
        assert_eq!(out.len(), rows.len() / info.block_elements as usize * info.block_bytes as usize);
        assert!(importance.is_none_or(|importance| importance.len() == row_len));
        if matches!(dtype, DType::Q8_1 | DType::Q8_K) {
            let name = format!("quantize_row_{name}_ref");
            // SAFETY: the signature is that of ggml-quants.h; both slices have the length said.
            unsafe {
                let encode: libloading::Symbol<unsafe extern "C" fn(*const f32, *mut c_void, i64)> =
                    self.0.get(name.as_bytes()).unwrap();
                encode(rows.as_ptr(), out.as_mut_ptr().cast(), rows.len() as i64);
            }
            return;
        }
        let n_rows = (rows.len() / row_len) as i64;
        let importance = importance.map_or(std::ptr::null(), <[f32]>::as_ptr);
        // SAFETY: the signature is that of ggml.h; `out` has the bytes of so many rows, importance a row's values.
        unsafe {
            let encode: libloading::Symbol<QuantizeChunk> = self.0.get(b"ggml_quantize_chunk").unwrap();
            encode(*number, rows.as_ptr(), out.as_mut_ptr().cast(), 0, n_rows, row_len as i64, importance);
        }
    }

    /// The elements of blocks.
    pub fn decode(&self, dtype: DType, blocks: &[u8]) -> Option<Vec<f32>> {
        let info = dtype.info().unwrap();
        let mut out = vec![0f32; blocks.len() / info.block_bytes as usize * info.block_elements as usize];
        self.decode_into(dtype, blocks, &mut out).then_some(out)
    }

    /// The same, in place; false for the types that ggml has no decoder for.
    pub fn decode_into(&self, dtype: DType, blocks: &[u8], out: &mut [f32]) -> bool {
        let (.., name) = TYPES.iter().find(|(of, ..)| *of == dtype).unwrap();
        let info = dtype.info().unwrap();
        assert_eq!(out.len(), blocks.len() / info.block_bytes as usize * info.block_elements as usize);
        let name = format!("dequantize_row_{name}");
        // SAFETY: the signature is that of ggml-quants.h; both slices have the length said.
        unsafe {
            let Ok(decode) = self.0.get::<DequantizeRow>(name.as_bytes()) else { return false };
            decode(blocks.as_ptr().cast(), out.as_mut_ptr(), out.len() as i64);
        }
        true
    }
}
