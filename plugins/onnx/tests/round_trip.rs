//! What is written is what was read: to the byte, or wherever data had to go.

use crate::fixture::{ALL, Opened, bytes, carries, reopen, writer};
use apr_sdk::{Bytes, ErrorKind, ForeignPolicy, LayoutRequest, Options, Value};

/// Fixtures with lists of numbers, which become raw data.
const WITH_LISTS: [&str; 3] = ["types-typed", "shapes", "handmade-runs"];

fn same_tensors(a: &Opened, b: &Opened) {
    assert_eq!(a.model.tensors.len(), b.model.tensors.len());
    for tensor in &a.model.tensors {
        let there = &b.model.tensors[b.number(&tensor.name)];
        assert_eq!((tensor.dtype, &tensor.shape), (there.dtype, &there.shape), "{}", tensor.name);
        assert_eq!(a.payload(&tensor.name), b.payload(&tensor.name), "{}", tensor.name);
    }
}

#[test]
fn models_come_back_to_the_byte() {
    for name in ALL.iter().filter(|name| !WITH_LISTS.contains(name)) {
        let files = Opened::fixture(name).rewrite(ForeignPolicy::Default);
        let folder = name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for (file, written) in &files {
            assert!(*written == bytes(&format!("{folder}{file}")), "{file}");
        }
    }
}

#[test]
fn lists_of_numbers_become_raw_data_and_nothing_else_changes() {
    for name in WITH_LISTS {
        let before = Opened::fixture(name);
        assert!(before.model.notes.iter().any(|note| note.contains("lists of numbers")), "{name}");
        assert_eq!(before.model.foreign[0].files[0].verbatim, None, "{name}");
        let once = before.rewrite(ForeignPolicy::Default);
        let after = reopen(&once);
        same_tensors(&before, &after);
        assert_eq!(after.model.foreign, before.model.foreign, "{name}");
        assert!(after.model.notes.iter().all(|note| note.contains("only weights")), "{name}");
        assert_eq!(after.rewrite(ForeignPolicy::Default), once, "{name}");
    }
}

#[test]
fn without_the_verbatim_form_the_graph_stays_all_the_same() {
    for name in ALL {
        let before = Opened::fixture(name);
        let once = before.rewrite(ForeignPolicy::Typed);
        let after = reopen(&once);
        same_tensors(&before, &after);
        assert_eq!(after.model.foreign[0].files[0].typed, before.model.foreign[0].files[0].typed, "{name}");
        assert_eq!(after.rewrite(ForeignPolicy::Typed), once, "{name}");
        let kept = before.model.foreign[0].files[0].verbatim.is_some();
        if !kept && !WITH_LISTS.contains(&name) {
            assert_eq!(once[0].1, bytes(&format!("{name}.onnx")), "{name}");
        }
    }
}

#[test]
fn the_verbatim_form_is_kept_only_where_the_writer_would_spell_the_file_otherwise() {
    for name in ALL {
        let kept = Opened::fixture(name).model.foreign[0].files[0].verbatim.is_some();
        // `graph` has its entries before its functions and floats in their own field; the others lie otherwise by design.
        let wanted =
            ["graph", "beside/model", "handmade-order", "handmade-lengths", "handmade-doubled", "ir-3"];
        assert_eq!(kept, wanted.contains(&name), "{name}");
    }
}

/// A fixture with the shape of tensor `name` changed, written and read again.
fn with_shape(fixture: &str, name: &str, shape: &[u64]) {
    let mut before = Opened::fixture(fixture);
    let number = before.number(name);
    before.model.tensors[number].shape = shape.to_vec();
    let payload = vec![7; usize::try_from(before.model.tensors[number].payload_len().unwrap()).unwrap()];
    let payloads = |n: usize| {
        if n == number {
            Ok(payload.clone())
        } else {
            apr_testkit::payload(&*before.open, &before.model, n, &before.source)
        }
    };
    let request = LayoutRequest::file("out.onnx");
    let written =
        apr_testkit::render(&*writer(), &carries(), &before.model, &before.source, &payloads, &request)
            .unwrap();
    assert!(
        written.notes.iter().any(|note| note.contains(&format!("and is now {shape:?}"))),
        "{:?}",
        written.notes
    );
    let after = reopen(&written.files);
    assert_eq!((after.payload(name), &after.model.tensors[number].shape[..]), (payload, shape));
    for tensor in before.model.tensors.iter().filter(|tensor| tensor.name != name) {
        assert_eq!(after.payload(&tensor.name), before.payload(&tensor.name), "{}", tensor.name);
    }
    let typed = |opened: &Opened| {
        let mut typed = opened.model.foreign[0].files[0].typed.clone();
        typed.retain(|(key, _)| key != "onnx.graph");
        typed
    };
    assert_eq!(typed(&after), typed(&before), "{fixture}");
}

#[test]
fn a_tensor_of_another_shape_leaves_the_nodes_as_they_were() {
    for name in ["w", "limit/value", "if/then_branch/scale", "functions/fixture.Shift/by/value", "zero"] {
        with_shape("graph", name, &[7]);
        with_shape("graph", name, &[200, 3]);
    }
    with_shape("handmade-lengths", "w", &[16]);
    with_shape("beside/model", "f32", &[3, 17]);
}

#[test]
fn a_tensor_may_grow_past_the_width_of_every_length_around_it() {
    let mut before = Opened::fixture("graph");
    let number = before.number("scan/body/half");
    before.model.tensors[number].shape = vec![100_000];
    let payloads = |n: usize| match n {
        n if n == number => Ok(vec![3; 400_000]),
        n => apr_testkit::payload(&*before.open, &before.model, n, &before.source),
    };
    let request = LayoutRequest::file("out.onnx");
    let files =
        apr_testkit::write(&*writer(), &carries(), &before.model, &before.source, &payloads, &request)
            .unwrap();
    let after = reopen(&files);
    assert_eq!(after.payload("scan/body/half"), vec![3; 400_000]);
    assert_eq!(after.payload("w"), before.payload("w"));
}

#[test]
fn keys_of_the_model_can_be_set_and_unset() {
    for name in ["graph", "handmade-order", "ir-3", "handmade-doubled"] {
        let mut before = Opened::fixture(name);
        let file = &mut before.model.foreign[0].files[0];
        file.set("onnx.producer_name", Value::from_string("somebody"));
        file.set("onnx.ir_version", Value::from_i64(9));
        file.set("onnx.model_version", Value::from_i64(-1));
        file.set("author", Value::from_string("nobody"));
        file.typed.retain(|(key, _)| key != "onnx.producer_version" && key != "empty");
        let wanted = file.typed.clone();
        let files = before.write(&LayoutRequest::file("out.onnx")).unwrap();
        let after = reopen(&files);
        let typed = &after.model.foreign[0].files[0].typed;
        assert_eq!(typed.len(), wanted.len(), "{name}");
        for (key, value) in &wanted {
            assert_eq!(after.model.foreign[0].get(key), Some(value), "{name}: {key}");
        }
        same_tensors(&before, &after);
    }
}

#[test]
fn keys_that_say_what_the_graph_says_cannot_be_set() {
    for (key, value) in [
        ("onnx.opset_import", Value::from_strings(&["ai.onnx 99"])),
        ("onnx.graph.nodes", Value::from_i64(3)),
        ("onnx.ir_version", Value::from_string("9")),
        ("onnx.graph", Value::from_string("\u{1}")),
    ] {
        let mut before = Opened::fixture("graph");
        before.model.foreign[0].files[0].set(key, value);
        let error = before.write(&LayoutRequest::file("out.onnx")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(key), "{error}");
    }
}

#[test]
fn a_graph_with_other_tensors_is_left_out_and_that_is_said() {
    let mut before = Opened::fixture("graph");
    before.model.tensors[6].name = "renamed".to_owned();
    let payloads = |n: usize| apr_testkit::payload(&*before.open, &before.model, n, &before.source);
    let request = LayoutRequest::file("out.onnx");
    let rendered =
        apr_testkit::render(&*writer(), &carries(), &before.model, &before.source, &payloads, &request)
            .unwrap();
    assert!(rendered.notes.iter().any(|note| note.contains("the graph is left out")), "{:?}", rendered.notes);
    let after = reopen(&rendered.files);
    same_tensors(&before, &after);
    assert_eq!(after.model.foreign[0].get("onnx.graph"), None);
}

#[test]
fn a_verbatim_form_of_another_graph_is_not_used() {
    let mut one = Opened::fixture("graph");
    one.model.foreign[0].files[0].verbatim =
        Opened::fixture("handmade-order").model.foreign[0].files[0].verbatim.clone();
    let after = reopen(&one.write(&LayoutRequest::file("out.onnx")).unwrap());
    same_tensors(&one, &after);
    one.model.foreign[0].files[0].verbatim = Some(Bytes::from("odd"));
    let after = reopen(&one.write(&LayoutRequest::file("out.onnx")).unwrap());
    same_tensors(&one, &after);
}

#[test]
fn one_file_or_data_beside_it_is_a_contradiction() {
    let opened = Opened::fixture("graph");
    let mut request = LayoutRequest::file("out.onnx");
    request.options = Options::new().with("single-file", "true").with("external-data", "true");
    assert_eq!(opened.write(&request).unwrap_err().kind(), ErrorKind::InvalidArgument);
    request.options = Options::new().with("external-data", "true").with("external-align", "3");
    assert_eq!(opened.write(&request).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
