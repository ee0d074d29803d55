//! What other formats say of a model is carried, given back, and never added to a model that has none.

use crate::fixture::{FORMAT, Folder, bytes, carries, open, reader, writer};
use apr_sdk::{Bytes, Foreign, ForeignFile, ForeignPolicy, LayoutRequest, Model, Options, Value};
use apr_testkit::read_with_parts;

/// A model with what a format called `toy` says.
fn with_toy(model: &Model) -> Model {
    let mut model = model.clone();
    model.dialect = "toy".into();
    model.foreign.push(Foreign {
        format: "toy".into(),
        files: vec![ForeignFile {
            name: String::new(),
            n_tensors: model.tensors.len() as u64,
            typed: vec![
                ("z".into(), Value::from_u64(u64::MAX)),
                ("a".into(), Value::from_strings(&["x", "é\0"])),
                ("raw".into(), Value::from_string([0xff])),
            ],
            verbatim: Some(Bytes::from(&[0u8, 1, 2][..])),
        }],
    });
    model
}

#[test]
fn one_file_carries_and_gives_back_what_another_format_said() {
    for name in ["metadata_one.safetensors", "metadata_empty.safetensors", "shapes.safetensors"] {
        let (opened, plain, source) = open(&bytes(name)).unwrap();
        let model = with_toy(&plain);
        let payload = |n| apr_testkit::payload(&*opened, &model, n, &source);
        let mut request = LayoutRequest::file("out.safetensors");
        let first = apr_testkit::write(&*writer(), &carries(), &model, &source, &payload, &request)
            .unwrap()
            .remove(0)
            .1;
        let (opened, back, source) = open(&first).unwrap();
        assert_eq!(
            (&back.dialect, back.foreign_of("toy")),
            (&model.dialect, model.foreign_of("toy")),
            "{name}"
        );
        assert_eq!(back.foreign[0].get("apr.foreign"), None);
        assert_eq!(back.foreign[0].files[0].verbatim, None);
        for policy in [ForeignPolicy::Default, ForeignPolicy::Keep] {
            request.foreign = policy;
            let again =
                apr_testkit::write_model(&*writer(), &carries(), &*opened, &back, &source, &request).unwrap();
            assert_eq!(again[0].1, first, "{name}");
        }
        request.foreign = ForeignPolicy::Typed;
        let typed =
            apr_testkit::write_model(&*writer(), &carries(), &*opened, &back, &source, &request).unwrap();
        let (_, typed, _) = open(&typed[0].1).unwrap();
        assert_eq!(typed.foreign_of("toy").unwrap().files[0].verbatim, None);
        assert_eq!(typed.foreign_of("toy").unwrap().files[0].typed, model.foreign[1].files[0].typed);
        request.foreign = ForeignPolicy::Drop;
        let dropped =
            apr_testkit::write_model(&*writer(), &carries(), &*opened, &back, &source, &request).unwrap();
        let (_, dropped, _) = open(&dropped[0].1).unwrap();
        assert_eq!((dropped.foreign.len(), dropped.foreign[0].files[0].typed.len()), (1, 0));
    }
}

#[test]
fn a_sharded_model_carries_it_in_the_index() {
    let (opened, plain, source) = open(&bytes("numpy_dtypes.safetensors")).unwrap();
    let model = with_toy(&plain);
    let mut request = LayoutRequest::folder("m");
    request.max_shard_size = Some(100);
    let payload = |n| apr_testkit::payload(&*opened, &model, n, &source);
    let files = apr_testkit::write(&*writer(), &carries(), &model, &source, &payload, &request).unwrap();
    assert!(files.len() > 2 && files[0].0 == "m.safetensors.index.json");
    let source = Folder::new(&files);
    let opened = read_with_parts(&*reader(), FORMAT, &source, &Options::new()).unwrap();
    assert_eq!(opened.model.foreign_of("toy"), model.foreign_of("toy"));
    request.max_shard_size = None;
    let payload = |n| opened.payload(n, &source);
    for policy in [ForeignPolicy::Default, ForeignPolicy::Keep] {
        request.foreign = policy;
        let again =
            apr_testkit::write(&*writer(), &carries(), &opened.model, &source, &payload, &request).unwrap();
        assert_eq!(again, files);
    }
}

#[test]
fn a_key_of_the_same_name_with_other_contents_is_kept_as_it_is() {
    for text in
        ["", "{", "[]", "{\\\"formats\\\":{\\\"safetensors\\\":{\\\"files\\\":[]}}}", "{\\\"other\\\":1}"]
    {
        let header = format!("{{\"__metadata__\":{{\"apr.foreign\":\"{text}\",\"b\":\"c\"}}}}");
        let before = crate::fixture::file(&header, &[]);
        let (opened, model, source) = open(&before).unwrap();
        assert_eq!(model.foreign[0].files[0].typed.len(), 2, "{text}");
        assert_eq!(model.notes.len(), 1, "{text}");
        let request = LayoutRequest::file("a");
        let after =
            apr_testkit::write_model(&*writer(), &carries(), &*opened, &model, &source, &request).unwrap();
        assert_eq!(after[0].1, before, "{text}");
    }
}

#[test]
fn the_order_that_another_format_had_comes_back() {
    let (opened, plain, source) = open(&bytes("shapes.safetensors")).unwrap();
    let mut model = with_toy(&plain);
    model.tensors.reverse();
    let last = model.tensors.len() - 1;
    let payload = |n| apr_testkit::payload(&*opened, &plain, last - n, &source);
    let request = LayoutRequest::file("out.safetensors");
    let first =
        apr_testkit::write(&*writer(), &carries(), &model, &source, &payload, &request).unwrap().remove(0).1;
    let (opened, back, source) = open(&first).unwrap();
    let names = |model: &Model| model.tensors.iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&back), names(&model));
    let again = apr_testkit::write_model(&*writer(), &carries(), &*opened, &back, &source, &request).unwrap();
    assert_eq!(again[0].1, first);
    // An order that is none is left aside.
    for order in ["[]", "[0,0,0,0,0,0,0]", "[0,1,2,3,4,5,7]", "[6,5,4,3,2,1,0,0]"] {
        let text = String::from_utf8_lossy(&first[8..]).into_owned();
        let header_len = usize::try_from(u64::from_le_bytes(first[..8].try_into().unwrap())).unwrap();
        assert!(text.contains("\\\"order\\\":[6,"), "{text}");
        let header: String = String::from_utf8(first[8..8 + header_len].to_vec()).unwrap();
        let (before, after) = header.split_once("\\\"order\\\":").unwrap();
        let header = format!("{before}\\\"order\\\":{order}{}", &after[after.find(']').unwrap() + 1..]);
        let (_, other, _) = open(&crate::fixture::file(&header, &first[8 + header_len..])).unwrap();
        assert_eq!(names(&other), names(&plain), "{order}");
    }
}
