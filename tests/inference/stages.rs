//! `apr check MODEL`: each of the ten stages is failed by a fault of its own, and by that alone; sound models of all families pass.

use crate::folder::{Folder, Tensor};
use crate::golden::{folder, models};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, program};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// What `apr check` says of a model.
fn checked(path: &Path) -> Json {
    let output =
        Command::new(program()).arg("check").arg(path).args(["--json", "--no-gpu"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if text.is_empty() {
        return json!({"error": String::from_utf8_lossy(&output.stderr)});
    }
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{}: {text}{}", path.display(), String::from_utf8_lossy(&output.stderr)))
}

/// The numbers of the stages with a verdict.
fn with_verdict(told: &Json, verdict: &str) -> Vec<u64> {
    let stages = told["stages"].as_array().unwrap_or_else(|| panic!("{told}"));
    let some = stages.iter().filter(|stage| stage["verdict"] == verdict);
    some.map(|stage| stage["number"].as_u64().unwrap()).collect()
}

/// A head of its own, which the model has instead of its embedding.
fn untied(folder: &mut Folder, change: impl Fn(&mut [f32], usize)) {
    let embedding = folder.tensors["model.embed_tokens.weight"].clone();
    let mut elements = embedding.elements.to_vec();
    change(&mut elements, embedding.shape[1]);
    let head = Tensor { shape: embedding.shape, elements: Arc::new(elements) };
    folder.tensors.insert("lm_head.weight".to_owned(), head);
    folder.config["tie_word_embeddings"] = json!(false);
}

/// Plants a fault for a stage.
fn plant(stage: u64, folder: &mut Folder) {
    match stage {
        1 => {
            for (name, bytes) in &mut folder.companions {
                if name == "tokenizer.json" {
                    let mut json: Json = serde_json::from_slice(bytes).unwrap();
                    json["normalizer"] = json!({"type": "Prepend", "prepend": "_"});
                    *bytes = json.to_string().into_bytes();
                }
            }
        }
        2 => folder.edit("embed_tokens", |elements, columns| {
            elements.chunks_exact_mut(columns).step_by(3).for_each(|row| row.fill(0.0));
        }),
        3 => folder.config["rope_theta"] = json!(1.000_000_001),
        4 => folder.map("layers.1.self_attn.k_proj.weight", |_| 0.0),
        5 => folder.map("layers.1.self_attn.q_proj", |x| x * 1e6),
        6 => folder.map("layers.1.mlp.down_proj", |_| 0.0),
        7 => folder.map("layers.1.input_layernorm", |_| 0.0),
        8 => untied(folder, |elements, _| elements.fill(0.0)),
        9 => untied(folder, |elements, _| elements[7] = f32::NAN),
        10 => untied(folder, |elements, columns| {
            // One of two opposite rows is above all others, and neither has a token.
            for column in 0..columns {
                let large = 100.0 * elements[columns + column];
                elements[510 * columns + column] = large;
                elements[511 * columns + column] = -large;
            }
        }),
        other => panic!("stage {other}"),
    }
}

#[test]
fn each_stage_is_failed_by_its_own_fault_alone() {
    let scratch = Scratch::new();
    let base = scratch.at("base");
    Checkpoint::golden(&folder("qwen2")).unwrap().write_to(&base).unwrap();
    let mut base = Folder::read(&base);
    // Of the vocabulary, some ids have no token: trained models never choose them.
    base.edit("embed_tokens", |elements, columns| elements[460 * columns..].fill(0.0));
    let path = scratch.at("sound");
    base.write(&path, "sound");
    let told = checked(&path);
    assert_eq!(with_verdict(&told, "passed"), (1..=10).collect::<Vec<_>>(), "{told}");
    for stage in 1..=10 {
        let mut faulty = base.clone();
        plant(stage, &mut faulty);
        let path = scratch.at(&format!("fault-{stage}"));
        faulty.write(&path, "faulty");
        let told = checked(&path);
        assert_eq!(with_verdict(&told, "failed"), [stage], "{stage}: {told}");
        let row = &told["stages"][stage as usize - 1];
        assert!(!row["remarks"].as_array().unwrap().is_empty(), "{row}");
    }
}

#[test]
fn where_values_stop_being_finite_is_told_once() {
    let scratch = Scratch::new();
    let base = scratch.at("base");
    Checkpoint::golden(&folder("qwen2")).unwrap().write_to(&base).unwrap();
    let mut faulty = Folder::read(&base);
    faulty.edit("layers.1.mlp.up_proj.weight", |elements, _| elements[3] = f32::INFINITY);
    let path = scratch.at("faulty");
    faulty.write(&path, "faulty");
    let told = checked(&path);
    assert_eq!(with_verdict(&told, "failed"), [6], "{told}");
    let remark = told["stages"][5]["remarks"][0].as_str().unwrap();
    assert!(remark.contains("layer.1.feed_forward") && remark.contains("blk.1.ffn_up.weight"), "{remark}");
    assert_eq!(with_verdict(&told, "not_judged"), [8, 9, 10], "{told}");
}

#[test]
fn scores_beyond_what_f32_holds_are_the_softmaxs_fault() {
    let scratch = Scratch::new();
    let base = scratch.at("base");
    Checkpoint::golden(&folder("qwen2")).unwrap().write_to(&base).unwrap();
    let mut faulty = Folder::read(&base);
    faulty.map("layers.1.self_attn.q_proj.weight", |x| x * 1e20);
    faulty.map("layers.1.self_attn.k_proj.weight", |x| x * 1e20);
    let path = scratch.at("faulty");
    faulty.write(&path, "faulty");
    let told = checked(&path);
    assert_eq!(with_verdict(&told, "failed"), [5], "{told}");
    let remark = told["stages"][4]["remarks"][0].as_str().unwrap();
    assert!(remark.contains("layer.1.attention.heads") && remark.ends_with("(JID-264)"), "{remark}");
}

#[test]
fn sound_models_of_every_family_pass() {
    let scratch = Scratch::new();
    let (mut passed, mut without, mut wrong) = (0, 0, Vec::new());
    for model in models() {
        let path = scratch.at(&model);
        Checkpoint::golden(&folder(&model)).unwrap().write_to(&path).unwrap();
        let told = checked(&path);
        let Some(stages) = told["stages"].as_array() else {
            wrong.push(format!("{model}: {}", told["error"]));
            continue;
        };
        passed += 1;
        without += usize::from(stages.iter().any(|stage| stage["verdict"] == "not_applicable"));
        let is_good = |stage: &&Json| {
            let verdict = stage["verdict"].as_str().unwrap();
            // Random heads may choose ids that have no token.
            let chosen = stage["remarks"][0].as_str().is_some_and(|remark| remark.contains("has no text"));
            verdict == "passed" || verdict == "not_applicable" || chosen
        };
        for stage in stages.iter().filter(|stage| !is_good(stage)) {
            wrong.push(format!("{model}: {stage}"));
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
    println!("{passed} families, {without} without all stages");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(passed >= 28 && without >= 1, "{passed} {without}");
}
