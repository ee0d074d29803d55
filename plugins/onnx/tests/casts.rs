//! Types that a graph's nodes were not made for, and what a file of weights says of itself.

use crate::build::{bytes as record, model, number as varint, tensor};
use crate::fixture::{Opened, carries, writer};
use apr_sdk::{DType, Error, ErrorKind, ForeignPolicy, LayoutRequest, MemorySource, Result};

const FLOAT: u64 = 1;

/// What is said when a model is written, its payloads being zeros.
fn notes(opened: &Opened, request: &LayoutRequest) -> Result<Vec<String>> {
    let payload = |n: usize| {
        let tensor = &opened.model.tensors[n];
        Ok(vec![0; usize::try_from(tensor.payload_len()?).unwrap()])
    };
    let rendered =
        apr_testkit::render(&*writer(), &carries(), &opened.model, &opened.source, &payload, request)?;
    Ok(rendered.notes)
}

fn requests() -> [LayoutRequest; 2] {
    let mut typed = LayoutRequest::file("m.onnx");
    typed.foreign = ForeignPolicy::Typed;
    [LayoutRequest::file("m.onnx"), typed]
}

#[test]
fn a_graph_whose_tensors_changed_is_refused() {
    for request in requests() {
        let refused = |change: &dyn Fn(&mut apr_sdk::Tensor)| -> Error {
            let mut opened = Opened::fixture("graph");
            let number = opened.number("w");
            change(&mut opened.model.tensors[number]);
            notes(&opened, &request).unwrap_err()
        };
        let error = refused(&|tensor| tensor.dtype = DType::F16);
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("w")), "{error}");
        assert!(error.message().contains("F32") && error.message().contains("F16"), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("--unset onnx.graph")), "{error}");
        // Without the graph it is a file of weights, of any types.
        let mut opened = Opened::fixture("graph");
        let number = opened.number("w");
        opened.model.tensors[number].dtype = DType::F16;
        opened.model.foreign[0].files[0].typed.retain(|(key, _)| !key.starts_with("onnx."));
        let said = notes(&opened, &request).unwrap();
        assert!(said.len() == 1 && said[0].contains("the file contains only weights"), "{said:?}");
    }
}

#[test]
fn a_graph_whose_tensors_are_as_they_were_is_written_without_a_word() {
    for name in ["graph", "training", "sparse", "ir-3"] {
        for request in requests() {
            let opened = Opened::fixture(name);
            assert_eq!(notes(&opened, &request).unwrap(), [""; 0], "{name}");
        }
    }
}

#[test]
fn a_file_of_weights_says_so() {
    let alone = |opened: &Opened| opened.model.notes.iter().any(|note| note.contains("only weights"));
    assert!(!alone(&Opened::fixture("graph")));
    let initializer = record(5, &tensor(FLOAT, &[2], &record(9, &[7; 8])));
    let opened = Opened::new(MemorySource::new("m.onnx", model(&initializer))).unwrap();
    assert!(alone(&opened), "{:?}", opened.model.notes);
    let node = record(1, &[record(2, b"y"), record(4, b"Relu")].concat());
    let opened = Opened::new(MemorySource::new("m.onnx", model(&[node, initializer].concat()))).unwrap();
    assert!(!alone(&opened));
}

#[test]
fn a_name_that_is_not_utf8_is_refused() {
    let open = |graph: &[u8]| Opened::new(MemorySource::new("m.onnx", model(graph)));
    let value = |name: &[u8]| [varint(1, 2), varint(2, FLOAT), record(8, name), record(9, &[7; 8])].concat();
    let error = open(&record(5, &value(b"w\xff"))).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("is not valid UTF-8") && error.offset() > Some(0), "{error}");
    assert!(open(&record(5, &value("w\u{fffd}".as_bytes()))).is_ok(), "that is a name");
    // Of a node it matters only where a tensor is called after it.
    let node =
        |attribute: &[u8]| record(1, &[record(3, b"n\xff"), record(4, b"Relu"), attribute.to_vec()].concat());
    assert!(open(&[node(b""), record(5, &value(b"w"))].concat()).is_ok());
    let attribute = record(5, &[record(1, b"value"), record(5, &value(b"w")), varint(20, 4)].concat());
    assert!(open(&node(&attribute)).map(drop).unwrap_err().message().contains("is not valid UTF-8"));
}
