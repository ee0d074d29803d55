//! A text's vector is made as the model's own files say: sentence-transformers' modules, or a key of the file; what is not
//! computed that way is refused by name.

use crate::golden::folder;
use crate::loading::{convert_to, distance, exact, loaded, try_load};
use apr_host::convert::ConvertOptions;
use apr_host::running::{LoadOptions, Wanted};
use apr_sdk::ErrorKind;
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// Models of sentence-transformers, and others that are made into such.
const MODELS: [&str; 6] = ["bert", "distilbert", "eurobert", "nomic-bert", "qwen2", "qwen3"];

/// A model's folder with these modules and this configuration of the one that pools.
fn with_modules(scratch: &Scratch, name: &str, kinds: &[&str], pooling: &Json) -> PathBuf {
    let path = scratch.at(name);
    Checkpoint::golden(&folder(name)).unwrap().write_to(&path).unwrap();
    let module = |(n, kind): (usize, &&str)| {
        let path = if n == 0 { String::new() } else { format!("{n}_{kind}") };
        json!({"idx": n, "name": n.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")})
    };
    let modules = Json::Array(kinds.iter().enumerate().map(module).collect());
    std::fs::write(path.join("modules.json"), modules.to_string()).unwrap();
    std::fs::create_dir_all(path.join("1_Pooling")).unwrap();
    std::fs::write(path.join("1_Pooling/config.json"), pooling.to_string()).unwrap();
    path
}

fn embedded(path: &Path, ids: &[u32], wanted: Wanted, rows: usize) -> Vec<f32> {
    loaded(path, &LoadOptions { wanted, ..exact() }).runner.embed(ids, rows).unwrap().to_vec()
}

/// What sentence-transformers' `Pooling` makes of hidden states, and then `Normalize`.
fn pooled(hidden: &[f32], rows: usize, mode: &str) -> Vec<f32> {
    let width = hidden.len() / rows;
    let mean = |column: usize| {
        let sum: f64 = (0..rows).map(|row| f64::from(hidden[row * width + column])).sum();
        (sum / rows as f64) as f32
    };
    let mut vector: Vec<f32> = match mode {
        "cls" => hidden[..width].to_vec(),
        "lasttoken" => hidden[(rows - 1) * width..].to_vec(),
        _ => (0..width).map(mean).collect(),
    };
    let norm = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    vector
}

#[test]
fn a_vector_is_pooled_as_the_folder_and_the_file_say() {
    let modes = [
        ("lasttoken", json!({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false})),
        ("cls", json!({"pooling_mode_cls_token": true})),
        ("mean", json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})),
        // Newer files say it in a word, or a list of one; the oldest say nothing.
        ("lasttoken", json!({"embedding_dimension": 64, "pooling_mode": "lasttoken"})),
        ("cls", json!({"embedding_dimension": 64, "pooling_mode": ["cls"]})),
        ("mean", json!({"word_embedding_dimension": 64})),
        ("mean", json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false})),
    ];
    for name in MODELS {
        let ids = [5, 17, 3, 40, 22, 9];
        for (mode, pooling) in &modes {
            let scratch = Scratch::new();
            let kinds = ["Transformer", "Pooling", "Normalize"];
            let path = with_modules(&scratch, name, &kinds, pooling);
            let hidden = embedded(&path, &ids, Wanted::Hidden, ids.len());
            let want = pooled(&hidden, ids.len(), mode);
            let file = scratch.at("m.gguf");
            convert_to(&path, &file, Some("F32"));
            let (apr, again) = (scratch.at("m.apr"), scratch.at("again.apr"));
            convert_to(&path, &apr, None);
            convert_to(&file, &again, None);
            for path in [path, file, apr, again] {
                let far = distance(&embedded(&path, &ids, Wanted::Embedding, 1), &want);
                assert!(far < 1e-5, "{name} {mode} {pooling} {}: {far:.1e}", path.display());
            }
        }
    }
}

#[test]
fn what_is_pooled_otherwise_is_refused_by_name() {
    let usual = ["Transformer", "Pooling"];
    for (name, kinds, pooling, words) in [
        ("qwen3", &usual[..], json!({"pooling_mode_max_tokens": true}), "\"max\""),
        ("bert", &usual, json!({"pooling_mode_weightedmean_tokens": true}), "\"weightedmean\""),
        ("qwen2", &usual, json!({"pooling_mode_mean_sqrt_len_tokens": true}), "\"mean_sqrt_len_tokens\""),
        (
            "bert",
            &usual,
            json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}),
            "\"cls+mean\"",
        ),
        ("qwen3", &usual, json!({"pooling_mode": ["mean", "lasttoken"]}), "\"mean+lasttoken\""),
        ("llama", &usual, json!({"pooling_mode_lasttoken": true}), "\"lasttoken\""),
        ("bert", &usual, json!({"pooling_mode": "Mean"}), "\"Mean\""),
        ("bert", &usual, json!({"pooling_mode": []}), "\"[]\""),
        ("bert", &usual, json!([]), "1_Pooling/config.json does not say it"),
        (
            "bert",
            &["Transformer", "Pooling", "Dense"],
            json!({"pooling_mode_mean_tokens": true}),
            "`modules`",
        ),
        (
            "qwen3",
            &["Transformer", "Pooling", "Dense", "Normalize"],
            json!({"pooling_mode_lasttoken": true}),
            "`modules`",
        ),
    ] {
        let scratch = Scratch::new();
        let path = with_modules(&scratch, name, kinds, &pooling);
        let apr = scratch.at("m.apr");
        convert_to(&path, &apr, None);
        let error = refused(&path, name);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        assert!(error.message().contains(words), "{name}: {error}");
        refused(&apr, name);
    }
}

#[test]
fn an_encoder_without_an_output_of_its_own_generates_no_text() {
    for name in ["bert", "distilbert", "roberta"] {
        let scratch = Scratch::in_memory();
        let path = scratch.at(name);
        Checkpoint::golden(&folder(name)).unwrap().write_to(&path).unwrap();
        let error = try_load(&host(), &path, &exact()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        assert!(error.message().contains("the model is an encoder"), "{name}: {error}");
    }
}

/// The error that embedding with a model of this architecture is.
fn refused(path: &Path, arch: &str) -> apr_sdk::Error {
    let arch = Some(arch.to_owned());
    let options = LoadOptions { wanted: Wanted::Embedding, arch, ..exact() };
    try_load(&host(), path, &options).err().unwrap_or_else(|| panic!("{} is taken", path.display()))
}

#[test]
fn a_file_that_pools_as_its_table_does_not_know_is_refused_by_name() {
    for (name, kind, set) in
        [("llama", 3, true), ("qwen3", 4, true), ("bert", 4, false), ("roberta", 4, true)]
    {
        let scratch = Scratch::new();
        let (path, right) = (scratch.at(name), scratch.at("right.gguf"));
        Checkpoint::golden(&folder(name)).unwrap().write_to(&path).unwrap();
        convert_to(&path, &right, Some("F32"));
        let key = format!("{}.pooling_type", if name == "roberta" { "bert" } else { name });
        let key = if set { format!("{key}:u32") } else { key };
        let (file, apr) = (scratch.at("m.gguf"), scratch.at("m.apr"));
        let set = vec![(key, kind.to_string())];
        let options = ConvertOptions { arch: None, set, ..apr_tests::options(&right, &file) };
        apr_tests::must(&host(), &options);
        convert_to(&file, &apr, None);
        let error = refused(&file, name);
        let known = ["pooling", "reranker"].iter().any(|word| error.message().contains(word));
        assert!(known, "{name}: {error}");
        refused(&apr, name);
    }
}
