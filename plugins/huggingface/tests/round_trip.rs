//! What is carried comes back to the byte.

use crate::fixture::{CONFIG, FORMAT, folder, read};
use apr_sdk::{Bytes, Source};

#[test]
fn every_record_holds_its_files_own_bytes() {
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(70_000));
    let files: [(&str, &[u8]); 4] = [
        ("config.json", CONFIG.as_bytes()),
        ("model.safetensors", b""),
        ("tokenizer_config.json", long.as_bytes()),
        ("merges.txt", b"#version: 0.2\n"),
    ];
    let source = folder(&files);
    let model = read(&source).unwrap();
    for record in &model.foreign_of(FORMAT).unwrap().files {
        let bytes = match record.verbatim.as_ref().unwrap() {
            Bytes::Inline(bytes) => bytes.to_vec(),
            Bytes::Extent(extent) => source.view(*extent).unwrap().to_vec(),
        };
        let file = files.iter().find(|(name, _)| *name == record.name).unwrap();
        assert_eq!(bytes, file.1, "{}", record.name);
    }
}
