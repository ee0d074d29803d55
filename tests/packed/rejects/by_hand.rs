//! Small models by hand: each is understood as it is, and refused with one thing changed, naming the tensor.

use crate::folder::{Folder, schemes};
use apr_sdk::{Announced, DType, ErrorKind, StoredModel, StoredTensor, Understood};

type Part = (&'static str, DType, Vec<u64>, Vec<u8>);

/// A model of these tensors, announced by this configuration under a key.
fn model(key: &str, json: &str, parts: &[Part]) -> Folder {
    let mut model = StoredModel::default();
    let tensor = |(name, dtype, shape, _): &Part| StoredTensor {
        name: (*name).to_owned(),
        dtype: *dtype,
        shape: shape.clone(),
    };
    model.tensors = parts.iter().map(tensor).collect();
    if !json.is_empty() {
        model.announced.push(Announced { file: "config.json".into(), key: key.into(), json: json.into() });
    }
    Folder { model, bytes: parts.iter().map(|part| part.3.clone()).collect() }
}

/// A change, the tensor that the error names, and a word of its message.
type Change<'a> = (&'a dyn Fn(&mut Vec<Part>), &'a str, &'a str);

fn refuses(key: &str, json: &str, parts: &[Part], changes: &[Change<'_>]) {
    let understood: Understood =
        model(key, json, parts).understood().unwrap_or_else(|error| panic!("{json}: {error}"));
    assert!(!understood.packed.is_empty(), "{json}: nothing was found");
    for (change, tensor, word) in changes {
        let mut parts = parts.to_vec();
        change(&mut parts);
        let error = model(key, json, &parts).understood().expect_err(word);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(error.tensor_name(), Some(*tensor), "{error}");
        assert!(error.to_string().contains(word), "{error} does not say `{word}`");
    }
}

fn remove(name: &'static str) -> impl Fn(&mut Vec<Part>) {
    move |parts| parts.retain(|part| part.0 != name)
}

fn shape(name: &'static str, shape: &'static [u64]) -> impl Fn(&mut Vec<Part>) {
    move |parts| parts.iter_mut().filter(|part| part.0 == name).for_each(|part| part.2 = shape.to_vec())
}

fn content(name: &'static str, bytes: Vec<u8>) -> impl Fn(&mut Vec<Part>) {
    move |parts| parts.iter_mut().filter(|part| part.0 == name).for_each(|part| part.3.clone_from(&bytes))
}

fn part(name: &'static str, dtype: DType, shape: &[u64]) -> Part {
    (name, dtype, shape.to_vec(), Vec::new())
}

#[test]
fn mxfp4_of_experts() {
    let parts = [part("e.up_blocks", DType::U8, &[2, 4, 2, 16]), part("e.up_scales", DType::U8, &[2, 4, 2])];
    let changes: [Change<'_>; 4] = [
        (&remove("e.up_scales"), "e.up_blocks", "scales are missing"),
        (&remove("e.up_blocks"), "e.up_scales", "codes are missing"),
        (&shape("e.up_scales", &[2, 4, 3]), "e.up_scales", "does not match"),
        (&shape("e.up_blocks", &[2, 4, 2, 8]), "e.up_blocks", "blocks of 16 bytes"),
    ];
    refuses("quantization_config", r#"{"quant_method": "mxfp4"}"#, &parts, &changes);
}

#[test]
fn scale_255_of_mxfp4_is_no_number() {
    let mut parts =
        [part("e.up_blocks", DType::U8, &[1, 1, 1, 16]), part("e.up_scales", DType::U8, &[1, 1, 1])];
    (parts[0].3, parts[1].3) = (vec![0x11; 16], vec![255]);
    let folder = model("", "", &parts);
    let understood = folder.understood().unwrap();
    let weight = &understood.packed[0];
    assert_eq!(weight.name, "e.up");
    assert_eq!(folder.unpack(weight, 0..1, 0..1).unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(folder.repack(weight, 0..1, DType::MXFP4).unwrap_err().kind(), ErrorKind::Malformed);
}

/// The tensors of a nested NF4 weight of 5 by 30.
fn nested() -> Vec<Part> {
    let state = r#"{"quant_type": "nf4", "blocksize": 64, "shape": [5, 30], "dtype": "float16",
        "nested_blocksize": 256, "nested_offset": 0.5}"#;
    let mut state_part = part("a.weight.quant_state.bitsandbytes__nf4", DType::U8, &[1]);
    state_part.3 = state.as_bytes().to_vec();
    vec![
        part("a.weight", DType::U8, &[75, 1]),
        part("a.weight.absmax", DType::U8, &[3]),
        part("a.weight.quant_map", DType::F32, &[16]),
        part("a.weight.nested_absmax", DType::F32, &[1]),
        part("a.weight.nested_quant_map", DType::F32, &[256]),
        state_part,
    ]
}

#[test]
fn four_bits_of_bitsandbytes() {
    const STATE: &str = "a.weight.quant_state.bitsandbytes__nf4";
    let json = |text: &str| content(STATE, text.as_bytes().to_vec());
    let changes: [Change<'_>; 12] = [
        (&remove(STATE), "a.weight.absmax", "its state is missing"),
        (&remove("a.weight"), STATE, "is missing"),
        (&remove("a.weight.absmax"), "a.weight", "`.absmax` is missing"),
        (&remove("a.weight.quant_map"), "a.weight", "`.quant_map` is missing"),
        (&remove("a.weight.nested_absmax"), "a.weight", "`.nested_absmax` is missing"),
        (&shape("a.weight", &[76, 1]), "a.weight", "cannot hold"),
        (&shape("a.weight.absmax", &[2]), "a.weight.absmax", "requires 3"),
        (&shape("a.weight.quant_map", &[8]), "a.weight.quant_map", "requires 16"),
        (&shape("a.weight.nested_quant_map", &[16]), "a.weight.nested_quant_map", "requires 256"),
        (&json("{"), STATE, "not valid JSON"),
        (&json(r#"{"blocksize": 0, "shape": [5, 30]}"#), STATE, "`blocksize`"),
        (&json(r#"{"blocksize": 64, "shape": [4294967296, 4294967296]}"#), STATE, "`shape`"),
    ];
    refuses("quantization_config", r#"{"quant_method": "bitsandbytes"}"#, &nested(), &changes);
}

#[test]
fn eight_bits_of_bitsandbytes() {
    let mut parts = vec![
        part("a.weight", DType::I8, &[4, 8]),
        part("a.SCB", DType::F32, &[4]),
        part("a.weight_format", DType::U8, &[]),
    ];
    parts[2].3 = vec![0];
    let changes: [Change<'_>; 2] = [
        (&shape("a.SCB", &[5]), "a.SCB", "does not match"),
        (&remove("a.weight"), "a.SCB", "codes are missing"),
    ];
    refuses("quantization_config", r#"{"quant_method": "bitsandbytes"}"#, &parts, &changes);
    parts[2].3 = vec![2];
    let error = model("", "", &parts).understood().unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("a.weight_format")));
}

#[test]
fn modelopt() {
    let parts = [
        part("a.weight", DType::U8, &[4, 32]),
        part("a.weight_scale", DType::F8_E4M3, &[4, 4]),
        part("a.weight_scale_2", DType::F32, &[]),
        part("b.weight", DType::U8, &[4, 64]),
        part("b.weight_scale", DType::BF16, &[8, 1]),
        part("b.pre_quant_scale", DType::BF16, &[64]),
        part("lm_head.weight", DType::U8, &[4, 64]),
    ];
    let changes: [Change<'_>; 6] = [
        (&remove("a.weight_scale_2"), "a.weight", "second scale is missing"),
        (&remove("a.weight_scale"), "a.weight", "scales are missing"),
        (&shape("a.weight_scale", &[4, 5]), "a.weight_scale", "do not match"),
        (&shape("a.weight_scale_2", &[3]), "a.weight_scale_2", "expected one float"),
        (&shape("b.weight_scale", &[8, 2]), "b.weight_scale", "the configuration states 64"),
        (&shape("b.pre_quant_scale", &[63]), "b.pre_quant_scale", "64 floats"),
    ];
    let json = r#"{"quantization": {"quant_algo": "MIXED_PRECISION", "exclude_modules": ["lm_*"],
        "quantized_layers": {"a": {"quant_algo": "NVFP4", "group_size": 16}, "b": {"group_size": 64}}}}"#;
    refuses("", json, &parts, &changes);
}

#[test]
fn factors_beside_blocks() {
    let parts = [
        part("a.weight", DType::NVFP4, &[2, 4, 64]),
        part("a.scale", DType::F32, &[2]),
        part("a.input_scale", DType::F32, &[2]),
    ];
    let changes: [Change<'_>; 2] = [
        (&shape("a.scale", &[3]), "a.scale", "expected one F32 or 2"),
        (&shape("a.weight", &[4]), "a.weight", "not that of a matrix"),
    ];
    refuses("", "", &parts, &changes);
    let understood = model("", "", &parts).understood().unwrap();
    assert_eq!((understood.packed[0].parts.len(), understood.unused.len()), (2, 1));
    // Blocks alone are a type like others.
    assert!(model("", "", &parts[..1]).understood().unwrap().packed.is_empty());
    assert_eq!(model("", "", &[parts[0].clone(), parts[2].clone()]).understood().unwrap().packed.len(), 1);
}

#[test]
fn mlx() {
    let parts = [
        part("a.weight", DType::U32, &[4, 8]),
        part("a.scales", DType::BF16, &[4, 1]),
        part("a.biases", DType::BF16, &[4, 1]),
    ];
    let changes: [Change<'_>; 5] = [
        (&remove("a.scales"), "a.weight", "scales are missing"),
        (&remove("a.biases"), "a.weight", "biases are missing"),
        (&remove("a.weight"), "a.scales", "codes are missing"),
        (&shape("a.scales", &[4, 2]), "a.scales", "expected [4, 1]"),
        (&shape("a.weight", &[4, 9]), "a.weight", "groups of 64"),
    ];
    refuses("quantization", r#"{"group_size": 64, "bits": 4}"#, &parts, &changes);
    for (json, kind) in [
        (r#"{"group_size": 64, "bits": 7}"#, ErrorKind::Malformed),
        (r#"{"group_size": 0, "bits": 4}"#, ErrorKind::Malformed),
        (r#"{"group_size": 64, "bits": 4, "mode": "later"}"#, ErrorKind::Unsupported),
        (r#"{"group_size": 64, "bits": 4, "mode": "nvfp4"}"#, ErrorKind::Malformed),
    ] {
        let error = model("quantization", json, &parts).understood().unwrap_err();
        assert_eq!((error.kind(), error.tensor_name()), (kind, Some("a.weight")), "{json}: {error}");
    }
}

#[test]
fn hqq() {
    let mut parts = vec![
        part("a.W_q", DType::U8, &[4, 64]),
        part("a.scale", DType::F16, &[8, 1]),
        part("a.zero", DType::F16, &[8, 1]),
        part("a.shape", DType::I64, &[2]),
    ];
    parts[3].3 = [4i64, 128].iter().flat_map(|size| size.to_le_bytes()).collect();
    let huge: Vec<u8> = [i64::MAX, i64::MAX].iter().flat_map(|size| size.to_le_bytes()).collect();
    let changes: [Change<'_>; 7] = [
        (&remove("a.scale"), "a.W_q", "`scale` is missing"),
        (&remove("a.zero"), "a.W_q", "`zero` is missing"),
        (&remove("a.shape"), "a.W_q", "`shape` is missing"),
        (&shape("a.zero", &[9]), "a.zero", "expected 8 values"),
        (&shape("a.W_q", &[5, 64]), "a.W_q", "cannot hold"),
        (&content("a.shape", huge), "a.W_q", "does not match"),
        (&content("a.shape", vec![]), "a.W_q", "does not match"),
    ];
    let json = r#"{"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64, "axis": 1}}}"#;
    refuses("quantization_config", json, &parts, &changes);
    for nbits in ["7", "-4", "null"] {
        let json = json.replace("\"nbits\": 4", &format!("\"nbits\": {nbits}"));
        let error = model("quantization_config", &json, &parts).understood().unwrap_err();
        assert_eq!(
            (error.kind(), error.tensor_name()),
            (ErrorKind::Malformed, Some("a.W_q")),
            "{json}: {error}"
        );
    }
}

#[test]
fn bitnet() {
    let parts = [part("a.weight", DType::U8, &[2, 256]), part("a.weight_scale", DType::BF16, &[1])];
    let changes: [Change<'_>; 3] = [
        (&remove("a.weight_scale"), "a.weight", "scale is missing"),
        (&shape("a.weight_scale", &[2]), "a.weight_scale", "expected a single float"),
        (&shape("a.weight", &[2]), "a.weight", "not that of a matrix"),
    ];
    refuses("quantization_config", r#"{"quant_method": "bitnet"}"#, &parts, &changes);
}

#[test]
fn pairs_and_scales_of_deepseek() {
    let parts = [part("a.weight", DType::I8, &[4, 32]), part("a.scale", DType::F8_E8M0, &[4, 2])];
    let changes: [Change<'_>; 4] = [
        (&remove("a.scale"), "a.weight", "scales are missing"),
        (&remove("a.weight"), "a.scale", "belong to no weight"),
        (&shape("a.weight", &[8, 32]), "a.scale", "does not match"),
        (&shape("a.weight", &[128]), "a.scale", "belong to no weight"),
    ];
    let json = r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#;
    refuses("quantization_config", json, &parts, &changes);
    let rows = [part("a.weight", DType::F8_E4M3, &[24, 96]), part("a.weight_scale", DType::F32, &[24, 1])];
    let changes: [Change<'_>; 2] = [
        (&shape("a.weight", &[96, 24]), "a.weight_scale", "does not match"),
        (&shape("a.weight", &[48, 96]), "a.weight_scale", "does not match"),
    ];
    refuses("quantization_config", r#"{"quant_method": "fp8"}"#, &rows, &changes);
}

#[test]
fn values_of_codes_are_numbers() {
    let mut parts = nested();
    let bytes = |n: usize| 1f32.to_le_bytes().repeat(n);
    (parts[0].3, parts[1].3) = (vec![0; 75], vec![0; 3]);
    (parts[2].3, parts[3].3, parts[4].3) = (bytes(16), bytes(1), bytes(256));
    let values = |parts: &[Part]| {
        let folder = model("", "", parts);
        let understood = folder.understood().unwrap();
        folder.unpack(&understood.packed[0], 0..5, 0..5)
    };
    assert_eq!(values(&parts).unwrap()[0], 1.5);
    parts[2].3[60..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = values(&parts).unwrap_err();
    assert!(error.kind() == ErrorKind::Malformed && error.message().contains("`quant_map`"), "{error}");
}

#[test]
fn torchao() {
    let parts = [
        part("a._weight_qdata", DType::I8, &[4, 16]),
        part("a._weight_scale", DType::BF16, &[2, 4]),
        part("a._weight_zero_point", DType::BF16, &[2, 4]),
    ];
    let changes: [Change<'_>; 3] = [
        (&remove("a._weight_scale"), "a._weight_qdata", "scales are missing"),
        (&remove("a._weight_zero_point"), "a._weight_qdata", "zero points are missing"),
        (&shape("a._weight_zero_point", &[4, 4]), "a._weight_zero_point", "does not match"),
    ];
    let json = r#"{"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}"#;
    refuses("quantization_config", json, &parts, &changes);
}

#[test]
fn no_rows_need_nothing_and_rows_that_there_are_not_do_not_panic() {
    let folder = model("", "", &nested());
    let understood = folder.understood().unwrap();
    let rows = &understood.packed[0].rows;
    assert!(schemes().ranges(rows, 2..2).is_ok());
    let held = apr_sdk::HeldRows { rows: 0..1, parts: &[] };
    let mut out = [0.0; 30];
    assert!(schemes().unpack(rows, &held, 0..1, &mut out).is_err());
}
