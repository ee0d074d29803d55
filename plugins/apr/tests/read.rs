//! Files of an independent writer are read as they are; `data/generate.py` wrote them, `data/read_apr.py` judged them.

use crate::setup::{Fixture, folder_source, open, open_source};
use apr_sdk::{Bytes, Value, json};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn digest(bytes: &[u8]) -> Json {
    json!({"bytes": bytes.len(), "sha256": sha256(bytes)})
}

/// What `read_apr.py` prints, as this plugin has it.
fn found(fixture: &Fixture) -> Json {
    let model = &fixture.model;
    let tensors = model.tensors.iter().map(|t| {
        json!({"name": t.name, "dtype": t.dtype.name(), "shape": t.shape, "sha256": sha256(&fixture.payload(&t.name))})
    });
    let parsed = |bytes: &Bytes| -> Json { serde_json::from_slice(&fixture.fetch(bytes)).unwrap() };
    let architecture = model.architecture.clone();
    let mut out = json!({
        "model_type": architecture.as_ref().map_or("tensors", |a| a.id.as_str()),
        "architecture": architecture.as_ref().map_or(json!({}), |a| parsed(&a.config)),
        "dialect": model.dialect,
        "tensors": tensors.collect::<Vec<_>>(),
        "assets": model.assets.iter().map(|a| (a.name.clone(), digest(&fixture.fetch(&a.bytes)))).collect::<serde_json::Map<_, _>>(),
        "foreign": {},
    });
    for foreign in model.foreign.iter().filter(|f| f.format != "apr") {
        out["foreign"][&foreign.format] = foreign.files.iter().map(|file| record(fixture, file)).collect();
    }
    if let Some(recipe) = &model.recipe {
        out["recipe"] = json!(recipe);
    }
    if let Some(provenance) = &model.provenance {
        out["provenance"] = parsed(provenance);
    }
    out
}

fn record(fixture: &Fixture, file: &apr_sdk::ForeignFile) -> Json {
    let typed = file.typed.iter().map(|(key, Value { kind, bytes })| match bytes {
        Bytes::Inline(held) => json!([key, kind.name(), json::value_to_json(*kind, held).unwrap()]),
        Bytes::Extent(_) => json!([key, kind.name(), digest(&fixture.fetch(bytes))]),
    });
    let mut out = json!({"name": file.name, "n_tensors": file.n_tensors, "typed": typed.collect::<Vec<_>>()});
    if let Some(verbatim) = &file.verbatim {
        out["verbatim"] = digest(&fixture.fetch(verbatim));
    }
    out
}

fn check(name: &str, fixture: &Fixture) {
    let mut golden: Json = serde_json::from_slice(&bytes(&format!("{name}.golden.json"))).unwrap();
    golden.as_object_mut().unwrap().remove("unknown");
    let found = found(fixture);
    for (key, wanted) in golden.as_object().unwrap() {
        assert_eq!(&found[key], wanted, "{name}: {key}");
    }
    assert_eq!(found.as_object().unwrap().len(), golden.as_object().unwrap().len(), "{name}");
}

#[test]
fn goldens_of_single_files() {
    for name in [
        "other_program",
        "carried",
        "every_dtype",
        "aligned_32",
        "empty",
        "compressed_lz4",
        "compressed_zstd",
        "compressed_walked",
    ] {
        check(name, &open(bytes(&format!("{name}.apr"))).unwrap());
    }
}

#[test]
fn golden_of_a_sharded_model_from_manifest_shard_or_folder() {
    let entries = ["m.apr", "m-00001-of-00003.apr", "m-00003-of-00003.apr"];
    for entry in entries {
        let (fixture, parts) = crate::setup::open_parts(&data("sharded"), entry);
        check("sharded/m", &fixture);
        let names: Vec<_> =
            fixture.model.foreign_of("apr").unwrap().files.iter().map(|f| f.n_tensors).collect();
        assert_eq!((names, parts), (vec![0, 2, 1, 1], 3), "{entry}");
        assert_eq!(fixture.model.tensors[2].name, "c");
    }
    let folder = folder_source(&data("sharded"));
    let model = open_source(folder).unwrap().model;
    assert_eq!(model.parts.len(), 3);
}

#[test]
fn keys_of_other_programs_are_kept_in_the_text() {
    let file = bytes("other_program.apr");
    let fixture = open(file.clone()).unwrap();
    let own = fixture.model.foreign_of("apr").unwrap();
    assert!(own.files[0].typed.is_empty() && own.files[0].n_tensors == 3);
    let text = fixture.fetch(own.files[0].verbatim.as_ref().unwrap());
    let at = file.windows(text.len()).position(|there| there == text);
    assert_eq!(at, Some(32));
}

#[test]
fn what_the_writer_would_make_again_leaves_nothing_behind() {
    for name in ["carried", "every_dtype", "empty"] {
        let model = open(bytes(&format!("{name}.apr"))).unwrap().model;
        assert!(model.foreign_of("apr").is_none() && model.notes.is_empty(), "{name}: {:?}", model.notes);
    }
}

#[test]
fn long_values_are_extents_and_their_tensors_hidden() {
    let fixture = open(bytes("carried.apr")).unwrap();
    assert!(fixture.names().iter().all(|name| !name.starts_with("__apr__/")));
    let value = fixture.model.foreign_of("gguf").unwrap().get("long").unwrap();
    assert!(matches!(value.bytes, Bytes::Extent(extent) if extent.len == 68_012 && extent.offset % 64 == 0));
    assert_eq!(fixture.names(), ["z.first", "nothing", "empty", "after", "scalar"]);
}

#[test]
fn odd_but_harmless_things_are_notes() {
    let file = bytes("empty.apr");
    let note = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = file.clone();
        change(&mut changed);
        open(changed).unwrap().model.notes.join("; ")
    };
    assert!(note(&|f| f.extend([1, 2, 3])).contains("3 bytes after the footer"));
    assert!(note(&|f| f[9] = 1).contains("undefined flags 0x100"));
    assert!(note(&|f| f[8] |= 0x20).contains("signed"));
    assert!(note(&|f| f[8] |= 4).contains("64 was assumed"));
    assert!(note(&|f| f[6] = 1).contains("version 2.1"));
    let index = u32::from_le_bytes(file[20..24].try_into().unwrap()) as usize;
    assert!(note(&|f| f[index + 4] = 9).contains("reserved word is 0x9"));
}

#[test]
fn metadata_may_be_longer_than_the_memory_that_opening_begins_with() {
    let mut file = bytes("empty.apr");
    let words = |f: &[u8], at: usize| u32::from_le_bytes(f[at..at + 4].try_into().unwrap()) as usize;
    let (size, data) = (words(&file, 16), words(&file, 28));
    let long = format!(",\"vocab\":\"{}\"}}", "x".repeat(80 << 20));
    file.splice(32 + size - 1..32 + size, long.into_bytes());
    let index = file[32 + size + (80 << 20) + 11..][..8].to_vec();
    assert_eq!(index, [0; 8]);
    let grown = file.len() - data - 16;
    file.truncate(file.len() - 16);
    file.resize(file.len().next_multiple_of(64), 0);
    for (at, add) in [(16, (80 << 20) + 11), (20, (80 << 20) + 11)] {
        let word = (words(&file, at) + add) as u32;
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let end = file.len();
    file[28..32].copy_from_slice(&(end as u32).to_le_bytes());
    file.extend([0; 4]);
    file.extend(b"2RPA");
    file.extend((end as u64 + 16).to_le_bytes());
    assert!(grown > 80 << 20);
    let model = open(file).unwrap().model;
    let own = model.foreign_of("apr").unwrap().files[0].verbatim.clone();
    assert!(matches!(own, Some(Bytes::Extent(extent)) if extent.offset == 32 && extent.len > 80 << 20));
}

#[test]
fn a_shard_alone_says_so() {
    let file = bytes("sharded/m-00002-of-00003.apr");
    let alone = |name: &str| open_source(apr_sdk::MemorySource::new(name, file.clone())).unwrap().model;
    let model = alone("m-00002-of-00003.apr");
    assert_eq!(model.tensors.len(), 1);
    assert!(model.notes[0].contains("`m.apr` is missing"), "{:?}", model.notes);
    assert!(alone("x.apr").notes[0].contains("does not tell which manifest"));
}
