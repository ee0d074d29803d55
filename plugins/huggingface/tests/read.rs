//! What folders say.

use crate::fixture::{CONFIG, FORMAT, folder, probe_folder, read, reader, smallest};
use apr_sdk::{ErrorKind, Options, Score, Source};

#[test]
fn a_configuration_and_weights_make_a_model() {
    let source = smallest();
    let model = read(&source).unwrap();
    assert_eq!(model.dialect, "hf");
    assert_eq!(model.model_card, Some(r#"{"folder":"tiny"}"#.into()));
    let record = &model.foreign_of(FORMAT).unwrap().files[0];
    let keys: Vec<_> = record.typed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(record.name, "config.json");
    assert_eq!(
        keys,
        [
            "architectures",
            "hidden_size",
            "model_type",
            "rms_norm_eps",
            "rope_scaling.factor",
            "rope_scaling.rope_type"
        ]
    );
    assert_eq!(record.get("hidden_size").unwrap().as_i64(), Some(16));
    assert_eq!(record.get("rms_norm_eps").unwrap().as_f64(), Some(1e-5));
    assert_eq!(model.parts.len(), 1);
    assert_eq!(model.parts[0].format, "safetensors");
    assert_eq!(source.name(model.parts[0].file), "model.safetensors");
}

#[test]
fn a_weights_file_chooses_itself_or_its_shard_set() {
    let names = [
        "model.safetensors",
        "other.safetensors",
        "pytorch_model.bin.index.json",
        "pytorch_model-00002-of-00002.bin",
    ];
    let source =
        names.iter().fold(folder(&[("config.json", CONFIG.as_bytes())]), |all, name| all.with(*name, ""));
    for (only, part) in [
        ("other.safetensors", "other.safetensors"),
        ("pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"),
    ] {
        let options = Options::new().with(Options::ONLY, only);
        let model = apr_testkit::read(&*reader(), FORMAT, &source, &options).unwrap();
        assert_eq!(source.name(model.parts[0].file), part);
    }
    assert_eq!(source.name(read(&source).unwrap().parts[0].file), "model.safetensors");
    let options = Options::new().with(Options::ONLY, "notes.txt");
    assert!(apr_testkit::read(&*reader(), FORMAT, &source, &options).is_err());
}

#[test]
fn other_files_are_companions_and_what_is_left_out_is_named() {
    let modules = br#"[{"idx": 0, "path": ""}, {"idx": 2, "path": "2_Dense", "type": "x"}]"#;
    let source = folder(&[
        ("config.json", CONFIG.as_bytes()),
        ("model.safetensors", b"weights"),
        ("modules.json", modules),
        ("1_Pooling/config.json", b"{}"),
        ("2_Dense/model.safetensors", b"dense"),
        ("README.md", b"# tiny"),
        (".gitattributes", b"x"),
        ("tf_model.h5", b"x"),
        ("onnx/model.onnx", b"x"),
        ("assets/deep/picture.png", b"x"),
    ]);
    let model = read(&source).unwrap();
    let names: Vec<_> = model.assets.iter().map(|asset| asset.name.as_str()).collect();
    let kept = ["1_Pooling/config.json", "2_Dense/model.safetensors", "README.md", "assets/deep/picture.png"];
    assert_eq!(names, kept);
    let records = &model.foreign_of(FORMAT).unwrap().files;
    assert!(records.iter().any(|file| file.name == "modules.json" && file.verbatim.is_some()));
    assert_eq!(model.notes, ["files in the folder left out: `.gitattributes`, `onnx/`, `tf_model.h5`"]);
}

#[test]
fn the_pooling_module_says_how_one_vector_is_made() {
    let modules = br#"[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]"#;
    let with = |pooling: &[u8]| {
        folder(&[
            ("config.json", CONFIG.as_bytes()),
            ("model.safetensors", b""),
            ("modules.json", modules),
            ("1_Pooling/config.json", pooling),
        ])
    };
    let mode = |pooling: &[u8]| {
        let model = read(&with(pooling)).unwrap();
        assert!(model.assets.iter().any(|asset| asset.name == "1_Pooling/config.json"));
        let mode = model.foreign_of(FORMAT).unwrap().get("pooling_mode");
        mode.and_then(|value| value.as_str()).map(str::to_owned)
    };
    let switches = br#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
    assert_eq!(mode(switches).as_deref(), Some("cls"));
    assert_eq!(mode(br#"{"pooling_mode": "lasttoken"}"#).as_deref(), Some("lasttoken"));
    let unsaid = Some("1_Pooling/config.json does not say it");
    assert_eq!(mode(b"[]").as_deref(), unsaid);
    let without =
        folder(&[("config.json", CONFIG.as_bytes()), ("model.safetensors", b""), ("modules.json", modules)]);
    let model = read(&without).unwrap();
    let found = model.foreign_of(FORMAT).unwrap().get("pooling_mode").and_then(|value| value.as_str());
    assert_eq!(found, unsaid);
    // What Python takes for true is set; what the library would not load is none of its ways.
    for (pooling, want) in [
        (&br#"{"pooling_mode_cls_token": 1, "pooling_mode_mean_tokens": 0}"#[..], "cls"),
        (br#"{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false}"#, "mean"),
        (br#"{"pooling_mode": null, "pooling_mode_cls_token": true}"#, "cls"),
        (br#"{"pooling_mode": []}"#, "[]"),
        (br#"{"pooling_mode": ["mean", 1]}"#, r#"["mean",1]"#),
        (br#"{"pooling_mode": true}"#, "true"),
    ] {
        assert_eq!(mode(pooling).as_deref(), Some(want));
    }
    for damaged in [&b"no json"[..], b"", b"\xef\xbb\xbf{}"] {
        let error = read(&with(damaged)).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Malformed, Some("1_Pooling/config.json")));
    }
}

#[test]
fn records_have_their_order_and_tokenizers_are_not_read() {
    let source = folder(&[
        ("tokenizer.json", b"{}"),
        ("special_tokens_map.json", br#"{"bos_token": "<s>"}"#),
        ("model.safetensors", b""),
        ("config.json", CONFIG.as_bytes()),
        ("generation_config.json", br#"{"bos_token_id": 1, "hidden_size": 17}"#),
    ]);
    let metered = apr_testkit::MeteringSource::new(&source);
    let model = read(&metered).unwrap();
    let foreign = model.foreign_of(FORMAT).unwrap();
    let names: Vec<_> = foreign.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json"]);
    assert_eq!(foreign.get("hidden_size").unwrap().as_i64(), Some(16));
    let objects =
        CONFIG.len() + br#"{"bos_token": "<s>"}"#.len() + br#"{"bos_token_id": 1, "hidden_size": 17}"#.len();
    assert_eq!(metered.bytes_read(), objects as u64);
}

#[test]
fn probing_wants_a_configuration_that_says_a_model_and_weights() {
    assert_eq!(probe_folder(&["config.json", "model.safetensors"], CONFIG), Score::MAGIC);
    assert_eq!(probe_folder(&["config.json", "model.safetensors"], "{\"_class_name\": 1}"), Score::NO);
    assert_eq!(probe_folder(&["config.json", "model.gguf"], CONFIG), Score::NO);
    assert_eq!(probe_folder(&["config.json", "training_args.bin"], CONFIG), Score::NO);
    assert_eq!(probe_folder(&["model.safetensors"], ""), Score::NO);
    // What cannot be read is opened, which says why.
    for damaged in ["", "[]", "{\"a\": 1,}", "\u{feff}{\"model_type\": \"llama\"}"] {
        assert_eq!(probe_folder(&["config.json", "model.safetensors"], damaged), Score::MAGIC, "{damaged}");
        assert_eq!(probe_folder(&["config.json", "model.gguf"], damaged), Score::NO, "{damaged}");
    }
}

#[test]
fn a_file_beside_the_configuration_that_is_not_understood_is_carried_as_it_is() {
    let source = folder(&[
        ("config.json", CONFIG.as_bytes()),
        ("generation_config.json", b"{\"a\": 1, \"a\": 2}"),
        ("special_tokens_map.json", b"[]"),
        ("tokenizer_config.json", b"{}"),
        ("model.safetensors", b"weights"),
        ("README.md", b"---\ntags: [\n---\n"),
    ]);
    let model = read(&source).unwrap();
    let names: Vec<_> = model.assets.iter().map(|asset| asset.name.as_str()).collect();
    assert_eq!(names, ["README.md", "generation_config.json", "special_tokens_map.json"]);
    let records: Vec<_> = model.foreign_of(FORMAT).unwrap().files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(records, ["config.json", "tokenizer_config.json"]);
    assert_eq!(
        model.notes,
        [
            "`generation_config.json` is kept as is, since it cannot be parsed: invalid JSON: duplicate key \
             `a`",
            "`special_tokens_map.json` is kept as is, since it cannot be parsed: it is JSON, but not an \
             object",
            "the front matter of `README.md` cannot be parsed and is ignored",
        ]
    );
}
