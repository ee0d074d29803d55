//! What is written is what NumPy writes, and what was read.

use crate::fixture::{Opened, bytes, carries, golden, writer};
use apr_sdk::{DType, ErrorKind, ForeignPolicy, LayoutRequest, Options, Value};
use apr_testkit::ModelFixture;

/// Archives of the newest NumPy, which need no form of their own.
const NEWEST: [&str; 3] = ["every_dtype.npz", "shapes.npz", "names.npz"];

fn request(foreign: ForeignPolicy) -> LayoutRequest {
    let mut request = LayoutRequest::file("out.npz");
    request.foreign = foreign;
    request
}

#[test]
fn archives_of_the_newest_numpy_come_back_to_the_byte_from_what_they_mean() {
    for name in NEWEST {
        let opened = Opened::fixture(name);
        assert_eq!(opened.model.foreign[0].files[0].verbatim, None, "{name}");
        for foreign in [ForeignPolicy::Default, ForeignPolicy::Typed, ForeignPolicy::Drop] {
            assert!(opened.written(&request(foreign)) == bytes(name), "{name}");
        }
    }
}

#[test]
fn an_archive_without_arrays_is_what_numpy_writes() {
    let empty = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
    let opened = Opened::new("empty.npz", &empty, &Default::default()).unwrap();
    assert_eq!(opened.model.tensors.len(), 0);
    assert!(opened.written(&request(ForeignPolicy::Default)) == empty);
}

#[test]
fn other_stored_archives_come_back_to_the_byte_from_their_own_form() {
    for name in ["old_archive.npz", "streamed.npz", "more.npz", "nameless.npz"] {
        let opened = Opened::fixture(name);
        assert!(opened.model.foreign[0].files[0].verbatim.is_some(), "{name}");
        assert!(opened.written(&request(ForeignPolicy::Default)) == bytes(name), "{name}");
        let typed = opened.written(&request(ForeignPolicy::Typed));
        assert!(typed != bytes(name), "{name}");
        let again = Opened::new("out.npz", &typed, &Default::default()).unwrap();
        assert_eq!(again.said(), opened.said(), "{name}");
        assert_eq!(again.model.foreign[0].files[0].verbatim, None, "{name}");
    }
}

#[test]
fn every_fixture_is_written_with_equal_payloads() {
    for (name, expected) in golden() {
        let written = Opened::fixture(&name).written(&request(ForeignPolicy::Default));
        assert_eq!(Opened::new("out.npz", &written, &Default::default()).unwrap().said(), expected, "{name}");
    }
}

#[test]
fn a_changed_model_is_not_written_in_the_old_form() {
    let mut opened = Opened::fixture("old_archive.npz");
    opened.model.tensors[0].name = "renamed".into();
    let written = opened.written(&request(ForeignPolicy::Default));
    let again = Opened::new("out.npz", &written, &Default::default()).unwrap().model;
    assert_eq!(again.tensors[0].name, "renamed");
    assert_eq!(again.foreign[0].files[0].verbatim, None, "a form that the writer made itself");
}

#[test]
fn rejects_what_numpy_cannot_hold() {
    let refused = |model: ModelFixture, words: &str| {
        let error = model.write(&*writer("npz"), &carries("npz"), &LayoutRequest::file("a.npz")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(words), "{error}");
    };
    let model = ModelFixture::new;
    refused(model().tensor("t", DType::BF16, &[2]).unwrap(), "cannot hold BF16");
    refused(model().tensor("a\0b", DType::F32, &[2]).unwrap(), "control characters in a name");
    refused(
        model().tensor(&"n".repeat(65_532), DType::F32, &[2]).unwrap(),
        "names of at most 65531 bytes, this has 65532",
    );
}

#[test]
fn a_file_of_one_array_comes_back_to_the_byte() {
    // What numpy 2 wrote row-major and little-endian, from what it means; other headers from the file's own form.
    for (name, own_form) in [
        ("matrix.npy", false),
        ("scalar.npy", false),
        ("empty.npy", false),
        ("old_matrix.npy", true),
        ("python2_vector.npy", true),
        ("version_2.npy", true),
        ("nameless_1.npy", true),
    ] {
        let opened = Opened::fixture(name);
        assert_eq!(opened.model.foreign[0].files[0].verbatim.is_some(), own_form, "{name}");
        assert!(opened.written(&LayoutRequest::file("other.npy")) == bytes(name), "{name}");
        let mut typed = LayoutRequest::file("other.npy");
        typed.foreign = ForeignPolicy::Typed;
        assert_eq!(opened.written(&typed) == bytes(name), !own_form, "{name}");
    }
}

#[test]
fn a_file_of_one_array_has_no_room_for_others() {
    for count in [0, 2] {
        let mut model = ModelFixture::new();
        for n in 0..count {
            model = model.tensor(&format!("t{n}"), DType::F32, &[2]).unwrap();
        }
        let error = model.write(&*writer("npy"), &carries("npy"), &LayoutRequest::file("a.npy")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("exactly one tensor"), "{error}");
    }
}

#[test]
fn a_folder_gets_a_file_named_after_the_model() {
    let model = ModelFixture::new().tensor("t", DType::F32, &[2]).unwrap();
    for format in ["npy", "npz"] {
        let files = model.write(&*writer(format), &carries(format), &LayoutRequest::folder("model")).unwrap();
        assert_eq!(files[0].0, format!("model.{format}"));
    }
}

/// An archive with a tensor and what another format said.
fn carrying() -> Vec<u8> {
    let model = ModelFixture::new().tensor("t", DType::F32, &[2]).unwrap();
    let model = model.foreign("other", "key", Value::from_u32(7));
    model.write(&*writer("npz"), &carries("npz"), &request(ForeignPolicy::Keep)).unwrap().remove(0).1
}

#[test]
fn other_formats_metadata_is_an_array_of_its_own_if_it_is_to_be_kept() {
    let archive = carrying();
    let opened = Opened::new("out.npz", &archive, &Options::new()).unwrap();
    assert_eq!(opened.model.tensors.len(), 1);
    assert_eq!(opened.model.foreign_of("other").unwrap().files[0].typed[0].1, Value::from_u32(7));
    assert_eq!(opened.model.foreign_of("npz").unwrap().files[0].verbatim, None);
    assert!(opened.written(&request(ForeignPolicy::Keep)) == archive);
    let without = Opened::new("out.npz", &opened.written(&request(ForeignPolicy::Default)), &Options::new());
    assert_eq!(without.unwrap().model.foreign_of("other"), None);
}

#[test]
fn an_array_of_that_name_with_anything_else_in_it_is_a_tensor() {
    for (dtype, shape, payload) in [
        (DType::U8, vec![2], b"{}".to_vec()),
        (DType::U8, vec![3], b"abc".to_vec()),
        (DType::U8, vec![1, 2], b"{}".to_vec()),
        (DType::I8, vec![0], Vec::new()),
    ] {
        let model = ModelFixture::new().tensor_with("apr.foreign", dtype, &shape, payload);
        let written =
            model.write(&*writer("npz"), &carries("npz"), &request(ForeignPolicy::Keep)).unwrap().remove(0).1;
        let opened = Opened::new("out.npz", &written, &Options::new()).unwrap();
        assert_eq!((opened.model.tensors[0].dtype, &opened.model.tensors[0].shape), (dtype, &shape));
        let both = model.foreign("other", "key", Value::from_u32(7));
        let error = both.write(&*writer("npz"), &carries("npz"), &request(ForeignPolicy::Keep)).unwrap_err();
        assert!(error.to_string().contains("two entries"), "{error}");
    }
}
