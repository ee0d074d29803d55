//! What is read agrees with the format's own library.

use crate::fixture::{bytes, golden, open, single_files};
use apr_sdk::{Bytes, DType, Model, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// The model as the golden manifests say it.
fn said(model: &Model, payload: &dyn Fn(usize) -> Vec<u8>) -> Json {
    let mut order: Vec<usize> = (0..model.tensors.len()).collect();
    order.sort_by_key(|&n| &model.tensors[n].name);
    let tensors: Vec<_> = order
        .iter()
        .map(|&n| {
            let tensor = &model.tensors[n];
            let dtype = if tensor.dtype == DType::F4_E2M1 { "F4" } else { tensor.dtype.name() };
            let sum: String = Sha256::digest(payload(n)).iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"name": tensor.name, "dtype": dtype, "shape": tensor.shape, "sha256": sum})
        })
        .collect();
    let typed = &model.foreign[0].files[0].typed;
    let entries = typed.iter().filter_map(|(k, v)| Some((k.clone(), Json::from(v.as_str()?))));
    let metadata = if typed.is_empty() { Json::Null } else { Json::Object(entries.collect()) };
    json!({"metadata": metadata, "tensors": tensors})
}

#[test]
fn agrees_with_the_formats_own_library() {
    for name in [single_files(false), single_files(true)].concat() {
        let (open, model, source) = open(&bytes(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let payload = |n| apr_testkit::payload(&*open, &model, n, &source).unwrap();
        let mut expected = golden(&name);
        expected.as_object_mut().unwrap().shift_remove("by");
        assert_eq!(said(&model, &payload), expected, "{name}");
    }
}

#[test]
fn tensors_come_in_the_order_of_their_data() {
    for (name, order) in [
        ("handmade_header_order", vec!["b", "a"]),
        ("handmade_zero_size_between", vec!["c", "z", "a", "b"]),
        ("shapes", vec!["empty.wide", "empty.a", "empty.b", "one", "scalar", "eight", "odd"]),
    ] {
        let (_, model, _) = open(&bytes(&format!("{name}.safetensors"))).unwrap();
        let names: Vec<_> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, order, "{name}");
    }
}

#[test]
fn headers_are_kept_verbatim_only_where_the_writer_would_spell_them_otherwise() {
    for name in single_files(false) {
        assert_eq!(open(&bytes(&name)).unwrap().1.foreign[0].files[0].verbatim, None, "{name}");
    }
    for name in single_files(true) {
        let kept = open(&bytes(&name)).unwrap().1.foreign[0].files[0].verbatim.clone();
        match name.as_str() {
            "handmade_narrow_types_canonical.safetensors" => assert_eq!(kept, None),
            "handmade_long_header.safetensors" => assert!(matches!(kept, Some(Bytes::Extent(_)))),
            _ => assert!(matches!(kept, Some(Bytes::Inline(_))), "{name}"),
        }
    }
}

#[test]
fn an_empty_map_of_metadata_is_not_the_same_as_none() {
    let typed = |name: &str| open(&bytes(name)).unwrap().1.foreign[0].files[0].typed.clone();
    assert_eq!(typed("metadata_empty.safetensors"), [("__metadata__".to_owned(), Value::from_bool(true))]);
    assert_eq!(typed("no_tensors.safetensors"), []);
}
