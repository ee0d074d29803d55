//! Packed checkpoints, compared with what llama.cpp's converter makes of them: blocks that hold the stored codes and scales.

use crate::back::{tensors, to};
use crate::golden::{ORDER, differences};
use crate::models::{name, opened, packed};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert, plan};
use apr_host::host::Host;
use apr_sdk::DType;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn packed_experts_become_the_blocks_that_llama_cpp_s_converter_writes() {
    let host = host();
    let mut failed = Vec::new();
    for path in packed() {
        let (model, scratch) = (Checkpoint::golden(&path).unwrap(), Scratch::new());
        let (folder, file) = (scratch.at(&model.name), scratch.at("out.gguf"));
        model.write_to(&folder).unwrap();
        let options =
            ConvertOptions { input: folder, output: Some(file.clone()), ..ConvertOptions::default() };
        convert(&host, &options).unwrap_or_else(|e| panic!("{}: {e:#?}", name(&path)));
        let golden: Json = serde_json::from_slice(&fs::read(path.join("golden.json")).unwrap()).unwrap();
        let blocks = golden["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|t| t["type"] == "MXFP4" || t["type"] == "NVFP4")
            .count();
        assert!(blocks > 0, "{}: the converter wrote no blocks", name(&path));
        // The converter writes blocks before everything else.
        let lines = differences(&opened(&host, &file), &golden);
        let lines = lines.iter().filter(|line| !line.ends_with(ORDER));
        failed.extend(lines.map(|line| format!("{}: {line}", name(&path))));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A model in another format, its weights as BF16.
fn unpacked(host: &Host, format: &str, input: &Path, output: &Path) {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        quantization: Quantization { dequantize: Some(DType::BF16), ..Quantization::default() },
        ..ConvertOptions::default()
    };
    convert(host, &options).unwrap_or_else(|e| panic!("{}: {e:#?}", input.display()));
}

#[test]
fn experts_of_gpt_oss_are_transposed_in_memory_and_not_spooled() {
    let (host, scratch) = (host(), Scratch::new());
    let path = packed().into_iter().find(|path| name(path) == "gpt-oss-mxfp4").unwrap();
    let model = Checkpoint::golden(&path).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    for format in ["huggingface", "safetensors", "apr", "gguf"] {
        let options = ConvertOptions {
            input: folder.clone(),
            output: Some(scratch.at(format)),
            to: Some(format.to_owned()),
            quantization: Quantization { dequantize: Some(DType::BF16), ..Quantization::default() },
            ..ConvertOptions::default()
        };
        let planned = plan(&host, &options).unwrap_or_else(|e| panic!("{format}: {e:#?}"));
        let is_spooled = planned.notes.iter().any(|note| note.contains("spooled"));
        assert!(!is_spooled, "{format}: {:?}", planned.notes);
    }
}

/// The bits of BF16, but for the sign of zeros: those of ggml's blocks have none.
fn unsigned_zeros(bytes: &[u8]) -> Vec<u16> {
    let bits = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    bits.map(|bits| if bits == 0x8000 { 0 } else { bits }).collect()
}

#[test]
fn true_values_come_back_of_blocks_as_they_are_unpacked() {
    let host = host();
    // Also those of blocks that a factor beside them multiplies.
    for path in packed() {
        let (model, scratch) = (Checkpoint::golden(&path).unwrap(), Scratch::new());
        let at = |name: &str| scratch.at(name);
        let folder = at(&model.name);
        model.write_to(&folder).unwrap();
        unpacked(&host, "huggingface", &folder, &at("once"));
        to(&host, "gguf", &folder, &at("blocks.gguf"));
        // In two steps: rows of floats are divided anew, blocks are not.
        unpacked(&host, "gguf", &at("blocks.gguf"), &at("floats.gguf"));
        to(&host, "huggingface", &at("floats.gguf"), &at("back"));
        let (once, back) = (tensors(&host, &at("once")), tensors(&host, &at("back")));
        assert_eq!(once.keys().collect::<Vec<_>>(), back.keys().collect::<Vec<_>>(), "{}", name(&path));
        let is_packed = |name: &&String| name.ends_with("down_proj") || name.ends_with("down_proj.weight");
        assert!(once.keys().any(|name| is_packed(&name)), "{:?}", once.keys());
        for (tensor, (dtype, shape, bytes)) in &once {
            let (other, of, others) = &back[tensor];
            assert_eq!((dtype, shape), (other, of), "{}: {tensor}", name(&path));
            assert!(unsigned_zeros(bytes) == unsigned_zeros(others), "{}: {tensor}", name(&path));
        }
    }
}

#[test]
fn blocks_with_factors_stay_as_they_are_or_become_true_values_and_nothing_between() {
    let host = host();
    for path in packed().into_iter().filter(|path| name(path).ends_with("nvfp4")) {
        let (model, scratch) = (Checkpoint::golden(&path).unwrap(), Scratch::new());
        let at = |name: &str| scratch.at(name);
        let folder = at(&model.name);
        model.write_to(&folder).unwrap();
        to(&host, "gguf", &folder, &at("blocks.gguf"));
        to(&host, "gguf", &at("blocks.gguf"), &at("copy.gguf"));
        assert!(
            fs::read(at("blocks.gguf")).unwrap() == fs::read(at("copy.gguf")).unwrap(),
            "{}",
            name(&path)
        );
        // Without a word, no folder is written with codes for weights.
        let options = ConvertOptions {
            input: at("blocks.gguf"),
            output: Some(at("folder")),
            to: Some("huggingface".to_owned()),
            ..ConvertOptions::default()
        };
        let error = convert(&host, &options).err().unwrap();
        assert_eq!(error.kind(), apr_sdk::ErrorKind::Unsupported, "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("--dequantize bf16")), "{error:#?}");
        // True values have no factors beside them.
        unpacked(&host, "gguf", &at("blocks.gguf"), &at("floats.gguf"));
        let left = tensors(&host, &at("floats.gguf"));
        assert!(!left.keys().any(|name| name.ends_with("scale")), "{:?}", left.keys());
    }
}

/// A folder whose activations stay wide but for one module's.
fn wide(scratch: &Scratch) -> PathBuf {
    let path = packed().into_iter().find(|path| name(path) == "llama-nvfp4").unwrap();
    let model = Checkpoint::golden(&path).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    let config = folder.join("config.json");
    let mut json: Json = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    // One layer's own algorithm comes before that of all.
    json["quantization_config"]["quant_algo"] = "W4A16_NVFP4".into();
    json["quantization_config"]["quantized_layers"] =
        serde_json::json!({"model.layers.0.mlp": {"quant_algo": "NVFP4", "group_size": 16}});
    fs::write(&config, json.to_string()).unwrap();
    folder
}

#[test]
fn weights_whose_activations_stay_wide_are_listed_by_the_names_that_are_written() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = wide(&scratch);
    let listed = |path: &Path| -> Vec<String> {
        let written = opened(&host, path);
        let file = &written.model.foreign_of("gguf").unwrap().files[0];
        let names = file.get("general.tensor_extra.name").unwrap().items();
        let names: Vec<String> = names.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        let is_there = |name: &String| written.model.tensors.iter().any(|tensor| tensor.name == *name);
        assert!(names.iter().all(is_there), "{names:?}");
        assert_eq!(file.get("general.tensor_extra.prec_a4").unwrap().items().len(), names.len());
        names
    };
    let renaming = |input: &Path, output: &Path, old: &str, new: &str| {
        let options = ConvertOptions {
            input: input.to_owned(),
            output: Some(output.to_owned()),
            to: Some("gguf".to_owned()),
            renames: vec![(old.to_owned(), new.to_owned())],
            ..ConvertOptions::default()
        };
        convert(&host, &options).unwrap_or_else(|e| panic!("{}: {e:#?}", input.display()));
    };
    let (first, second) = (scratch.at("first.gguf"), scratch.at("second.gguf"));
    // On the way from the folder, with the factors beside it, and in a copy of what was written.
    renaming(&folder, &first, "blk.0.attn_q*", "blk.0.asked*");
    let names = |q: &str, v: &str| [q, "attn_k", "attn_output", v].map(|name| format!("blk.0.{name}.weight"));
    assert_eq!(listed(&first), names("asked", "attn_v"));
    renaming(&first, &second, "blk.0.attn_v*", "blk.0.told*");
    assert_eq!(listed(&second), names("asked", "told"));
    // Of tensors that are gone, or have another type now, nothing is said any more.
    let from_second = |name: &str, change: &dyn Fn(&mut ConvertOptions)| {
        let output = scratch.at(name);
        let mut options = ConvertOptions {
            input: second.clone(),
            output: Some(output.clone()),
            ..ConvertOptions::default()
        };
        change(&mut options);
        convert(&host, &options).unwrap_or_else(|e| panic!("{name}: {e:#?}"));
        output
    };
    let kept = from_second("kept.gguf", &|options| options.choice.drop = vec!["blk.0.attn_k*".to_owned()]);
    assert_eq!(listed(&kept), ["asked", "attn_output", "told"].map(|name| format!("blk.0.{name}.weight")));
    let dequantize = Quantization { dequantize: Some(DType::BF16), ..Quantization::default() };
    let floats = from_second("floats.gguf", &|options| options.quantization = dequantize.clone());
    let floats = opened(&host, &floats);
    let keys = &floats.model.foreign_of("gguf").unwrap().files[0].typed;
    assert!(!keys.iter().any(|(key, _)| key.starts_with("general.tensor_extra")));
}

#[test]
fn weights_whose_activations_stay_wide_are_listed_where_no_table_gives_the_target_its_metadata() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file) = (wide(&scratch), scratch.at("bag.gguf"));
    let options = ConvertOptions {
        input: folder,
        output: Some(file.clone()),
        arch: Some("none".to_owned()),
        quantization: Quantization { recipe: Some("nvfp4".to_owned()), ..Quantization::default() },
        ..ConvertOptions::default()
    };
    let error = convert(&host, &options).map(drop).err();
    assert!(error.is_none(), "{error:#?}");
    let written = opened(&host, &file);
    let names = written.model.foreign_of("gguf").unwrap().get("general.tensor_extra.name").unwrap().items();
    assert!(!names.is_empty());
}

#[test]
fn weights_whose_activations_stay_wide_are_listed_as_llama_cpp_s_converter_lists_them() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file) = (wide(&scratch), scratch.at("out.gguf"));
    to(&host, "gguf", &folder, &file);
    let written = opened(&host, &file);
    let keys = &written.model.foreign_of("gguf").unwrap().files[0].typed;
    let at = |name: &str| keys.iter().position(|(key, _)| key == name).unwrap();
    let version = at("general.quantization_version");
    let names = &keys[version + 1];
    assert_eq!(names.0, "general.tensor_extra.name");
    let listed: Vec<String> =
        names.1.items().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let want = ["attn_k", "attn_output", "attn_q", "attn_v"].map(|name| format!("blk.0.{name}.weight"));
    assert_eq!(listed, want);
    let flags = &keys[version + 2];
    assert_eq!(flags.0, "general.tensor_extra.prec_a4");
    assert!(flags.1.items().iter().all(|flag| flag.as_bool() == Some(false)) && flags.1.items().len() == 4);
    assert!(keys[version + 3].0.starts_with("tokenizer."));
    // Other types have no such list.
    unpacked(&host, "gguf", &folder, &scratch.at("floats.gguf"));
    let floats = opened(&host, &scratch.at("floats.gguf"));
    let keys = &floats.model.foreign_of("gguf").unwrap().files[0].typed;
    assert!(!keys.iter().any(|(key, _)| key.starts_with("general.tensor_extra")));
}

#[test]
fn a_float_type_converts_the_rest_and_keeps_the_experts_of_gpt_oss_in_blocks() {
    let (host, scratch) = (host(), Scratch::new());
    let path = packed().into_iter().find(|path| name(path) == "gpt-oss-mxfp4").unwrap();
    let model = Checkpoint::golden(&path).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    to(&host, "gguf", &folder, &scratch.at("auto.gguf"));
    let auto = tensors(&host, &scratch.at("auto.gguf"));
    // What `--outtype bf16`, `--outtype f16` and `--outtype f32` ask for: llama.cpp's converter repacks the experts
    // whatever the type of the rest is.
    for precision in [DType::BF16, DType::F16, DType::F32] {
        let output = scratch.at(&format!("{precision}.gguf"));
        let options = ConvertOptions {
            input: folder.clone(),
            output: Some(output.clone()),
            to: Some("gguf".to_owned()),
            quantization: Quantization {
                precision: Some(precision),
                repack: true,
                ..Quantization::default()
            },
            ..ConvertOptions::default()
        };
        convert(&host, &options).unwrap_or_else(|e| panic!("{precision}: {e:#?}"));
        // The flag says just that.
        let typed = scratch.at("typed.gguf");
        let outtype = precision.name().to_lowercase();
        let mut command = std::process::Command::new(apr_tests::program());
        command.arg("convert").args([&folder, &typed]).args(["--outtype", &outtype, "--force", "-q"]);
        assert!(command.status().unwrap().success(), "{precision}");
        assert!(fs::read(&typed).unwrap() == fs::read(&output).unwrap(), "{precision}");
        let made = tensors(&host, &output);
        assert_eq!(made.keys().collect::<Vec<_>>(), auto.keys().collect::<Vec<_>>());
        let mut n_blocks = 0;
        for (tensor, (dtype, shape, bytes)) in &made {
            let (of_auto, shape_of_auto, bytes_of_auto) = &auto[tensor];
            assert_eq!(shape, shape_of_auto, "{tensor}");
            match *of_auto {
                DType::MXFP4 => {
                    n_blocks += 1;
                    assert!(*dtype == DType::MXFP4 && bytes == bytes_of_auto, "{precision}: {tensor}");
                }
                DType::F32 => assert_eq!(*dtype, DType::F32, "{precision}: {tensor}"),
                _ => assert_eq!(*dtype, precision, "{precision}: {tensor}"),
            }
        }
        assert_eq!(n_blocks, 6, "three tensors of experts in each of two layers");
    }
}
