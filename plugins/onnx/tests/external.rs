//! Data beside the model: kept where it was, put there, split, and taken in.

use crate::build::{bytes, external, model, tensor};
use crate::fixture::{Opened, bytes as file, reopen};
use apr_sdk::{LayoutRequest, MemorySource, Options};

const FLOAT: u64 = 1;

fn beside(name: &str) -> LayoutRequest {
    let mut request = LayoutRequest::file(name);
    request.options = Options::new().with("external-data", "true");
    request
}

/// Two tensors of 8 bytes in `data.bin` at these offsets.
fn two(first: &str, second: &str) -> Opened {
    let at = |name: &[u8], offset: &str| {
        let rest = external(&[("location", "m.onnx.data"), ("offset", offset), ("length", "8")]);
        bytes(5, &[tensor(FLOAT, &[2], &rest), bytes(8, name)].concat())
    };
    let graph = [at(b"a", first), at(b"b", second)].concat();
    let data: Vec<u8> = (1..=100).collect();
    Opened::new(MemorySource::new("m.onnx", model(&graph)).with("m.onnx.data", data)).unwrap()
}

fn same(a: &Opened, b: &Opened) {
    assert_eq!(a.model.tensors.len(), b.model.tensors.len());
    for tensor in &a.model.tensors {
        assert_eq!(a.payload(&tensor.name), b.payload(&tensor.name), "{}", tensor.name);
    }
}

#[test]
fn places_and_lengths_of_files_are_kept_and_what_lies_between_becomes_zeros() {
    for (first, second) in [("8", "40"), ("40", "0"), ("4", "12"), ("92", "1")] {
        let before = two(first, second);
        let files = before.write(&LayoutRequest::file("m.onnx")).unwrap();
        assert_eq!(files[1].0, "m.onnx.data");
        assert_eq!(files[1].1.len(), 100);
        same(&before, &reopen(&files));
        let zeros = files[1].1.iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeros, 100 - 16, "{first} {second}");
        let said = &before.model.notes;
        let note =
            "84 bytes of `m.onnx.data` that belong to no tensor are not all zeros: rewriting the model";
        assert!(said.iter().any(|said| said.starts_with(note)), "{said:?}");
        assert_eq!(reopen(&files).model.notes.iter().filter(|said| said.contains("zeros")).count(), 0);
    }
}

#[test]
fn tensors_that_share_bytes_of_a_file_are_told() {
    let said = two("8", "12").model.notes;
    assert!(
        said.iter()
            .any(|said| said
                == "tensors share bytes of `m.onnx.data`: rewriting the model stores each separately"),
        "{said:?}"
    );
}

#[test]
fn bytes_that_are_too_many_to_read_are_told() {
    let rest = external(&[("location", "all.data"), ("length", "8")]);
    let graph = bytes(5, &[tensor(FLOAT, &[2], &rest), bytes(8, b"a")].concat());
    let source = MemorySource::new("m.onnx", model(&graph)).with("all.data", vec![0; (1 << 20) + 9]);
    let said = Opened::new(source).unwrap().model.notes;
    let note = "1048577 bytes of `all.data` that belong to no tensor were not read";
    assert!(said.iter().any(|said| said.starts_with(note)), "{said:?}");
}

#[test]
fn files_that_are_not_named_after_the_model_are_told() {
    let before = Opened::fixture("external/split");
    let told = |request: &LayoutRequest| {
        notes(&before, request).iter().any(|note| note.contains("the data from `a.weight`"))
    };
    assert!(told(&LayoutRequest::file("split.onnx")) && !told(&LayoutRequest::folder("split")));
}

#[test]
fn data_that_is_shared_gets_places_of_its_own() {
    let before = two("8", "8");
    let files = before.write(&LayoutRequest::file("m.onnx")).unwrap();
    assert_eq!(files[1].1.len(), 4096 + 8);
    same(&before, &reopen(&files));
}

#[test]
fn a_file_of_another_name_takes_its_companion_along() {
    let before = Opened::fixture("beside/model");
    let files = before.write(&LayoutRequest::file("other.onnx")).unwrap();
    assert_eq!(
        files.iter().map(|file| file.0.as_str()).collect::<Vec<_>>(),
        ["other.onnx", "other.onnx.data"]
    );
    assert_eq!(files[1].1, file("beside/model.onnx.data"));
    same(&before, &reopen(&files));
    let again = reopen(&files).write(&LayoutRequest::file("model.onnx")).unwrap();
    same(&before, &reopen(&again));
}

#[test]
fn a_folder_keeps_the_names_of_its_files() {
    let before = Opened::fixture("external/split");
    let mut request = LayoutRequest::folder("split");
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    let files = before.write(&request).unwrap();
    assert_eq!(names(&files), ["split.onnx", "a.weight", "b.weight", "small"]);
    assert_eq!(files[0].1, file("external/split.onnx"));
    request.folder = false;
    request.file_name = "split.onnx".to_owned();
    let files = before.write(&request).unwrap();
    let companions = [1, 2, 3].map(|n| format!("split.onnx.data-{n:05}-of-00003"));
    assert_eq!(names(&files)[1..], companions);
    same(&before, &reopen(&files));
}

#[test]
fn data_is_put_beside_a_graph_and_taken_in_again() {
    let mut before = Opened::fixture("graph");
    let number = before.number("w");
    before.model.tensors[number].shape = vec![40, 30];
    let data = vec![3; 4800];
    let payloads = |n: usize| match n {
        n if n == number => Ok(data.clone()),
        n => apr_testkit::payload(&*before.open, &before.model, n, &before.source),
    };
    let write = |request: &LayoutRequest| {
        apr_testkit::write(
            &*crate::fixture::writer(),
            &crate::fixture::carries(),
            &before.model,
            &before.source,
            &payloads,
            request,
        )
        .unwrap()
    };
    let one = write(&LayoutRequest::file("m.onnx"));
    let two = write(&beside("m.onnx"));
    assert_eq!((one.len(), two.len()), (1, 2));
    assert_eq!(two[1].1, data);
    let mut request = LayoutRequest::file("m.onnx");
    request.options = Options::new().with("single-file", "true");
    let opened = reopen(&two);
    assert_eq!(opened.model.foreign[0].files[0].typed, reopen(&one).model.foreign[0].files[0].typed);
    let back = reopen(&opened.write(&request).unwrap());
    same(&opened, &back);
    assert_eq!(back.source.logged(), [""; 0]);
}

#[test]
fn a_location_may_begin_with_the_folder_it_is_in() {
    let rest = external(&[("location", "./m.onnx.data"), ("length", "8")]);
    let graph = bytes(5, &[tensor(FLOAT, &[2], &rest), bytes(8, b"a")].concat());
    let source = MemorySource::new("m.onnx", model(&graph)).with("m.onnx.data", vec![7; 8]);
    let opened = Opened::new(source).unwrap();
    assert_eq!(opened.payload("a"), [7; 8]);
    same(&opened, &reopen(&opened.write(&LayoutRequest::file("m.onnx")).unwrap()));
}

/// What the summary says when a model is written like this.
fn notes(opened: &Opened, request: &LayoutRequest) -> Vec<String> {
    let payload = |n: usize| {
        let tensor = &opened.model.tensors[n];
        Ok(vec![0; usize::try_from(tensor.payload_len().unwrap()).unwrap()])
    };
    apr_testkit::render(
        &*crate::fixture::writer(),
        &crate::fixture::carries(),
        &opened.model,
        &opened.source,
        &payload,
        request,
    )
    .unwrap()
    .notes
}

#[test]
fn nothing_large_enough_to_be_put_beside_the_model_is_said() {
    let opened = Opened::fixture("graph");
    let said = notes(&opened, &beside("m.onnx"));
    assert!(said.iter().any(|note| note.contains("no tensor has 1024 bytes")), "{said:?}");
    let said = notes(&opened, &LayoutRequest::file("m.onnx"));
    assert!(!said.iter().any(|note| note.contains("1024")), "{said:?}");
}

#[test]
fn a_checksum_of_data_beside_the_model_is_not_said_again() {
    let sum = "0123456789abcdef0123456789abcdef01234567";
    let at = |offset: &str, more: &[(&str, &str)]| {
        let place = [("location", "m.onnx.data"), ("offset", offset), ("length", "8")];
        tensor(FLOAT, &[2], &external(&[&place[..], more].concat()))
    };
    let node = bytes(1, &[bytes(2, b"y"), bytes(4, b"Relu")].concat());
    let first = bytes(5, &[at("0", &[("checksum", sum)]), bytes(8, b"a")].concat());
    let second = bytes(5, &[at("8", &[]), bytes(8, b"b")].concat());
    let graph = [node, first, second].concat();
    let source =
        MemorySource::new("m.onnx", model(&graph)).with("m.onnx.data", (1..=16).collect::<Vec<u8>>());
    let before = Opened::new(source).unwrap();
    assert!(before.model.notes.iter().any(|note| note.contains("SHA-1")), "{:?}", before.model.notes);
    let files = before.write(&LayoutRequest::file("m.onnx")).unwrap();
    let has = |text: &str| files[0].1.windows(text.len()).any(|piece| piece == text.as_bytes());
    assert!(!has(sum) && !has("checksum") && has("m.onnx.data"));
    assert_eq!(files[1].1, (1..=16).collect::<Vec<u8>>());
    let after = reopen(&files);
    same(&before, &after);
    assert!(!after.model.notes.iter().any(|note| note.contains("SHA-1")), "{:?}", after.model.notes);
}
