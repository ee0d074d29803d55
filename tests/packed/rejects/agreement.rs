//! Statements that contradict one another, or marks of tensors: both are named.

use super::words::{changed, configured, says};
use crate::folder::{Folder, fixtures};
use apr_sdk::{Announced, ErrorKind};
use serde_json::{Value as Json, json};

/// A fixture beside another statement: its file, what it says, and words of the error; none where it may stand.
fn beside() -> Vec<(&'static str, &'static str, Json, &'static [&'static str])> {
    let awq = |more: Json| {
        let mut all = json!({"zero_point": true, "w_bit": 4, "q_group_size": 32});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let own = |algorithm: &str| json!({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": algorithm}});
    vec![
        ("awq-gemm", "quant_config.json", awq(json!({"version": "GEMM"})), &[]),
        ("awq-gemm", "quant_config.json", awq(json!({"version": "exllama"})), &[]),
        (
            "awq-gemm",
            "quant_config.json",
            awq(json!({"w_bit": 8})),
            &["`quantization_config.bits` in config.json is 4", "`w_bit` in quant_config.json is 8"],
        ),
        (
            "awq-gemm",
            "quant_config.json",
            awq(json!({"q_group_size": 64})),
            &[
                "`quantization_config.group_size` in config.json is 32",
                "`q_group_size` in quant_config.json is 64",
            ],
        ),
        (
            "awq-gemm",
            "quant_config.json",
            awq(json!({"version": "gemv"})),
            &[
                "`quantization_config.version` in config.json is gemm",
                "`version` in quant_config.json is gemv",
            ],
        ),
        (
            "gptq-v2",
            "quantize_config.json",
            json!({"bits": 4, "group_size": 32, "checkpoint_format": "gptq"}),
            &[
                "`quantization_config.checkpoint_format` in config.json is gptq_v2",
                "`checkpoint_format` in quantize_config.json is gptq",
            ],
        ),
        (
            "gptq-4-asym",
            "quantize_config.json",
            json!({"bits": 4, "group_size": 64, "quant_method": "gptq", "checkpoint_format": "gptq_v2"}),
            &["is gptq,", "is gptq_v2"],
        ),
        (
            "gptq-4-asym",
            "quantize_config.json",
            json!({"bits": 4, "group_size": 64, "checkpoint_format": "auto_gptq", "desc_act": true}),
            &[],
        ),
        (
            "gptq-4-asym",
            "quantize_config.json",
            json!({"bits": 8, "group_size": 64}),
            &["`quantization_config.bits` in config.json is 4", "`bits` in quantize_config.json is 8"],
        ),
        (
            "fp8-block",
            "quant_config.json",
            json!({"quant_method": "fp8", "weight_block_size": [64, 128]}),
            &[
                "`quantization_config.weight_block_size` in config.json is [",
                "`weight_block_size` in quant_config.json is [64,128]",
            ],
        ),
        ("modelopt-fp8", "hf_quant_config.json", own("FP8"), &[]),
        (
            "modelopt-fp8",
            "hf_quant_config.json",
            own("NVFP4"),
            &[
                "`quantization_config.quant_algo` in config.json is fp8",
                "`quant_algo` in hf_quant_config.json is nvfp4",
            ],
        ),
    ]
}

#[test]
fn two_statements_that_differ_are_refused_with_both() {
    for (fixture, file, json, words) in beside() {
        let folder = changed(fixture, |folder| {
            let json = json.to_string();
            folder.model.announced.push(Announced { file: file.into(), key: String::new(), json });
        });
        match folder.understood() {
            Ok(understood) => assert!(words.is_empty() && !understood.packed.is_empty(), "{fixture} {json}"),
            Err(error) => {
                let said = !words.is_empty() && words.iter().all(|words| error.message().contains(words));
                assert!(said && error.kind() == ErrorKind::Malformed, "{fixture} {json}: {error}");
            }
        }
    }
}

#[test]
fn a_part_is_missed_that_any_statement_needs() {
    for (fixture, json, words) in [
        ("gptq-4-no-zeros", json!({"sym": false}), "up_proj.qzeros` is missing"),
        ("gptq-4-actorder", json!({"desc_act": true}), "`g_idx` is missing"),
    ] {
        let folder = changed(fixture, |folder| {
            if fixture == "gptq-4-actorder" {
                configured(folder, "\"desc_act\":true", "\"desc_act\":false");
                super::words::remove(folder, ".g_idx");
            }
            let (file, json) = ("quantize_config.json".into(), json.to_string());
            folder.model.announced.push(Announced { file, key: String::new(), json });
        });
        says(&folder, ErrorKind::Malformed, words);
    }
}

#[test]
fn one_statement_under_two_names_of_a_setting_says_one_thing() {
    for (fixture, from, to, words) in [
        (
            "awq-gemm",
            "\"bits\":4",
            "\"bits\":4,\"w_bit\":8",
            "`quantization_config.w_bit` in config.json is 8",
        ),
        ("awq-gemm", "\"bits\":4", "\"bits\":8,\"w_bit\":8", "`quantization_config.bits` is not 4"),
        ("awq-gemm", "\"bits\":4", "\"w_bit\":8", "`quantization_config.w_bit` is not 4"),
        (
            "awq-gemm",
            "\"group_size\":32",
            "\"group_size\":32,\"q_group_size\":128",
            "q_group_size` in config.json is 128",
        ),
        (
            "gptq-v2",
            "\"bits\":4",
            "\"bits\":4,\"format\":\"gptq\"",
            "`quantization_config.format` in config.json is gptq",
        ),
    ] {
        let folder = changed(fixture, |folder| configured(folder, from, to));
        says(&folder, ErrorKind::Malformed, words);
    }
}

#[test]
fn codes_of_another_type_than_a_configuration_states_are_refused_with_both() {
    for (fixture, from, to, words) in [
        (
            "bnb-nf4",
            "\"nf4\"",
            "\"fp4\"",
            "a weight of NF4, but `quantization_config.bnb_4bit_quant_type` in config.json is `fp4`",
        ),
        (
            "bnb-fp4",
            "\"fp4\"",
            "\"nf4\"",
            "a weight of FP4, but `quantization_config.bnb_4bit_quant_type` in config.json is `nf4`",
        ),
        (
            "bnb-nf4",
            "\"load_in_4bit\":true",
            "\"load_in_8bit\":true",
            "`quantization_config.load_in_8bit` in config.json is true",
        ),
        (
            "bnb-int8",
            "\"load_in_8bit\":true",
            "\"load_in_4bit\":true",
            "`quantization_config.load_in_4bit` in config.json is true",
        ),
        (
            "modelopt-fp8",
            "\"FP8\"",
            "\"NVFP4\"",
            "states `NVFP4` (`quant_algo`), which stores NVFP4, but its codes are those of FP8",
        ),
        ("modelopt-fp8", "\"FP8\"", "\"MXFP8\"", "which stores MXFP8, but its codes are those of FP8"),
        (
            "modelopt-nvfp4",
            "\"NVFP4\"",
            "\"FP8\"",
            "states `FP8` (`quant_algo`), which stores FP8, but its codes are those of NVFP4",
        ),
        ("modelopt-int4-awq", "\"W4A16_AWQ\"", "\"NVFP4_AWQ\"", "but its codes are those of int4"),
        (
            "modelopt-fp8",
            "\"quant_algo\":\"FP8\"",
            "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8,\"type\":\"int\"}}}",
            "states codes of 8 bits (`int`), but its codes are those of FP8",
        ),
        (
            "modelopt-fp8",
            "\"quant_algo\":\"FP8\"",
            "\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"model.layers.0\":{\"quant_algo\":\"W8A16\"}}",
            "states `W8A16` (`quant_algo`), which stores INT8",
        ),
    ] {
        let folder = changed(fixture, |folder| configured(folder, from, to));
        says(&folder, ErrorKind::Malformed, words);
    }
    // What is usual for four bits stands beside eight, and each module of a mixture may have its own.
    for (fixture, from, to) in [
        ("bnb-int8", "\"load_in_8bit\":true", "\"load_in_8bit\":true,\"bnb_4bit_quant_type\":\"fp4\""),
        ("bnb-nf4", "\"nf4\"", "\"NF4\""),
        ("modelopt-fp8", "\"FP8\"", "\"MIXED_PRECISION\""),
    ] {
        let folder = changed(fixture, |folder| configured(folder, from, to));
        assert!(folder.understood().is_ok(), "{fixture} {to}");
    }
}

#[test]
fn a_state_of_four_bits_that_contradicts_its_name_is_refused() {
    let tensor = |folder: &Folder, part: &str| {
        folder.model.tensors.iter().position(|tensor| tensor.name.contains(part)).unwrap()
    };
    for (fixture, other, words) in [
        ("bnb-nf4", "bnb-fp4", "its values are those of FP4, but the name of the weight's state says NF4"),
        ("bnb-fp4", "bnb-nf4", "its values are those of NF4, but the name of the weight's state says FP4"),
    ] {
        let map = {
            let other = Folder::read(&fixtures().join(other));
            other.bytes[tensor(&other, ".quant_map")].clone()
        };
        let folder = changed(fixture, |folder| {
            let at = tensor(folder, ".quant_map");
            folder.bytes[at] = map;
        });
        says(&folder, ErrorKind::Malformed, words);
        let stated = changed(fixture, |folder| {
            let at = tensor(folder, ".quant_state");
            let (own, next) = if fixture == "bnb-nf4" { ("nf4", "fp4") } else { ("fp4", "nf4") };
            let json = String::from_utf8(folder.bytes[at].clone()).unwrap();
            assert!(json.contains(own), "{json}");
            folder.bytes[at] = json.replace(own, next).into_bytes();
        });
        says(&stated, ErrorKind::Malformed, "its `quant_type` is");
    }
}

#[test]
fn a_packed_weight_of_a_module_that_a_pattern_leaves_out_is_refused() {
    for (fixture, key, entry, is_refused) in [
        ("fp8-block-ue8m0", "modules_to_not_convert", "*up_proj*", true),
        ("fp8-block-ue8m0", "modules_to_not_convert", "model.layers.*.mlp", true),
        ("fp8-block-ue8m0", "modules_to_not_convert", "*", true),
        ("fp8-block-ue8m0", "modules_to_not_convert", "model.layers.*.mlp.router", false),
        ("fp8-block-ue8m0", "ignored_layers", "layers.*", false),
        ("awq-gemm", "modules_to_not_convert", "*.mlp.*", true),
        ("bnb-nf4", "llm_int8_skip_modules", "*.lm_head", false),
        ("modelopt-fp8", "exclude_modules", "*_proj", true),
        ("modelopt-fp8", "ignore", "*_proj", true),
        ("modelopt-fp8", "ignore", "model.layers.0*", true),
        ("modelopt-fp8", "ignore", "lm_head*", false),
        ("modelopt-nvfp4", "exclude_modules", "model.layers.0*", true),
        ("modelopt-nvfp4", "exclude_modules", "model.layers.0.mlp", true),
        ("modelopt-nvfp4", "exclude_modules", "lm_head*", false),
    ] {
        let folder = changed(fixture, |folder| {
            let announced = &mut folder.model.announced[0];
            let mut json: Json = serde_json::from_str(&announced.json).unwrap();
            let within =
                if json.get("quantization").is_some() { &mut json["quantization"] } else { &mut json };
            within[key] = json!([entry]);
            announced.json = json.to_string();
        });
        let error = folder.understood().err();
        let said =
            error.as_ref().is_some_and(|error| error.message().contains(&format!("`{key}` lists `{entry}`")));
        assert_eq!(said, is_refused, "{fixture}, {key} lists {entry}: {error:?}");
        assert_eq!(error.is_some(), is_refused, "{fixture}, {key} lists {entry}: {error:?}");
    }
}
