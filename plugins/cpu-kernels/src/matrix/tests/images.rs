//! Images: every type comes back from its own bit for bit.

use super::definitions::elements;
use super::*;
use apr_sdk::ErrorKind;

#[test]
fn plain_rows_come_back_bit_for_bit() {
    let noise = &mut Noise(1);
    for dtype in Matrix::dtypes() {
        for columns in columns(dtype) {
            for rows in [1, 2, 15, 16, 17, 33, 64, 150] {
                // Any bytes, NaN among them.
                let spec = MatrixSpec::new(dtype, rows, columns as u64).unwrap();
                let bytes = noise.bytes(spec.bytes() as usize);
                let matrix = prepared(&spec, &bytes);
                assert_eq!(matrix.image.bytes().len() as u64, Matrix::image(&spec).unwrap().bytes);
                let mut out = Taken::default();
                matrix.export(&mut out).unwrap();
                assert!(out.0 == bytes, "{dtype}, {rows} x {columns}");
                let again = Matrix::adopt(&spec, Box::new(Memory(matrix.image.bytes().to_vec()))).unwrap();
                let mut out = Taken::default();
                again.export(&mut out).unwrap();
                assert!(out.0 == bytes, "{dtype}, {rows} x {columns}, adopted");
            }
        }
    }
}

#[test]
fn many_rows_are_copied_in_panels() {
    let noise = &mut Noise(2);
    let spec = MatrixSpec::new(DType::Q8_0, 1003, 2048).unwrap();
    assert!(spec.bytes() > 2 * PANEL as u64);
    let bytes = noise.bytes(spec.bytes() as usize);
    let mut out = Taken::default();
    prepared(&spec, &bytes).export(&mut out).unwrap();
    assert!(out.0 == bytes);
}

#[test]
fn rows_are_decoded_as_defined() {
    let noise = &mut Noise(3);
    for dtype in Matrix::dtypes() {
        for columns in columns(dtype) {
            for rows in [1, 19] {
                let (matrix, bytes) = random(dtype, rows, columns, noise);
                for (row, bytes) in bytes.chunks(matrix.shape.row_bytes).enumerate() {
                    let mut out = vec![0.0; columns];
                    matrix.row(row, &mut out);
                    for (is, defined) in out.iter().zip(elements(dtype, bytes)) {
                        // A product of scale and code is exact; taking off a minimum rounds once, and so does a product that
                        // is not exact.
                        assert!(
                            (f64::from(*is) - defined).abs() <= 1e-7 * defined.abs().max(1e-3),
                            "{dtype}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_image_of_another_length_is_refused() {
    let spec = MatrixSpec::new(DType::Q4_K, 17, 512).unwrap();
    let error = Matrix::adopt(&spec, Box::new(Memory(vec![0; 288 * 17]))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("9216"), "{error}");
}

#[test]
fn an_unknown_type_is_refused_with_those_that_are_known() {
    let spec = MatrixSpec::new(DType::I8, 17, 512).unwrap();
    let error = Matrix::image(&spec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("Q4_K"), "{error}");
}

#[test]
fn layouts_have_every_byte_once() {
    for of in types::TYPES {
        let layout = &of.layout;
        let mut seen = vec![0; layout.bytes];
        for field in layout.heads.iter().chain(layout.body) {
            (field.offset..field.offset + field.unit * field.count).for_each(|at| seen[at] += 1);
        }
        assert!(seen.iter().all(|times| *times == 1), "{}", of.id);
        let info = of.dtype.info().unwrap();
        assert_eq!(
            (layout.elements, layout.bytes),
            (info.block_elements as usize, info.block_bytes as usize)
        );
        if layout.elements > 1 {
            // Groups are whole lines, so that no load straddles two.
            assert_eq!(layout.group * layout.bytes * ROWS % 64, 0, "{}", of.id);
        }
    }
}
