//! What is written is what NumPy writes, and what was read.

use crate::fixture::{Opened, bytes, golden, writer};
use apr_sdk::{DType, ErrorKind, ForeignPolicy, LayoutRequest};
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
        let error = model.write(&*writer(), &LayoutRequest::file("a.npz")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(words), "{error}");
    };
    let model = ModelFixture::new;
    refused(model().tensor("t", DType::BF16, &[2]).unwrap(), "NumPy has no BF16");
    refused(model().tensor("a\0b", DType::F32, &[2]).unwrap(), "ends names at the first NUL");
    refused(model().tensor(&"n".repeat(65_532), DType::F32, &[2]).unwrap(), "longer than the 65535 bytes");
}
