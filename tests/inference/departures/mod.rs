//! `apr check A B`: mistakes that are planted in a model's weights or configuration are found where they are, and named; models
//! that are the same are called so.

mod clean;
mod faults;

use crate::folder::Folder;
use apr_tests::{Scratch, program};
use faults::{Base, Fault};
use serde_json::Value as Json;
use std::path::Path;
use std::process::Command;

/// What `apr check` says of two models.
fn compared(suspect: &Path, reference: &Path, tables: &[&Path]) -> Json {
    let mut command = Command::new(program());
    for table in tables {
        command.arg("--plugin").arg(table);
    }
    command.arg("check").arg(suspect).arg(reference).args(["--json", "--tokens", "48", "--no-gpu"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if text.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return serde_json::json!({"error": said.trim()});
    }
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Verdict on a planted fault.
struct Judged {
    name: &'static str,
    found: String,
    is_clean: bool,
    right_place: bool,
    right_words: bool,
}

/// Plants a fault and asks for it.
fn judge(base: &Base, fault: &Fault) -> Judged {
    let scratch = Scratch::new();
    let mut paths = Vec::new();
    let mut tables = Vec::new();
    for (side, edit) in [("suspect", &fault.suspect), ("reference", &fault.reference)] {
        let mut folder = base.folder.clone();
        edit(&mut folder);
        let path = scratch.at(side);
        folder.write(&path, side);
        if let Some(table) = &folder.table {
            let file = scratch.at(&format!("{side}.toml"));
            std::fs::write(&file, table.replace("SIDE", side)).unwrap();
            tables.push(file);
        }
        paths.push(path);
    }
    let tables: Vec<&Path> = tables.iter().map(|path| path.as_path()).collect();
    let told = compared(&paths[0], &paths[1], &tables);
    if told.get("error").is_some_and(|error| !error.is_null()) && told.get("first").is_none() {
        let found = told["error"].to_string();
        let is_right = fault.refused.is_some_and(|words| found.contains(words));
        return Judged {
            name: fault.name,
            found,
            is_clean: false,
            right_place: is_right,
            right_words: is_right,
        };
    }
    let first = &told["first"];
    let unseen = told["unseen"].as_array().map_or(0, Vec::len);
    let prompt = told["prompt"].as_str().unwrap_or_default();
    let place = format!(
        "{} {} {}",
        first["result"].as_str().unwrap_or_default(),
        first["operation"].as_str().unwrap_or_default(),
        first["tensor"].as_str().unwrap_or_default()
    );
    let mut words = first["looks_like"].as_str().unwrap_or_default().to_owned();
    if first.is_null() && unseen > 0 {
        words = told["unseen"][0].to_string();
    }
    let (place, words) = match prompt.is_empty() {
        true => (if first.is_null() { words.clone() } else { place }, words),
        false => ("prompt".to_owned(), prompt.to_owned()),
    };
    let found = format!(
        "{place}: {words} ({:.2} explained; divergence {:.1e}, {})",
        first["explained"].as_f64().unwrap_or(0.0),
        told["logits"]["divergence"].as_f64().unwrap_or(f64::NAN),
        if told["harmless"] == true { "harmless" } else { "harmful" }
    );
    Judged {
        name: fault.name,
        is_clean: first.is_null() && unseen == 0 && prompt.is_empty(),
        right_place: fault.places.iter().any(|wanted| place.contains(wanted)),
        right_words: fault.words.iter().any(|wanted| words.contains(wanted)),
        found,
    }
}

/// Plants every fault; fails unless each is found where it is, and named.
fn judge_all(base: &Base) {
    let mut judged = Vec::new();
    for fault in faults::faults(base) {
        let one = judge(base, &fault);
        println!(
            "{} {:32} place {} words {}: {}",
            base.name, one.name, one.right_place, one.right_words, one.found
        );
        judged.push(one);
    }
    let all = judged.len();
    let clean: Vec<&str> = judged.iter().filter(|one| one.is_clean).map(|one| one.name).collect();
    let misplaced: Vec<&str> = judged.iter().filter(|one| !one.right_place).map(|one| one.name).collect();
    let unnamed: Vec<&str> = judged.iter().filter(|one| !one.right_words).map(|one| one.name).collect();
    println!(
        "{}: {all} faults, misplaced {misplaced:?}, unnamed {unnamed:?}, called clean {clean:?}",
        base.name
    );
    assert!(all >= 20, "{all}");
    assert!(clean.is_empty(), "called clean: {clean:?}");
    assert!(misplaced.is_empty(), "in another place: {misplaced:?}");
    assert!(unnamed.is_empty(), "not named: {unnamed:?}");
}

#[test]
fn planted_faults_are_found_and_named() {
    let scratch = Scratch::new();
    let path = scratch.at("base");
    apr_testkit::Checkpoint::golden(&crate::golden::folder("qwen2")).unwrap().write_to(&path).unwrap();
    judge_all(&Base::of("qwen2", Folder::read(&path)));
}

#[test]
#[ignore = "plants faults in the model of a gigabyte that APR_GEMMA names: a folder with weights in F32"]
fn faults_planted_in_gemma_are_found_and_named() {
    let path = std::env::var_os("APR_GEMMA").expect("APR_GEMMA names a folder");
    judge_all(&Base::of("gemma3", Folder::read(Path::new(&path))));
}

#[test]
fn models_of_different_architectures_depart_where_they_first_differ() {
    let scratch = Scratch::new();
    for model in ["gpt2", "qwen2", "mixtral"] {
        let path = scratch.at(model);
        apr_testkit::Checkpoint::golden(&crate::golden::folder(model)).unwrap().write_to(&path).unwrap();
    }
    for (suspect, reference) in
        [("gpt2", "qwen2"), ("qwen2", "gpt2"), ("mixtral", "qwen2"), ("qwen2", "mixtral")]
    {
        let told = compared(&scratch.at(suspect), &scratch.at(reference), &[]);
        let is_refused = told["error"].as_str().is_some_and(|error| error.contains("tokens"));
        let step = told["first"]["step"].as_u64();
        assert!(is_refused || step.is_some_and(|step| step < 10), "{suspect} {reference}: {told}");
    }
}
