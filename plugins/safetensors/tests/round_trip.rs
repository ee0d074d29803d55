//! What is written is what was read, to the byte.

use crate::fixture::{bytes, carries, open, single_files, writer};
use apr_sdk::{Bytes, Extent, ForeignPolicy, LayoutRequest, Result, Value};

/// Reads `bytes` and writes them as one file.
fn rewrite(bytes: &[u8], policy: ForeignPolicy) -> Result<Vec<u8>> {
    let (open, model, source) = open(bytes)?;
    let mut request = LayoutRequest::file("out.safetensors");
    request.foreign = policy;
    let mut files = apr_testkit::write_model(&*writer(), &carries(), &*open, &model, &source, &request)?;
    assert_eq!((files.len(), files[0].0.as_str()), (1, "out.safetensors"));
    Ok(files.remove(0).1)
}

#[test]
fn files_of_the_package_come_back_to_the_byte_even_without_the_verbatim_form() {
    for name in single_files(false) {
        let before = bytes(&name);
        assert!(rewrite(&before, ForeignPolicy::Default).unwrap() == before, "{name}");
        assert!(rewrite(&before, ForeignPolicy::Typed).unwrap() == before, "{name}");
    }
}

#[test]
fn files_in_other_spellings_come_back_to_the_byte() {
    for name in single_files(true) {
        let before = bytes(&name);
        assert!(rewrite(&before, ForeignPolicy::Default).unwrap() == before, "{name}");
    }
}

#[test]
fn without_the_verbatim_form_the_spelling_is_canonical_and_stays_so() {
    for name in single_files(true) {
        let typed = rewrite(&bytes(&name), ForeignPolicy::Typed).unwrap();
        let (_, model, _) = open(&typed).unwrap();
        assert_eq!(model.foreign[0].files[0].verbatim, None, "{name}");
        assert_eq!(model.tensors.len(), open(&bytes(&name)).unwrap().1.tensors.len(), "{name}");
        assert!(rewrite(&typed, ForeignPolicy::Typed).unwrap() == typed, "{name}");
    }
}

#[test]
fn metadata_that_lies_in_a_file_is_read_for_the_header() {
    let (open, mut model, source) = open(&bytes("metadata_one.safetensors")).unwrap();
    let long = Value::from_string("é\n".repeat(50_000));
    let wire = long.bytes.inline().unwrap();
    let source = source.with("values", wire);
    let bytes = Bytes::from(Extent::new(1, 0, wire.len() as u64));
    model.foreign[0].files[0].set("long", Value { kind: long.kind, bytes });
    let request = LayoutRequest::file("out.safetensors");
    let files = apr_testkit::write_model(&*writer(), &carries(), &*open, &model, &source, &request).unwrap();
    let (_, model, _) = crate::fixture::open(&files[0].1).unwrap();
    assert_eq!(model.foreign[0].get("long"), Some(&long));
    assert_eq!(model.foreign[0].files[0].verbatim, None);
}

#[test]
fn an_edited_value_replaces_the_verbatim_form() {
    let (open, mut model, source) = open(&bytes("handmade_indented.safetensors")).unwrap();
    model.foreign[0].files[0].set("b", Value::from_u32(7));
    let request = LayoutRequest::file("out.safetensors");
    let files = apr_testkit::write_model(&*writer(), &carries(), &*open, &model, &source, &request).unwrap();
    let header = String::from_utf8_lossy(&files[0].1).into_owned();
    assert!(header.contains(r#"{"__metadata__":{"b":"7","a":"2","apr.foreign":"{\"typed\""#), "{header}");
    let (_, model, _) = crate::fixture::open(&files[0].1).unwrap();
    assert_eq!(model.foreign[0].get("b"), Some(&Value::from_u32(7)));
}
