//! Every vector form gives the bytes, and the floats, of the scalar form.

use crate::data::{ROW, SETS, importance, weights};
use apr_plugin_quants::simd::Level;
use apr_plugin_quants::types::{BlockType, Rows, TYPES};

/// Compares the blocks that every level of this machine makes of `rows`.
fn compare(of: &BlockType, rows: &[f32], row_len: usize, importance: Option<&[f32]>, what: &str) {
    let info = of.dtype.info().unwrap();
    let mut scalar: Option<Result<Vec<u8>, String>> = None;
    for level in Level::ALL.into_iter().filter(|level| level.is_supported()) {
        let blocks = rows.len() / info.block_elements as usize;
        let mut out = vec![0; blocks * info.block_bytes as usize];
        let made = (of.encode)(&Rows { values: rows, row_len, importance, level }, &mut out);
        let made = made.map(|()| out).map_err(|error| error.to_string());
        let want = scalar.get_or_insert_with(|| made.clone());
        let with = importance.is_some();
        assert!(*want == made, "{} {what} {row_len} {with} {}", of.dtype, level.name());
    }
}

#[test]
fn every_level_of_this_machine_gives_the_bytes_of_the_scalar_form() {
    for of in TYPES {
        for set in SETS {
            let values = importance(set);
            let block = of.dtype.info().unwrap().block_elements as usize;
            // Vector forms work on groups of blocks, or of rows, and must do with what is left over.
            for (row_len, rows) in [(ROW, 2), (block, 35), (block * 3, 33)] {
                let rows = &weights(set)[..row_len * rows];
                for importance in [None, Some(&values[..row_len])] {
                    if importance.is_some() || !of.needs_importance {
                        compare(of, rows, row_len, importance, set);
                    }
                }
            }
        }
    }
}

#[test]
fn zeros_of_either_sign_have_the_same_bytes_at_every_level() {
    let signs: [fn(usize) -> f32; 4] = [
        |_| -0.0,
        |at| if at == 0 { -0.0 } else { 0.0 },
        |at| if at == 0 { 0.0 } else { -0.0 },
        |at| {
            if at % 2 == 0 { -0.0 } else { 0.0 }
        },
    ];
    for of in TYPES {
        for (number, sign) in signs.into_iter().enumerate() {
            let rows: Vec<f32> = (0..ROW * 3).map(sign).collect();
            let values = &importance("normal")[..ROW];
            for importance in [None, Some(values)] {
                if importance.is_some() || !of.needs_importance {
                    compare(of, &rows, ROW, importance, &format!("signs {number}"));
                }
            }
        }
    }
}

#[test]
fn every_level_of_this_machine_gives_the_floats_of_the_scalar_form() {
    for of in TYPES {
        let info = of.dtype.info().unwrap();
        // All bits at random, so that scales are also subnormal, infinite and no number.
        let mut state = 1u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        let blocks: Vec<u8> = (0..info.block_bytes as usize * 4096).map(|_| byte()).collect();
        let decode = |level| {
            let mut out = vec![0.0; info.block_elements as usize * 4096];
            (of.decode)(level, &blocks, &mut out);
            out
        };
        let scalar = decode(Level::Scalar);
        for level in Level::ALL.into_iter().filter(|level| level.is_supported()) {
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(scalar.iter().zip(&decode(level)).all(same), "{} {}", of.dtype, level.name());
        }
    }
}
