//! What other formats say of a model is carried, given back, and never added to a model that has none.

use crate::fixture::{Opened, carries, reopen, writer};
use apr_sdk::{Bytes, DType, Foreign, ForeignFile, ForeignPolicy, LayoutRequest, Model, Value};
use apr_testkit::ModelFixture;

/// A model with what a format called `toy` says.
fn with_toy(model: &Model) -> Model {
    let mut model = model.clone();
    model.dialect = "toy".into();
    let typed = vec![
        ("z".into(), Value::from_u64(u64::MAX)),
        ("a".into(), Value::from_strings(&["x", "é\0"])),
        ("raw".into(), Value::from_string([0xff])),
    ];
    let verbatim = Some(Bytes::from(&[0u8, 1, 2][..]));
    let file = ForeignFile { name: String::new(), n_tensors: model.tensors.len() as u64, typed, verbatim };
    model.foreign.push(Foreign { format: "toy".into(), files: vec![file] });
    model
}

fn write(opened: &Opened, model: &Model, policy: ForeignPolicy) -> Vec<(String, Vec<u8>)> {
    let payload = |n| apr_testkit::payload(&*opened.open, &opened.model, n, &opened.source);
    let mut request = LayoutRequest::file("out.onnx");
    request.foreign = policy;
    apr_testkit::write(&*writer(), &carries(), model, &opened.source, &payload, &request).unwrap()
}

#[test]
fn a_graph_carries_and_gives_back_what_another_format_said() {
    for name in ["graph", "types-raw", "handmade-order", "handmade-doubled"] {
        let opened = Opened::fixture(name);
        let model = with_toy(&opened.model);
        let first = write(&opened, &model, ForeignPolicy::Default);
        let back = reopen(&first);
        assert_eq!(back.model.dialect, "toy");
        assert_eq!(back.model.foreign_of("toy"), model.foreign_of("toy"), "{name}");
        let typed = |model: &Model| model.foreign_of("onnx").unwrap().files[0].typed.clone();
        assert_eq!(typed(&back.model), typed(&opened.model), "{name}");
        for policy in [ForeignPolicy::Default, ForeignPolicy::Keep] {
            assert_eq!(write(&back, &back.model, policy), first, "{name}");
        }
        let without = reopen(&write(&back, &back.model, ForeignPolicy::Typed));
        assert_eq!(without.model.foreign_of("toy").unwrap().files[0].verbatim, None);
        let dropped = reopen(&write(&back, &back.model, ForeignPolicy::Drop));
        assert_eq!(dropped.model.foreign.len(), 1, "{name}");
        assert_eq!(typed(&dropped.model), typed(&opened.model), "{name}");
    }
}

#[test]
fn a_file_of_weights_says_nothing_of_its_own() {
    let fixture =
        ModelFixture::new().tensor("a", DType::F32, &[2, 2]).unwrap().tensor("", DType::I4, &[3]).unwrap();
    let (model, source) = fixture.build().unwrap();
    let payload = |n| fixture.payload(n);
    let request = LayoutRequest::file("out.onnx");
    let files = apr_testkit::write(&*writer(), &carries(), &model, &source, &payload, &request).unwrap();
    let back = reopen(&files);
    assert_eq!(back.model.foreign.len(), 1);
    assert_eq!(back.model.foreign[0].files[0].typed, []);
    assert_eq!(back.model.foreign[0].files[0].verbatim, None);
    assert_eq!(back.rewrite(ForeignPolicy::Default)[0].1, files[0].1);
    // With what another format says, that and nothing else.
    let toy = with_toy(&model);
    let carried = apr_testkit::write(&*writer(), &carries(), &toy, &source, &payload, &request).unwrap();
    let back = reopen(&carried);
    assert_eq!(back.model.foreign_of("toy"), toy.foreign_of("toy"));
    assert_eq!(back.model.foreign_of("onnx").unwrap().files[0].typed, []);
}

#[test]
fn an_entry_of_the_same_key_with_other_contents_is_kept_as_it_is() {
    for text in ["", "{", "[]", r#"{"formats":{"onnx":{"files":[]}}}"#, r#"{"other":1}"#] {
        let mut opened = Opened::fixture("graph");
        opened.model.foreign[0].files[0].set("apr.foreign", Value::from_string(text));
        let files = opened.write(&LayoutRequest::file("out.onnx")).unwrap();
        let back = reopen(&files);
        assert_eq!(back.model.foreign[0].get("apr.foreign"), Some(&Value::from_string(text)));
        let own = back.model.notes.iter().filter(|note| !note.contains("tensor of strings"));
        assert_eq!(own.count(), 1, "{text}");
        assert_eq!(back.rewrite(ForeignPolicy::Default)[0].1, files[0].1);
    }
}
