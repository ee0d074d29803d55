//! Products at every level against F64 over the same rounded activations.

use super::definitions::elements;
use super::*;

/// The products in F64 with activations as they were rounded, and the sums of magnitudes.
fn exact(matrix: &Matrix, bytes: &[u8], x: &[f32]) -> Vec<(f64, f64)> {
    let row = |bytes: &[u8]| {
        let terms = elements(matrix.spec.dtype(), bytes).into_iter().zip(x).map(|(w, x)| w * f64::from(*x));
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    bytes.chunks(matrix.shape.row_bytes).map(row).collect()
}

#[test]
fn products_are_those_of_the_definitions() {
    let noise = &mut Noise(11);
    for dtype in Matrix::dtypes() {
        for columns in columns(dtype) {
            let (matrix, bytes) = random(dtype, 37, columns, noise);
            let (x, _) = activations(&matrix, 3, noise);
            for level in levels() {
                for (token, products) in products(&matrix, level, &x, 0..3).into_iter().enumerate() {
                    let exact = exact(&matrix, &bytes, &x.values(token));
                    for (row, (is, (sum, size))) in products.iter().zip(exact).enumerate() {
                        let off = (f64::from(*is) - sum).abs();
                        assert!(
                            off <= size / f64::from(1 << 20),
                            "{dtype} x {columns} at {}: row {row} is {is} instead of {sum}",
                            level.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_level_and_every_division_gives_the_same_bits() {
    let noise = &mut Noise(12);
    for dtype in Matrix::dtypes() {
        for columns in columns(dtype) {
            let (matrix, _) = random(dtype, 117, columns, noise);
            let tokens = 39;
            let (x, _) = activations(&matrix, tokens, noise);
            let expected = products(&matrix, Level::Scalar, &x, 0..tokens);
            for level in levels() {
                let all = products(&matrix, level, &x, 0..tokens);
                assert!(all == expected, "{dtype} x {columns}: {} differs from scalar", level.name());
                for token in 0..tokens {
                    let one = products(&matrix, level, &x, token..token + 1);
                    assert!(one[0] == expected[token], "{dtype} at {}: a token alone differs", level.name());
                }
                for tokens in [0..1, 3..9, 30..39] {
                    for rows in [0..1, 3..5, 15..17, 16..32, 31..53, 60..70, 116..117, 20..117, 0..117] {
                        matrix.multiply(
                            level,
                            rows.clone(),
                            &x,
                            tokens.clone(),
                            None,
                            &mut |token, first, is| {
                                assert!(tokens.contains(&token) && rows.contains(&first));
                                assert!(first + is.len() <= rows.end && is.len() <= ROWS);
                                assert!(
                                    is == &expected[token][first..first + is.len()],
                                    "{dtype}: rows {rows:?}"
                                );
                            },
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_row_of_every_token_comes_once() {
    let noise = &mut Noise(13);
    let (matrix, _) = random(DType::Q4_0, 53, 64, noise);
    let (x, _) = activations(&matrix, 150, noise);
    let mut seen = vec![0; 53 * 150];
    let ahead = matrix.bytes_of_rows(3..20);
    assert_eq!(ahead.len(), 2 * ROWS * matrix.shape.row_bytes);
    matrix.multiply(Level::best(), 5..50, &x, 7..140, Some(ahead), &mut |token, first, products| {
        (first..first + products.len()).for_each(|row| seen[token * 53 + row] += 1);
    });
    for (at, times) in seen.iter().enumerate() {
        let wanted = (7..140).contains(&(at / 53)) && (5..50).contains(&(at % 53));
        assert_eq!(*times, i32::from(wanted));
    }
}

#[test]
fn a_vector_is_a_matrix_of_one_row() {
    let noise = &mut Noise(14);
    for dtype in Matrix::dtypes() {
        let (matrix, bytes) = random(dtype, 1, 256, noise);
        assert_eq!(matrix.image.bytes().len(), bytes.len());
        let (x, _) = activations(&matrix, 2, noise);
        for level in levels() {
            let is = products(&matrix, level, &x, 0..2);
            let (sum, size) = exact(&matrix, &bytes, &x.values(1))[0];
            assert!((f64::from(is[1][0]) - sum).abs() <= size / f64::from(1 << 20), "{dtype}");
        }
    }
}

#[test]
fn extreme_codes_do_not_overflow() {
    for dtype in Matrix::dtypes().filter(|dtype| dtype.is_block()) {
        let columns = 1024;
        for fill in [0x00, 0x7f, 0x80, 0xff, 0x77, 0x88] {
            let spec = MatrixSpec::new(dtype, 16, columns as u64).unwrap();
            let mut bytes = plain(&spec, &mut Noise(15));
            let sane = bytes.clone();
            bytes.fill(fill);
            let info = dtype.info().unwrap();
            for (block, sane) in
                bytes.chunks_mut(info.block_bytes as usize).zip(sane.chunks(info.block_bytes as usize))
            {
                for field in info.swap {
                    let field = usize::from(field.offset)..usize::from(field.offset + 2 * field.count);
                    block[field.clone()].copy_from_slice(&sane[field]);
                }
            }
            let matrix = prepared(&spec, &bytes);
            for sign in [1.0, -1.0] {
                let x = filled(&matrix, &vec![vec![sign; columns]; 2]);
                for level in levels() {
                    let exact = exact(&matrix, &bytes, &x.values(1));
                    for (is, (sum, size)) in products(&matrix, level, &x, 0..2)[1].iter().zip(exact) {
                        let off = (f64::from(*is) - sum).abs();
                        assert!(
                            off <= size.max(1.0) / f64::from(1 << 18),
                            "{dtype} {fill:x} {}",
                            level.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_where_it_is() {
    let noise = &mut Noise(16);
    for dtype in Matrix::dtypes() {
        let columns = 512;
        let spec = MatrixSpec::new(dtype, 35, columns as u64).unwrap();
        let sane = plain(&spec, noise);
        // A row of bytes ff has scales that are NaN, except in IQ types of one scale, where they are, too.
        let mut bytes = sane.clone();
        bytes[18 * spec.row_bytes() as usize..19 * spec.row_bytes() as usize].fill(0xff);
        let (matrix, clean) = (prepared(&spec, &bytes), prepared(&spec, &sane));
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (_, mut values) = activations(&matrix, 21, noise);
            let without = filled(&matrix, &values);
            values[5][77] = bad;
            values[5][400] = -bad;
            let with = filled(&matrix, &values);
            for level in levels() {
                let expected = products(&clean, level, &without, 0..21);
                for (token, products) in products(&matrix, level, &with, 0..21).into_iter().enumerate() {
                    for (row, is) in products.into_iter().enumerate() {
                        if token == 5 || row == 18 {
                            // Infinity times a float of one sign is infinity.
                            let seen = is.is_nan() || !dtype.is_block() && !is.is_finite();
                            assert!(seen, "{dtype} at {}: token {token} row {row}", level.name());
                        } else {
                            assert!(is == expected[token][row], "{dtype} at {}", level.name());
                        }
                    }
                }
                let alone = &super::products(&matrix, level, &with, 5..6)[0];
                assert!(alone.iter().all(|is| !is.is_finite()), "{dtype} at {}", level.name());
            }
        }
    }
}
