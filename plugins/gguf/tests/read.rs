//! What is read is what the golden files say: the Python package's own reader, or the script that built the file.

use crate::{build::File, fixture};
use apr_plugin_gguf::Gguf;
use apr_sdk::{Bytes, Extent, LogLevel, MemorySource, Options, Payload, Reader, Result, Score, Source};
use apr_testkit::{MeteringSource, Opened};
use serde_json::{Value as Json, json};

/// Compares a model with a golden file: keys with type and order, names, shapes, dtypes, payloads.
fn check(name: &str, opened: &Opened, source: &dyn Source) {
    let golden: Json = serde_json::from_slice(&fixture::bytes(&format!("{name}.golden.json"))).unwrap();
    let payloads = fixture::payloads(opened, source);
    let tensors = opened.model.tensors.iter().zip(&payloads).map(|(tensor, payload)| {
        json!({
            "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape,
            "sha256": fixture::sha256(payload),
        })
    });
    assert_eq!(Json::Array(tensors.collect()), golden["tensors"], "{name}");
    let files = &opened.model.foreign_of("gguf").unwrap().files;
    assert_eq!(files.len(), golden["files"].as_array().unwrap().len(), "{name}");
    for (file, golden) in files.iter().zip(golden["files"].as_array().unwrap()) {
        assert_eq!(json!(file.n_tensors), golden["n_tensors"], "{name}");
        let keys = golden["keys"].as_array().unwrap();
        assert_eq!(file.typed.len(), keys.len(), "{name}");
        for ((key, value), golden) in file.typed.iter().zip(keys) {
            assert_eq!(json!([key, fixture::value_json(value, &golden[1], source)]), *golden, "{name}");
        }
    }
}

fn check_file(name: &str, options: &Options) -> Opened {
    let source = fixture::source(&[&format!("{name}.gguf")]);
    let opened = fixture::open_with(&source, options).unwrap();
    check(name, &opened, &source);
    assert_eq!(opened.model.dialect, "gguf");
    opened
}

#[test]
fn agrees_with_the_python_package() {
    for name in ["small", "types", "nested", "long-values", "no-tensors", "align-8", "align-64", "align-4096"]
    {
        let model = check_file(name, &Options::new()).model;
        assert!(model.notes.is_empty(), "{name}: {:?}", model.notes);
        assert!(model.foreign[0].files[0].verbatim.is_none(), "{name}");
    }
}

#[test]
fn reads_old_versions_and_unusual_files() {
    for name in ["version-1", "version-1-big-endian", "version-2", "shapes", "odd-values", "unsorted"] {
        let model = check_file(name, &Options::new()).model;
        assert!(model.foreign[0].files[0].verbatim.is_none(), "{name}");
    }
    for name in ["unpadded", "odd-padding", "no-tensors-unpadded", "filled-padding"] {
        let model = check_file(name, &Options::new()).model;
        assert!(model.foreign[0].files[0].verbatim.is_some(), "{name}");
    }
}

#[test]
fn big_endian_payloads_are_as_the_specification_says_unless_told() {
    for name in ["version-2-big-endian", "version-3-big-endian"] {
        let note = check_file(name, &Options::new()).model.notes.join("\n");
        assert!(note.contains("5 BF16 and block tensors are read as big-endian"), "{note}");
        assert!(note.contains("-O gguf.be-payload=little"), "{note}");
    }
    let note = check_file("big-endian", &Options::new().with("be-payload", "little")).model.notes.join("\n");
    assert!(note.contains("read as little-endian, as written by gguf-py"), "{note}");
}

const SPLIT: [&str; 3] =
    ["split-00001-of-00003.gguf", "split-00002-of-00003.gguf", "split-00003-of-00003.gguf"];

#[test]
fn any_part_opens_the_whole_model() {
    for first in 0..3 {
        let mut names = SPLIT;
        names.swap(0, first);
        let source = fixture::source(&names);
        check("split", &fixture::open(&source).unwrap(), &source);
    }
    let names = SPLIT.map(|name| name.replace("split-", "split-first-empty-"));
    let source = fixture::source(&[&names[1], &names[0], &names[2]]);
    check("split-first-empty", &fixture::open(&source).unwrap(), &source);
}

#[test]
fn a_part_opened_as_a_part_stands_alone() {
    let source = fixture::source(&[SPLIT[1]]);
    let model = fixture::open_with(&source, &Options::new().with(Options::PART, "true")).unwrap().model;
    assert_eq!((model.tensors.len(), model.parts.len()), (2, 0));
    assert_eq!(model.foreign[0].files[0].name, SPLIT[1]);
}

/// A folder with files in it; file 0 is the folder itself.
struct Folder(MemorySource);

impl Source for Folder {
    fn name(&self, file: u32) -> String {
        self.0.name(file)
    }
    fn len(&self, file: u32) -> Result<u64> {
        self.0.len(file)
    }
    fn read_at(&self, file: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(file, offset, out)
    }
    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.0.view(extent)
    }
    fn sibling(&self, path: &str) -> Result<u32> {
        self.0.sibling(path)
    }
    fn entries(&self) -> Result<Vec<String>> {
        self.0.entries()
    }
    fn is_folder(&self) -> bool {
        true
    }
    fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }
}

/// Opens `names` as a folder, as the host does: the folder is file 0 there, here a file of no bytes.
fn folder(names: &[&str]) -> Folder {
    Folder(names.iter().fold(MemorySource::new("", []), |s, name| s.with(*name, fixture::bytes(name))))
}

#[test]
fn a_folder_opens_as_its_one_model() {
    let source = folder(&[SPLIT[2], SPLIT[0], SPLIT[1]]);
    let model = apr_testkit::read(&Gguf, "gguf", &source, &Options::new()).unwrap();
    assert_eq!(model.parts.iter().map(|part| part.file).collect::<Vec<_>>(), [2, 3, 1]);
    let source = folder(&["small.gguf"]);
    let model = apr_testkit::read(&Gguf, "gguf", &source, &Options::new()).unwrap();
    assert_eq!(model.parts.len(), 1);
    let source = folder(&["small.gguf", "types.gguf", SPLIT[0]]);
    let error = apr_testkit::read(&Gguf, "gguf", &source, &Options::new()).unwrap_err();
    let expected = format!("the folder has 3 models: small.gguf, {}, types.gguf", SPLIT[0]);
    assert!(error.message().contains(&expected), "{error}");
}

#[test]
fn long_values_stay_in_the_file_and_payloads_unread() {
    let source = fixture::source(&["long-values.gguf"]);
    let metering = MeteringSource::new(&source);
    let opened = fixture::open(&metering).unwrap();
    let tokens = opened.model.foreign[0].get("tokenizer.ggml.tokens").unwrap();
    assert!(matches!(tokens.bytes, Bytes::Extent(extent) if extent.len > Bytes::INLINE_LIMIT));
    assert_eq!(opened.model.foreign[0].get("test.behind").and_then(|v| v.as_u32()), Some(9));
}

#[test]
fn opening_reads_the_header_only() {
    // 100 tensors of 1 MiB each behind a header of some kilobytes.
    let mib = 1u64 << 20;
    let infos = (0..100).map(|n| File::info(format!("t{n}").as_bytes(), &[mib], 24, n * mib)).collect();
    let file = File { infos, data: vec![0; 100 << 20], ..File::default() };
    let source = MemorySource::new("m.gguf", file.bytes());
    let metering = MeteringSource::new(&source);
    let opened = fixture::open(&metering).unwrap();
    assert_eq!(opened.model.tensors.len(), 100);
    // The cursor's buffer, and the padding behind the header once more.
    assert!(metering.bytes_read() < 65 * 1024, "{}", metering.bytes_read());
    assert!(metering.highest_offset() <= 64 * 1024, "{}", metering.highest_offset());
}

#[test]
fn a_key_that_only_looks_like_carried_metadata_stays_a_key() {
    let own = r#"{"gguf":{"files":[{"n_tensors":0,"typed":{}}]}}"#;
    let odd = r#"{"a b":{"files":[{"n_tensors":0,"typed":{}}]}}"#;
    for text in ["", "no JSON", "[]", "{}", r#"{"toy":1}"#, own, odd] {
        let keys = vec![File::key(b"apr.foreign", 8, &File::string(text.as_bytes()))];
        let source = MemorySource::new("m.gguf", File { keys, ..File::default() }.bytes());
        let model = fixture::open(&source).unwrap().model;
        assert_eq!(model.foreign.len(), 1, "{text}");
        assert_eq!(model.foreign[0].get("apr.foreign").and_then(|v| v.as_str()), Some(text));
        assert!(model.notes[0].contains("kept as is"), "{:?}", model.notes);
    }
}

#[test]
fn payloads_of_plain_files_are_plain_extents() {
    let source = fixture::source(&["types.gguf"]);
    for tensor in fixture::open(&source).unwrap().model.tensors {
        assert!(matches!(tensor.payload, Payload::Extent { view: None, .. }), "{}", tensor.name);
    }
}

#[test]
fn probe_knows_magic_version_and_folders() {
    let bytes = fixture::bytes("big-endian.gguf");
    let entries = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"].map(str::to_owned);
    let look = |head: &'static [u8], is_folder, entries| {
        let look = apr_sdk::Look { name: "a", len: 0, head, tail: &[], is_folder, entries };
        Gguf.probe(&look)
    };
    assert_eq!(look(bytes.leak(), false, &[]), Score::MAGIC_AND_VERSION);
    assert_eq!(look(b"GGUF\x03\0\0\0", false, &[]), Score::MAGIC_AND_VERSION);
    assert_eq!(look(b"GGUF\x09\0\0\0", false, &[]), Score::MAGIC);
    assert_eq!(look(b"GGUF", false, &[]), Score::MAGIC);
    assert_eq!(look(b"GGML\x03\0\0\0", false, &[]), Score::NO);
    assert_eq!(look(b"", true, &entries), Score::STRUCTURE);
    assert_eq!(look(b"", true, &[]), Score::NO);
    assert_eq!(look(b"", true, &["a.gguf".to_owned(), "b.gguf".to_owned()]), Score::STRUCTURE);
}
