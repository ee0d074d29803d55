//! `--set` and `--unset`: any type, kept where it was, and refused where it makes no sense.

use apr_engine::open::{OpenOptions, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{ErrorKind, Value, ValueType};
use apr_tests::{Scratch, fixtures, host, must, options};
use std::path::Path;

fn typed(path: &Path) -> Vec<(String, Value)> {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    opened.model.foreign.iter().flat_map(|f| &f.files).flat_map(|f| f.typed.clone()).collect()
}

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn keys_keep_their_type_and_place_and_new_ones_come_last() {
    let (host, scratch) = (host(), Scratch::new());
    let (input, output) = (fixtures("gguf").join("small.gguf"), scratch.at("o.gguf"));
    let mut o = options(&input, &output);
    std::fs::write(scratch.at("text"), "two\nlines").unwrap();
    let file = format!("@{}", scratch.at("text").display());
    o.set =
        set(&[("test.u16", "7"), ("test.array.u32", "[1,2,3]"), ("new.key:f32", "0.5"), ("test.str", &file)]);
    o.unset = vec!["test.i8".to_owned()];
    must(&host, &o);
    let (before, after) = (typed(&input), typed(&output));
    assert_eq!(after.len(), before.len());
    let keys = |values: &[(String, Value)]| values.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
    let mut want = keys(&before);
    want.retain(|k| k != "test.i8");
    want.push("new.key".to_owned());
    assert_eq!(keys(&after), want);
    let get = |key: &str| after.iter().find(|(k, _)| k == key).unwrap().1.clone();
    assert_eq!(get("test.u16"), Value::from_u16(7));
    assert_eq!(get("test.array.u32").array_head(), Some((ValueType::U32, 3)));
    assert_eq!(get("new.key"), Value::from_f32(0.5));
    assert_eq!(get("test.str"), Value::from_string("two\nlines"));
}

#[test]
fn values_that_do_not_fit_and_unknown_keys_are_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let base = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf"));
    for (key, value) in
        [("test.u8", "256"), ("test.bool", "maybe"), ("test.array.u16", "[1,-1]"), ("x:u32", "a"), ("", "1")]
    {
        let mut o = base.clone();
        o.set = set(&[(key, value)]);
        assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::InvalidArgument, "{key}={value}");
    }
    let mut o = base;
    o.unset = vec!["general.architectures".to_owned()];
    let error = convert(&host, &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(scratch.names().is_empty());
}

#[test]
fn a_target_without_keys_of_its_own_takes_those_of_the_source() {
    let (host, scratch) = (host(), Scratch::new());
    let (one, two, back) = (scratch.at("1.apr"), scratch.at("2.apr"), scratch.at("back.gguf"));
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &one));
    let mut o = options(&one, &two);
    o.set = set(&[("test.u32", "5")]);
    must(&host, &o);
    must(&host, &options(&two, &back));
    assert_eq!(typed(&back).iter().find(|(k, _)| k == "test.u32").unwrap().1, Value::from_u32(5));
}

#[test]
fn a_key_that_only_the_source_has_is_changed_there() {
    let (host, scratch) = (host(), Scratch::new());
    let mut o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.safetensors"));
    o.unset = vec!["test.i8".to_owned()];
    o.foreign = apr_sdk::ForeignPolicy::Keep;
    let done = must(&host, &o);
    assert!(done.notes.iter().any(|note| note == "removed `test.i8` (gguf)"), "{:?}", done.notes);
    let kept = typed(&scratch.at("o.safetensors"));
    assert!(kept.iter().any(|(key, _)| key == "test.u8") && kept.iter().all(|(key, _)| key != "test.i8"));
}

#[test]
fn a_new_key_needs_its_type() {
    let (host, scratch) = (host(), Scratch::new());
    let mut o =
        options(&fixtures("safetensors").join("metadata_one.safetensors"), &scratch.at("o.safetensors"));
    o.set = set(&[("author", "me")]);
    let error = convert(&host, &o).unwrap_err();
    assert!(error.hint_text().unwrap().contains("--set 'author:TYPE=VALUE'"), "{error}");
    o.set = set(&[("author:str", "me")]);
    must(&host, &o);
    assert!(typed(&scratch.at("o.safetensors")).contains(&("author".to_owned(), Value::from_string("me"))));
}

/// The tiny Llama of the golden files, as a folder.
fn llama(scratch: &Scratch) -> std::path::PathBuf {
    let folder = scratch.at("llama");
    apr_testkit::Checkpoint::golden(&apr_tests::root().join("tests/golden/llama"))
        .unwrap()
        .write_to(&folder)
        .unwrap();
    folder
}

/// A conversion that translates what a table knows.
fn whole(input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions { arch: None, ..options(input, output) }
}

/// Where a case begins and ends.
enum Way {
    FolderToGguf,
    GgufToFolder,
    GgufToGguf,
    FolderToApr,
    FileToGguf,
}

/// What is set, the key that says it in the output, its value there, and the note.
type Case = (Way, &'static str, &'static str, &'static str, Value, &'static str);

fn cases() -> Vec<Case> {
    use Way::{FileToGguf, FolderToApr, FolderToGguf, GgufToFolder, GgufToGguf};
    let text = Value::from_string;
    let template = "{{ messages }}";
    vec![
        // Keys that the target's writer makes.
        (FolderToGguf, "general.name", "Ada", "general.name", text("Ada"), "(gguf, str)"),
        (FolderToGguf, "gguf.general.name", "Ada", "general.name", text("Ada"), "(gguf, str)"),
        (
            FolderToGguf,
            "tokenizer.ggml.bos_token_id",
            "5",
            "tokenizer.ggml.bos_token_id",
            Value::from_u32(5),
            "(gguf, u32)",
        ),
        (
            FolderToGguf,
            "tokenizer.ggml.add_bos_token",
            "false",
            "tokenizer.ggml.add_bos_token",
            Value::from_bool(false),
            "(gguf, bool)",
        ),
        (
            FolderToGguf,
            "llama.rope.freq_base",
            "7000",
            "llama.rope.freq_base",
            Value::from_f32(7000.0),
            "(gguf, f32)",
        ),
        // Keys that it might make, and new ones.
        (
            FolderToGguf,
            "tokenizer.chat_template",
            "@TEMPLATE",
            "tokenizer.chat_template",
            text(template),
            "(gguf, str)",
        ),
        (FolderToGguf, "general.author", "Ada", "general.author", text("Ada"), "(gguf, str)"),
        (
            FolderToGguf,
            "my.list:[u16]",
            "[1,2]",
            "my.list",
            Value::from_items(ValueType::U16, 2, &[1, 0, 2, 0]),
            "(gguf, [u16])",
        ),
        // Keys of the source.
        (
            FolderToGguf,
            "rope_parameters.rope_theta",
            "250000",
            "llama.rope.freq_base",
            Value::from_f32(250_000.0),
            "(huggingface, ",
        ),
        (
            FolderToGguf,
            "huggingface.rms_norm_eps",
            "0.5",
            "llama.attention.layer_norm_rms_epsilon",
            Value::from_f32(0.5),
            "(huggingface, f64)",
        ),
        (FolderToGguf, "bos_token_id", "7", "general.architecture", text("llama"), "(huggingface, i64)"),
        (GgufToFolder, "llama.rope.freq_base", "9000", "rope_theta", Value::from_f64(9000.0), "(gguf, f32)"),
        (GgufToFolder, "tokenizer.ggml.bos_token_id", "5", "bos_token_id", Value::from_i64(5), "(gguf, u32)"),
        (
            GgufToFolder,
            "max_position_embeddings",
            "64",
            "max_position_embeddings",
            Value::from_i64(64),
            "(huggingface, i64)",
        ),
        (GgufToFolder, "bos_token_id", "7", "bos_token_id", Value::from_i64(7), "(huggingface, i64)"),
        (GgufToGguf, "general.name", "Ada", "general.name", text("Ada"), "(gguf, str)"),
        (GgufToGguf, "my.flag:bool", "true", "my.flag", Value::from_bool(true), "(gguf, bool)"),
        (FolderToApr, "rms_norm_eps", "0.5", "rms_norm_eps", Value::from_f64(0.5), "(huggingface, f64)"),
        (FileToGguf, "general.name", "Ada", "general.name", text("Ada"), "(gguf, str)"),
        (FileToGguf, "my.key:i8", "-5", "my.key", Value::from_i8(-5), "(gguf, i8)"),
    ]
}

#[test]
fn keys_are_found_in_target_and_source_and_have_the_type_of_what_they_replace() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, gguf) = (llama(&scratch), scratch.at("in.gguf"));
    must(&host, &whole(&folder, &gguf));
    std::fs::write(scratch.at("template"), "{{ messages }}").unwrap();
    for (n, (way, key, value, there, want, noted)) in cases().into_iter().enumerate() {
        let (input, output) = match way {
            Way::FolderToGguf => (folder.clone(), scratch.at(&format!("{n}.gguf"))),
            Way::GgufToFolder => (gguf.clone(), scratch.at(&format!("{n}"))),
            Way::GgufToGguf => (gguf.clone(), scratch.at(&format!("{n}.gguf"))),
            Way::FolderToApr => (folder.clone(), scratch.at(&format!("{n}.apr"))),
            Way::FileToGguf => (folder.join("model.safetensors"), scratch.at(&format!("{n}.gguf"))),
        };
        let mut o = whole(&input, &output);
        if matches!(way, Way::GgufToFolder) {
            o.to = Some("huggingface".to_owned());
        }
        if matches!(way, Way::FileToGguf) {
            (o.arch, o.bare) = (Some("none".to_owned()), true);
        }
        let value = value.replace("@TEMPLATE", &format!("@{}", scratch.at("template").display()));
        o.set = set(&[(key, &value)]);
        let done = convert(&host, &o).unwrap_or_else(|error| panic!("{n} {key}: {error}"));
        assert!(
            done.notes.iter().any(|note| note.starts_with("set `") && note.contains(noted)),
            "{n} {key}: {:?}",
            done.notes
        );
        let after = typed(&output);
        let have = after.iter().find(|(k, _)| k == there).map(|(_, value)| value);
        assert_eq!(have, Some(&want), "{n} {key}");
        if key != there && key.split(':').next() != Some(there) {
            let format = if matches!(way, Way::FolderToGguf) { "gguf" } else { "huggingface" };
            assert!(after.iter().all(|(k, _)| k != key), "{n}: `{key}` in {format}");
        }
    }
}

#[test]
fn a_new_key_of_the_source_is_understood() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, gguf) = (llama(&scratch), scratch.at("in.gguf"));
    must(&host, &whole(&folder, &gguf));
    let (template, back) = (scratch.at("template"), scratch.at("back"));
    std::fs::write(&template, "{{ messages }}").unwrap();
    let mut o = whole(&gguf, &back);
    o.to = Some("huggingface".to_owned());
    o.foreign = apr_sdk::ForeignPolicy::Keep;
    let file = format!("@{}", template.display());
    o.set = set(&[("tokenizer.chat_template", &file), ("gguf.my.key:u32", "5")]);
    let done = must(&host, &o);
    for note in ["set `tokenizer.chat_template` (gguf, str)", "set `my.key` (gguf, u32)"] {
        assert!(done.notes.iter().any(|have| have == note), "{:?}", done.notes);
    }
    // Both come back: the template by the folder's tokenizer, the key with what only GGUF can say.
    let again = scratch.at("again.gguf");
    let mut o = whole(&back, &again);
    o.foreign = apr_sdk::ForeignPolicy::Keep;
    must(&host, &o);
    let after = typed(&again);
    assert!(after.contains(&("tokenizer.chat_template".to_owned(), Value::from_string("{{ messages }}"))));
    assert!(typed(&back).contains(&("my.key".to_owned(), Value::from_u32(5))));
    // A format that is not the target's, and a key that it lacks.
    for key in ["gguf.my.other", "huggingface.my.key"] {
        o.output = Some(scratch.at("p.gguf"));
        o.set = set(&[(key, "5")]);
        assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::InvalidArgument, "{key}");
    }
}

#[test]
fn a_key_of_source_and_target_needs_its_format() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = llama(&scratch);
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config = config.replacen('{', r#"{"general":{"name":"mine"},"#, 1);
    std::fs::write(folder.join("config.json"), config).unwrap();
    let mut o = whole(&folder, &scratch.at("o.gguf"));
    o.set = set(&[("general.name", "Ada")]);
    let error = convert(&host, &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.hint_text().unwrap().contains("huggingface.general.name or gguf.general.name"), "{error}");
    o.set = set(&[("huggingface.general.name", "Ada")]);
    must(&host, &o);
    assert!(!typed(&scratch.at("o.gguf")).contains(&("general.name".to_owned(), Value::from_string("Ada"))));
}

#[test]
fn keys_are_removed_from_target_and_source() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = llama(&scratch);
    let mut o = whole(&folder, &scratch.at("o.gguf"));
    o.unset = vec!["general.name".to_owned(), "rope_parameters.rope_theta".to_owned()];
    let done = must(&host, &o);
    for note in ["removed `general.name` (gguf)", "removed `rope_parameters.rope_theta` (huggingface)"] {
        assert!(done.notes.iter().any(|have| have == note), "{:?}", done.notes);
    }
    let after = typed(&scratch.at("o.gguf"));
    assert!(after.iter().all(|(key, _)| key != "general.name"));
    assert!(after.iter().any(|(key, _)| key == "tokenizer.ggml.tokens"));
    for (key, kind) in [
        ("rope_thta", ErrorKind::InvalidArgument),
        ("gguf.rope_parameters.rope_theta", ErrorKind::InvalidArgument),
    ] {
        let mut o = whole(&folder, &scratch.at("p.gguf"));
        o.unset = vec![key.to_owned()];
        assert_eq!(convert(&host, &o).unwrap_err().kind(), kind, "{key}");
        o.unset.clear();
        o.set = set(&[(key, "1")]);
        assert_eq!(convert(&host, &o).unwrap_err().kind(), kind, "{key}");
    }
    assert!(!scratch.at("p.gguf").exists());
}

/// The object of a folder's file.
fn object(folder: &Path, name: &str) -> serde_json::Value {
    let path = folder.join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

/// A value of a GGUF file.
fn of_gguf(path: &Path, key: &str) -> Option<Value> {
    typed(path).into_iter().find(|(have, _)| have == key).map(|(_, value)| value)
}

#[test]
fn new_keys_of_a_folder_lie_in_the_file_that_its_readers_look_into() {
    let (host, scratch) = (host(), Scratch::new());
    let (folder, gguf) = (llama(&scratch), scratch.at("in.gguf"));
    for name in ["generation_config.json", "chat_template.jinja"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let bare = object(&folder, "config.json");
    must(&host, &whole(&folder, &gguf));
    let template = [("chat_template:str", "{{ mine }}")];
    let untyped = [("chat_template", "{{ mine }}")];
    let temperature = [("generation_config.temperature:f64", "0.25")];
    let short = [("temperature", "0.25")];
    let of_source = [("tokenizer.chat_template:str", "{{ mine }}")];
    let cases: [(&Path, &[(&str, &str)]); 9] = [
        (&folder, &template),
        (&folder, &untyped),
        (&folder, &temperature),
        (&folder, &short),
        (&gguf, &template),
        (&gguf, &untyped),
        (&gguf, &temperature),
        (&gguf, &short),
        (&gguf, &of_source),
    ];
    for (n, (input, pairs)) in cases.into_iter().enumerate() {
        let output = scratch.at(&n.to_string());
        let mut o = whole(input, &output);
        (o.to, o.set) = (Some("huggingface".to_owned()), set(pairs));
        must(&host, &o);
        let config = object(&output, "config.json");
        for dead in ["chat_template", "temperature", "generation_config", "tokenizer"] {
            assert_eq!(config.get(dead), None, "{n} {pairs:?}");
        }
        match pairs[0].0.contains("template") {
            true => {
                assert_eq!(object(&output, "tokenizer_config.json")["chat_template"], "{{ mine }}", "{n}")
            }
            false => assert_eq!(object(&output, "generation_config.json")["temperature"], 0.25, "{n}"),
        }
        if input == folder {
            assert_eq!(config, bare);
        }
        // Whoever reads the folder finds it.
        let read = scratch.at(&format!("{n}.gguf"));
        must(&host, &whole(&output, &read));
        let (key, want) = match pairs[0].0.contains("template") {
            true => ("tokenizer.chat_template", Value::from_string("{{ mine }}")),
            false => ("general.sampling.temp", Value::from_f32(0.25)),
        };
        assert_eq!(of_gguf(&read, key), Some(want), "{n}");
    }
}

#[test]
fn a_folder_s_new_keys_count_in_other_formats_too() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = llama(&scratch);
    let _ = std::fs::remove_file(folder.join("generation_config.json"));
    for (n, (key, value)) in
        [("chat_template:str", "{{ mine }}"), ("generation_config.temperature:f64", "0.25")]
            .into_iter()
            .enumerate()
    {
        let (apr, through, direct) = (
            scratch.at(&format!("{n}.apr")),
            scratch.at(&format!("{n}-1.gguf")),
            scratch.at(&format!("{n}-2.gguf")),
        );
        for output in [&apr, &direct] {
            let mut o = whole(&folder, output);
            o.set = set(&[(key, value)]);
            must(&host, &o);
        }
        must(&host, &whole(&apr, &through));
        for path in [through, direct] {
            let (there, want) = match n {
                0 => ("tokenizer.chat_template", Value::from_string(value)),
                _ => ("general.sampling.temp", Value::from_f32(0.25)),
            };
            assert_eq!(of_gguf(&path, there), Some(want), "{}", path.display());
            assert!(typed(&path).iter().all(|(have, _)| !key.starts_with(have.as_str())));
        }
    }
}

#[test]
fn a_key_of_another_format_alone_is_refused_with_its_name_here() {
    let (host, scratch) = (host(), Scratch::new());
    let mut o = whole(&llama(&scratch), &scratch.at("out"));
    o.to = Some("huggingface".to_owned());
    for (key, hint) in [
        ("tokenizer.chat_template:str", "use `chat_template`, which is the key of Hugging Face folder"),
        ("general.author:str", "--set 'huggingface.general.author:str=VALUE'"),
    ] {
        o.set = set(&[(key, "x")]);
        let error = convert(&host, &o).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("is a key of GGUF"), "{error}");
        assert!(error.hint_text().unwrap().contains(hint), "{error}");
    }
    // In a format without keys of its own, too.
    let mut kept = whole(&o.input, &scratch.at("m.apr"));
    kept.set = set(&[("tokenizer.chat_template:str", "x")]);
    let error = convert(&host, &kept).unwrap_err();
    assert!(error.hint_text().unwrap().contains("use `chat_template`"), "{error}");
    // Both hints work.
    o.set = set(&[("huggingface.general.author:str", "Ada"), ("chat_template", "{{ mine }}")]);
    must(&host, &o);
    assert_eq!(object(&scratch.at("out"), "config.json")["general"]["author"], "Ada");
    assert_eq!(object(&scratch.at("out"), "tokenizer_config.json")["chat_template"], "{{ mine }}");
}

#[test]
fn a_template_in_a_file_of_its_own_is_changed_there() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = llama(&scratch);
    let name = "chat_template.jinja";
    std::fs::write(folder.join(name), "{{ old }}").unwrap();
    let template = |path: &Path| of_gguf(path, "tokenizer.chat_template");
    let (out, file) = (scratch.at("out"), scratch.at("out.gguf"));
    let mut o = whole(&folder, &out);
    (o.to, o.set) = (Some("huggingface".to_owned()), set(&[("chat_template", "{{ new }}")]));
    must(&host, &o);
    assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), "{{ new }}");
    must(&host, &whole(&out, &scratch.at("1.gguf")));
    assert_eq!(template(&scratch.at("1.gguf")), Some(Value::from_string("{{ new }}")));
    (o.to, o.output) = (None, Some(file.clone()));
    must(&host, &o);
    assert_eq!(template(&file), Some(Value::from_string("{{ new }}")));
    // Whatever else the folder says.
    let mut said = object(&folder, "tokenizer_config.json");
    said["chat_template"] = "{{ older }}".into();
    std::fs::write(folder.join("tokenizer_config.json"), said.to_string()).unwrap();
    o.set.clear();
    o.unset = vec!["chat_template".to_owned()];
    for (format, output) in [("gguf", "2.gguf"), ("huggingface", "2")] {
        (o.to, o.output) = (Some(format.to_owned()), Some(scratch.at(output)));
        must(&host, &o);
    }
    assert_eq!(template(&scratch.at("2.gguf")), None);
    assert!(!scratch.at("2").join(name).exists());
    assert_eq!(object(&scratch.at("2"), "tokenizer_config.json").get("chat_template"), None);
}

#[test]
fn a_key_of_a_file_is_removed_there_alone() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = llama(&scratch);
    std::fs::write(folder.join("generation_config.json"), r#"{"temperature": 0.5, "eos_token_id": 2}"#)
        .unwrap();
    let mut o = whole(&folder, &scratch.at("out"));
    o.to = Some("huggingface".to_owned());
    o.unset =
        vec!["generation_config.temperature".to_owned(), "generation_config.json.eos_token_id".to_owned()];
    must(&host, &o);
    assert_eq!(object(&scratch.at("out"), "generation_config.json"), serde_json::json!({}));
    assert_eq!(object(&scratch.at("out"), "config.json"), object(&folder, "config.json"));
}
