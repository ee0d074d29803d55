//! The book shows what is proved of each architecture: generated from the manifests that the tests of this room compare with.
//! `BLESS=1` writes it.

use crate::models::{goldens, name};
use apr_engine::architecture::check;
use apr_tests::documents::assert_written;
use apr_tests::{host, root};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

#[test]
fn the_book_shows_the_architectures() {
    assert_written("reference/architectures.md", "architectures", &table());
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A row for each model: its tensors through APR, the file that it becomes, and what of that comes back.
fn table() -> String {
    let mut out = String::from(
        "| model | HF → APR → HF | HF → GGUF, and HF → APR → GGUF | GGUF → HF | verified against |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for path in &goldens() {
        let (golden, source) = (json(&path.join("golden.json")), json(&path.join("tensors.json")));
        let back = json(&root().join(format!("tests/architectures/back/{}.json", name(path))));
        let count = |json: &Json| json.as_array().unwrap().len();
        let tensors = source["files"].as_array().unwrap().iter();
        let of_source: usize = tensors.map(|file| count(&file["tensors"])).sum();
        let (tensors, keys) = (count(&golden["tensors"]), count(&golden["kvs"]));
        let left = count(&back["tensors that are left out"]);
        let other = back["tensors of another type"].as_object().unwrap().len();
        // A file that llama.cpp's converter writes as another architecture comes back as a model of that class.
        let renamed = back["tensors under names of another class"].as_array().map_or(0, Vec::len);
        let gone = if renamed > 0 { "of its own left out or renamed" } else { "left out by rule" };
        let kept = of_source - left;
        let mut returned = if kept == 1 { "1 tensor".to_owned() } else { format!("{kept} tensors") };
        let others =
            [(renamed, "under names of another class"), (left, gone), (other, "now F16, as in the file")];
        for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
            returned += &format!(", {n} {what}");
        }
        let made_by = golden["made_by"]["llama.cpp"].as_str().unwrap();
        let through = format!("{of_source} tensors, identical");
        let written = format!("{tensors} tensors and {keys} keys, equal");
        out += &format!("| {} | {through} | {written} | {returned} | {made_by} |\n", name(path));
    }
    out
}

#[test]
fn every_table_of_ours_is_sound() {
    let host = host();
    let tables = host.tables();
    assert_eq!(tables.broken().count(), 0);
    assert!(tables.all().count() > 20);
    for table in tables.all() {
        let found = check(table);
        assert!(found.errors.is_empty(), "{}: {:#?}", table.id, found.errors);
    }
}
