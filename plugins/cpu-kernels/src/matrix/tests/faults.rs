//! What must not pass for right: other types' bytes, and matrices that lie on their side.

use super::definitions::elements;
use super::*;

/// The products of rows of a type in F64, and those that a kernel of another type makes of the same bytes: how far they
/// are apart, by the size of the former.
fn apart(of: DType, read_as: DType, noise: &mut Noise) -> f64 {
    let (from, to) = (of.info().unwrap(), read_as.info().unwrap());
    // As many bytes as both types have whole blocks in.
    let bytes = lcm(from.block_bytes as usize, to.block_bytes as usize);
    let columns =
        |info: &apr_sdk::DTypeInfo| bytes / info.block_bytes as usize * info.block_elements as usize;
    let spec = MatrixSpec::new(of, 32, columns(from) as u64).unwrap();
    let plain = plain(&spec, noise);
    let other = prepared(&MatrixSpec::new(read_as, 32, columns(to) as u64).unwrap(), &plain);
    let x: Vec<f32> = (0..columns(from).max(columns(to))).map(|_| noise.normal()).collect();
    let x_of_other = filled(&other, &[x[..columns(to)].to_vec()]);
    let is = &products(&other, Level::best(), &x_of_other, 0..1)[0];
    let (mut off, mut size) = (0.0, 0.0);
    for (is, row) in is.iter().zip(plain.chunks(bytes)) {
        let sum: f64 = elements(of, row).into_iter().zip(&x).map(|(w, x)| w * f64::from(*x)).sum();
        off += (f64::from(*is) - sum).powi(2);
        size += sum.powi(2);
    }
    (off / size).sqrt()
}

fn lcm(a: usize, b: usize) -> usize {
    (1..=b).map(|n| a * n).find(|n| n.is_multiple_of(b)).unwrap()
}

#[test]
fn falsify_008_bytes_of_another_type_are_seen() {
    let noise = &mut Noise(31);
    for (of, read_as) in [
        (DType::Q6_K, DType::Q4_K),
        (DType::Q4_K, DType::Q8_0),
        (DType::Q4_K, DType::Q4_0),
        (DType::Q8_0, DType::Q4_0),
    ] {
        let apart = apart(of, read_as, noise);
        // NaN is as wrong as can be.
        assert!(apart.is_nan() || apart > 0.5, "{of} as {read_as}: {apart}");
    }
    for dtype in Matrix::dtypes() {
        let apart = apart(dtype, dtype, noise);
        assert!(apart < 0.05, "{dtype} as itself: {apart}");
    }
}

#[test]
fn layout_001_a_matrix_on_its_side_is_seen() {
    let noise = &mut Noise(32);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let side = 48;
        let (matrix, bytes) = random(dtype, side, side, noise);
        let width = bytes.len() / side / side;
        // The same elements in the order of columns.
        let mut turned = vec![0; bytes.len()];
        for at in 0..side * side {
            let to = (at % side * side + at / side) * width;
            turned[to..to + width].copy_from_slice(&bytes[at * width..(at + 1) * width]);
        }
        let ghost = prepared(matrix.spec(), &turned);
        let (x, values) = activations(&matrix, 1, noise);
        let off = |matrix: &Matrix| {
            let is = &products(matrix, Level::best(), &x, 0..1)[0];
            let (mut off, mut size) = (0.0, 0.0);
            for (is, row) in is.iter().zip(bytes.chunks(side * width)) {
                let sum: f64 =
                    elements(dtype, row).into_iter().zip(&values[0]).map(|(w, x)| w * f64::from(*x)).sum();
                off += (f64::from(*is) - sum).powi(2);
                size += sum.powi(2);
            }
            (off / size).sqrt()
        };
        assert!(off(&matrix) < 1e-5, "{dtype}");
        assert!(off(&ghost) > 0.5, "{dtype}");
    }
    // Of block types, rows and columns of blocks exchanged.
    for dtype in [DType::Q4_K, DType::Q6_K, DType::Q8_0] {
        let info = dtype.info().unwrap();
        let (count, columns) = (16, 16 * info.block_elements as usize);
        let (matrix, bytes) = random(dtype, count, columns, noise);
        let block = info.block_bytes as usize;
        let mut turned = vec![0; bytes.len()];
        for at in 0..count * count {
            let to = (at % count * count + at / count) * block;
            turned[to..to + block].copy_from_slice(&bytes[at * block..(at + 1) * block]);
        }
        let ghost = prepared(matrix.spec(), &turned);
        let (x, _) = activations(&matrix, 1, noise);
        let (is, was) =
            (&products(&ghost, Level::best(), &x, 0..1)[0], &products(&matrix, Level::best(), &x, 0..1)[0]);
        let off: f32 = is.iter().zip(was).map(|(is, was)| (is - was).powi(2)).sum();
        let size: f32 = was.iter().map(|was| was.powi(2)).sum();
        assert!(off > 0.25 * size, "{dtype}");
    }
}
