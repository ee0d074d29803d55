//! Importance that cannot weigh anything, values that a type cannot hold, and what is said of both: nothing is ruined in
//! silence.

use crate::quantize::{COLUMNS, encoded, payload, quantizing, refused, values, write, write_matrix};
use apr_engine::planned::quantization::{Quantization, SizeTarget};
use apr_host::convert::ConvertOptions;
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
        let said = done.warnings.iter().any(|w| w.contains(NAME) && w.contains("is ignored"));
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
fn importance_is_used_for_the_weights_that_are_included_and_not_excluded() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let matrix = values(ROWS * COLUMNS, 1);
    let importance: Vec<f32> = (1..=COLUMNS).map(|n| n as f32).collect();
    let wanted = weighed(&scratch, &matrix, DType::Q4_K, &importance);
    let (with, without) =
        (encoded(DType::Q4_K, &matrix, Some(&importance)), encoded(DType::Q4_K, &matrix, None));
    assert_ne!(with, without);
    for (include, exclude, expected) in
        [("ffn_up", "", &with), ("", "ffn_up", &without), ("blk.0", "up", &without), ("", "", &with)]
    {
        let mut wanted = wanted.clone();
        wanted.force = true;
        let texts = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        wanted.quantization.include_weights = texts(include);
        wanted.quantization.exclude_weights = texts(exclude);
        must(&host, &wanted);
        assert!(payload(&output(&wanted), NAME).1 == *expected, "include {include:?}, exclude {exclude:?}");
    }
    let mut wrong = wanted;
    std::fs::remove_file(output(&wrong)).unwrap();
    wrong.quantization.include_weights = vec!["ffn_down".to_owned()];
    let error = refused(&host, &wrong);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("--include-weights ffn_down"), "{error}");
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
        assert!(done.warnings.iter().any(|w| w.starts_with("ignored: ")), "{:?}", done.warnings);
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
    wanted.quantization.target = Some(SizeTarget::BitsPerWeight(3.45));
    let done = must(&host, &wanted);
    assert_eq!(payload(&output(&wanted), NAME).0, DType::IQ3_S);
    assert!(done.notes.iter().any(|note| note.contains("--imatrix")), "{:?}", done.notes);
}

/// The keys that a file records of the matrix that was used.
fn recorded(wanted: &ConvertOptions) -> Vec<String> {
    let opened =
        apr_engine::open::open(&host(), &output(wanted), &apr_engine::open::OpenOptions::default()).unwrap();
    let keys = opened.model.foreign.iter().flat_map(|f| &f.files).flat_map(|file| &file.typed);
    keys.map(|(key, _)| key.clone()).filter(|key| key.starts_with("quantize.imatrix")).collect()
}

#[test]
fn a_matrix_of_which_nothing_is_used_warns_and_is_not_recorded() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let matrix = values(ROWS * COLUMNS, 10);
    let mut wanted = weighed(&scratch, &matrix, DType::Q4_K, &[1.0; COLUMNS]);
    // A GGUF file of floats: it has keys, to which those of the matrix are added.
    let floats = scratch.at("floats.gguf");
    must(
        &host,
        &ConvertOptions {
            quantization: Quantization::default(),
            output: Some(floats.clone()),
            ..wanted.clone()
        },
    );
    wanted.input = floats;
    assert!(must(&host, &wanted).warnings.is_empty());
    assert!(!recorded(&wanted).is_empty());
    let file = wanted.quantization.importance.clone().unwrap();
    wanted.force = true;
    // Of another model; of this one, all 0; of a tensor that stays a float.
    write_matrix(&file, &[("blk.0.another.weight", &[1.0; COLUMNS])]);
    for (dtype, importance) in
        [(DType::Q4_K, None), (DType::Q4_K, Some([0.0; COLUMNS])), (DType::F16, Some([1.0; COLUMNS]))]
    {
        if let Some(importance) = importance {
            write_matrix(&file, &[(NAME, &importance)]);
        }
        let this = ConvertOptions { output: Some(scratch.at("unused.gguf")), ..wanted.clone() };
        let mut this = this;
        this.quantization.recipe = Some(dtype.name().to_owned());
        let done = must(&host, &this);
        let said = done.warnings.iter().any(|w| w.contains("importance matrix was not used"));
        assert!(said, "{dtype}: {:?}", done.warnings);
        assert_eq!(recorded(&this), [""; 0], "{dtype}");
    }
    write_matrix(&file, &[("blk.0.another.weight", &[1.0; COLUMNS])]);
    wanted.quantization.recipe = Some("IQ2_XXS".to_owned());
    wanted.output = Some(scratch.at("refused.gguf"));
    let error = refused(&host, &wanted);
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::InvalidArgument, Some(NAME)), "{error}");
    assert!(error.message().contains("the matrix has none for this tensor"), "{error}");
}

#[test]
fn what_follows_an_older_matrix_is_refused() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let wanted = weighed(&scratch, &values(ROWS * COLUMNS, 11), DType::Q4_K, &[1.0; COLUMNS]);
    let file = wanted.quantization.importance.clone().unwrap();
    let entries = std::fs::read(&file).unwrap();
    let trailer = [&7u32.to_le_bytes()[..], &4u32.to_le_bytes(), b"text"].concat();
    for (more, is_junk) in [
        (&[][..], false),
        (&trailer[..4], false),
        (&trailer, false),
        (&trailer[..2], true),
        (&[&trailer[..], b"x"].concat(), true),
        (&[&trailer[..], &entries].concat(), true),
    ] {
        std::fs::write(&file, [&entries, more].concat()).unwrap();
        let wanted =
            ConvertOptions { output: Some(scratch.at(&format!("{}.gguf", more.len()))), ..wanted.clone() };
        if is_junk {
            let error = refused(&host, &wanted);
            assert_eq!(error.kind(), ErrorKind::Malformed, "{} bytes more: {error}", more.len());
            assert!(error.offset().is_some_and(|at| at >= entries.len() as u64), "{error}");
        } else {
            must(&host, &wanted);
        }
    }
}

/// An importance matrix in the newer form: the sums of one tensor, and its count.
fn newer(sums: &[f32], count: f32) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |n: u32| n.to_le_bytes().to_vec();
    let mut out =
        [b"GGUF".to_vec(), number(3), 2u64.to_le_bytes().to_vec(), 3u64.to_le_bytes().to_vec()].concat();
    // Types: 4 is u32, 8 a string, 9 an array.
    out.extend(
        [text("imatrix.datasets"), number(9), number(8), 1u64.to_le_bytes().to_vec(), text("t")].concat(),
    );
    out.extend([text("imatrix.chunk_count"), number(4), number(1)].concat());
    out.extend([text("imatrix.chunk_size"), number(4), number(512)].concat());
    for (suffix, len, offset) in [("in_sum2", sums.len(), 0), ("counts", 1, sums.len() * 4)] {
        out.extend([text(&format!("{NAME}.{suffix}")), number(2)].concat());
        out.extend([(len as u64).to_le_bytes(), 1u64.to_le_bytes()].concat());
        out.extend([number(0), (offset as u64).to_le_bytes().to_vec()].concat());
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(sums.iter().chain([&count]).flat_map(|value| value.to_le_bytes()));
    out
}

#[test]
fn counts_that_count_nothing_are_refused() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let wanted = weighed(&scratch, &values(ROWS * COLUMNS, 12), DType::Q4_K, &[1.0; COLUMNS]);
    let file = wanted.quantization.importance.clone().unwrap();
    for (count, is_bad) in [
        (2.0, false),
        (0.0, false),
        (-1.0, true),
        (f32::NAN, true),
        (f32::INFINITY, true),
        (f32::NEG_INFINITY, true),
    ] {
        std::fs::write(&file, newer(&[4.0; COLUMNS], count)).unwrap();
        let wanted = ConvertOptions { output: Some(scratch.at(&format!("{count}.gguf"))), ..wanted.clone() };
        if is_bad {
            let error = refused(&host, &wanted);
            assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some(NAME)), "{error}");
            assert!(error.message().contains("count"), "{error}");
        } else {
            must(&host, &wanted);
        }
    }
}
