//! The template stays what it promises: small, without `unsafe`, with a fixture its code did not write.

use crate::{reader, writer};
use apr_sdk::{Manifest, PluginDecl};
use apr_testkit::Fixture;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../template/format")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

/// The manifest in the template's `lib.rs`, as a plugin named `toy`.
pub fn manifest_text() -> String {
    let lib = text("src/lib.rs");
    let manifest = lib.split("manifest: \"").nth(1).unwrap().split('"').next().unwrap();
    format!("id=toy\nversion=0.1.0\n{}", manifest.replace("{{id}}", "toy"))
}

/// The template's fixture.
pub fn small() -> Fixture {
    Fixture::new("small.toy", std::fs::read(folder().join("tests/data/small.toy")).unwrap())
}

static PLUGIN: PluginDecl = PluginDecl {
    // The same text as in `lib.rs`; a test compares them.
    manifest: "id=toy\nversion=0.1.0\n
        formats=toy
        toy.roles=read write
        toy.magic=0:544f5931
        toy.extensions=toy
        toy.dtypes=*
        toy.names=no-control
    ",
    reader: |_| Some(Box::new(reader::Toy)),
    writer: |_| Some(Box::new(writer::Toy)),
    ..PluginDecl::EMPTY
};

apr_testkit::conformance!(PLUGIN, fixtures = "../template/format/tests/data", byte_identical = true);

#[test]
fn the_manifest_here_is_the_templates() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(PLUGIN.manifest), words(&manifest_text()));
}

#[test]
fn has_at_most_80_lines_of_code_and_no_unsafe() {
    let files = ["src/lib.rs", "src/layout.rs", "src/reader.rs", "src/writer.rs"].map(text);
    let lines = files.iter().flat_map(|file| file.lines()).map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(code <= 80, "{code} lines");
    assert!(files[0].contains("#![forbid(unsafe_code)]"));
}

#[test]
fn knows_three_placeholders_only() {
    let paths = ["Cargo.toml", "README.md", "src/lib.rs", "src/layout.rs", "src/reader.rs", "src/writer.rs"];
    for path in
        paths.into_iter().chain(["tests/conformance.rs", "tests/data/small.py", "tests/data/small.toy"])
    {
        let filled = text(path).replace("{{name}}", "").replace("{{id}}", "").replace("{{sdk}}", "");
        assert!(!filled.contains("{{"), "{path}");
    }
}

#[test]
fn the_manifest_of_the_readme_is_one() {
    let readme = std::fs::read_to_string(folder().join("../../README.md")).unwrap();
    let block = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let manifest = Manifest::parse(&format!("id=my_format\nversion=0.1.0\n{block}")).unwrap();
    assert_eq!((manifest.unknown.len(), manifest.formats.len()), (0, 1));
    let format = &manifest.formats[0];
    assert!(
        format.reads && format.writes && format.magic[0].matches(b"MYF1") && format.carries.max_dims == 4
    );
}
