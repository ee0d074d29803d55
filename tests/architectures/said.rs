//! What files say of a model beside its tensors: names, types and sizes that follow from what was converted.

use crate::altered::configure;
use crate::back::{config, to};
use crate::models::{goldens, opened, payload};
use crate::refused::tried;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{DType, Value};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, root};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> Checkpoint {
    Checkpoint::golden(&root().join("tests/golden").join(name)).unwrap()
}

fn folder(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = scratch.at(name);
    golden(name).write_to(&folder).unwrap();
    folder
}

fn key(host: &Host, file: &Path, key: &str) -> Option<Value> {
    opened(host, file).model.foreign_of("gguf").unwrap().get(key).cloned()
}

#[test]
fn a_t5_with_a_head_of_its_own_comes_back_with_it() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = golden("t5");
    let shape = model.tensors().find(|t| t.name == "shared.weight").unwrap().shape.clone();
    let head = SeededTensor { name: "lm_head.weight".to_owned(), dtype: DType::F32, shape, center: 0.0 };
    model.shards[0].1.retain(|tensor| tensor.name != head.name);
    model.shards[0].1.push(head);
    let (folder, file, back) = (scratch.at("t5"), scratch.at("m.gguf"), scratch.at("back"));
    model.write_to(&folder).unwrap();
    configure(&folder, "tie_word_embeddings", false.into());
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    assert_eq!(config(&back)["tie_word_embeddings"], false);
}

#[test]
fn a_t5_without_one_comes_back_tied_whether_or_not_it_scales_outputs() {
    let host = host();
    for scales in [true, false] {
        let scratch = Scratch::new();
        let mut model = golden("t5");
        model.shards[0].1.retain(|tensor| tensor.name != "lm_head.weight");
        let (folder, file, back) = (scratch.at("t5"), scratch.at("m.gguf"), scratch.at("back"));
        model.write_to(&folder).unwrap();
        configure(&folder, "tie_word_embeddings", true.into());
        configure(&folder, "scale_decoder_outputs", scales.into());
        to(&host, "gguf", &folder, &file);
        to(&host, "huggingface", &file, &back);
        assert_eq!(config(&back)["tie_word_embeddings"], true);
        assert_eq!(config(&back)["architectures"], json!(["T5ForConditionalGeneration"]), "{scales}");
    }
}

/// The folder of a golden with the heads of its library's class for judging texts.
fn judging(scratch: &Scratch, name: &str, class: &str, heads: &[(&str, &[u64])]) -> PathBuf {
    let (mut model, folder) = (golden(name), scratch.at(name));
    model.shards[0].1.extend(heads.iter().map(|(name, shape)| SeededTensor {
        name: (*name).to_owned(),
        dtype: DType::F32,
        shape: shape.to_vec(),
        center: 0.0,
    }));
    model.write_to(&folder).unwrap();
    configure(&folder, "architectures", json!([class]));
    folder
}

#[test]
fn a_classifier_of_several_outputs_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let heads: [(&str, &[u64]); 2] = [("classifier.weight", &[3, 64]), ("classifier.bias", &[3])];
    let folder = judging(&scratch, "bert", "BertForSequenceClassification", &heads);
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).unwrap_err();
    assert!(error.message().contains("`classifier.weight` (a classifier with several outputs)"), "{error}");
}

#[test]
fn a_roberta_that_judges_comes_back_under_the_names_that_its_class_loads() {
    let (host, scratch) = (host(), Scratch::new());
    let heads: [(&str, &[u64]); 4] = [
        ("classifier.dense.weight", &[64, 64]),
        ("classifier.dense.bias", &[64]),
        ("classifier.out_proj.weight", &[1, 64]),
        ("classifier.out_proj.bias", &[1]),
    ];
    let folder = judging(&scratch, "roberta", "RobertaForSequenceClassification", &heads);
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    let names: Vec<String> =
        opened(&host, &back).model.tensors.into_iter().map(|tensor| tensor.name).collect();
    let (own, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("classifier."));
    assert!(own.len() == 4 && !others.is_empty(), "{names:?}");
    assert!(others.iter().all(|name| name.starts_with("roberta.")), "{names:?}");
    assert_eq!(config(&back)["id2label.0"], "LABEL_0");
}

#[test]
fn factors_of_rotation_that_no_configuration_makes_are_written_and_not_made_up_on_the_way_back() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file) = (folder(&scratch, "llama3"), scratch.at("m.gguf"));
    configure(
        &folder,
        "rope_scaling",
        json!({"rope_type": "llama3", "factor": 2.5, "low_freq_factor": 0.37, "high_freq_factor": 7.7,
            "original_max_position_embeddings": 48}),
    );
    to(&host, "gguf", &folder, &file);
    assert!(opened(&host, &file).model.tensors.iter().any(|tensor| tensor.name == "rope_freqs.weight"));
    let error = tried(&host, "huggingface", &file, &scratch.at("back")).unwrap_err();
    assert_eq!(error.tensor_name(), Some("rope_freqs.weight"), "{error}");
    assert!(error.message().contains("no configuration of this architecture"), "{error}");
}

/// The bytes of a file's factors of rotation.
fn factors(host: &Host, file: &Path) -> Vec<u8> {
    let opened = opened(host, file);
    let tensor = opened.model.tensors.iter().find(|tensor| tensor.name == "rope_freqs.weight").unwrap();
    payload(&opened, tensor)
}

#[test]
fn factors_of_rotation_with_other_bounds_come_back_as_the_same_factors() {
    let host = host();
    for (factor, low, high, context) in [
        (4.0, 0.5, 3.0, 64),
        (32.0, 1.0, 2.0, 128),
        (8.0, 1.0, 4.0, 100),
        (8.0, 2.0, 8.0, 64),
        (8.0, 1.0, 1.5, 64),
    ] {
        let scratch = Scratch::new();
        let folder = folder(&scratch, "llama3");
        configure(
            &folder,
            "rope_scaling",
            json!({"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": context}),
        );
        // So few factors that they do not lie on a line.
        configure(&folder, "rope_theta", 1_000_000.into());
        let (file, back, again) = (scratch.at("m.gguf"), scratch.at("back"), scratch.at("again.gguf"));
        to(&host, "gguf", &folder, &file);
        to(&host, "huggingface", &file, &back);
        to(&host, "gguf", &back, &again);
        assert_eq!(factors(&host, &again), factors(&host, &file), "{factor} {low} {high} {context}");
    }
}

#[test]
fn a_window_that_gguf_cannot_say_is_warned_of_where_it_matters() {
    let host = host();
    for golden in ["mistral", "mixtral", "starcoder2"] {
        for (window, warned) in [(json!(64), true), (json!(1 << 20), false), (json!(null), false)] {
            let scratch = Scratch::new();
            let (folder, file) = (folder(&scratch, golden), scratch.at("m.gguf"));
            configure(&folder, "sliding_window", window.clone());
            let done = to(&host, "gguf", &folder, &file);
            let warning = "carried over for apr only: `sliding_window` 64 of the configuration: attention \
                           is not limited";
            let found = done.warnings.iter().any(|found| found.starts_with(warning));
            assert_eq!(found, warned, "{golden} {window}: {:?}", done.warnings);
        }
    }
}

#[test]
fn a_count_of_key_heads_that_the_class_does_not_know_says_nothing() {
    let host = host();
    for golden in ["gpt-neox", "gpt2"] {
        let scratch = Scratch::new();
        let (folder, file, stray) =
            (folder(&scratch, golden), scratch.at("m.gguf"), scratch.at("stray.gguf"));
        to(&host, "gguf", &folder, &file);
        configure(&folder, "num_key_value_heads", 1.into());
        to(&host, "gguf", &folder, &stray);
        assert!(fs::read(&file).unwrap() == fs::read(&stray).unwrap(), "{golden}");
    }
}

#[test]
fn the_third_deepseek_routes_by_sigmoid_also_where_its_configuration_leaves_that_to_the_class() {
    let (host, scratch) = (host(), Scratch::new());
    let (whole, unsaid) = (scratch.at("whole.gguf"), scratch.at("unsaid.gguf"));
    let (folder, back) = (folder(&scratch, "deepseek2"), scratch.at("back"));
    to(&host, "gguf", &folder, &whole);
    configure(&folder, "scoring_func", json!(null));
    to(&host, "gguf", &folder, &unsaid);
    assert_eq!(key(&host, &unsaid, "deepseek2.expert_gating_func").and_then(|v| v.as_u32()), Some(2));
    assert_eq!(fs::read(&unsaid).unwrap(), fs::read(&whole).unwrap());
    to(&host, "huggingface", &unsaid, &back);
    assert_eq!(config(&back)["architectures"], json!(["DeepseekV3ForCausalLM"]));
}

#[test]
fn the_second_deepseek_says_no_more_of_its_routing_than_its_configuration() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, file, back) = (folder(&scratch, "deepseek2-lite"), scratch.at("m.gguf"), scratch.at("back"));
    configure(&folder, "scoring_func", json!(null));
    to(&host, "gguf", &folder, &file);
    assert_eq!(key(&host, &file, "deepseek2.expert_gating_func"), None);
    to(&host, "huggingface", &file, &back);
    assert_eq!(config(&back)["architectures"], json!(["DeepseekV2ForCausalLM"]));
}

#[test]
fn slopes_of_mpt_end_in_a_whole_number() {
    let (host, scratch) = (host(), Scratch::new());
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder(&scratch, "mpt"), &file);
    to(&host, "huggingface", &file, &back);
    let text = fs::read_to_string(back.join("config.json")).unwrap();
    assert!(text.contains("\"alibi_bias_max\": 8,") || text.contains("\"alibi_bias_max\": 8\n"), "{text}");
}

#[test]
fn the_width_of_a_head_is_said_where_the_library_knows_it() {
    let host = host();
    // What transformers fills in, which llama.cpp's converter then writes.
    for (name, width) in [("llama", Some(32)), ("qwen2", None), ("mixtral", None)] {
        let scratch = Scratch::new();
        let (folder, file) = (folder(&scratch, name), scratch.at("m.gguf"));
        configure(&folder, "head_dim", json!(null));
        to(&host, "gguf", &folder, &file);
        for part in ["key_length", "value_length"] {
            let arch = if name == "mixtral" { "llama" } else { name };
            let said = key(&host, &file, &format!("{arch}.attention.{part}")).and_then(|v| v.as_u32());
            assert_eq!(said, width, "{name} {part}");
        }
    }
}

#[test]
fn the_type_in_a_configuration_follows_the_weights() {
    let (host, scratch) = (host(), Scratch::new());
    // One spells it as version 5 of the library does, one as version 4.
    for (name, spelled) in [("llama", "dtype"), ("qwen2", "torch_dtype")] {
        let (input, output) = (folder(&scratch, name), scratch.at(&format!("{name}-f32")));
        let mut options = ConvertOptions {
            input: input.clone(),
            output: Some(output.clone()),
            to: Some("huggingface".to_owned()),
            ..ConvertOptions::default()
        };
        options.quantization.precision = Some(DType::F32);
        convert(&host, &options).unwrap();
        assert_eq!(config(&input)[spelled], "bfloat16");
        let said = config(&output);
        assert_eq!(said[spelled], "float32", "{name}");
        let both = ["dtype", "torch_dtype"].iter().filter(|key| said.contains_key(**key)).count();
        assert_eq!(both, 1, "{name}");
    }
}

#[test]
fn a_model_from_a_download_cache_has_its_own_name() {
    let (host, scratch) = (host(), Scratch::new());
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let snapshot = scratch.at("models--acme--Tiny-Model-1B/snapshots").join(hash);
    golden("qwen2").write_to(&snapshot).unwrap();
    let file = scratch.at("out.gguf");
    to(&host, "gguf", &snapshot, &file);
    let said = |key_: &str| key(&host, &file, key_).and_then(|value| value.as_str().map(str::to_owned));
    assert_eq!(said("general.name").as_deref(), Some("Tiny Model 1B"));
    assert_eq!(said("general.organization").as_deref(), Some("Acme"));
}

#[test]
fn a_length_that_is_not_known_is_none() {
    let (host, file) = (host(), "m.gguf");
    let context = |length: Option<&str>| {
        let scratch = Scratch::new();
        let folder = folder(&scratch, "command-r");
        for name in ["config.json", "tokenizer_config.json"].map(|name| folder.join(name)) {
            let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&name).unwrap()).unwrap();
            drop(json.as_object_mut().unwrap().remove("model_max_length"));
            let text = json.to_string();
            // As Python writes an integer, of any size.
            let text = match length {
                Some(length) => format!("{{\"model_max_length\":{length},{}", &text[1..]),
                None => text,
            };
            fs::write(name, text).unwrap();
        }
        to(&host, "gguf", &folder, &scratch.at(file));
        key(&host, &scratch.at(file), "command-r.context_length").unwrap().as_u32().unwrap()
    };
    let positions = context(None);
    assert_eq!(context(Some("4096")), 4096);
    // `VERY_LARGE_INTEGER` and `LARGE_INTEGER` of transformers, and `sys.maxsize`.
    for length in ["1000000000000000019884624838656", "1e20", "9223372036854775807"] {
        assert_eq!(context(Some(length)), positions, "{length}");
    }
}

#[test]
fn a_mistral_without_windows_says_so_where_the_library_would_take_one() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = folder(&scratch, "mistral3");
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    to(&host, "gguf", &folder, &file);
    to(&host, "huggingface", &file, &back);
    let config = fs::read_to_string(back.join("config.json")).unwrap();
    assert!(config.contains(r#""model_type": "mistral""#), "{config}");
    // `MistralConfig` has a window of 4096 where none is stated.
    assert!(config.contains(r#""sliding_window": null"#), "{config}");
}

/// The key in which apr says which of the models that GGUF calls a BERT one is.
const OWN_KIND: &[u8] = b"bert.apr.model_type";

#[test]
fn models_that_gguf_calls_a_bert_come_back_as_what_they_were() {
    let host = host();
    let kinds = ["bert", "roberta", "xlm-roberta", "distilbert"];
    for (kind, tokenizers) in kinds.iter().flat_map(|kind| kinds.map(|tokenizers| (*kind, tokenizers))) {
        let scratch = Scratch::new();
        let (mut model, other) = (golden(kind), golden(tokenizers));
        let is_tokenizer =
            |name: &str| name != "config.json" && !name.contains("ool") && name != "modules.json";
        model.companions.retain(|(name, _)| !is_tokenizer(name));
        model.companions.extend(other.companions.into_iter().filter(|(name, _)| is_tokenizer(name)));
        let rows = 1200;
        let tensors = model.shards.iter_mut().flat_map(|(_, tensors)| tensors);
        let embedding = tensors.filter(|tensor| tensor.name.ends_with("word_embeddings.weight"));
        embedding.for_each(|tensor| tensor.shape[0] = rows);
        let (folder, file, back) = (scratch.at("folder"), scratch.at("m.gguf"), scratch.at("back"));
        model.write_to(&folder).unwrap();
        configure(&folder, "vocab_size", rows.into());
        configure(&folder, "pad_token_id", i32::from(tokenizers.contains("roberta")).into());
        to(&host, "gguf", &folder, &file);
        to(&host, "huggingface", &file, &back);
        assert_eq!(config(&back)["model_type"], kind, "with the tokenizer of {tokenizers}");
    }
}

#[test]
fn what_tells_two_architectures_apart_is_named_where_it_is_missing() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = golden("bert");
    model.companions.retain(|(name, _)| name == "config.json");
    let (folder, file, back) = (scratch.at("bert"), scratch.at("m.gguf"), scratch.at("back"));
    model.write_to(&folder).unwrap();
    to(&host, "gguf", &folder, &file);
    // As other converters write it, under the name of no key.
    let bytes = fs::read(&file).unwrap();
    let at = bytes.windows(OWN_KIND.len()).position(|window| window == OWN_KIND).unwrap();
    let renamed = [&bytes[..at], b"bert.xyz", &bytes[at + 8..]].concat();
    fs::write(&file, renamed).unwrap();
    let mut options = ConvertOptions {
        input: file,
        output: Some(back.clone()),
        to: Some("huggingface".to_owned()),
        ..ConvertOptions::default()
    };
    let error = convert(&host, &options).err().unwrap();
    let said = "could be of architecture `bert` or `distilbert` or `roberta` or `xlm-roberta`: it does not state \
        `bert.apr.model_type`, `tokenizer.ggml.model`";
    assert!(error.message().contains(said), "{error:?}");
    assert!(
        error.hint_text().unwrap().contains("--arch bert or --arch distilbert or --arch roberta"),
        "{error:?}"
    );
    options.arch = Some("bert".to_owned());
    convert(&host, &options).unwrap();
    assert_eq!(config(&back)["model_type"], "bert");
}

#[test]
fn the_outermost_class_says_whether_a_head_is_tied() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = golden("qwen3");
    for (_, tensors) in &mut model.shards {
        tensors.retain(|tensor| tensor.name != "lm_head.weight");
        for tensor in tensors {
            tensor.name = tensor.name.replacen("model.", "model.language_model.", 1);
        }
    }
    let folder = scratch.at("qwen3");
    model.write_to(&folder).unwrap();
    let mut inner: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    inner["tie_word_embeddings"] = false.into();
    for class in ["LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"] {
        let outer = json!({"architectures": [class], "model_type": "lighton_ocr", "text_config": inner,
            "tie_word_embeddings": true});
        fs::write(folder.join("config.json"), outer.to_string()).unwrap();
        let file = scratch.at(&format!("{class}.gguf"));
        to(&host, "gguf", &folder, &file);
        assert_eq!(key(&host, &file, "general.architecture"), Some(Value::from_string("qwen3")));
    }
    configure(&folder, "tie_word_embeddings", false.into());
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).unwrap_err();
    assert!(error.message().contains("has no `lm_head.weight`"), "{error}");
}

/// What heads are called.
const HEADS: [&str; 6] = [
    "lm_head.weight",
    "output.weight",
    "embed_out.weight",
    "model.transformer.ff_out.weight",
    "output_layer.weight",
    "transformer.output_layer.weight",
];

#[test]
fn what_is_tied_is_said_so_in_the_folder_that_comes_back_in_every_family() {
    let (host, mut tried_all, mut wrong) = (host(), 0, Vec::new());
    for path in goldens() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut model = golden(name);
        let is_head = |tensor: &SeededTensor| HEADS.iter().any(|head| tensor.name.ends_with(head));
        let has_head = model.tensors().any(is_head);
        model.shards.iter_mut().for_each(|(_, tensors)| tensors.retain(|tensor| !is_head(tensor)));
        if !has_head {
            continue;
        }
        let scratch = Scratch::in_memory();
        let [folder, file, back, again] = ["model", "m.gguf", "back", "again.gguf"].map(|at| scratch.at(at));
        model.write_to(&folder).unwrap();
        configure(&folder, "tie_word_embeddings", true.into());
        let told: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        for root in ["text_config", "llm_config", "language_config", "thinker_config"] {
            if let Some(mut inner) = told.get(root).filter(|inner| inner.is_object()).cloned() {
                inner["tie_word_embeddings"] = true.into();
                configure(&folder, root, inner);
            }
        }
        // Those whose class has no such flag, or never ties, are refused.
        let Ok(_) = tried(&host, "gguf", &folder, &file) else { continue };
        if tried(&host, "huggingface", &file, &back).is_err() {
            continue;
        }
        tried_all += 1;
        if let Err(error) = tried(&host, "gguf", &back, &again) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    assert!(wrong.is_empty() && tried_all > 50, "{tried_all}: {}", wrong.join("\n"));
}

#[test]
fn a_vocabulary_of_its_own_for_each_layer_comes_back() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = golden("gemma4");
    let rows = 700;
    let tensors = model.shards.iter_mut().flat_map(|(_, tensors)| tensors);
    for tensor in tensors.filter(|tensor| tensor.name.ends_with("embed_tokens_per_layer.weight")) {
        tensor.shape[0] = rows;
    }
    let (folder, file, back) = (scratch.at("gemma4"), scratch.at("m.gguf"), scratch.at("back"));
    model.write_to(&folder).unwrap();
    let mut inner: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    inner = inner["text_config"].take();
    inner["vocab_size_per_layer_input"] = rows.into();
    configure(&folder, "text_config", inner);
    let done = to(&host, "gguf", &folder, &file);
    let told = |warning: &String| warning.contains("as many rows of `per_layer_token_embd.weight`");
    assert!(done.warnings.iter().any(told), "{:?}", done.warnings);
    to(&host, "huggingface", &file, &back);
    let said = config(&back);
    let value =
        said.iter().find(|(key, _)| key.ends_with("vocab_size_per_layer_input")).map(|(_, value)| value);
    assert_eq!(value, Some(&json!(rows)));
}

#[test]
fn an_epsilon_of_its_own_in_the_mixers_of_a_falcon_comes_back_and_is_warned_of() {
    let (host, scratch) = (host(), Scratch::new());
    let (file, back) = (scratch.at("m.gguf"), scratch.at("back"));
    // 0.000001 of the class, and 0.00001 of the file.
    let folder = folder(&scratch, "falcon-mamba");
    configure(&folder, "layer_norm_epsilon", json!(1e-5));
    let mut said: Json = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    said.as_object_mut().unwrap().remove("mixer_rms_eps");
    fs::write(folder.join("config.json"), said.to_string()).unwrap();
    let done = to(&host, "gguf", &folder, &file);
    let told = |warning: &String| warning.contains("`mixer_rms_eps`") && warning.contains("the other norms");
    assert!(done.warnings.iter().any(told), "{:?}", done.warnings);
    to(&host, "huggingface", &file, &back);
    let said = config(&back);
    assert_eq!(
        (said["layer_norm_epsilon"].as_f64(), said["mixer_rms_eps"].as_f64()),
        (Some(1e-5), Some(1e-6))
    );
}

#[test]
fn several_key_heads_of_a_bigcode_are_what_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let mut model = golden("starcoder");
    let tensors = model.shards.iter_mut().flat_map(|(_, tensors)| tensors);
    for tensor in tensors.filter(|tensor| tensor.name.contains("attn.c_attn.")) {
        tensor.shape[0] = 3 * 64;
    }
    let (folder, file) = (scratch.at("starcoder"), scratch.at("m.apr"));
    model.write_to(&folder).unwrap();
    configure(&folder, "multi_query", false.into());
    configure(&folder, "num_key_value_heads", 4.into());
    let done = tried(&host, "apr", &folder, &file).unwrap();
    assert!(done.warnings.is_empty(), "{:?}", done.warnings);
    let error = tried(&host, "gguf", &folder, &scratch.at("m.gguf")).unwrap_err();
    assert!(error.message().contains("`multi_query` false"), "{error}");
}

#[test]
fn feed_forward_networks_of_an_mpt_are_as_wide_as_its_tensors() {
    for (ratio, rows) in [(2, 256), (2, 128)] {
        let (host, scratch) = (host(), Scratch::new());
        let mut model = golden("mpt");
        let tensors = model.shards.iter_mut().flat_map(|(_, tensors)| tensors);
        for tensor in tensors.filter(|tensor| tensor.name.contains(".ffn.")) {
            let axis = usize::from(tensor.name.contains("down_proj"));
            tensor.shape[axis] = rows;
        }
        let (folder, file, back) = (scratch.at("mpt"), scratch.at("m.gguf"), scratch.at("back"));
        model.write_to(&folder).unwrap();
        configure(&folder, "expansion_ratio", ratio.into());
        to(&host, "gguf", &folder, &file);
        let done = to(&host, "huggingface", &file, &back);
        assert_eq!(config(&back)["expansion_ratio"], rows / 64);
        let told = done.warnings.iter().any(|warning| warning.contains("`expansion_ratio`"));
        assert_eq!(told, rows != 256, "{:?}", done.warnings);
    }
}
