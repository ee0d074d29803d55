//! Every family against transformers: F32 weights, F32 caches, contexts beyond windows and the original context; and once
//! more with sharp attention, where masks, scales and soft caps show.

use crate::golden::{Case, cases, folder, models};
use crate::loading::{convert_to, distance, exact, loaded, logits, try_load};
use apr_host::convert::ConvertOptions;
use apr_host::running::{LoadOptions, Loaded, Wanted};
use apr_sdk::ErrorKind;
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, program};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::Command;

/// The most by which a logit may differ, in units of their root mean square; more only where transformers itself is
/// further from F64 ([`Case::noise`]): sharp attention over many layers magnifies every rounding.
const MOST: f64 = 1e-4;

/// Models whose tables do not say how they compute.
const NOT_RUN: &[&str] = &["deepseek2", "deepseek2-lite", "jina-bert-v2", "t5"];

/// What a model gives at the positions of a case.
fn outputs(case: &Case, folder: &Path) -> Vec<f32> {
    if case.hidden {
        let options = LoadOptions { wanted: Wanted::Hidden, ..exact() };
        let mut loaded: Loaded = loaded(folder, &options);
        let rows = loaded.runner.embed(&case.ids, case.ids.len()).unwrap().to_vec();
        return case.positions.iter().flat_map(|p| rows[p * case.width..][..case.width].to_vec()).collect();
    }
    // The context decides which factors of a rotation are taken.
    let context = (case.name == "short").then_some(case.ids.len() as u32);
    let mut loaded = loaded(folder, &LoadOptions { context, ..exact() });
    let all = logits(&mut loaded, &case.ids);
    case.positions.iter().flat_map(|p| all[*p].clone()).collect()
}

#[test]
fn every_family_computes_what_transformers_computes() {
    let scratch = Scratch::new();
    let mut complaints = Vec::new();
    let mut count = 0;
    for model in models().iter().filter(|model| !NOT_RUN.contains(&model.as_str())) {
        for case in cases(model) {
            let folder = scratch.at(&format!("{model}-{}", case.name)).join(model);
            case.write_to(&folder);
            let distance = distance(&outputs(&case, &folder), &case.want);
            println!("{model} {}: {distance:.1e}", case.name);
            if distance > MOST.max(case.noise) {
                let most = MOST.max(case.noise);
                complaints.push(format!("{model} {}: {distance:.1e}, more than {most:.1e}", case.name));
            }
            count += 1;
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(count >= 40, "{count} cases");
}

/// The configuration of a folder, changed.
fn configure(folder: &Path, change: impl FnOnce(&mut Json)) {
    let file = folder.join("config.json");
    let mut config: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut config);
    std::fs::write(&file, config.to_string()).unwrap();
}

#[test]
fn a_model_that_sees_has_the_windows_of_its_side_of_text() {
    let ids: Vec<u32> = (0..24).map(|n| 5 + n * 37 % 400).collect();
    for class in ["LlavaForConditionalGeneration", "Idefics3ForConditionalGeneration"] {
        let scratch = Scratch::new();
        let (alone, seeing) = (scratch.at("alone"), scratch.at("seeing"));
        for path in [&alone, &seeing] {
            Checkpoint::golden(&folder("mistral")).unwrap().write_to(path).unwrap();
            configure(path, |config| config["sliding_window"] = json!(8));
        }
        configure(&seeing, |config| {
            *config = json!({"architectures": [class], "model_type": "llava", "text_config": config, "vision_config": {}});
        });
        let mut all = [&alone, &seeing].map(|path| logits(&mut loaded(path, &exact()), &ids).concat());
        assert!(distance(&all[1], &all[0]) < 1e-6, "{class}");
        configure(&alone, |config| config["sliding_window"] = json!(null));
        all[0] = logits(&mut loaded(&alone, &exact()), &ids).concat();
        assert!(distance(&all[1], &all[0]) > 1e-3, "{class}: a window shows");
    }
}

#[test]
fn a_class_that_sees_bounds_no_logits() {
    let ids = [5, 17, 3, 40];
    let caps = [("Gemma3ForConditionalGeneration", false), ("Gemma3ForCausalLM", true)];
    for (class, is_bounded) in caps {
        let scratch = Scratch::new();
        let (plain, capped) = (scratch.at("plain"), scratch.at("capped"));
        for path in [&plain, &capped] {
            Checkpoint::golden(&folder("gemma3-vision")).unwrap().write_to(path).unwrap();
            configure(path, |config| config["architectures"] = json!([class]));
        }
        configure(&capped, |config| config["text_config"]["final_logit_softcapping"] = json!(0.01));
        let all = [&plain, &capped].map(|path| logits(&mut loaded(path, &exact()), &ids).concat());
        let most = all[1].iter().fold(0.0f32, |most, logit| most.max(logit.abs()));
        assert_eq!((most <= 0.01, all[0] == all[1]), (is_bounded, !is_bounded), "{class}: {most}");
    }
}

#[test]
fn a_head_with_values_of_its_own_counts_whatever_ties_it() {
    let (scratch, ids) = (Scratch::new(), [5, 17, 3, 40]);
    let (tied, untied) = (scratch.at("tied"), scratch.at("untied"));
    for path in [&tied, &untied] {
        Checkpoint::golden(&folder("llama")).unwrap().write_to(path).unwrap();
    }
    configure(&untied, |config| config["tie_word_embeddings"] = json!(false));
    configure(&tied, |config| config["tie_word_embeddings"] = json!(true));
    // What version 5 of transformers takes, and says.
    let all = [&tied, &untied].map(|path| logits(&mut loaded(path, &exact()), &ids).concat());
    assert_eq!(all[0], all[1]);
    let output = Command::new(program())
        .args(["convert", "tied", "m.gguf"])
        .current_dir(scratch.at(""))
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("`lm_head.weight` and `model.embed_tokens.weight` have different values"),
        "{said}"
    );
    let have = logits(&mut loaded(&scratch.at("m.gguf"), &exact()), &ids).concat();
    assert!(distance(&have, &all[0]) < 1e-2);
}

#[test]
fn what_changes_the_computation_and_is_not_followed_is_refused_by_name() {
    let yarn = |key: &str, value: Json| json!({"rope_type": "yarn", "factor": 4.0, key: value});
    for (model, key, value, word) in [
        ("bloom", "apply_residual_connection_post_layernorm", json!(true), "`apply_residual_connection"),
        ("falcon", "alibi", json!(true), "`alibi` true"),
        ("falcon-40b", "alibi", json!(true), "`alibi` true"),
        ("arcee", "hidden_act", json!("silu"), "`hidden_act` \"silu\""),
        ("jais2", "hidden_act", json!("gelu"), "`hidden_act` \"gelu\""),
        ("qwen3-moe", "use_sliding_window", json!(true), "`use_sliding_window` limits"),
        ("nemotron", "hidden_act", json!("relu"), "`hidden_act` \"relu\""),
        ("llama", "rope_scaling", yarn("mscale_all_dim", json!(0.4)), "`rope_scaling.mscale_all_dim` 0.4"),
        ("qwen3", "rope_scaling", yarn("truncate", json!(false)), "`rope_scaling.truncate` false"),
        ("qwen3", "rope_scaling", yarn("alpha", json!(3.0)), "`rope_scaling.alpha` 3"),
        // What the class of the library passes over, and the model's first program does not.
        ("mpt", "attn_config", json!({"alibi": false}), "`attn_config.alibi` is false"),
    ] {
        let scratch = Scratch::new();
        let path = scratch.at(model);
        Checkpoint::golden(&folder(model)).unwrap().write_to(&path).unwrap();
        let file = path.join("config.json");
        let mut config: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config[key] = value;
        std::fs::write(&file, config.to_string()).unwrap();
        let error = try_load(&host(), &path, &exact()).err().expect(model);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{model}: {error}");
        assert!(error.message().contains(word), "{model}: {error}");
    }
}

#[test]
fn tensors_that_the_class_of_the_library_passes_over_are_refused_by_name() {
    for (tensor, said, word) in [
        ("attn.Wqkv.bias", json!({"no_bias": false}), "it has biases"),
        ("norm_2.bias", json!({"no_bias": false}), "it has biases"),
        ("attn.q_ln.weight", json!({"attn_config": {"qk_ln": true}}), "it has norms of queries and keys"),
    ] {
        let scratch = Scratch::new();
        let (path, file) = (scratch.at("folder"), scratch.at("m.gguf"));
        let mut model = Checkpoint::golden(&folder("mpt")).unwrap();
        for layer in 0..2 {
            let width = if tensor.contains("Wqkv") { 192 } else { 64 };
            let names = [tensor.to_owned(), tensor.replace("q_ln", "k_ln")];
            for name in names.iter().take(if tensor.contains("q_ln") { 2 } else { 1 }) {
                let name = format!("transformer.blocks.{layer}.{name}");
                let tensors = &mut model.shards[0].1;
                let dtype = tensors[0].dtype;
                tensors.push(SeededTensor { name, dtype, shape: vec![width], center: 0.0 });
            }
        }
        model.write_to(&path).unwrap();
        configure(&path, |config| config.as_object_mut().unwrap().extend(said.as_object().unwrap().clone()));
        let error = try_load(&host(), &path, &exact()).err().expect(tensor);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{tensor}: {error}");
        assert!(error.message().contains(word), "{tensor}: {error}");
        // Its GGUF file means what llama.cpp makes of it.
        convert_to(&path, &file, None);
        loaded(&file, &exact());
    }
}

#[test]
fn an_embedding_is_that_of_the_whole_text_with_the_tokens_around_it() {
    let text = "then came the others, one after the other";
    for name in ["bert", "roberta", "nomic-bert", "xlm-roberta"] {
        let (scratch, model) = (Scratch::new(), Checkpoint::golden(&folder(name)).unwrap());
        let path = scratch.at(name);
        model.write_to(&path).unwrap();
        let said = |args: &[&str]| {
            let mut command = Command::new(program());
            // The processor computes, whatever is configured and whatever devices this machine has.
            command.args(args).current_dir(scratch.at("")).env_clear().env("CUDA_VISIBLE_DEVICES", "");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let ids = said(&["tokenizer", name, "--encode", text]);
        let json: Json = serde_json::from_str(&said(&["run", name, text, "--embed", "--json"])).unwrap();
        assert_eq!(json["tokens"].as_u64(), Some(ids.split_whitespace().count() as u64), "{name}: {ids}");
    }
}

/// A GGUF file, with a tensor of one row in one dimension.
fn without_rows(file: &[u8], tensor: &str) -> Vec<u8> {
    let name = [&(tensor.len() as u64).to_le_bytes()[..], tensor.as_bytes()].concat();
    let at = file.windows(name.len()).position(|piece| piece == name).unwrap() + name.len();
    let (dims, rows) = (at..at + 4, at + 12..at + 20);
    assert_eq!(
        (&file[dims.clone()], &file[rows.clone()]),
        (&2u32.to_le_bytes()[..], &1u64.to_le_bytes()[..])
    );
    let mut bytes =
        [&file[..dims.start], &1u32.to_le_bytes(), &file[dims.end..rows.start], &file[rows.end..]].concat();
    // A key that makes the header as much longer as the alignment asks for.
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let key = [&string("a.pad")[..], &8u32.to_le_bytes(), &string(&"x".repeat(15))].concat();
    assert_eq!(key.len(), 32 + rows.len());
    let count = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) + 1;
    bytes[16..24].copy_from_slice(&count.to_le_bytes());
    bytes.splice(24..24, key);
    bytes
}

#[test]
fn one_row_of_a_file_may_be_without_a_dimension_for_rows() {
    let (scratch, name) = (Scratch::new(), "xlm-roberta");
    Checkpoint::golden(&folder(name)).unwrap().write_to(&scratch.at(name)).unwrap();
    let said = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(args).current_dir(scratch.at("")).env_clear().env("CUDA_VISIBLE_DEVICES", "");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    said(&["convert", name, "m.gguf"]);
    let file = without_rows(&std::fs::read(scratch.at("m.gguf")).unwrap(), "token_types.weight");
    std::fs::write(scratch.at("flat.gguf"), file).unwrap();
    let embedded = |model: &str| -> Json {
        let json: Json =
            serde_json::from_str(&said(&["run", model, "the others", "--embed", "--json"])).unwrap();
        json["embedding"].clone()
    };
    assert!(embedded("m.gguf").is_array());
    assert_eq!(embedded("flat.gguf"), embedded("m.gguf"));
    for model in ["m", "flat"] {
        said(&["convert", &format!("{model}.gguf"), &format!("{model}-back"), "--to", "huggingface"]);
    }
    // Shapes and values are those of the file that has the dimension.
    said(&["diff", "m-back", "flat-back"]);
}

#[test]
fn a_model_whose_names_were_kept_runs_as_the_architecture_that_is_named() {
    let (scratch, ids) = (Scratch::new(), [5, 17, 3, 40]);
    let (source, file) = (scratch.at("llama"), scratch.at("m.gguf"));
    Checkpoint::golden(&folder("llama")).unwrap().write_to(&source).unwrap();
    convert_to(&source, &file, None);
    let kept = scratch.at("m.apr");
    let options = ConvertOptions { arch: Some("none".to_owned()), ..apr_tests::options(&file, &kept) };
    apr_tests::must(&host(), &options);
    let named = LoadOptions { arch: Some("llama".to_owned()), ..exact() };
    assert_eq!(logits(&mut loaded(&kept, &named), &ids), logits(&mut loaded(&file, &exact()), &ids));
    assert!(try_load(&host(), &kept, &exact()).is_err(), "nobody says which architecture it is");
    // Of a folder, whose configuration lies beside its weights.
    let kept = scratch.at("folder.apr");
    let options = ConvertOptions { arch: Some("none".to_owned()), ..apr_tests::options(&source, &kept) };
    apr_tests::must(&host(), &options);
    assert_eq!(logits(&mut loaded(&kept, &named), &ids), logits(&mut loaded(&source, &exact()), &ids));
    let error = try_load(&host(), &kept, &exact()).err().unwrap();
    assert!(error.message().contains("`--arch none`"), "{error}");
    assert!(error.hint_text().unwrap().contains("`--arch llama`"), "{error:?}");
}

#[test]
fn layers_beyond_those_that_a_file_counts_are_refused() {
    let (scratch, host) = (Scratch::new(), host());
    let (source, file) = (scratch.at("llama3"), scratch.at("m.gguf"));
    Checkpoint::golden(&folder("llama3")).unwrap().write_to(&source).unwrap();
    convert_to(&source, &file, None);
    let fewer = scratch.at("fewer.gguf");
    let set = vec![("llama.block_count".to_owned(), "2".to_owned())];
    apr_tests::must(&host, &ConvertOptions { set, ..apr_tests::options(&file, &fewer) });
    let error = try_load(&host, &fewer, &exact()).err().unwrap();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some("blk.2.attn_norm.weight")));
    assert!(error.message().contains("`llama.block_count` is 2"), "{error}");
}

#[test]
fn a_phi_3_for_long_texts_computes_the_same_from_a_file() {
    let (scratch, ids) = (Scratch::new(), [5, 17, 3, 40]);
    let (source, file) = (scratch.at("phi3"), scratch.at("m.gguf"));
    Checkpoint::golden(&folder("phi3")).unwrap().write_to(&source).unwrap();
    convert_to(&source, &file, None);
    // Its factors are tensors there, and no key says of which kind of rotation they are.
    assert_eq!(logits(&mut loaded(&file, &exact()), &ids), logits(&mut loaded(&source, &exact()), &ids));
}
