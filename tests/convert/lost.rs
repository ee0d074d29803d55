//! Weights that a type cannot hold: whatever the type, they are refused or named, never ruined in silence.

use crate::quantize::{COLUMNS, quantizing, refused, values, write, write_matrix};
use apr_engine::contract::{FINITE, LOSS, Severity};
use apr_host::convert::{ConvertOptions, convert};
use apr_plugin_quants::PLUGIN;
use apr_plugin_quants::types::TYPES;
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host, must};

const ROWS: usize = 2;
const NAME: &str = "blk.0.ffn_up.weight";

/// The types that a model can be quantized to by their own names.
fn types() -> Vec<DType> {
    let recipes = (PLUGIN.quantizer)().unwrap().recipes().unwrap();
    let has_recipe = |dtype: &DType| recipes.iter().any(|recipe| recipe.name == dtype.name());
    TYPES.iter().map(|of| of.dtype).filter(has_recipe).collect()
}

fn wanted(scratch: &Scratch, matrix: &[f32], dtype: DType) -> ConvertOptions {
    let (input, file) = (scratch.at("in.safetensors"), scratch.at("imatrix.dat"));
    write(&input, &[(NAME, &[ROWS, COLUMNS], matrix)]);
    write_matrix(&file, &[(NAME, &[1.0; COLUMNS])]);
    let mut wanted = quantizing(&input, &scratch.at(&format!("{dtype}.gguf")), dtype.name());
    wanted.quantization.options.set("pure", "true");
    wanted.quantization.importance = Some(file);
    wanted
}

/// Whether blocks of these values hold only finite ones again.
fn holds(matrix: &[f32], dtype: DType) -> bool {
    let (plugin, info) = ((PLUGIN.quantizer)().unwrap(), dtype.info().unwrap());
    let mut blocks = vec![0; matrix.len() / info.block_elements as usize * info.block_bytes as usize];
    let mut again = vec![0.0f32; matrix.len()];
    let encoded = plugin.encode(dtype, matrix, COLUMNS as u64, Some(&[1.0; COLUMNS]), &mut blocks);
    encoded.is_ok() && {
        plugin.decode(dtype, &blocks, COLUMNS as u64, &mut again).unwrap();
        again.iter().all(|value| value.is_finite())
    }
}

#[test]
fn no_type_makes_infinite_what_was_finite_without_a_word() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let types = types();
    assert!(types.len() > 20 && types.contains(&DType::IQ1_M) && types.contains(&DType::NVFP4), "{types:?}");
    let mut overflowed = Vec::new();
    for scale in [1.0, 3e7] {
        let matrix: Vec<f32> = values(ROWS * COLUMNS, 1).iter().map(|value| value * scale).collect();
        for &dtype in &types {
            let mut wanted = wanted(&scratch, &matrix, dtype);
            wanted.force = true;
            if holds(&matrix, dtype) {
                // It says itself how well.
                let done = convert(&host, &wanted).unwrap_or_else(|error| panic!("{dtype}: {error}"));
                let snr = done.quantized.unwrap().total.snr_db.unwrap();
                let told = done.looked.findings.iter().any(|finding| finding.code == LOSS);
                assert_eq!(told, snr < 3.0, "{dtype} {scale:e}: {snr} {:?}", done.warnings);
                continue;
            }
            overflowed.push(dtype);
            wanted.output = Some(scratch.at("refused.gguf"));
            (wanted.force, wanted.relaxed) = (false, false);
            let error = refused(&host, &wanted);
            let said = (error.kind(), error.stable_code(), error.tensor_name());
            assert_eq!(said, (ErrorKind::Failed, Some(FINITE), Some(NAME)), "{dtype}: {error}");
            wanted.output = Some(scratch.at(&format!("{dtype}.gguf")));
            wanted.force = true;
            let done = must(&host, &wanted);
            let found: Vec<_> = done.looked.findings.iter().map(|f| (f.code, f.severity)).collect();
            assert!(found.contains(&(FINITE, Severity::PassedOver)), "{dtype}: {found:?}");
            assert!(done.warnings.iter().any(|w| w.starts_with("ignored: ")), "{dtype}: {:?}", done.warnings);
        }
    }
    assert!(overflowed.contains(&DType::IQ1_M) && overflowed.contains(&DType::Q8_0), "{overflowed:?}");
}

#[test]
fn a_nan_that_a_type_makes_a_number_is_told() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut matrix = values(ROWS * COLUMNS, 2);
    matrix[77] = f32::NAN;
    for dtype in [DType::Q8_0, DType::Q4_0, DType::NVFP4, DType::TQ2_0] {
        let mut wanted = wanted(&scratch, &matrix, dtype);
        wanted.allow_nonfinite = true;
        let found = must(&host, &wanted).looked.findings;
        let passed = found.iter().filter(|f| (f.code, f.severity) == (FINITE, Severity::PassedOver)).count();
        assert_eq!(passed, 1, "{dtype}: {found:?}");
    }
}

#[test]
fn a_tensor_beyond_what_its_type_reaches_is_named_with_its_loss() {
    let (host, scratch) = (host(), Scratch::in_memory());
    // NVFP4 ends at 2688.
    let matrix: Vec<f32> = values(ROWS * COLUMNS, 3).iter().map(|value| value * 1e5).collect();
    let mut wanted = wanted(&scratch, &matrix, DType::NVFP4);
    let done = must(&host, &wanted);
    let [finding] = &done.looked.findings[..] else { panic!("{:?}", done.looked.findings) };
    assert_eq!((finding.code, finding.severity, &*finding.tensor), (LOSS, Severity::Warning, NAME));
    assert!(finding.message.starts_with("as NVFP4 its SNR is 0."), "{}", finding.message);
    assert!(finding.message.contains("RMSE"), "{}", finding.message);
    assert!(done.warnings.iter().any(|warning| warning.contains(NAME)), "{:?}", done.warnings);
    (wanted.strict, wanted.output) = (true, Some(scratch.at("strict.gguf")));
    let error = refused(&host, &wanted);
    assert_eq!((error.kind(), error.stable_code()), (ErrorKind::Failed, Some(LOSS)), "{error}");
}

#[test]
fn strict_is_not_taken_back_by_force() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut matrix = values(ROWS * COLUMNS, 4);
    matrix[7] = 3e7;
    let mut wanted = wanted(&scratch, &matrix, DType::Q8_0);
    wanted.quantization.importance = None;
    let output = wanted.output.clone().unwrap();
    std::fs::write(&output, "before").unwrap();
    (wanted.strict, wanted.force) = (true, true);
    let error = convert(&host, &wanted).unwrap_err();
    assert_eq!((error.kind(), error.stable_code()), (ErrorKind::Failed, Some(FINITE)), "{error}");
    assert_eq!(std::fs::read(&output).unwrap(), b"before");
    wanted.strict = false;
    must(&host, &wanted);
    // What is well is replaced.
    write(&wanted.input, &[(NAME, &[ROWS, COLUMNS], &values(ROWS * COLUMNS, 5))]);
    wanted.strict = true;
    must(&host, &wanted);
}
