//! Importance that cannot weigh anything, values that a type cannot hold, and what is said of both: nothing is ruined in
//! silence.

use crate::quantize::{COLUMNS, encoded, payload, quantizing, refused, values, write, write_matrix};
use apr_host::convert::ConvertOptions;
use apr_host::quantize::Target;
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must};
use std::path::PathBuf;

const ROWS: usize = 48;
const NAME: &str = "blk.0.ffn_up.weight";

/// Types that search with importance, one of each kind.
const TYPES: [DType; 12] = [
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::IQ4_NL,
    DType::IQ4_XS,
    DType::IQ3_S,
];

/// A model of one matrix, and its options for one type with importance.
fn weighed(scratch: &Scratch, matrix: &[f32], dtype: DType, importance: &[f32]) -> ConvertOptions {
    let (input, file) = (scratch.at("in.safetensors"), scratch.at("imatrix.dat"));
    write(&input, &[(NAME, &[ROWS, COLUMNS], matrix)]);
    write_matrix(&file, &[(NAME, importance)]);
    let mut wanted = quantizing(&input, &scratch.at(&format!("{dtype}.gguf")), dtype.name());
    wanted.quantization.options.set("pure", "true");
    wanted.quantization.importance = Some(file);
    wanted
}

fn output(wanted: &ConvertOptions) -> PathBuf {
    wanted.output.clone().unwrap()
}

#[test]
fn importance_that_is_negative_or_not_finite_is_refused_with_tensor_and_column() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let matrix = values(ROWS * COLUMNS, 1);
    for bad in [-1.0, -1e-30, f32::NAN, f32::INFINITY] {
        let mut importance = vec![1.0; COLUMNS];
        importance[77] = bad;
        for dtype in [DType::Q4_K, DType::Q4_0] {
            let error = refused(&host, &weighed(&scratch, &matrix, dtype, &importance));
            assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some(NAME)), "{error}");
            assert!(error.message().contains("column 77"), "{error}");
        }
    }
}

#[test]
fn importance_whose_sums_overflow_is_refused_and_large_importance_is_not() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let matrix = values(ROWS * COLUMNS, 2);
    for dtype in TYPES {
        let error = refused(&host, &weighed(&scratch, &matrix, dtype, &[1.5e38; COLUMNS]));
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Failed, Some(NAME)), "{dtype}: {error}");
        assert!(error.message().contains("overflow F32"), "{error}");
        must(&host, &weighed(&scratch, &matrix, dtype, &[1e9; COLUMNS]));
    }
}

#[test]
fn a_matrix_of_zeros_counts_as_none_and_a_single_zero_as_zero() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let matrix = values(ROWS * COLUMNS, 3);
    let mut one_zero: Vec<f32> = values(COLUMNS, 4).iter().map(|v| v * v + 0.01).collect();
    one_zero[5] = 0.0;
    for dtype in TYPES {
        let mut wanted = weighed(&scratch, &matrix, dtype, &[0.0; COLUMNS]);
        let done = must(&host, &wanted);
        assert_eq!(payload(&output(&wanted), NAME), (dtype, encoded(dtype, &matrix, None)), "{dtype}");
        let said = done.warnings.iter().any(|w| w.contains(NAME) && w.contains("counts as none"));
        assert!(said, "{dtype}: {:?}", done.warnings);
        wanted = ConvertOptions { force: true, ..weighed(&scratch, &matrix, dtype, &one_zero) };
        assert!(must(&host, &wanted).warnings.is_empty(), "{dtype}");
        assert_eq!(
            payload(&output(&wanted), NAME),
            (dtype, encoded(dtype, &matrix, Some(&one_zero))),
            "{dtype}"
        );
    }
    let error = refused(&host, &weighed(&scratch, &matrix, DType::IQ2_XXS, &[0.0; COLUMNS]));
    assert!(error.hint_text().unwrap().contains("--imatrix"), "{error}");
}

#[test]
fn an_expert_without_importance_is_quantized_without() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (input, file) = (scratch.at("in.safetensors"), scratch.at("imatrix.dat"));
    let name = "blk.0.ffn_up_exps.weight";
    let stacked = values(2 * ROWS * COLUMNS, 5);
    let mut importance: Vec<f32> = values(2 * COLUMNS, 6).iter().map(|v| v * v + 0.01).collect();
    importance[COLUMNS..].fill(0.0);
    write(&input, &[(name, &[2, ROWS, COLUMNS], &stacked)]);
    write_matrix(&file, &[(name, &importance)]);
    let mut wanted = quantizing(&input, &scratch.at("out.gguf"), "Q4_K");
    wanted.quantization.importance = Some(file.clone());
    must(&host, &wanted);
    let (first, second) = stacked.split_at(ROWS * COLUMNS);
    let want =
        [encoded(DType::Q4_K, first, Some(&importance[..COLUMNS])), encoded(DType::Q4_K, second, None)];
    assert_eq!(payload(&output(&wanted), name), (DType::Q4_K, want.concat()));
    let mut wanted = quantizing(&input, &scratch.at("small.gguf"), "IQ2_XXS");
    wanted.quantization.importance = Some(file);
    let error = refused(&host, &wanted);
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::InvalidArgument, Some(name)), "{error}");
    assert!(error.message().contains("matrix 1"), "{error}");
}

fn plainly(scratch: &Scratch, matrix: &[f32], dtype: DType) -> ConvertOptions {
    let input = scratch.at("in.safetensors");
    write(&input, &[(NAME, &[ROWS, COLUMNS], matrix)]);
    let mut wanted = quantizing(&input, &scratch.at(&format!("{dtype}.gguf")), dtype.name());
    wanted.quantization.options.set("pure", "true");
    wanted
}

#[test]
fn a_tensor_of_which_nothing_is_left_is_an_error_unless_it_is_passed_over() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let tiny: Vec<f32> = values(ROWS * COLUMNS, 7).iter().map(|v| v * 1e-12).collect();
    for dtype in [DType::Q4_0, DType::Q4_K, DType::Q8_0] {
        let mut wanted = plainly(&scratch, &tiny, dtype);
        let error = refused(&host, &wanted);
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Failed, Some(NAME)), "{dtype}: {error}");
        assert!(error.message().contains("all its values are 0"), "{error}");
        wanted.relaxed = true;
        let done = must(&host, &wanted);
        assert!(done.warnings.iter().any(|w| w.starts_with("passed over: ")), "{:?}", done.warnings);
        assert!(done.quantized.unwrap().total.snr_db.is_some(), "{dtype}: something was lost");
    }
    // What was zero before stays so.
    must(
        &host,
        &ConvertOptions { force: true, ..plainly(&scratch, &vec![0.0; ROWS * COLUMNS], DType::Q4_0) },
    );
}

#[test]
fn what_blocks_cannot_hold_is_an_error_with_its_place_and_is_counted() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut huge = values(ROWS * COLUMNS, 8);
    huge[3 * COLUMNS + 9] = 1e20;
    for dtype in [DType::Q4_0, DType::Q8_0] {
        let mut wanted = plainly(&scratch, &huge, dtype);
        let error = refused(&host, &wanted);
        assert_eq!(
            (error.kind(), error.stable_code()),
            (ErrorKind::Failed, Some("F-DATA-QUALITY-002")),
            "{error}"
        );
        assert!(error.hint_text().unwrap().contains("--allow-nonfinite"), "{error}");
        wanted.allow_nonfinite = true;
        let lost = must(&host, &wanted).quantized.unwrap().total;
        assert!(
            lost.not_finite > 0 && lost.values + lost.not_finite == (ROWS * COLUMNS) as u64,
            "{dtype}: {lost:?}"
        );
    }
    // A type whose scales reach far enough keeps it, and says how well.
    let lost = must(&host, &plainly(&scratch, &huge, DType::MXFP4)).quantized.unwrap().total;
    assert!(lost.snr_db.is_some() && lost.rmse > 0.0 && lost.rmse.is_finite(), "{lost:?}");
}

#[test]
fn a_size_that_leads_to_a_type_that_wants_importance_says_so() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut wanted = plainly(&scratch, &values(ROWS * COLUMNS, 9), DType::Q4_0);
    wanted.quantization.recipe = None;
    wanted.quantization.target = Some(Target::BitsPerWeight(3.45));
    let done = must(&host, &wanted);
    assert_eq!(payload(&output(&wanted), NAME).0, DType::IQ3_S);
    assert!(done.notes.iter().any(|note| note.contains("--imatrix")), "{:?}", done.notes);
}
