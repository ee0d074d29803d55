//! A block type that a plugin brings: written, listed, measured, decoded; and files of it whose plugin is gone.

use crate::build::{NIBBLES, quantizer};
use crate::library;
use apr_tests::{Scratch, assert_same_file, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `apr` in a home of its own, in a folder with a model.
struct User<'a> {
    scratch: &'a Scratch,
    plugins: Vec<&'a Path>,
}

impl User<'_> {
    /// Exit code, stdout and stderr.
    fn apr(&self, args: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(program());
        command.env_clear().env("HOME", self.scratch.path()).current_dir(self.scratch.path());
        for plugin in &self.plugins {
            command.arg("--plugin").arg(plugin);
        }
        let output = command.args(args.split(' ')).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn must(&self, args: &str) -> String {
        let (code, told, said) = self.apr(args);
        assert_eq!(code, Some(0), "apr {args}: {told}{said}");
        told + &said
    }

    /// Fails with this exit code, and words in what is said.
    fn fails(&self, args: &str, code: i32, words: &[&str]) {
        let (found, told, said) = self.apr(args);
        let all = format!("{told}{said}");
        assert_eq!(found, Some(code), "apr {args}: {all}");
        assert!(words.iter().all(|word| all.contains(word)), "apr {args}: {words:?} in {all}");
    }
}

/// The values of the model's first tensor; each block of 32 has the greatest magnitude 7, so that whole numbers are exact.
fn values() -> Vec<f32> {
    (0..128u16).map(|n| f32::from(n * 7 % 15) - 7.0).collect()
}

/// A model of a matrix whose values blocks hold exactly, one whose rows are no whole blocks, and a vector.
fn model(scratch: &Scratch) {
    let mut tensors = Vec::new();
    let mut payload = Vec::new();
    let narrow = vec![1.5; 20];
    let all = [
        ("a.weight", "[2,64]", &values()),
        ("b.weight", "[2,10]", &narrow),
        ("c.weight", "[4,32]", &values()),
    ];
    for (name, shape, values) in all {
        let begin = payload.len();
        values.iter().for_each(|value| payload.extend(value.to_le_bytes()));
        let end = payload.len();
        tensors.push(format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}"#));
    }
    let header = format!("{{{}}}", tensors.join(","));
    let whole = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &payload].concat();
    fs::write(scratch.at("in.safetensors"), whole).unwrap();
}

#[test]
fn a_block_type_of_a_plugin_is_written_listed_measured_and_decoded() {
    let scratch = Scratch::new();
    model(&scratch);
    let user = User { scratch: &scratch, plugins: vec![&NIBBLES] };
    let said = user.must("convert in.safetensors out.apr --arch none --quantize nibbles");
    assert!(said.contains("quantized by NIBBLES: 2 tensors to NIBBLES, 1 not quantized"), "{said}");
    assert!(
        said.contains("`b.weight`: not quantized: rows of 10 are not a multiple of the block size 32"),
        "{said}"
    );
    let listed = user.must("tensors out.apr --json --sha256");
    let rows: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&rows[0]["dtype"], &rows[0]["bytes"]), (&"NIBBLES".into(), &72.into()), "{listed}");
    // Statistics decode it; `diff` and `quality` compare values.
    let stats = user.must("tensors out.apr --stats");
    assert!(stats.contains("NIBBLES") && stats.contains("-7"), "{stats}");
    let values = user.must("tensors out.apr a.weight");
    assert!(values.contains("-7"), "{values}");
    user.must("diff in.safetensors out.apr --tolerance 0");
    let quality = user.must("quality in.safetensors out.apr");
    assert!(quality.contains("no value differs"), "{quality}");
    user.must("validate out.apr");
    user.must("inspect out.apr");
    user.must("convert out.apr back.safetensors --arch none --dequantize f32");
    assert_same_file(&scratch.at("in.safetensors"), &scratch.at("back.safetensors"));
    user.must("convert out.apr copy.apr");
    assert_same_file(&scratch.at("out.apr"), &scratch.at("copy.apr"));
    // Another plugin's mixture writes it where it is asked to.
    user.must("convert in.safetensors mixed.apr --arch none --quantize Q8_0 --tensor-type a.weight=nibbles");
    let listed = user.must("tensors mixed.apr");
    assert!(listed.contains("NIBBLES") && listed.contains("Q8_0"), "{listed}");
    user.must(
        "convert in.safetensors mixed.apr --force --arch none --quantize nibbles --tensor-type a.weight=q8_0",
    );
    let listed = user.must("tensors mixed.apr");
    assert!(listed.starts_with("a.weight  Q8_0") && listed.contains("NIBBLES"), "{listed}");
}

#[test]
fn a_format_that_cannot_hold_a_block_type_of_a_plugin_refuses_it_by_name() {
    let scratch = Scratch::new();
    model(&scratch);
    let user = User { scratch: &scratch, plugins: vec![&NIBBLES] };
    user.must("convert in.safetensors out.apr --arch none --quantize NIBBLES");
    for to in ["gguf", "safetensors", "onnx", "npz"] {
        let words = ["cannot hold NIBBLES", "--dequantize"];
        user.fails(&format!("convert out.apr out.{to} --arch none"), 4, &words);
        user.fails(
            &format!("convert in.safetensors out.{to} --force --arch none --quantize NIBBLES"),
            4,
            &words[..1],
        );
    }
    let mixed = "convert in.safetensors out.gguf --arch none --quantize Q8_0 --tensor-type a.weight=nibbles";
    user.fails(mixed, 4, &["cannot hold NIBBLES", "a.weight"]);
    let unknown =
        "convert in.safetensors out.apr --force --arch none --quantize Q8_0 --tensor-type a.weight=nibble";
    user.fails(unknown, 2, &["no tensor can be written in `nibble`"]);
}

#[test]
fn a_file_whose_plugin_is_gone_is_listed_and_copied_and_never_decoded() {
    let scratch = Scratch::new();
    model(&scratch);
    let user = User { scratch: &scratch, plugins: vec![&NIBBLES] };
    user.must("convert in.safetensors out.apr --arch none --quantize NIBBLES");
    let with = ["tensors out.apr --json --sha256", "inspect out.apr"].map(|args| user.must(args));
    let alone = User { scratch: &scratch, plugins: Vec::new() };
    assert_eq!(["tensors out.apr --json --sha256", "inspect out.apr"].map(|args| alone.must(args)), with);
    alone.must("convert out.apr copy.apr");
    assert_same_file(&scratch.at("out.apr"), &scratch.at("copy.apr"));
    alone.must("diff out.apr copy.apr");
    let words = ["NIBBLES", "install the plugin that provides this block type"];
    alone.fails("convert out.apr back.safetensors --arch none --dequantize f32", 4, &words);
    alone.fails("convert out.apr other.apr --arch none --quantize Q8_0 --allow-requantize", 4, &words);
    alone.fails(
        "convert in.safetensors other.apr --arch none --quantize NIBBLES",
        2,
        &["no plugin has a recipe `NIBBLES`"],
    );
    alone.fails("tensors out.apr a.weight", 4, &words);
    let quality = alone.must("quality in.safetensors out.apr");
    assert!(quality.contains("warning: no quantizer plugin can decode NIBBLES"), "{quality}");
    alone.fails("diff in.safetensors out.apr", 5, &["NIBBLES"]);
    let stats = alone.must("tensors out.apr --stats");
    assert!(stats.contains("NIBBLES"), "{stats}");
}

/// The library with another row in its manifest, as long as its own.
fn with_row(row: &str) -> PathBuf {
    const OWN: &[u8] = b"nibbles.dtype.NIBBLES=32 18 0:f16";
    assert_eq!(row.len(), OWN.len());
    let mut bytes = fs::read(&*NIBBLES).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - OWN.len()).filter(|at| bytes[*at..].starts_with(OWN)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..][..OWN.len()].copy_from_slice(row.as_bytes()));
    let path = library::folder().join(apr_host::plugins::file_name("nibbles"));
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_block_type_that_cannot_be_is_refused_with_its_plugin() {
    let scratch = Scratch::new();
    model(&scratch);
    for (row, why) in [
        ("nibbles.dtype.NIBBLES=32 99 0:f64", "expected ELEMENTS BYTES"),
        ("nibbles.dtype.NIBBLES=33 18 0:f16", "a block has 33 elements"),
        ("nibbles.dtype.NIBBLES=32 999 0:u8", "expected ELEMENTS BYTES"),
        ("nibbles.dtype.NIBBLES=32 9999    ", "32 elements take 1 to 512 bytes, not 9999"),
        ("nibbles.dtype.NIBBLES=32 1 0:f16 ", "a field ends at byte 2 of a block of 1"),
        ("nibbles.dtype.Q4_K   =32 18 0:f16", "the name is that of a built-in type"),
    ] {
        let library = with_row(row);
        let user = User { scratch: &scratch, plugins: vec![&library] };
        user.fails("tensors in.safetensors", 1, &["the manifest's block type", why]);
    }
}

#[test]
fn a_quantizer_whose_blocks_have_other_sizes_than_its_manifest_says_is_found_by_the_checks() {
    let scratch = Scratch::new();
    let user = User { scratch: &scratch, plugins: Vec::new() };
    let checked = user.must(&format!("plugins check {}", NIBBLES.display()));
    assert!(checked.contains("10 passed, 2 skipped, 0 failed"), "{checked}");
    let library = with_row("nibbles.dtype.NIBBLES=64 18 0:f16");
    user.fails(&format!("plugins check {}", library.display()), 5, &["decoding leaves values unwritten"]);
}

#[test]
fn a_name_belongs_to_the_plugin_found_first() {
    let scratch = Scratch::new();
    model(&scratch);
    let other = quantizer("others", &[]);
    let user = User { scratch: &scratch, plugins: vec![&NIBBLES, &other] };
    let words = ["E_DUPLICATE_ID", "block type `NIBBLES` is provided by a plugin found earlier"];
    user.fails("tensors in.safetensors", 1, &words);
    let listed = user.must("plugins list");
    assert!(words.iter().all(|word| listed.contains(word)), "{listed}");
}

#[test]
fn a_file_that_states_other_sizes_than_the_plugin_is_refused() {
    let scratch = Scratch::new();
    model(&scratch);
    let wide =
        quantizer("wide", &[("32 18 0:f16", "32 34 0:f16"), ("BYTES: usize = 18", "BYTES: usize = 34")]);
    let user = User { scratch: &scratch, plugins: vec![&wide] };
    user.must("convert in.safetensors wide.apr --arch none --quantize NIBBLES");
    let user = User { scratch: &scratch, plugins: vec![&NIBBLES] };
    user.fails(
        "tensors wide.apr",
        4,
        &["block type `NIBBLES` has the sizes `32 34 0:f16` here, but `32 18 0:f16`"],
    );
    // Without either, both kinds of files are told apart.
    user.must("convert in.safetensors out.apr --arch none --quantize NIBBLES");
    let alone = User { scratch: &scratch, plugins: Vec::new() };
    alone.must("tensors wide.apr");
    alone.fails("diff wide.apr out.apr", 5, &["NIBBLES"]);
}
