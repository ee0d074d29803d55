//! Weights that get another type on their way: through whole conversions, against the quantizer itself.

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::planned::quantization::{Quantization, SizeTarget};
use apr_engine::values::loss::Measured;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::ConvertOptions;
use apr_host::host::Host;
use apr_sdk::{DType, DTypeKind, Error, ErrorKind, Quantizer, Value};
use apr_tests::{Scratch, host, must, options};
use std::path::{Path, PathBuf};

/// Rows and columns of a matrix whose F32 take three tiles.
pub const ROWS: usize = 700;
pub const COLUMNS: usize = 1024;

pub fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut random = apr_testkit::Random::new(seed);
    let unit = |bits: u64| f32::from(u16::try_from(bits >> 48).unwrap()) / 65536.0 - 0.5;
    (0..n).map(|_| unit(random.bits()) + unit(random.bits()) * unit(random.bits())).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A SafeTensors file of F32 tensors.
pub fn write(path: &Path, tensors: &[(&str, &[usize], &[f32])]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let from = data.len();
        data.extend(bytes(values));
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [from, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let all = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    std::fs::write(path, all).unwrap();
}

/// A model whose matrix has several tiles, beside a norm.
fn model(scratch: &Scratch) -> (PathBuf, Vec<f32>) {
    let (path, matrix) = (scratch.at("in.safetensors"), values(ROWS * COLUMNS, 1));
    let norm = values(COLUMNS, 2);
    write(
        &path,
        &[("blk.0.ffn_up.weight", &[ROWS, COLUMNS], &matrix), ("blk.0.ffn_norm.weight", &[COLUMNS], &norm)],
    );
    (path, matrix)
}

pub fn quantizing(input: &Path, output: &Path, recipe: &str) -> ConvertOptions {
    let quantization = Quantization { recipe: Some(recipe.to_owned()), ..Quantization::default() };
    ConvertOptions { arch: Some("none".to_owned()), quantization, ..options(input, output) }
}

pub fn payload(path: &Path, name: &str) -> (DType, Vec<u8>) {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    let tensor = opened.model.tensors.iter().find(|tensor| tensor.name == name);
    let tensor = tensor.unwrap_or_else(|| panic!("{} has no {name}", path.display()));
    let apr_sdk::Payload::Extent { extent, view: None } = tensor.payload else {
        panic!("{name} is not an extent")
    };
    let mut out = vec![0; usize::try_from(extent.len).unwrap()];
    opened.files.read_at(extent.file, extent.offset, &mut out).unwrap();
    (tensor.dtype, out)
}

pub fn refused(host: &Host, options: &ConvertOptions) -> Error {
    let error = apr_host::convert::convert(host, options).unwrap_err();
    let output = options.output.as_ref().unwrap();
    assert!(!output.exists(), "something was left behind: {error}");
    error
}

fn plugin() -> Box<dyn Quantizer> {
    (apr_plugin_quants::PLUGIN.quantizer)().unwrap()
}

pub fn encoded(dtype: DType, values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let info = dtype.info().unwrap();
    let mut out = vec![0; values.len() / info.block_elements as usize * info.block_bytes as usize];
    plugin().encode(dtype, values, COLUMNS as u64, importance, &mut out).unwrap();
    out
}

#[test]
fn tiles_and_threads_make_no_difference_to_blocks() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    for dtype in [DType::Q4_K, DType::Q8_0, DType::Q6_K, DType::TQ2_0] {
        let want = encoded(dtype, &matrix, None);
        let mut files = Vec::new();
        for threads in [1, 3] {
            let mut host = host();
            host.set_threads(threads);
            let output = scratch.at(&format!("{dtype}-{threads}.gguf"));
            let done = must(&host, &quantizing(&input, &output, dtype.name()));
            assert_eq!(payload(&output, "blk.0.ffn_up.weight"), (dtype, want.clone()), "{dtype}");
            assert_eq!(payload(&output, "blk.0.ffn_norm.weight").0, DType::F32);
            files.push((std::fs::read(&output).unwrap(), done.quantized.unwrap()));
        }
        assert!(files[0] == files[1], "{dtype}");
    }
}

#[test]
fn what_was_lost_is_what_the_blocks_say() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    let output = scratch.at("out.gguf");
    let lost = must(&host(), &quantizing(&input, &output, "Q4_K")).quantized.unwrap();
    let mut again = vec![0.0; matrix.len()];
    let blocks = payload(&output, "blk.0.ffn_up.weight").1;
    plugin().decode(DType::Q4_K, &blocks, COLUMNS as u64, &mut again).unwrap();
    let errors = matrix.iter().zip(&again).map(|(x, y)| f64::from(x - y));
    let square: f64 = errors.clone().map(|e| e * e).sum();
    let greatest = errors.fold(0.0, |most: f64, e| most.max(e.abs()));
    let Measured { rmse, max_abs_error, bits_per_weight, values, .. } = lost.tensors[0].measured.clone();
    let want = (square / (ROWS * COLUMNS) as f64).sqrt();
    assert!((rmse - want).abs() < 1e-5 * want, "{rmse} {want}");
    assert_eq!((max_abs_error, bits_per_weight, values), (greatest, 4.5, (ROWS * COLUMNS) as u64));
    assert_eq!((lost.tensors.len(), lost.tensors[0].to.as_str()), (1, "Q4_K"));
}

#[test]
fn bits_per_weight_count_the_scales_of_rows() {
    let scratch = Scratch::new();
    let input = scratch.at("in.safetensors");
    write(&input, &[("blk.0.ffn_up.weight", &[64, 32], &values(64 * 32, 1))]);
    for (recipe, bits) in [("int8", 9.0), ("int4", 5.0)] {
        let output = scratch.at(&format!("{recipe}.apr"));
        let done = must(&host(), &quantizing(&input, &output, recipe)).quantized.unwrap();
        let found = [done.total.bits_per_weight, done.tensors[0].measured.bits_per_weight];
        assert_eq!((found, done.tensors.len()), ([bits; 2], 1), "{recipe}");
    }
    // A target that codes alone would meet is not met by them with their scales.
    for bits in [8.2, 9.0] {
        let mut wanted = quantizing(&input, &scratch.at(&format!("{bits}.apr")), "");
        wanted.quantization = Quantization {
            recipe: None,
            target: Some(SizeTarget::BitsPerWeight(bits)),
            ..wanted.quantization
        };
        let found = must(&host(), &wanted).quantized.unwrap().total.bits_per_weight;
        assert!(found <= bits, "{found} for {bits}");
    }
}

#[test]
fn blocks_become_the_floats_that_the_quantizer_decodes_and_casts_follow() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    let quantized = scratch.at("q.gguf");
    must(&host(), &quantizing(&input, &quantized, "Q5_0"));
    let mut want = vec![0.0; matrix.len()];
    plugin().decode(DType::Q5_0, &encoded(DType::Q5_0, &matrix, None), COLUMNS as u64, &mut want).unwrap();
    let back = scratch.at("back.safetensors");
    let quantization = Quantization { dequantize: Some(DType::F32), ..Quantization::default() };
    let arch = Some("none".to_owned());
    must(&host(), &ConvertOptions { quantization, arch: arch.clone(), ..options(&quantized, &back) });
    assert_eq!(payload(&back, "blk.0.ffn_up.weight"), (DType::F32, bytes(&want)));
    // The norm, which never was blocks, is cast by the other flag alone.
    let quantization = Quantization {
        dequantize: Some(DType::F16),
        precision: Some(DType::F8_E4M3),
        ..Quantization::default()
    };
    let small = scratch.at("small.safetensors");
    must(&host(), &ConvertOptions { quantization, arch, ..options(&quantized, &small) });
    let dtypes = ["blk.0.ffn_up.weight", "blk.0.ffn_norm.weight"].map(|name| payload(&small, name).0);
    assert_eq!(dtypes, [DType::F16, DType::F8_E4M3]);
}

#[test]
fn values_of_a_block_that_are_not_finite_are_counted_once() {
    let scratch = Scratch::new();
    let (input, _) = model(&scratch);
    let (blocks, floats) = (scratch.at("q8.gguf"), scratch.at("f16.gguf"));
    must(&host(), &quantizing(&input, &blocks, "Q8_0"));
    let first = payload(&blocks, "blk.0.ffn_up.weight").1;
    let mut file = std::fs::read(&blocks).unwrap();
    let at = file.windows(first.len()).position(|bytes| bytes == first).unwrap();
    // A scale of NaN, of 32 values.
    file[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(&blocks, file).unwrap();
    let quantization = Quantization { dequantize: Some(DType::F16), ..Quantization::default() };
    let arch = Some("none".to_owned());
    let relaxed = ConvertOptions { quantization, arch, allow_nonfinite: true, ..options(&blocks, &floats) };
    let notes = must(&host(), &relaxed).notes;
    let counted = notes.iter().find(|note| note.contains("not finite in the source")).unwrap();
    assert!(counted.contains(": 32 of "), "{counted}");
}

#[test]
fn blocks_become_other_blocks_only_where_that_was_asked() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    let (first, second) = (scratch.at("q8.gguf"), scratch.at("q4.gguf"));
    must(&host(), &quantizing(&input, &first, "Q8_0"));
    let mut wanted = quantizing(&first, &second, "Q4_0");
    let error = refused(&host(), &wanted);
    assert_eq!(
        (error.kind(), error.tensor_name()),
        (ErrorKind::InvalidArgument, Some("blk.0.ffn_up.weight"))
    );
    assert!(error.hint_text().unwrap().contains("--allow-requantize"), "{error}");
    wanted.quantization.keep_quantization = true;
    must(&host(), &wanted);
    assert_eq!(payload(&second, "blk.0.ffn_up.weight"), payload(&first, "blk.0.ffn_up.weight"));
    // What is kept is no Q4_0, and the file does not say so.
    let named = scratch.at("named.gguf");
    let set = vec![("general.file_type".to_owned(), "7".to_owned())];
    let arch = Some("none".to_owned());
    must(&host(), &ConvertOptions { set, arch, ..options(&first, &named) });
    let kept = scratch.at("kept.gguf");
    let quantization = wanted.quantization.clone();
    must(&host(), &ConvertOptions { quantization, ..quantizing(&named, &kept, "Q4_0") });
    let opened = open(&host(), &kept, &OpenOptions::default()).unwrap();
    let said = opened.model.foreign_of("gguf").and_then(|foreign| foreign.get("general.file_type"));
    assert_eq!(said.and_then(Value::as_unsigned), Some(7));
    wanted.quantization =
        Quantization { keep_quantization: false, allow_requantize: true, ..wanted.quantization };
    wanted.force = true;
    must(&host(), &wanted);
    let mut between = vec![0.0; matrix.len()];
    plugin()
        .decode(DType::Q8_0, &payload(&first, "blk.0.ffn_up.weight").1, COLUMNS as u64, &mut between)
        .unwrap();
    assert_eq!(payload(&second, "blk.0.ffn_up.weight"), (DType::Q4_0, encoded(DType::Q4_0, &between, None)));
}

#[test]
fn blocks_that_lose_nothing_become_others_without_a_flag() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    let (first, second) = (scratch.at("q4.gguf"), scratch.at("q8.gguf"));
    must(&host(), &quantizing(&input, &first, "Q4_0"));
    let lost = must(&host(), &quantizing(&first, &second, "Q8_0")).quantized.unwrap();
    assert_eq!((lost.total.max_abs_error, lost.total.snr_db), (0.0, None));
    let values = [&first, &second].map(|path| {
        let mut out = vec![0.0; matrix.len()];
        let (dtype, blocks) = payload(path, "blk.0.ffn_up.weight");
        plugin().decode(dtype, &blocks, COLUMNS as u64, &mut out).unwrap();
        (dtype, out)
    });
    assert_eq!([values[0].0, values[1].0], [DType::Q4_0, DType::Q8_0]);
    assert!(values[0].1 == values[1].1);
}

#[test]
fn what_is_not_finite_is_refused_with_its_place() {
    let scratch = Scratch::new();
    let (input, output) = (scratch.at("in.safetensors"), scratch.at("out.gguf"));
    for bad in [f32::NAN, f32::NEG_INFINITY] {
        let mut matrix = values(ROWS * COLUMNS, 3);
        let at = 300 * COLUMNS + 77;
        matrix[at] = bad;
        write(&input, &[("a.weight", &[ROWS, COLUMNS], &matrix)]);
        let mut wanted = quantizing(&input, &output, "Q4_K");
        let error = refused(&host(), &wanted);
        assert_eq!(error.tensor_name(), Some("a.weight"));
        assert!(error.message().contains(&format!("element {at} is ")), "{error}");
        assert!(error.hint_text().unwrap().contains("--allow-nonfinite"), "{error}");
        wanted.allow_nonfinite = true;
        must(&host(), &wanted);
        std::fs::remove_file(&output).unwrap();
    }
}

#[test]
fn what_scales_make_infinite_is_refused_with_its_place() {
    let scratch = Scratch::new();
    let (input, back) = (model(&scratch).0, scratch.at("back.safetensors"));
    let (path, name) = (scratch.at("in.gguf"), "blk.0.ffn_up.weight");
    must(&host(), &quantizing(&input, &path, "Q8_0"));
    let stored = payload(&path, name).1;
    let mut file = std::fs::read(&path).unwrap();
    let begin = file.windows(stored.len()).position(|bytes| bytes == stored).unwrap();
    // The scale of the third block of row 300.
    file[begin + (300 * COLUMNS / 32 + 2) * 34..][..2].copy_from_slice(&[0, 0x7c]);
    std::fs::write(&path, file).unwrap();
    for to in [DType::F32, DType::F16] {
        let quantization = Quantization { dequantize: Some(to), ..Quantization::default() };
        let wanted = ConvertOptions { quantization, arch: Some("none".to_owned()), ..options(&path, &back) };
        let error = refused(&host(), &wanted);
        assert_eq!(error.tensor_name(), Some(name), "{error}");
        let first = 300 * COLUMNS..301 * COLUMNS;
        let element = error.message().strip_prefix("element ").and_then(|rest| rest.split(' ').next());
        assert!(first.contains(&element.unwrap().parse().unwrap()), "to {to}: {error}");
        assert!(error.hint_text().unwrap().contains("--allow-nonfinite"), "{error}");
    }
}

/// An importance matrix in the old form: name and values of each tensor.
pub fn write_matrix(path: &Path, tensors: &[(&str, &[f32])]) {
    let number = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    let mut out = number(tensors.len()).to_vec();
    for (name, values) in tensors {
        out.extend(number(name.len()));
        out.extend(name.as_bytes());
        // Calls, by which values are divided.
        out.extend(number(2));
        out.extend(number(values.len()));
        out.extend(values.iter().flat_map(|value| (value * 2.0).to_le_bytes()));
    }
    std::fs::write(path, out).unwrap();
}

#[test]
fn importance_reaches_each_expert_and_is_refused_where_it_does_not_fit() {
    const EXPERTS: usize = 3;
    const EACH: usize = 300;
    let scratch = Scratch::new();
    let (input, output) = (scratch.at("in.safetensors"), scratch.at("out.gguf"));
    let stacked = values(EXPERTS * EACH * COLUMNS, 4);
    let flat = values(EACH * COLUMNS, 5);
    let names = ["blk.0.ffn_down_exps.weight", "blk.0.attn_q.weight"];
    write(&input, &[(names[0], &[EXPERTS, EACH, COLUMNS], &stacked), (names[1], &[EACH, COLUMNS], &flat)]);
    let importance: Vec<f32> = values(EXPERTS * COLUMNS, 6).iter().map(|v| v * v + 0.01).collect();
    let matrix = scratch.at("imatrix.dat");
    write_matrix(&matrix, &[(names[0], &importance), ("another", &importance)]);
    let mut wanted = quantizing(&input, &output, "Q4_K_S");
    wanted.quantization.options.set("pure", "true");
    wanted.quantization.importance = Some(matrix.clone());
    must(&host(), &wanted);
    let want: Vec<u8> = stacked
        .chunks(EACH * COLUMNS)
        .zip(importance.chunks(COLUMNS))
        .flat_map(|(expert, importance)| encoded(DType::Q4_K, expert, Some(importance)))
        .collect();
    assert_eq!(payload(&output, names[0]), (DType::Q4_K, want));
    assert_eq!(payload(&output, names[1]), (DType::Q4_K, encoded(DType::Q4_K, &flat, None)));
    std::fs::remove_file(&output).unwrap();
    write_matrix(&matrix, &[(names[0], &importance[1..])]);
    let error = refused(&host(), &wanted);
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::InvalidArgument, Some(names[0])));
    // And a matrix without anything to quantize is a mistake.
    wanted.quantization.recipe = None;
    assert_eq!(refused(&host(), &wanted).kind(), ErrorKind::InvalidArgument);
}

#[test]
fn types_that_need_importance_are_refused_without() {
    let scratch = Scratch::new();
    let (input, _) = model(&scratch);
    let error = refused(&host(), &quantizing(&input, &scratch.at("out.gguf"), "IQ2_XXS"));
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint_text().unwrap().contains("--imatrix"), "{error}");
    let error = refused(&host(), &quantizing(&input, &scratch.at("out.gguf"), "Q4_KM"));
    assert!(error.hint_text().unwrap().starts_with("did you mean Q4_K"), "{error}");
}

#[test]
fn integers_with_scales_go_to_apr_and_come_back_within_half_a_step() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    for (recipe, dtype, most) in [("int8", DType::I8, 127.0), ("int4", DType::I4, 7.0)] {
        let (apr, back) =
            (scratch.at(&format!("{recipe}.apr")), scratch.at(&format!("{recipe}.safetensors")));
        let lost = must(&host(), &quantizing(&input, &apr, recipe)).quantized.unwrap();
        assert_eq!((lost.tensors.len(), payload(&apr, "blk.0.ffn_up.weight").0), (1, dtype));
        let scales = payload(&apr, "blk.0.ffn_up.weight.scale");
        let scales: Vec<f32> = scales.1.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(scales.len(), ROWS);
        let quantization = Quantization { dequantize: Some(DType::F32), ..Quantization::default() };
        must(
            &host(),
            &ConvertOptions { quantization, arch: Some("none".to_owned()), ..options(&apr, &back) },
        );
        let again = payload(&back, "blk.0.ffn_up.weight").1;
        let again: Vec<f32> = again.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        for ((row, again), scale) in matrix.chunks(COLUMNS).zip(again.chunks(COLUMNS)).zip(&scales) {
            let greatest = row.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            assert_eq!(greatest / most, *scale);
            assert!(row.iter().zip(again).all(|(x, y)| (x - y).abs() <= scale * 0.5001), "{recipe}");
        }
        let mut worst = 0.0f32;
        matrix.iter().zip(&again).for_each(|(x, y)| worst = worst.max((x - y).abs()));
        assert_eq!(f64::from(worst), lost.total.max_abs_error, "{recipe}");
        let error = refused(&host(), &quantizing(&input, &scratch.at("out.gguf"), recipe));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn a_size_chooses_the_largest_recipe_that_fits() {
    let scratch = Scratch::new();
    let (input, _) = model(&scratch);
    let output = scratch.at("out.gguf");
    let mut wanted = ConvertOptions { force: true, ..quantizing(&input, &output, "") };
    wanted.quantization.recipe = None;
    let mut last = 0;
    for bits in [3.0, 4.6, 6.0, 9.0] {
        wanted.quantization.target = Some(SizeTarget::BitsPerWeight(bits));
        must(&host(), &wanted);
        let (dtype, blocks) = payload(&output, "blk.0.ffn_up.weight");
        let used = blocks.len() * 8 / (ROWS * COLUMNS);
        assert!(dtype.info().unwrap().kind == DTypeKind::Block && used as f64 <= bits && blocks.len() > last);
        last = blocks.len();
    }
    std::fs::remove_file(&output).unwrap();
    wanted.quantization.target = Some(SizeTarget::Bytes(1000));
    let error = refused(&host(), &wanted);
    assert!(error.hint_text().unwrap().contains("allow at least"), "{error}");
}

fn stats(opened: &OpenedModel, host: &Host) -> (u64, Option<f64>) {
    let found = tensor_rows(host, opened, RowOptions { stats: true, ..RowOptions::default() }).unwrap();
    let row = found.iter().find(|row| row.name == "blk.0.ffn_up.weight").unwrap();
    let stats = row.stats.as_ref().unwrap();
    (stats.count, stats.max.map(|end| end.value))
}

#[test]
fn the_values_of_blocks_are_looked_at() {
    let scratch = Scratch::new();
    let (input, matrix) = model(&scratch);
    let output = scratch.at("out.gguf");
    must(&host(), &quantizing(&input, &output, "Q3_K_S"));
    let mut again = vec![0.0; matrix.len()];
    let (dtype, blocks) = payload(&output, "blk.0.ffn_up.weight");
    plugin().decode(dtype, &blocks, COLUMNS as u64, &mut again).unwrap();
    let host = host();
    let opened = open(&host, &output, &OpenOptions::default()).unwrap();
    let most = again.iter().fold(f32::MIN, |most, value| most.max(*value));
    assert_eq!(stats(&opened, &host), ((ROWS * COLUMNS) as u64, Some(f64::from(most))));
}
