//! `--include`, `--exclude`, `--drop` and `--rename`: in every format, through dialects, with types that change.

use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::request::VerifyMode;
use apr_engine::planned::selection::Choice;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::{ConvertOptions, Converted, convert, plan};
use apr_sdk::{Error, ErrorKind};
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, fixtures, host, must, options, root};
use std::collections::BTreeMap;
use std::path::Path;

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|one| (*one).to_owned()).collect()
}

fn choice(include: &[&str], exclude: &[&str], drop: &[&str]) -> Choice {
    Choice { include: owned(include), exclude: owned(exclude), drop: owned(drop) }
}

fn renames(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

/// A conversion to a format, of a model whose architecture counts, read back whole.
fn to(format: &str, input: &Path, output: &Path) -> ConvertOptions {
    let to = Some(format.to_owned());
    ConvertOptions { to, arch: None, verify: VerifyMode::Full, ..options(input, output) }
}

/// Names and digests of a model's tensors.
fn sums(path: &Path) -> BTreeMap<String, String> {
    let host = host();
    let model = open(&host, path, &OpenOptions::default()).unwrap();
    let rows = tensor_rows(&host, &model, RowOptions { sha256: true, ..RowOptions::default() }).unwrap();
    rows.into_iter().map(|row| (row.name, row.sha256.unwrap())).collect()
}

fn golden(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let folder = scratch.at(name);
    Checkpoint::golden(&root().join("tests/golden").join(name)).unwrap().write_to(&folder).unwrap();
    folder
}

fn dropped(done: &Converted) -> Vec<(&str, &str)> {
    let dropped = &done.coverage.tensors.dropped;
    dropped.iter().map(|dropped| (dropped.name.as_str(), dropped.rule.as_str())).collect()
}

/// Fails unless the conversion does, leaving no trace.
fn refused(options: &ConvertOptions) -> Error {
    let folder = options.output.as_ref().and_then(|output| output.parent()).unwrap();
    let before = apr_tests::names_in(folder);
    let error = convert(&host(), options).map(|done| done.notes).unwrap_err();
    assert_eq!(apr_tests::names_in(folder), before, "{error}");
    error
}

#[test]
fn every_format_gives_and_takes_a_choice() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut last = scratch.at("source.safetensors");
    let names = ["a[0].w", "b{x}/y", "c*", "d"];
    let entry = |at: usize| format!("{{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[{at},{}]}}", at + 8);
    let entries = names.iter().enumerate().map(|(n, name)| format!("\"{name}\":{}", entry(8 * n)));
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let payload: Vec<u8> = (1..=32).collect();
    std::fs::write(&last, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &payload].concat())
        .unwrap();
    let all = sums(&last);
    for (number, format) in ["apr", "npz", "pytorch", "onnx", "gguf", "safetensors"].into_iter().enumerate() {
        let whole = scratch.at(&format!("{number}-whole.{format}"));
        must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to(format, &last, &whole) });
        let here = sums(&whole);
        assert_eq!(here.len(), all.len(), "{format}");
        let first = here.keys().next().unwrap().clone();
        // A whole name means itself, whatever is in it.
        for (excluded, name) in [(true, "without"), (false, "alone")] {
            let output = scratch.at(&format!("{number}-{name}.{format}"));
            let choice = if excluded { choice(&[], &[&first], &[]) } else { choice(&[&first], &[], &[]) };
            let options =
                ConvertOptions { choice, arch: Some("none".to_owned()), ..to(format, &whole, &output) };
            let done = must(&host, &options);
            let wanted: BTreeMap<_, _> =
                here.clone().into_iter().filter(|(name, _)| (*name == first) != excluded).collect();
            assert_eq!(sums(&output), wanted, "{format}");
            let tensors = &done.coverage.tensors;
            assert_eq!((tensors.total, tensors.carried.len()), (here.len(), wanted.len()), "{format}");
            let rule =
                if excluded { format!("--exclude '{first}'") } else { "no --include matches it".to_owned() };
            assert!(dropped(&done).iter().all(|(_, said)| *said == rule), "{format}: {:?}", dropped(&done));
            assert!(
                done.notes.iter().any(|note| note.starts_with("left out: ")),
                "{format}: {:?}",
                done.notes
            );
        }
        let output = scratch.at(&format!("{number}-renamed.{format}"));
        let renames = renames(&[("*", "x.*")]);
        must(
            &host,
            &ConvertOptions { renames, arch: Some("none".to_owned()), ..to(format, &whole, &output) },
        );
        let renamed: BTreeMap<_, _> =
            here.into_iter().map(|(name, sum)| (format!("x.{name}"), sum)).collect();
        assert_eq!(sums(&output), renamed, "{format}");
        last = whole;
    }
}

#[test]
fn shards_and_graphs_give_a_choice() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (input, format) in [
        (fixtures("gguf").join("split").join("split-00001-of-00003.gguf"), "gguf"),
        (fixtures("safetensors").join("sharded"), "safetensors"),
        (fixtures("pytorch").join("sharded"), "pytorch"),
        (fixtures("onnx").join("graph.onnx"), "npz"),
    ] {
        let all = sums(&input);
        let first = all.keys().next().unwrap().clone();
        let output = scratch.at(&format!("out-{format}")).join("out.npz");
        let output = if format == "npz" { output } else { output.parent().unwrap().to_owned() };
        std::fs::create_dir(scratch.at(&format!("out-{format}"))).unwrap();
        let options = ConvertOptions { choice: choice(&[], &[], &[&first]), ..to(format, &input, &output) };
        must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..options });
        let mut wanted = all;
        wanted.remove(&first);
        assert_eq!(sums(&output), wanted, "{format}");
    }
}

#[test]
fn a_table_excuses_what_the_user_leaves_out() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "llama");
    let whole = scratch.at("whole.gguf");
    must(&host, &to("gguf", &folder, &whole));
    let mut wanted = sums(&whole);
    for (choice, gone) in [
        (choice(&[], &[], &["model.norm.weight"]), "output_norm.weight"),
        (choice(&[], &["*.0.mlp.down_proj.weight"], &[]), "blk.0.ffn_down.weight"),
        (choice(&[], &[], &["model.embed_tokens.weight"]), "token_embd.weight"),
    ] {
        let (output, back) = (scratch.at(&format!("{gone}.gguf")), scratch.at(&format!("{gone}.back")));
        let done = must(&host, &ConvertOptions { choice, ..to("gguf", &folder, &output) });
        let mut wanted = wanted.clone();
        wanted.remove(gone).unwrap();
        assert_eq!(sums(&output), wanted);
        assert_eq!(dropped(&done).len(), 1, "{:?}", dropped(&done));
        // It is missing there, and the user has to say that this is as it should be.
        let error = refused(&to("hf", &output, &back));
        assert!(error.message().contains("this tensor is missing"), "{error}");
    }
    // Only a layer's norms: everything else is excused.
    let output = scratch.at("norms.gguf");
    let norms = choice(&["*layernorm*"], &[], &[]);
    must(&host, &ConvertOptions { choice: norms, ..to("gguf", &folder, &output) });
    wanted.retain(|name, _| name.contains("blk") && name.contains("norm"));
    assert_eq!(sums(&output), wanted);
}

#[test]
fn what_a_table_does_not_know_can_be_dropped() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = scratch.at("model");
    let mut model = Checkpoint::tiny();
    let extra = model.shards[0].1[0].clone();
    model.shards[0].1.push(SeededTensor { name: "model.extra.weight".to_owned(), ..extra });
    model.write_to(&folder).unwrap();
    let error = refused(&to("gguf", &folder, &scratch.at("out.gguf")));
    assert!(error.hint_text().unwrap().contains("--drop NAME"), "{error}");
    let choice = choice(&[], &[], &["*.extra.*"]);
    let done = must(&host, &ConvertOptions { choice, ..to("gguf", &folder, &scratch.at("out.gguf")) });
    assert_eq!(dropped(&done), [("model.extra.weight", "--drop '*.extra.*'")]);
}

#[test]
fn tensors_that_are_joined_are_taken_together() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "mixtral");
    let output = scratch.at("out.gguf");
    for (choice, rule) in [
        (choice(&[], &["*.0.*experts.1.w1*"], &[]), "--exclude '*.0.*experts.1.w1*'"),
        (choice(&[], &[], &["*experts.[13].w1*"]), "--drop '*experts.[13].w1*'"),
        (choice(&["*experts.[023].*"], &[], &[]), "--include"),
    ] {
        let error = refused(&ConvertOptions { choice, ..to("gguf", &folder, &output) });
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().starts_with(&format!("{rule} leaves it out")), "{error}");
        assert_eq!(error.tensor_name(), Some("model.layers.0.block_sparse_moe.experts.1.w1.weight"));
    }
    let choice = choice(&[], &["*.0.*experts.*.w1*"], &[]);
    must(&host, &ConvertOptions { choice, ..to("gguf", &folder, &output) });
    let names = sums(&output);
    assert!(
        !names.contains_key("blk.0.ffn_gate_exps.weight") && names.contains_key("blk.1.ffn_gate_exps.weight")
    );
}

#[test]
fn outputs_are_renamed_after_the_dialect_and_keep_their_role() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "llama");
    let whole = scratch.at("whole.gguf");
    must(&host, &to("gguf", &folder, &whole));
    let output = scratch.at("out.gguf");
    let asked = renames(&[("blk.*.ffn_*.weight", "layer.*.mlp.*"), ("output_norm.weight", "norm")]);
    let asked = ConvertOptions { renames: asked, ..to("gguf", &folder, &output) };
    let planned = plan(&host, &asked).unwrap();
    assert!(
        planned
            .tensors
            .iter()
            .any(|one| one.name == "layer.0.mlp.up" && one.ops.iter().any(|op| op == "rename"))
    );
    assert_eq!(planned.coverage.renamed.last().unwrap().to, "norm");
    let done = must(&host, &asked);
    let name = |name: &str| match name.strip_suffix(".weight").and_then(|name| name.split_once(".ffn_")) {
        Some((layer, rest)) => format!("{}.mlp.{rest}", layer.replace("blk", "layer")),
        None => name.replace("output_norm.weight", "norm"),
    };
    let wanted: BTreeMap<_, _> = sums(&whole).into_iter().map(|(old, sum)| (name(&old), sum)).collect();
    assert_eq!(sums(&output), wanted);
    let notes = done.notes.iter().filter(|note| note.starts_with("renamed: ")).count();
    assert_eq!((notes, done.coverage.renamed.len()), (2, planned.coverage.renamed.len()));
    assert!(
        done.coverage
            .lines()
            .any(|line| line.contains("renamed tensor output_norm.weight to norm: --rename"))
    );
    // Shapes are judged by what a tensor was, not by the name that it gets.
    let (up, down) = ("blk.0.ffn_up.weight", "blk.0.ffn_down.weight");
    let renames = renames(&[(up, down), (down, up)]);
    let done = must(&host, &ConvertOptions { renames, ..to("gguf", &folder, &scratch.at("swapped.gguf")) });
    assert!(done.looked.findings.is_empty() && done.warnings.is_empty(), "{:?}", done.looked);
    assert_eq!(sums(&scratch.at("swapped.gguf"))[up], sums(&whole)[down]);
}

#[test]
fn a_choice_is_quantized_and_scales_follow_their_codes() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "llama");
    let quantized = |recipe: &str, options: ConvertOptions| {
        let mut options = options;
        options.quantization.recipe = Some(recipe.to_owned());
        options
    };
    let (whole, some) = (scratch.at("whole.gguf"), scratch.at("some.gguf"));
    must(&host, &quantized("Q8_0", to("gguf", &folder, &whole)));
    let without = choice(&[], &["*self_attn*"], &[]);
    must(&host, &ConvertOptions { choice: without, ..quantized("Q8_0", to("gguf", &folder, &some)) });
    let mut wanted = sums(&whole);
    wanted.retain(|name, _| {
        !name.contains("attn_q")
            && !name.contains("attn_k")
            && !name.contains("attn_v")
            && !name.contains("attn_output")
    });
    assert_eq!(sums(&some), wanted);

    let codes = scratch.at("codes.apr");
    let renames = renames(&[("model.*", "m.*")]);
    must(&host, &ConvertOptions { renames, ..quantized("int8", to("apr", &folder, &codes)) });
    let names = sums(&codes);
    assert!(names.contains_key("m.layers.0.mlp.up_proj.weight.scale"), "{names:?}");
    let one = "m.layers.0.mlp.up_proj.weight";
    for choice in [choice(&[one], &[], &[]), choice(&[], &["*.scale"], &[]), choice(&[], &[], &[one])] {
        let error = refused(&ConvertOptions { choice, ..options(&codes, &scratch.at("part.apr")) });
        assert!(error.message().contains("scales the codes of"), "{error}");
    }
    let both = choice(&["m.layers.0.mlp.up_proj.weight*"], &[], &[]);
    let mut asked = ConvertOptions { choice: both, ..options(&codes, &scratch.at("part.apr")) };
    asked.quantization.dequantize = Some(apr_sdk::DType::F32);
    must(&host, &asked);
    assert_eq!(sums(&scratch.at("part.apr")).into_keys().collect::<Vec<_>>(), [one]);
}

#[test]
fn prefix_comes_before_patterns_and_mappings_speak_of_everything() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "llama");
    let output = scratch.at("out.pt");
    let mut asked = ConvertOptions {
        choice: choice(&["layers.0.*"], &["*mlp*"], &[]),
        ..to("pytorch", &folder, &output)
    };
    asked.renaming.prefix = Some("model".to_owned());
    asked.renaming.mapping =
        renames(&[("layers.{n}.mlp.up_proj.weight", "up.{n}"), ("layers.0.input_layernorm.weight", "first")]);
    must(&host, &asked);
    let names = sums(&output);
    assert!(names.contains_key("first") && names.len() > 1, "{names:?}");
    assert!(names.keys().all(|name| name == "first" || name.starts_with("layers.0.")), "{names:?}");
}

#[test]
fn choices_that_cannot_be_are_refused_and_nothing_is_written() {
    let scratch = Scratch::in_memory();
    let small = fixtures("gguf").join("small.gguf");
    let names: Vec<String> = sums(&small).into_keys().collect();
    let (first, second) = (names[0].as_str(), names[1].as_str());
    let output = scratch.at("out.gguf");
    let long = format!("{first}{}", "x".repeat(80));
    for (choice, pairs, kind, word) in [
        (
            choice(&["nothing.*"], &[], &[]),
            &[][..],
            ErrorKind::InvalidArgument,
            "--include 'nothing.*' matches no tensor",
        ),
        (
            choice(&[], &["nothing"], &[]),
            &[],
            ErrorKind::InvalidArgument,
            "--exclude 'nothing' matches no tensor",
        ),
        (choice(&[], &[], &["a["]), &[], ErrorKind::InvalidArgument, "--drop 'a[' is not a valid pattern"),
        (choice(&[], &["*"], &[]), &[], ErrorKind::InvalidArgument, "no tensors are left"),
        (choice(&[first], &[], &[first]), &[], ErrorKind::InvalidArgument, "both match it"),
        (
            choice(&[], &[], &[]),
            &[("nothing", "x")],
            ErrorKind::InvalidArgument,
            "--rename 'nothing' matches no tensor",
        ),
        (choice(&[], &[first], &[]), &[(first, "x")], ErrorKind::InvalidArgument, "matches no tensor"),
        (
            choice(&[], &[], &[]),
            &[(first, second)],
            ErrorKind::InvalidArgument,
            "gives two tensors the same name",
        ),
        (choice(&[], &[], &[]), &[(first, "")], ErrorKind::InvalidArgument, "with an empty name"),
        (choice(&[], &[], &[]), &[(first, long.as_str())], ErrorKind::Unsupported, "holds names of at most"),
        (choice(&[], &[], &[]), &[(first, "a\0b")], ErrorKind::Unsupported, "control characters"),
    ] {
        let renames = renames(pairs);
        let error = refused(&ConvertOptions { choice, renames, ..options(&small, &output) });
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(word), "{word}: {error}");
    }
    // Of a model without tensors nothing can be chosen, and all of it can be had.
    let empty = fixtures("gguf").join("no-tensors.gguf");
    let error = refused(&ConvertOptions { choice: choice(&[], &["*"], &[]), ..options(&empty, &output) });
    assert!(error.message().contains("matches no tensor"), "{error}");
    must(&host(), &options(&empty, &output));
}

#[test]
fn folders_keep_their_shards_without_what_is_left_out() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let folder = golden(&scratch, "mixtral");
    let output = scratch.at("out");
    let left = choice(
        &[],
        &["model.layers.0.block_sparse_moe.experts.[01].*", "lm_head.weight", "model.embed_tokens.weight"],
        &[],
    );
    let done = must(&host, &ConvertOptions { choice: left, ..to("hf", &folder, &output) });
    let mut wanted = sums(&folder);
    wanted.retain(|name, _| !dropped(&done).iter().any(|(gone, _)| gone == name));
    assert_eq!(sums(&output), wanted);
    assert_eq!(dropped(&done).len(), 8, "{:?}", dropped(&done));
    assert!(output.join("config.json").exists());
    let renames = renames(&[("model.*", "language_model.*")]);
    must(
        &host,
        &ConvertOptions {
            renames,
            arch: Some("none".to_owned()),
            ..to("hf", &folder, &scratch.at("renamed"))
        },
    );
    assert!(sums(&scratch.at("renamed")).contains_key("language_model.embed_tokens.weight"));
    // The index says how much is left in two files.
    let (output, lm_head) = (scratch.at("headless"), choice(&[], &[], &["lm_head.weight"]));
    must(&host, &ConvertOptions { choice: lm_head, ..to("hf", &folder, &output) });
    let index = |folder: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join("model.safetensors.index.json")).unwrap()).unwrap()
    };
    let size = |folder: &Path| index(folder)["metadata"]["total_size"].as_u64().unwrap();
    assert_eq!(size(&folder) - size(&output), 720 * 64 * 2);
    assert!(index(&output)["weight_map"].get("lm_head.weight").is_none());
}
