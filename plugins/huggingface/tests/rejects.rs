//! Folders that are refused, and how.

use crate::fixture::{CONFIG, folder, read};
use apr_sdk::ErrorKind;

/// Refuses a folder whose `config.json` is `config`.
#[track_caller]
fn rejects(config: &[u8], kind: ErrorKind, message: &str) {
    let source = folder(&[("config.json", config), ("model.safetensors", b"")]);
    let error = read(&source).unwrap_err();
    assert_eq!((error.kind(), error.message(), error.file()), (kind, message, Some("config.json")));
}

#[test]
fn rejects_a_configuration_that_is_no_json_object() {
    rejects(b"[1]", ErrorKind::Malformed, "it is JSON, but not an object");
    rejects(b"", ErrorKind::Malformed, "invalid JSON: EOF while parsing a value");
    rejects(b"{\"a\": 1, \"a\": 1}", ErrorKind::Malformed, "invalid JSON: duplicate key `a`");
    rejects(b"{\"a\": \"\xff\"}", ErrorKind::Malformed, "it is not valid UTF-8");
    rejects(&b"{\"a\":".repeat(100_000), ErrorKind::Malformed, "invalid JSON: recursion limit exceeded");
}

#[test]
fn rejects_a_configuration_above_the_limit() {
    let message = "16777217 bytes of JSON, more than the limit of 16777216";
    rejects(&vec![b' '; (16 << 20) + 1], ErrorKind::LimitExceeded, message);
}

#[test]
fn rejects_a_folder_without_weights_and_one_with_several() {
    let error = read(&folder(&[("config.json", CONFIG.as_bytes())])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let files: [(&str, &[u8]); 3] =
        [("config.json", CONFIG.as_bytes()), ("a.safetensors", b""), ("b.safetensors", b"")];
    assert_eq!(read(&folder(&files)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
