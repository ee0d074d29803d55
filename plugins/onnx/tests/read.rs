//! What is read agrees with the package onnx.

use crate::build::{bytes, model, number};
use crate::fixture::{self, ALL, Opened, golden, reader};
use apr_sdk::{Limits, MemorySource, Options, Payload, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// The tensors as the golden manifests say them.
fn said(opened: &Opened) -> Json {
    let mut order: Vec<usize> = (0..opened.model.tensors.len()).collect();
    order.sort_by_key(|&n| &opened.model.tensors[n].name);
    let tensor = |n: usize| {
        let tensor = &opened.model.tensors[n];
        let bytes = apr_testkit::payload(&*opened.open, &opened.model, n, &opened.source).unwrap();
        let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape, "sha256": sum})
    };
    order.into_iter().map(tensor).collect()
}

#[test]
fn agrees_with_the_package_onnx() {
    for name in ALL.iter().chain(&["external/split"]) {
        let mut wanted = golden(name)["tensors"].clone();
        wanted.as_array_mut().unwrap().sort_by_key(|tensor| tensor["name"].as_str().unwrap().to_owned());
        assert_eq!(said(&Opened::fixture(name)), wanted, "{name}");
    }
}

#[test]
fn every_data_type_is_in_the_fixtures_in_each_of_its_places() {
    for (name, extents) in [("types-raw", 27), ("beside/model", 27), ("types-typed", 4)] {
        let opened = Opened::fixture(name);
        let types: std::collections::HashSet<_> = opened.model.tensors.iter().map(|t| t.dtype).collect();
        assert_eq!(types.len(), 27, "{name}");
        let plain = |t: &&apr_sdk::Tensor| matches!(&t.payload, Payload::Extent { view: None, .. });
        // Of typed fields, those of floats and doubles look like raw data: FLOAT, DOUBLE and the complex types.
        assert_eq!(opened.model.tensors.iter().filter(plain).count(), extents, "{name}");
    }
}

#[test]
fn says_what_the_model_says_of_itself() {
    let opened = Opened::fixture("graph");
    let own = opened.model.foreign_of("onnx").unwrap();
    for (key, value) in [
        ("onnx.ir_version", Value::from_i64(8)),
        ("onnx.producer_name", Value::from_string("fixture")),
        ("onnx.producer_version", Value::from_string("1")),
        ("onnx.doc_string", Value::from_string("model")),
        ("onnx.opset_import", Value::from_strings(&["ai.onnx 17", "fixture 1"])),
        ("onnx.graph.name", Value::from_string("fixture graph")),
        ("onnx.graph.inputs", Value::from_strings(&["x: FLOAT[2,4]", "flag: BOOL[]"])),
        ("onnx.graph.outputs", Value::from_strings(&["y: FLOAT[rows,3]"])),
        ("onnx.graph.nodes", Value::from_i64(10)),
        ("onnx.functions", Value::from_i64(1)),
        ("onnx.string_tensors", Value::from_i64(1)),
        ("author", Value::from_string("é")),
        ("metadata_props.onnx.ir_version", Value::from_string("mine")),
        ("empty", Value::from_string("")),
    ] {
        assert_eq!(own.get(key), Some(&value), "{key}");
    }
    let names: Vec<_> = opened.model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "limit/value",
            "shape/value",
            "if/else_branch/scale",
            "if/then_branch/scale",
            "loop/body/one/value",
            "scan/body/half",
            "w",
            "b",
            "zero",
            "trips",
            "yes",
            "functions/fixture.Shift/by/value",
        ]
    );
}

#[test]
fn the_last_of_two_records_counts() {
    let opened = Opened::fixture("handmade-doubled");
    let own = opened.model.foreign_of("onnx").unwrap();
    assert_eq!(own.get("onnx.ir_version"), Some(&Value::from_i64(8)));
    assert_eq!(own.get("onnx.producer_name"), Some(&Value::from_string("two")));
    assert_eq!(own.get("onnx.graph.name"), Some(&Value::from_string("second")));
    assert_eq!(own.get("k"), Some(&Value::from_string("2")));
}

/// The lines of the report `graph`.
fn listed(file: &[u8]) -> Vec<(String, String)> {
    let source = MemorySource::new("m.onnx", file.to_vec());
    let report = reader().report("graph", &source, &Limits::default(), &Options::default()).unwrap();
    let json: Json = serde_json::from_str(&report.json).unwrap();
    let lines: Vec<(String, String)> = serde_json::from_value(json["lines"].clone()).unwrap();
    let text: Vec<String> = lines.iter().map(|(place, is)| format!("{place}: {is}")).collect();
    assert_eq!(report.text, text.join("\n"));
    lines
}

#[test]
fn lists_what_a_graph_computes_besides_its_tensors() {
    let lines = listed(&fixture::bytes("graph.onnx"));
    let has = |place: &str, is: &str| lines.iter().any(|line| (&*line.0, &*line.1) == (place, is));
    assert!(has("operator set", "ai.onnx 17") && has("operator set", "fixture 1"), "{lines:#?}");
    assert!(has("input", "x: FLOAT[2,4]") && has("output", "y: FLOAT[rows,3]"), "{lines:#?}");
    assert!(lines.iter().any(|(place, _)| place.starts_with("function fixture.Shift: node 0")), "{lines:#?}");
    assert!(lines.iter().any(|(place, _)| place.contains("`if` then_branch node 0")), "{lines:#?}");
}

#[test]
fn an_attribute_is_the_same_in_any_order_and_of_any_length() {
    let attribute = |name: &str, rest: &[u8]| bytes(5, &[bytes(1, name.as_bytes()), rest.to_vec()].concat());
    let node = |attributes: &[Vec<u8>]| model(&bytes(1, &[bytes(4, b"Op"), attributes.concat()].concat()));
    let (one, list) = (attribute("k", &number(3, 7)), attribute("axes", &bytes(8, &[1, 2, 3])));
    let alike = [node(&[one.clone(), list.clone()]), node(&[list, one])].map(|file| listed(&file));
    assert_eq!(alike[0], alike[1]);
    assert_eq!(alike[0][1].1, "Op() -> , axes = [1, 2, 3], k = 7");
    let unpacked = attribute("axes", &[number(8, 1), number(8, 2), number(8, 3)].concat());
    assert_eq!(listed(&node(&[unpacked]))[1].1, "Op() -> , axes = [1, 2, 3]");
    let long = |last: u8| {
        let ends = [vec![5; 9000], vec![last]].concat();
        listed(&node(&[attribute("axes", &bytes(8, &ends))])).remove(1).1
    };
    assert!(long(1) != long(2) && long(1).len() < 400, "{}", long(1));
    // Of two graphs in attributes, each under its own name.
    let branch = |name: &str, of: &[u8]| attribute(name, &bytes(6, &bytes(1, &bytes(4, of))));
    let [one, other] =
        [["then", "else"], ["else", "then"]].map(|[a, b]| listed(&node(&[branch(a, b"A"), branch(b, b"B")])));
    let texts = |lines: &[(String, String)]| lines.iter().map(|line| line.1.clone()).collect::<Vec<_>>();
    assert_ne!(texts(&one), texts(&other));
    assert_eq!(one, listed(&node(&[branch("else", b"B"), branch("then", b"A")])));
    let text = |text: &[u8]| listed(&node(&[attribute("s", &bytes(4, text))])).remove(1).1;
    assert_eq!(text(b"a\x1b"), "Op() -> , s = \"a\\u{1b}\"");
    assert!(text(&[b"a".repeat(300), b"b".to_vec()].concat()) != text(&b"a".repeat(301)));
}
