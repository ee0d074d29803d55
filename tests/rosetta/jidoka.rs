//! Every Jidoka condition is provoked, on the command line, by a pair of files that differ in nothing else; and none is
//! raised by what is in both.

use apr_sdk::{DType, LayoutRequest, Value};
use apr_testkit::ModelFixture;
use apr_tests::{Scratch, program};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A model of two F32 tensors and the metadata that a small decoder states.
#[derive(Clone)]
struct Small {
    values: Vec<f32>,
    shape: Vec<u64>,
    dtype: DType,
    names: Vec<&'static str>,
    metadata: Vec<(&'static str, Value)>,
}

fn small() -> Small {
    Small {
        values: vec![1.0, -2.0, 0.5, 4.0, 8.0, 16.0],
        shape: vec![2, 3],
        dtype: DType::F32,
        names: vec!["a", "b"],
        metadata: vec![
            ("general.architecture", Value::from_string("llama")),
            ("llama.embedding_length", Value::from_u32(8)),
            ("llama.block_count", Value::from_u32(2)),
            ("tokenizer.ggml.tokens", Value::from_strings(&["a", "b", "c"])),
        ],
    }
}

impl Small {
    fn set(mut self, key: &str, value: Value) -> Small {
        self.metadata.iter_mut().find(|(k, _)| *k == key).unwrap().1 = value;
        self
    }

    fn write(&self, scratch: &Scratch, name: &str) -> PathBuf {
        let bytes: Vec<u8> = match self.dtype {
            DType::F64 => self.values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect(),
            _ => self.values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        let mut model = ModelFixture::new();
        for tensor in &self.names {
            model = model.tensor_with(tensor, self.dtype, &self.shape, bytes.clone());
        }
        for (key, value) in &self.metadata {
            model = model.foreign("gguf", key, value.clone());
        }
        let writer = (apr_plugin_gguf::PLUGIN.writer)("gguf").unwrap();
        let carries = apr_testkit::carries(&apr_plugin_gguf::PLUGIN, "gguf").unwrap();
        let files = model.write(&*writer, &carries, &LayoutRequest::file(name)).unwrap();
        let path = scratch.at(name);
        std::fs::write(&path, &files[0].1).unwrap();
        path
    }
}

fn apr(args: &[&str]) -> Output {
    // What whoever runs the tests has configured does not count.
    Command::new(program()).args(args).env_clear().output().unwrap()
}

fn verify(source: &Small, result: &Small, more: &[&str]) -> Output {
    let scratch = Scratch::in_memory();
    let (a, b) = (source.write(&scratch, "source.gguf"), result.write(&scratch, "result.gguf"));
    apr(&[&["rosetta", "verify", a.to_str().unwrap(), b.to_str().unwrap()], more].concat())
}

/// The result raises this code, exit 5, and `apr explain` knows it as built.
fn assert_raises(code: &str, result: &Small, more: &[&str]) {
    let output = verify(&small(), result, more);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(5), "{code}: {stdout}{stderr}");
    assert!(stdout.contains(code) && stderr.contains("error[ROSETTA-"), "{code}: {stdout}{stderr}");
    let explained = apr(&["explain", code]);
    let text = String::from_utf8_lossy(&explained.stdout);
    assert!(explained.status.success() && text.starts_with(code) && !text.contains("planned"), "{text}");
}

fn assert_agrees(source: &Small, result: &Small, more: &[&str]) {
    let output = verify(source, result, more);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{stderr}", String::from_utf8_lossy(&output.stdout));
}

fn with_value(at: usize, value: f32) -> Small {
    let mut model = small();
    model.values[at] = value;
    model
}

#[test]
fn the_same_raises_nothing() {
    assert_agrees(&small(), &small(), &[]);
    assert_agrees(&small(), &Small { dtype: DType::F64, ..small() }, &[]);
}

#[test]
fn rosetta_nan_001() {
    assert_raises("ROSETTA-NAN-001", &with_value(2, f32::NAN), &[]);
    assert_raises("ROSETTA-NAN-001", &with_value(2, f32::NAN), &["--tolerance", "100"]);
    // In both it is no finding.
    assert_agrees(&with_value(2, f32::NAN), &with_value(2, f32::NAN), &[]);
}

#[test]
fn rosetta_inf_001() {
    assert_raises("ROSETTA-INF-001", &with_value(0, f32::NEG_INFINITY), &["--tolerance", "100"]);
    assert_agrees(&with_value(0, f32::INFINITY), &with_value(0, f32::INFINITY), &[]);
}

#[test]
fn rosetta_dim_001() {
    assert_raises("ROSETTA-DIM-001", &Small { shape: vec![3, 2], ..small() }, &[]);
}

#[test]
fn rosetta_count_001() {
    assert_raises("ROSETTA-COUNT-001", &Small { names: vec!["a"], ..small() }, &[]);
    assert_raises("ROSETTA-COUNT-001", &Small { names: vec!["a", "b", "c"], ..small() }, &[]);
    assert_raises("ROSETTA-COUNT-001", &Small { names: vec!["a", "c"], ..small() }, &[]);
}

#[test]
fn rosetta_crc_001() {
    assert_raises("ROSETTA-CRC-001", &with_value(1, -2.5), &[]);
}

#[test]
fn rosetta_quant_001() {
    assert_raises("ROSETTA-QUANT-001", &with_value(1, -2.5), &["--tolerance", "0.25"]);
    assert_agrees(&small(), &with_value(1, -2.5), &["--tolerance", "0.5"]);
    // Another type, and not quite the same value.
    let wider = Small { dtype: DType::F64, ..with_value(1, -2.000_001) };
    assert_raises("ROSETTA-QUANT-001", &wider, &[]);
}

#[test]
fn rosetta_vocab_001() {
    assert_raises(
        "ROSETTA-VOCAB-001",
        &small().set("tokenizer.ggml.tokens", Value::from_strings(&["a"])),
        &[],
    );
}

#[test]
fn rosetta_arch_001() {
    assert_raises("ROSETTA-ARCH-001", &small().set("general.architecture", Value::from_string("qwen2")), &[]);
}

#[test]
fn rosetta_hidden_001() {
    assert_raises("ROSETTA-HIDDEN-001", &small().set("llama.embedding_length", Value::from_u32(16)), &[]);
}

#[test]
fn rosetta_layer_001() {
    assert_raises("ROSETTA-LAYER-001", &small().set("llama.block_count", Value::from_u32(3)), &[]);
}

#[test]
fn what_only_one_side_states_is_said_and_not_judged() {
    let silent = Small { metadata: Vec::new(), ..small() };
    let output = verify(&small(), &silent, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("layer count: not compared, only the source states it: 2 (gguf: llama.block_count)"),
        "{text}"
    );
}

#[test]
fn long_payloads_are_compared_piece_by_piece() {
    let scratch = Scratch::in_memory();
    let n = (3 << 20) / 4;
    let long = |at: usize, value: f32| {
        let mut values = vec![0.5; n];
        values[at] = value;
        Small { values, shape: vec![n as u64], names: vec!["a"], ..small() }
    };
    let host = apr_tests::host();
    let open = |small: &Small, name: &str| {
        let path = small.write(&scratch, name);
        apr_engine::open::open(&host, &path, &apr_engine::open::OpenOptions::default()).unwrap()
    };
    let (a, b) = (open(&long(0, 0.5), "a.gguf"), open(&long(n - 1, 0.75), "b.gguf"));
    let wide = open(&Small { dtype: DType::F64, ..long(n - 1, 0.75) }, "c.gguf");
    for other in [&b, &wide] {
        let comparison = apr_engine::rosetta::compare::compare(&host, &a, other, Some(0.1)).unwrap();
        assert_eq!(comparison.max_abs_diff, 0.25);
        assert_eq!(comparison.findings.len(), 1, "{:?}", comparison.findings);
        assert_eq!(comparison.findings[0].code, "ROSETTA-QUANT-001");
    }
}

/// A SafeTensors file of one tensor.
fn lone(scratch: &Scratch, name: &str, dtype: &str, bytes: &[u8], count: usize) -> PathBuf {
    let header =
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":[{count}],"data_offsets":[0,{}]}}}}"#, bytes.len());
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), bytes].concat();
    let path = scratch.at(name);
    std::fs::write(&path, file).unwrap();
    path
}

/// A type and a value's bytes of one file and of another, and whether they are the same.
type IntegerPair<'b> = (&'b str, &'b [u8], &'b str, &'b [u8], bool);

#[test]
fn integers_of_the_same_bytes_or_the_same_nearest_float_are_not_the_same() {
    let scratch = Scratch::in_memory();
    let pairs: [IntegerPair<'_>; 7] = [
        ("I8", &(-1i8).to_le_bytes(), "U8", &255u8.to_le_bytes(), false),
        ("I32", &(-1i32).to_le_bytes(), "U32", &u32::MAX.to_le_bytes(), false),
        ("I64", &(-1i64).to_le_bytes(), "U64", &u64::MAX.to_le_bytes(), false),
        ("I64", &((1i64 << 53) + 1).to_le_bytes(), "F64", &(2f64.powi(53)).to_le_bytes(), false),
        ("I64", &(1i64 << 53).to_le_bytes(), "F64", &(2f64.powi(53)).to_le_bytes(), true),
        ("I64", &((1i64 << 62) + 1).to_le_bytes(), "I64", &(1i64 << 62).to_le_bytes(), false),
        ("I32", &(-1i32).to_le_bytes(), "I64", &(-1i64).to_le_bytes(), true),
    ];
    for (one, a, other, b, is_same) in pairs {
        let (a, b) =
            (lone(&scratch, "a.safetensors", one, a, 1), lone(&scratch, "b.safetensors", other, b, 1));
        for tolerance in [&[][..], &["--tolerance", "0"]] {
            let files = ["rosetta", "verify", a.to_str().unwrap(), b.to_str().unwrap()];
            let output = apr(&[&files[..], tolerance].concat());
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(if is_same { 0 } else { 5 }), "{one}, {other}: {said}");
        }
    }
}
