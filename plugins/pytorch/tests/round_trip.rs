//! What is written is what was read, and what torch would have written.

use crate::fixture::{FORMAT, bytes, carries, open, single_files, writer};
use apr_sdk::{DType, ForeignPolicy, LayoutRequest, MemorySource, Value};
use apr_testkit::ModelFixture;

/// Reads `bytes` and writes them as one file.
fn rewrite(bytes: &[u8], policy: ForeignPolicy) -> Vec<u8> {
    let (open, model, source) = open(bytes).unwrap();
    let mut request = LayoutRequest::file("out.pt");
    request.foreign = policy;
    let mut files =
        apr_testkit::write_model(&*writer(), &carries(), &*open, &model, &source, &request).unwrap();
    assert_eq!((files.len(), files[0].0.as_str()), (1, "out.pt"));
    files.remove(0).1
}

/// A record of an archive.
fn record(bytes: &[u8], name: &str) -> Vec<u8> {
    let source = MemorySource::new("m.pt", bytes);
    let archive = apr_zip::Archive::open(&source, 0, &apr_sdk::Limits::default()).unwrap();
    let entry = archive.entries().iter().find(|entry| entry.name.ends_with(name)).unwrap();
    archive.read(&source, entry, &apr_sdk::Limits::default()).unwrap()
}

#[test]
fn the_pickle_written_anew_is_the_one_that_torch_writes() {
    for name in [
        "attributes.pt",
        "every_dtype.pt",
        "list.pt",
        "nested.pt",
        "no_tensors.pt",
        "optimizer.pt",
        "parameters.pt",
        "quantized.pt",
        "quantized_embedding.pt",
        "shapes.pt",
        "tensor.pt",
    ] {
        let before = bytes(name);
        let after = rewrite(&before, ForeignPolicy::Typed);
        let (a, b) = (record(&before, "/data.pkl"), record(&after, "/data.pkl"));
        let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
        assert!(a == b, "{name}: differs from byte {at}: {:02x?} / {:02x?}", &a[at..], &b[at..]);
    }
}

#[test]
fn files_written_anew_need_no_verbatim_form_and_stay_as_they_are() {
    for name in single_files() {
        let anew = rewrite(&bytes(&name), ForeignPolicy::Typed);
        assert_eq!(open(&anew).unwrap().1.foreign[0].files[0].verbatim, None, "{name}");
        assert!(rewrite(&anew, ForeignPolicy::Default) == anew, "{name}");
        assert!(rewrite(&anew, ForeignPolicy::Typed) == anew, "{name}");
    }
}

#[test]
fn typed_values_survive_being_written_anew() {
    for name in single_files() {
        let before = bytes(&name);
        let after = rewrite(&before, ForeignPolicy::Typed);
        let typed = |bytes: &[u8]| open(bytes).unwrap().1.foreign[0].files[0].typed.clone();
        assert_eq!(typed(&before), typed(&after), "{name}");
    }
}

#[test]
fn storages_begin_at_multiples_of_64() {
    let anew = rewrite(&bytes("every_dtype.pt"), ForeignPolicy::Typed);
    for tensor in open(&anew).unwrap().1.tensors {
        let apr_sdk::Payload::Extent { extent, .. } = tensor.payload else { panic!("{}", tensor.name) };
        assert_eq!(extent.offset % 64, 0, "{}", tensor.name);
    }
}

#[test]
fn an_edited_value_is_written_into_the_pickle() {
    let before = bytes("optimizer.pt");
    let (open_model, mut model, source) = open(&before).unwrap();
    let file = &mut model.foreign[0].files[0];
    file.set("param_groups.0.lr", Value::from_f64(0.5));
    file.set("param_groups.0.eps", Value::from_u8(3));
    let request = LayoutRequest::file("out.pt");
    let files =
        apr_testkit::write_model(&*writer(), &carries(), &*open_model, &model, &source, &request).unwrap();
    let (_, again, _) = open(&files[0].1).unwrap();
    assert_eq!(again.foreign[0].get("param_groups.0.lr"), Some(&Value::from_f64(0.5)));
    assert_eq!(again.foreign[0].get("param_groups.0.eps"), Some(&Value::from_u8(3)));
    assert_ne!(record(&files[0].1, "data.pkl"), record(&before, "data.pkl"));
}

#[test]
fn what_other_formats_say_lies_in_a_record_of_its_own() {
    let model = ModelFixture::new()
        .tensor("a", DType::F32, &[2])
        .unwrap()
        .foreign("other", "key", Value::from_u16(7))
        .foreign(FORMAT, "mine", Value::from_u16(8));
    let files = model.write(&*writer(), &carries(), &LayoutRequest::file("m.pt")).unwrap();
    assert!(record(&files[0].1, ".apr/model.json").starts_with(b"{\"formats\":{\"other\""));
    let (_, again, _) = open(&files[0].1).unwrap();
    assert_eq!(again.foreign_of("other").unwrap().get("key"), Some(&Value::from_u16(7)));
    assert_eq!(again.foreign_of(FORMAT).unwrap().get("mine"), Some(&Value::from_u16(8)));
    assert_eq!(again.foreign_of(FORMAT).unwrap().files[0].verbatim, None);
}

#[test]
fn names_of_any_text_survive_the_empty_one_too() {
    let mut model = ModelFixture::new();
    for name in ["", ".", "a", "a.", "é\n", "data"] {
        model = model.tensor(name, DType::F32, &[2]).unwrap();
    }
    let files = model.write(&*writer(), &carries(), &LayoutRequest::file("m.pt")).unwrap();
    let names: Vec<_> = open(&files[0].1).unwrap().1.tensors.into_iter().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["", ".", "a", "a.", "é\n", "data"]);
}

#[test]
fn max_shard_size_makes_shards_and_an_index() {
    let model =
        ModelFixture::new().tensor("a", DType::F32, &[4]).unwrap().tensor("b", DType::F32, &[4]).unwrap();
    let mut request = LayoutRequest::folder("pytorch_model");
    request.max_shard_size = Some(16);
    let files = model.write(&*writer(), &carries(), &request).unwrap();
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    let shards = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
    assert_eq!(names, ["pytorch_model.bin.index.json", shards[0], shards[1]]);
    let index = String::from_utf8(files[0].1.clone()).unwrap();
    assert!(
        index.contains("\"total_size\": 32") && index.contains("\"b\": \"pytorch_model-00002-of-00002.bin\""),
        "{index}"
    );
}
