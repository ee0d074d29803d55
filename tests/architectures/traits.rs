//! Traits of models that converters get wrong, each with a fixture and a test: grouped queries, the two ways to rotate, tied
//! embeddings, heads that are not hidden over heads, missing biases, padded vocabularies, tokens beyond the vocabulary.

use crate::models::{opened, payload};
use apr_engine::diff::{DiffOptions, FactKind, diff};
use apr_engine::open::OpenedModel;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{Bytes, Result, Tensor, Value};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, program, root};
use std::path::Path;
use std::process::Command;

fn golden(name: &str) -> Checkpoint {
    Checkpoint::golden(&root().join("tests/golden").join(name)).unwrap()
}

fn to(host: &Host, format: &str, input: &Path, output: &Path) -> Result<OpenedModel> {
    let options = ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(format.to_owned()),
        ..ConvertOptions::default()
    };
    convert(host, &options)?;
    Ok(opened(host, output))
}

/// A model as a folder, as GGUF, and as the folder that comes back.
struct Way {
    folder: OpenedModel,
    gguf: OpenedModel,
    back: OpenedModel,
    _scratch: Scratch,
}

fn way(model: &Checkpoint) -> Way {
    let (host, scratch) = (host(), Scratch::new());
    let input = scratch.at("model");
    model.write_to(&input).unwrap();
    let gguf = to(&host, "gguf", &input, &scratch.at("out.gguf")).unwrap();
    let back = to(&host, "hf", &scratch.at("out.gguf"), &scratch.at("back")).unwrap();
    Way { folder: opened(&host, &input), gguf, back, _scratch: scratch }
}

fn find<'m>(model: &'m OpenedModel, name: &str) -> Option<&'m Tensor> {
    model.model.tensors.iter().find(|tensor| tensor.name == name)
}

fn bytes(model: &OpenedModel, name: &str) -> Vec<u8> {
    payload(model, find(model, name).unwrap_or_else(|| panic!("no {name}")))
}

fn key(model: &OpenedModel, key: &str) -> Option<Value> {
    model.model.foreign.iter().find_map(|foreign| foreign.get(key)).cloned()
}

fn number(model: &OpenedModel, name: &str) -> Option<u64> {
    key(model, name).and_then(|value| value.as_unsigned())
}

/// The strings of a key, or its integers.
fn items(model: &OpenedModel, name: &str) -> Vec<Value> {
    let value = key(model, name).unwrap_or_else(|| panic!("no {name}"));
    let bytes: Bytes = model.fetch(&value.bytes).unwrap();
    Value { kind: value.kind, bytes }.items()
}

const QUERY: [&str; 2] = ["model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"];
const KEY: [&str; 2] = ["model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight"];

#[test]
fn grouped_queries_keep_their_key_value_heads() {
    let way = way(&Checkpoint::gqa());
    assert_eq!(number(&way.gguf, "llama.attention.head_count"), Some(8));
    assert_eq!(number(&way.gguf, "llama.attention.head_count_kv"), Some(2));
    assert_eq!(find(&way.gguf, KEY[1]).unwrap().shape, [32, 128]);
    // Rows of a head of 16: in GGUF the second is the ninth of the folder; K has two heads, not eight.
    let (before, after) = (bytes(&way.folder, KEY[0]), bytes(&way.gguf, KEY[1]));
    let row = before.len() / 32;
    let at = |bytes: &[u8], n: usize| bytes[n * row..(n + 1) * row].to_vec();
    assert_eq!(at(&after, 1), at(&before, 8));
    assert_eq!(at(&after, 16), at(&before, 16));
    assert_eq!(at(&after, 17), at(&before, 24));
    assert_eq!(bytes(&way.back, KEY[0]), before);
}

#[test]
fn rows_are_permuted_where_neighbours_rotate_and_nowhere_else() {
    // Llama in GGUF rotates neighbours (norm), Qwen2 halves (neox).
    let norm = way(&golden("llama"));
    assert_ne!(bytes(&norm.folder, QUERY[0]), bytes(&norm.gguf, QUERY[1]));
    let neox = way(&golden("qwen2"));
    assert_eq!(bytes(&neox.folder, QUERY[0]), bytes(&neox.gguf, QUERY[1]));
    let host = host();
    let tables = host.tables();
    assert_eq!(
        [tables.find("llama").unwrap().rope.as_str(), tables.find("qwen2").unwrap().rope.as_str()],
        ["norm", "neox"]
    );
    // Of a type that stays the permutation can be seen, and undone.
    let tiny = way(&Checkpoint::tiny());
    assert_ne!(bytes(&tiny.folder, QUERY[0]), bytes(&tiny.gguf, QUERY[1]));
    assert_eq!(bytes(&tiny.folder, QUERY[0]), bytes(&tiny.back, QUERY[0]));
}

#[test]
fn tied_embeddings_are_one_tensor_and_stay_tied() {
    let tied = way(&golden("qwen2"));
    assert!(find(&tied.gguf, "output.weight").is_none() && find(&tied.back, "lm_head.weight").is_none());
    assert_eq!(key(&tied.back, "tie_word_embeddings").and_then(|value| value.as_bool()), Some(true));
    let own = way(&golden("mistral"));
    assert!(find(&own.gguf, "output.weight").is_some() && find(&own.back, "lm_head.weight").is_some());
    assert_ne!(key(&own.back, "tie_word_embeddings").and_then(|value| value.as_bool()), Some(true));
}

#[test]
fn heads_need_not_be_hidden_over_heads() {
    // 64 over 4 is 16, and a head is 32.
    let way = way(&golden("llama3"));
    for key in ["llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"] {
        assert_eq!(number(&way.gguf, key), Some(32), "{key}");
    }
    assert_eq!(find(&way.gguf, QUERY[1]).unwrap().shape, [128, 64]);
    assert_eq!(bytes(&way.back, QUERY[0]), bytes(&way.folder, QUERY[0]));
    let head = key(&way.back, "head_dim").unwrap();
    assert_eq!(i64::from_le_bytes(head.bytes.inline().unwrap().try_into().unwrap()), 32);
}

#[test]
fn biases_are_there_where_the_model_has_them() {
    let without = way(&golden("llama3"));
    assert!(without.gguf.model.tensors.iter().all(|tensor| !tensor.name.ends_with(".bias")));
    let with = way(&golden("qwen2"));
    let biases =
        |model: &OpenedModel| model.model.tensors.iter().filter(|t| t.name.ends_with(".bias")).count();
    assert!(biases(&with.folder) > 0);
    assert_eq!((biases(&with.gguf), biases(&with.back)), (biases(&with.folder), biases(&with.folder)));
    // One that the architecture has, and the model lacks, is named.
    let mut model = golden("qwen2");
    let lost = "model.layers.1.self_attn.k_proj.bias";
    model.shards.iter_mut().for_each(|(_, tensors)| tensors.retain(|tensor| tensor.name != lost));
    let (host, scratch) = (host(), Scratch::new());
    model.write_to(&scratch.at("model")).unwrap();
    let error = to(&host, "gguf", &scratch.at("model"), &scratch.at("out.gguf")).err().unwrap();
    assert_eq!(error.tensor_name(), Some(lost), "{error}");
}

#[test]
fn a_tensor_that_some_layers_lack_is_missing_and_so_is_a_norm_that_is_claimed() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (name, lost, said) in [
        ("starcoder2", &["model.layers.1.mlp.c_fc.bias"][..], "this tensor is missing"),
        // In all layers, but not those of queries and values.
        ("qwen2", &["k_proj.bias"], "this tensor is missing"),
        ("starcoder2", &["q_proj.bias"], "this tensor is missing"),
        ("glm4-moe", &["q_norm.weight", "k_norm.weight"], "but the model has no"),
    ] {
        let mut model = golden(name);
        let is_lost = |tensor: &str| lost.iter().any(|end| tensor.ends_with(end));
        let before = model.tensors().count();
        model.shards.iter_mut().for_each(|(_, tensors)| tensors.retain(|tensor| !is_lost(&tensor.name)));
        assert!(model.tensors().count() < before, "{name} has no {lost:?}");
        if said.contains("no") {
            let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
            let mut config: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            config["use_qk_norm"] = true.into();
            *bytes = config.to_string().into_bytes();
        }
        let folder = scratch.at(name);
        model.write_to(&folder).unwrap();
        let error = to(&host, "gguf", &folder, &scratch.at("out.gguf")).err().unwrap();
        assert!(error.message().contains(said), "{name}: {error}");
    }
}

#[test]
fn a_key_that_a_file_lacks_is_a_difference_unless_it_is_taken_for_the_same() {
    let host = host();
    for (name, lost, is_same) in [
        ("qwen2", "qwen2.rope.freq_base", false),
        ("llama", "llama.rope.freq_base", true),
        ("llama", "llama.vocab_size", true),
        ("gemma2", "gemma2.attention.sliding_window", false),
        ("gemma2", "gemma2.final_logit_softcapping", false),
        ("granite", "granite.embedding_scale", false),
        ("granite", "granite.logit_scale", false),
        ("qwen3-moe", "qwen3moe.expert_used_count", false),
        ("cohere2", "cohere2.attention.sliding_window", false),
    ] {
        let mut way = way(&golden(name));
        let whole = diff(&host, &way.folder, &way.gguf, &DiffOptions::default()).unwrap();
        let stated = whole.facts.iter().find(|fact| fact.kind == FactKind::Config && fact.matters);
        assert!(stated.is_none(), "{name}: {stated:?}");
        let mut files = way.gguf.model.foreign.iter_mut().flat_map(|foreign| &mut foreign.files);
        let file = files.find(|file| file.typed.iter().any(|(key, _)| key == lost));
        file.unwrap_or_else(|| panic!("{name} has no {lost}")).typed.retain(|(key, _)| key != lost);
        let less = diff(&host, &way.folder, &way.gguf, &DiffOptions::default()).unwrap();
        let stated = less.facts.iter().any(|fact| fact.kind == FactKind::Config && fact.matters);
        assert_eq!(stated, !is_same, "{name} without {lost}");
    }
}

#[test]
fn what_a_folder_says_and_a_file_cannot_is_a_difference() {
    let (host, mut way) = (host(), way(&golden("ernie4_5-moe")));
    let mut files = way.folder.model.foreign.iter_mut().flat_map(|foreign| &mut foreign.files);
    let file = files.find(|file| file.typed.iter().any(|(key, _)| key == "model_type"));
    file.unwrap().set("moe_norm_min", Value::from_f64(1.0));
    let diff = diff(&host, &way.folder, &way.gguf, &DiffOptions::default()).unwrap();
    let stated = diff.facts.iter().find(|fact| fact.key == "configuration" && fact.matters);
    assert!(stated.is_some(), "{:?}", diff.facts);
}

#[test]
fn a_key_that_others_overrule_is_warned_of_and_differs() {
    let (host, scratch) = (host(), Scratch::new());
    for (name, key, value) in
        [("llama", "llama.rope.dimension_count", 16u32), ("arcee", "arcee.attention.key_length", 64)]
    {
        let way = way(&golden(name));
        let file = scratch.at("changed.gguf");
        let set = vec![(key.to_owned(), value.to_string())];
        let options = ConvertOptions {
            input: way.gguf.path.clone(),
            output: Some(file.clone()),
            set,
            force: true,
            ..ConvertOptions::default()
        };
        convert(&host, &options).unwrap();
        let changed = opened(&host, &file);
        let diff = diff(&host, &way.folder, &changed, &DiffOptions::default()).unwrap();
        assert!(diff.facts.iter().any(|fact| fact.key == key && fact.matters), "{key}: {:?}", diff.facts);
        let mut convert = Command::new(program());
        convert.arg("convert").arg(&file).arg(scratch.at(name)).args(["--to", "hf"]);
        let said = String::from_utf8(convert.output().unwrap().stderr).unwrap();
        assert!(said.contains(&format!("`{key}` is {value}, but")), "{key}: {said}");
    }
}

#[test]
fn a_factor_without_a_type_scales_linearly_as_in_llama_cpp() {
    let (host, scratch, way) = (host(), Scratch::new(), way(&golden("llama")));
    let options = ConvertOptions {
        input: way.gguf.path.clone(),
        output: Some(scratch.at("scaled.gguf")),
        set: vec![("llama.rope.scaling.factor:f32".to_owned(), "8.0".to_owned())],
        ..ConvertOptions::default()
    };
    convert(&host, &options).unwrap();
    let back = to(&host, "hf", &scratch.at("scaled.gguf"), &scratch.at("back")).unwrap();
    assert_eq!(key(&back, "rope_scaling.rope_type").unwrap().as_str(), Some("linear"));
}

/// Tokens of a file, and their types.
fn tokens(model: &OpenedModel) -> (Vec<String>, Vec<i32>) {
    let texts = items(model, "tokenizer.ggml.tokens");
    let types = items(model, "tokenizer.ggml.token_type");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (texts.iter().map(text).collect(), types.iter().map(|value| value.as_i32().unwrap()).collect())
}

/// llama.cpp's number of a token that no text becomes, and of one that only stands for itself.
const UNUSED: i32 = 5;
const CONTROL: i32 = 3;

#[test]
fn a_padded_vocabulary_has_a_token_for_every_row() {
    // 465 tokens, and an embedding of 512 rows.
    let way = way(&golden("qwen2"));
    let (texts, types) = tokens(&way.gguf);
    assert_eq!(find(&way.gguf, "token_embd.weight").unwrap().shape[0], 512);
    assert_eq!((texts.len(), types.len()), (512, 512));
    assert_eq!((texts[465].as_str(), types[465]), ("[PAD465]", UNUSED));
    assert_eq!((texts[511].as_str(), types[511]), ("[PAD511]", UNUSED));
    assert!(!texts[464].starts_with("[PAD"));
    assert_eq!(find(&way.back, "model.embed_tokens.weight").unwrap().shape[0], 512);
}

#[test]
fn added_tokens_beyond_the_vocabulary_keep_their_numbers() {
    // The vocabulary has 480 tokens, six more are added behind it.
    let way = way(&golden("llama3"));
    let (texts, types) = tokens(&way.gguf);
    assert_eq!(texts.len(), 486);
    assert_eq!((texts[480].as_str(), types[480]), ("<|begin_of_text|>", CONTROL));
    assert_eq!((texts[481].as_str(), types[481]), ("<|end_of_text|>", CONTROL));
    assert!(types[480..].iter().all(|kind| *kind == CONTROL), "{:?}", &types[480..]);
}
