//! Exact types that no fixture has: weights by hand whose scales fit ggml's blocks.

use crate::fixtures::exactly;
use crate::folder::Folder;
use apr_sdk::half::to_f16;
use apr_sdk::{Announced, DType, StoredModel, StoredTensor};

type Part = (&'static str, DType, Vec<u64>, Vec<u8>);

/// Bytes that look random, the same each time.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x1234_5678u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

fn halves(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| to_f16(*value).to_le_bytes()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The only weight of a model has these values first, and exactly these types hold it.
fn check(key: &str, json: &str, parts: Vec<Part>, first: &[f32], types: &[DType]) {
    let mut model = StoredModel::default();
    let tensor = |(name, dtype, shape, _): &Part| StoredTensor {
        name: (*name).to_owned(),
        dtype: *dtype,
        shape: shape.clone(),
    };
    model.tensors = parts.iter().map(tensor).collect();
    model.announced.push(Announced { file: "config.json".into(), key: key.into(), json: json.into() });
    let folder = Folder { model, bytes: parts.into_iter().map(|part| part.3).collect() };
    let understood = folder.understood().unwrap_or_else(|error| panic!("{json}: {error}"));
    let weight = &understood.packed[0];
    let rows = 0..weight.rows.rows;
    let values = folder.unpack(weight, rows.clone(), rows).unwrap();
    assert_eq!(values[..first.len()], *first, "{}", weight.about);
    let is_held =
        |dtype: DType, evidence: &[usize]| evidence.is_empty() || folder.holds(weight, dtype, evidence);
    let held =
        weight.exact.iter().filter(|exact| is_held(exact.dtype, &exact.evidence)).map(|exact| exact.dtype);
    assert_eq!(held.collect::<Vec<_>>(), types, "{}", weight.about);
    exactly(&folder, weight, &values, &weight.about);
}

#[test]
fn nvfp4_of_mlx() {
    let mut codes = bytes(2 * 64);
    codes[0] = 0x21;
    let mut scales: Vec<u8> = bytes(2 * 8).iter().map(|scale| scale % 0x7f).collect();
    scales[0] = 0x40;
    let parts =
        vec![("a.weight", DType::U32, vec![2, 16], codes), ("a.scales", DType::U8, vec![2, 8], scales)];
    let json = r#"{"group_size": 16, "bits": 4, "mode": "nvfp4"}"#;
    check("quantization", json, parts, &[1.0, 2.0], &[DType::NVFP4, DType::BF16]);
}

#[test]
fn nvfp4_of_modelopt_if_its_second_scale_is_1() {
    for (second, types) in [(1.0, &[DType::NVFP4, DType::BF16][..]), (0.5, &[DType::BF16]), (0.3, &[])] {
        let mut codes = bytes(2 * 64);
        codes[0] = 0x20;
        let parts = vec![
            ("a.weight", DType::U8, vec![2, 64], codes),
            ("a.weight_scale", DType::F8_E4M3, vec![2, 8], vec![0x38; 16]),
            ("a.weight_scale_2", DType::F32, vec![], floats(&[second])),
        ];
        check("", r#"{"quantization": {"quant_algo": "NVFP4"}}"#, parts, &[0.0, second], types);
    }
}

#[test]
fn int4_of_modelopt() {
    let (mut codes, scales) = (bytes(2 * 64), halves(&[0.5, 1.0, 2.0, 0.1, 3.0, 4.0, 5.0, 6.0]));
    codes[0] = 0x7f;
    let parts = vec![
        ("a.weight", DType::U8, vec![2, 64], codes.clone()),
        ("a.weight_scale", DType::F16, vec![4, 2], scales.clone()),
    ];
    let json = r#"{"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 32}"#;
    check("quantization_config", json, parts.clone(), &[-0.5], &[DType::Q4_0]);
    let factors = halves(&[2.0; 64]);
    let mut parts = parts;
    parts.push(("a.pre_quant_scale", DType::F16, vec![64], factors));
    check("quantization_config", json, parts, &[-1.0], &[]);
}

#[test]
fn hqq_with_whole_zero_points() {
    // Zero points that are whole, with scales of few bits; then one that is not.
    for (zero, types) in [(8.0, &[DType::Q4_1, DType::Q8_0][..]), (7.3, &[])] {
        let mut codes = bytes(2 * 64);
        codes[0] = 0x9f;
        let parts = vec![
            ("a.W_q", DType::U8, vec![2, 64], codes),
            ("a.scale", DType::F16, vec![4, 1], halves(&[0.5, 1.5, 0.25, 0.75])),
            ("a.zero", DType::F16, vec![4, 1], halves(&[8.0, 3.0, 15.0, zero])),
            (
                "a.shape",
                DType::I64,
                vec![2],
                [2i64, 128].iter().flat_map(|size| size.to_le_bytes()).collect(),
            ),
            ("a.nbits", DType::I32, vec![], 4i32.to_le_bytes().to_vec()),
            ("a.group_size", DType::I32, vec![], 64i32.to_le_bytes().to_vec()),
            ("a.axis", DType::I32, vec![], 1i32.to_le_bytes().to_vec()),
        ];
        check("quantization_config", r#"{"quant_method": "hqq"}"#, parts, &[0.5], types);
    }
}

#[test]
fn ternary_weights_that_a_scale_multiplies_or_divides() {
    let codes: Vec<u8> = bytes(2 * 256)
        .iter()
        .map(|byte| (0..4).map(|n| ((byte >> (2 * n) & 3) % 3) << (2 * n)).sum())
        .collect();
    let first = f32::from(codes[0] & 3) - 1.0;
    for (class, scale, types) in [
        ("autobitlinear", 1.21875f32, &[DType::TQ2_0, DType::TQ1_0][..]),
        ("bitlinear", 1.21875, &[]),
        ("bitlinear", 4.0, &[DType::TQ2_0, DType::TQ1_0]),
    ] {
        let parts = vec![
            ("a.weight", DType::U8, vec![2, 256], codes.clone()),
            ("a.weight_scale", DType::F32, vec![1], floats(&[scale])),
        ];
        let json = format!(r#"{{"quant_method": "bitnet", "linear_class": "{class}"}}"#);
        let first = if class == "bitlinear" { first / scale } else { first * scale };
        check("quantization_config", &json, parts, &[first], types);
    }
}

#[test]
fn mlx_with_scales_that_are_no_halves() {
    let scale = |value: f32| (value.to_bits() >> 16).to_le_bytes().to_vec();
    for (bias, types) in [(0.5, &[DType::Q5_1][..]), (1e-9, &[])] {
        let parts = vec![
            ("a.weight", DType::U32, vec![1, 10], vec![0; 40]),
            ("a.scales", DType::BF16, vec![1, 1], scale(-0.25)),
            ("a.biases", DType::BF16, vec![1, 1], scale(bias)),
        ];
        let first = f32::from_bits(bias.to_bits() & 0xffff_0000);
        check("quantization", r#"{"group_size": 64, "bits": 5}"#, parts, &[first], types);
    }
}
