//! What an error about a file must be: of a kind that blames the file, with its place, fit to print.

use apr_sdk::{Error, ErrorKind};

/// The longest text of an error. Names taken from a file are cut, so nothing comes near.
const LONGEST: usize = 4096;

/// Panics unless `error` is a clear refusal of a file.
pub fn check_refusal(what: &str, error: &Error) {
    let text = check_text(what, error);
    match error.kind() {
        _ if is_damage(error) => {
            assert!(error.file().is_some() && error.offset().is_some(), "{what}: no place: {text}");
        }
        ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::LimitExceeded => {
            assert!(error.file().is_some(), "{what}: an error without its file: {text}");
            // What is missing lies nowhere; then the error says what to do.
            let placed = error.offset().is_some() || error.tensor_name().is_some();
            assert!(placed || error.hint_text().is_some(), "{what}: an error without a place: {text}");
        }
        // A missing sibling, or a folder that does not say which of its models is meant.
        ErrorKind::NotFound | ErrorKind::InvalidArgument => {}
        kind => panic!("{what}: {kind:?} blames something else than the file: {text}"),
    }
}

/// Panics unless `error` is a refusal of a writer, which is asked for what its manifest says it can.
pub fn check_write_refusal(what: &str, error: &Error) {
    let text = check_text(what, error);
    let clean = matches!(
        error.kind(),
        ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::LimitExceeded | ErrorKind::InvalidArgument
    );
    assert!(clean || is_damage(error), "{what}: {:?}: {text}", error.kind());
}

/// Whether the error says that data is not what the checksum stored for it says.
fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Failed && error.stable_code() == Some("E004")
}

fn check_text(what: &str, error: &Error) -> String {
    let text = error.to_string();
    check_shown(what, &text);
    for cause in error.causes() {
        check_shown(what, cause);
    }
    text
}

/// Panics if a text that is shown is long, or holds control characters that a file smuggled into it.
pub fn check_shown(what: &str, text: &str) {
    assert!(text.len() <= LONGEST, "{what}: a text of {} bytes: {:?}", text.len(), &text.get(..200));
    assert!(!text.contains(char::is_control), "{what}: control characters in {text:?}");
}
