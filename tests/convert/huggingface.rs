//! Model folders: what is claimed, what comes back to the byte, parts written by other formats' writers, hostile folders.

use apr_engine::open::{OpenOptions, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{ErrorKind, ForeignPolicy};
use apr_tests::{Scratch, fixtures, host, must, options};
use serde_json::Value as Json;
use std::os::unix::fs::symlink;
use std::path::Path;

const CONFIG: &str = r#"{
  "architectures": [
    "LlamaForCausalLM"
  ],
  "hidden_size": 16,
  "model_type": "llama",
  "pad_token_id": null,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "factor": 8.0
  },
  "time_step_limit": [0.0, Infinity]
}
"#;

/// A folder as people have them, with the sharded weights that the `safetensors` package wrote.
fn folder(at: &Path) {
    std::fs::create_dir_all(at.join("1_Pooling")).unwrap();
    for (name, text) in [
        ("config.json", CONFIG),
        ("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656, \"x\": \"é\"}"),
        ("merges.txt", "#version: 0.2\nh e\n"),
        ("README.md", "---\nlicense: mit\n---\n# tiny\n"),
        ("1_Pooling/config.json", "{}"),
    ] {
        std::fs::write(at.join(name), text).unwrap();
    }
    std::fs::write(at.join("tokenizer.json"), "{\"model\": {}}".to_owned() + &" ".repeat(100_000)).unwrap();
    let shards = fixtures("safetensors").join("sharded");
    for name in apr_tests::names_in(&shards).iter().filter(|name| !name.contains("golden")) {
        std::fs::copy(shards.join(name), at.join(name)).unwrap();
    }
}

/// Every file below a folder: its path there, and its bytes.
fn contents(at: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in apr_tests::names_in(at) {
        let path = at.join(&name);
        if path.is_dir() {
            found
                .extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.push((name, std::fs::read(path).unwrap()));
        }
    }
    found
}

fn to(format: &str, input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions { to: Some(format.to_owned()), ..options(input, output) }
}

#[test]
fn huggingface_folders_come_back_to_the_byte_alone_and_through_apr() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    must(&host, &to("hf", &source, &scratch.at("again")));
    assert_eq!(contents(&scratch.at("again")), contents(&source));
    must(&host, &to("apr", &source, &scratch.at("m.apr")));
    must(&host, &to("huggingface", &scratch.at("m.apr"), &scratch.at("back")));
    assert_eq!(contents(&scratch.at("back")), contents(&source));
}

#[test]
fn ordinary_tokens_with_a_purpose_stay_ordinary_and_an_empty_template_is_none() {
    let (host, scratch) = (host(), Scratch::new());
    let (source, back) = (scratch.at("source"), scratch.at("back"));
    std::fs::create_dir(&source).unwrap();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/weights");
    for name in apr_tests::names_in(&weights) {
        std::fs::copy(weights.join(&name), source.join(&name)).unwrap();
    }
    let read = |at: &Path| -> Json {
        let bytes = std::fs::read(at).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
        serde_json::from_slice(&bytes).unwrap()
    };
    let mut config = read(&source.join("config.json"));
    let purposes = ["pad", "unk", "sep"];
    for (id, name) in purposes.iter().enumerate() {
        config[format!("{name}_token_id")] = id.into();
    }
    let said = source.join("tokenizer_config.json");
    let mut tokenizer = read(&said);
    tokenizer["chat_template"] = "".into();
    std::fs::write(&said, tokenizer.to_string()).unwrap();
    std::fs::write(source.join("config.json"), config.to_string()).unwrap();
    let translated =
        |format, input: &Path, output: &Path| ConvertOptions { arch: None, ..to(format, input, output) };
    must(&host, &translated("gguf", &source, &scratch.at("m.gguf")));
    must(&host, &translated("huggingface", &scratch.at("m.gguf"), &back));
    let (config, tokenizer) = (read(&back.join("config.json")), read(&back.join("tokenizer_config.json")));
    for (id, name) in purposes.iter().enumerate() {
        assert_eq!(config[format!("{name}_token_id")], id);
        assert_eq!(tokenizer.get(format!("{name}_token")), None);
    }
    assert_eq!(tokenizer["chat_template"], "");
}

#[test]
fn a_weights_file_of_a_folder_is_that_folders_model_unless_it_is_to_stand_alone() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    let shard = source.join("model-00002-of-00003.safetensors");
    let opened = open(&host, &shard, &OpenOptions::default()).unwrap();
    assert_eq!((opened.format.as_str(), opened.model.tensors.len()), ("huggingface", 11));
    let note = "`model-00002-of-00003.safetensors` is opened as the Hugging Face folder that contains it; \
                pass --bare to open the file alone";
    assert_eq!(opened.model.notes, [note]);
    let whole = open(&host, &source, &OpenOptions::default()).unwrap();
    assert_eq!((whole.model.tensors.len(), whole.files()), (11, opened.files()));
    let by_config = open(&host, &source.join("config.json"), &OpenOptions::default()).unwrap();
    assert_eq!((by_config.format.as_str(), by_config.model.notes.len()), ("huggingface", 0));
    for alone in [
        OpenOptions { bare: true, ..OpenOptions::default() },
        OpenOptions { from: Some("safetensors".to_owned()), ..OpenOptions::default() },
    ] {
        let opened = open(&host, &shard, &alone).unwrap();
        assert_eq!((opened.format.as_str(), opened.model.tensors.len()), ("safetensors", 4));
    }
    // A configuration of something else claims nothing.
    std::fs::write(source.join("config.json"), "{\"_class_name\": \"UNet\"}").unwrap();
    assert_eq!(open(&host, &shard, &OpenOptions::default()).unwrap().format, "safetensors");
    assert_eq!(open(&host, &source, &OpenOptions::default()).unwrap().format, "safetensors");
}

#[test]
fn a_shard_that_the_index_does_not_list_is_left_out_by_name_and_can_be_opened_by_it() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    let (index, listed) = ("model.safetensors.index.json", "model-00003-of-00003.safetensors");
    let stray = "model-00003-of-00004.safetensors";
    std::fs::copy(source.join(listed), source.join(stray)).unwrap();
    // One that is listed may lie in a folder.
    std::fs::create_dir(source.join("shards")).unwrap();
    std::fs::rename(source.join(listed), source.join("shards").join(listed)).unwrap();
    let text = std::fs::read_to_string(source.join(index)).unwrap();
    std::fs::write(source.join(index), text.replace(listed, &format!("shards/{listed}"))).unwrap();
    let note = format!("files in the folder left out: `{stray}`");
    let whole = open(&host, &source, &OpenOptions::default()).unwrap();
    assert_eq!((whole.model.tensors.len(), &whole.model.notes[..]), (11, &[note][..]));
    let opened = open(&host, &source.join(stray), &OpenOptions::default()).unwrap();
    assert_eq!((opened.format.as_str(), opened.model.tensors.len()), ("huggingface", 3));
}

#[test]
fn weights_are_written_by_the_format_that_is_asked_for_under_the_names_that_loaders_want() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    // Holes, checksums and a central directory of the part's own.
    let pytorch = ConvertOptions {
        options: vec![(Some("huggingface".to_owned()), "weights".to_owned(), "pytorch".to_owned())],
        ..to("hf", &source, &scratch.at("pytorch"))
    };
    let done = must(&host, &pytorch);
    assert!(done.verified.iter().any(|line| line.contains("stored checksum")), "{:?}", done.verified);
    assert!(scratch.at("pytorch/pytorch_model.bin").is_file());
    let sharded =
        ConvertOptions { max_shard_size: Some(300), ..to("hf", &scratch.at("pytorch"), &scratch.at("cut")) };
    must(&host, &sharded);
    let names = apr_tests::names_in(&scratch.at("cut"));
    let weights: Vec<_> =
        names.iter().filter(|name| name.contains("safetensors")).map(String::as_str).collect();
    assert_eq!(weights[..2], ["model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"]);
    assert_eq!(weights[3], "model.safetensors.index.json");
    let opened = open(&host, &scratch.at("cut"), &OpenOptions::default()).unwrap();
    assert_eq!(opened.model.tensors.len(), 11);
    let shards = &opened.model.foreign_of("safetensors").unwrap().files[1..];
    assert!(shards.iter().all(|file| file.get("format").and_then(|value| value.as_str()) == Some("pt")));
    // The source's own shard names do not reach a folder, where loaders would not find them.
    let plain = scratch.at("plain");
    must(
        &host,
        &ConvertOptions {
            max_shard_size: Some(300),
            ..options(&source.join("model.safetensors.index.json"), &plain.join("odd.safetensors"))
        },
    );
    must(&host, &to("hf", &plain.join("odd.safetensors.index.json"), &scratch.at("named")));
    assert!(
        scratch.at("named/model.safetensors").is_file(),
        "{:?}",
        apr_tests::names_in(&scratch.at("named"))
    );
}

#[test]
fn what_a_part_cannot_hold_is_refused_with_its_tensor_and_format() {
    let (host, scratch) = (host(), Scratch::new());
    let mut refused = 0;
    for (n, file) in apr_tests::fixtures_with("gguf", "gguf").iter().enumerate() {
        let out = scratch.at(&format!("out{n}"));
        let Err(error) = convert(&host, &to("hf", file, &out)) else { continue };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        if error.message().starts_with("SafeTensors cannot hold") {
            assert!(error.tensor_name().is_some() && !out.exists());
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[test]
fn other_formats_metadata_is_kept_on_demand() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    must(&host, &to("gguf", &source.join("model.safetensors.index.json"), &scratch.at("m.gguf")));
    let keep = ConvertOptions {
        foreign: ForeignPolicy::Keep,
        ..to("hf", &scratch.at("m.gguf"), &scratch.at("kept"))
    };
    must(&host, &keep);
    let opened = open(&host, &scratch.at("kept/config.json"), &OpenOptions::default()).unwrap();
    assert_eq!(opened.model.dialect, "gguf");
    assert!(opened.model.foreign_of("gguf").is_some());
}

#[test]
fn edits_change_what_they_name_and_nothing_else() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("source");
    folder(&source);
    let edited = ConvertOptions {
        set: vec![("rope_scaling.factor".to_owned(), "9.0".to_owned())],
        ..to("hf", &source, &scratch.at("out"))
    };
    must(&host, &edited);
    let config = std::fs::read_to_string(scratch.at("out/config.json")).unwrap();
    let expected = CONFIG.replace("8.0", "9.0").replace("[0.0, Infinity]", "[\n    0.0,\n    Infinity\n  ]");
    assert_eq!(config, expected);
}

#[test]
fn links_of_a_download_cache_lead_to_its_blobs_and_nowhere_else() {
    let (host, scratch) = (host(), Scratch::new());
    let cache = scratch.at("models--a--b");
    let (blobs, snapshot) = (cache.join("blobs"), cache.join("snapshots/abc"));
    folder(&blobs);
    std::fs::create_dir_all(&snapshot).unwrap();
    for name in apr_tests::names_in(&blobs).iter().filter(|name| !name.starts_with("1_")) {
        symlink(Path::new("../../blobs").join(name), snapshot.join(name)).unwrap();
    }
    let opened = open(&host, &snapshot, &OpenOptions::default()).unwrap();
    assert_eq!((opened.format.as_str(), opened.model.tensors.len()), ("huggingface", 11));
    let shard =
        open(&host, &snapshot.join("model-00001-of-00003.safetensors"), &OpenOptions::default()).unwrap();
    assert_eq!(shard.format, "huggingface");
    // Elsewhere in the cache, or outside of it.
    std::fs::write(cache.join("secret"), "{}").unwrap();
    std::fs::remove_file(snapshot.join("tokenizer.json")).unwrap();
    symlink("../../secret", snapshot.join("tokenizer.json")).unwrap();
    let error = open(&host, &snapshot, &OpenOptions::default()).err().unwrap();
    assert!(error.message().contains("is a link that points outside the model's folder"), "{error}");
    // A `blobs` that is a link itself opens no other folder.
    std::fs::remove_file(snapshot.join("tokenizer.json")).unwrap();
    std::fs::rename(&blobs, scratch.at("elsewhere")).unwrap();
    symlink(scratch.at("elsewhere"), &blobs).unwrap();
    assert!(open(&host, &snapshot, &OpenOptions::default()).is_err());
}

#[test]
fn hostile_folders_are_refused_or_opened_without_what_is_odd() {
    let (host, scratch) = (host(), Scratch::new());
    let fresh = |name: &str| {
        let at = scratch.at(name);
        folder(&at);
        at
    };
    let kind = |at: &Path| open(&host, at, &OpenOptions::default()).err().map(|error| error.kind());
    let shard_missing = fresh("missing");
    std::fs::remove_file(shard_missing.join("model-00002-of-00003.safetensors")).unwrap();
    assert_eq!(kind(&shard_missing), Some(ErrorKind::NotFound));
    let leaving = fresh("leaving");
    let index = leaving.join("model.safetensors.index.json");
    let text =
        std::fs::read_to_string(&index).unwrap().replace("model-00002-of", "../missing/model-00002-of");
    std::fs::write(&index, text).unwrap();
    assert_eq!(kind(&leaving), Some(ErrorKind::Malformed));
    let huge = fresh("huge");
    let config = std::fs::OpenOptions::new().append(true).open(huge.join("config.json")).unwrap();
    config.set_len(1 << 30).unwrap();
    assert_eq!(kind(&huge), Some(ErrorKind::LimitExceeded));
    let many = fresh("many");
    std::fs::create_dir(many.join("pictures")).unwrap();
    for n in 0..1100 {
        std::fs::write(many.join(format!("pictures/{n}.png")), "").unwrap();
    }
    assert_eq!(kind(&many), Some(ErrorKind::Unsupported));
    // Nothing that a model needs: left out, and said.
    let odd = fresh("odd");
    std::fs::remove_file(odd.join("README.md")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, odd.join("README.md"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    symlink("/etc/hostname", odd.join("notes.txt")).unwrap();
    let opened = open(&host, &odd, &OpenOptions::default()).unwrap();
    let reasons = [
        "left out: `README.md`: this is neither a file nor a folder",
        "left out: `notes.txt`: `notes.txt` is a link that points outside the model's folder",
    ];
    assert_eq!(opened.model.notes, reasons);
}

const ADAPTER: &str = "{\n  \"base_model_name_or_path\": \"acme/tiny\",\n  \"lora_alpha\": 8,\n  \"peft_type\": \"LORA\",\n  \"r\": 4,\n  \"target_modules\": [\n    \"q_proj\"\n  ]\n}";

#[test]
fn an_adapter_s_folder_comes_back_whole() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, held, back) = (scratch.at("adapter"), scratch.at("a.apr"), scratch.at("back"));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("adapter_config.json", ADAPTER),
        ("README.md", "---\nbase_model: acme/tiny\n---\n# LoRA\n"),
        ("tokenizer_config.json", "{\"a\": 1}"),
        ("notes/how.txt", "slowly"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let weights = fixtures("safetensors").join("sharded/model-00001-of-00003.safetensors");
    std::fs::copy(weights, folder.join("adapter_model.safetensors")).unwrap();
    for input in [folder.clone(), folder.join("adapter_model.safetensors")] {
        for path in [&held, &back] {
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_dir_all(path);
        }
        let model = open(&host, &input, &OpenOptions::default()).unwrap();
        assert_eq!(model.format, "huggingface", "{}", input.display());
        must(&host, &to("apr", &input, &held));
        must(&host, &to("huggingface", &held, &back));
        assert_eq!(contents(&folder), contents(&back), "{}", input.display());
    }
    // No model of its own, and said so.
    let translated = ConvertOptions { arch: None, ..to("gguf", &folder, &scratch.at("a.gguf")) };
    assert_eq!(convert(&host, &translated).unwrap_err().kind(), ErrorKind::Unsupported);
}
