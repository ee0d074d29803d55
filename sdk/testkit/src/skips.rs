//! Cases that a test could not try.

use std::io::Write;

/// Says aloud that a test, or a part of it, cannot run here. A passing test's words are not shown, so that they go to the
/// file that the variable `APR_SKIPPED` names as well, where it is set.
pub fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("APR_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let written = file.and_then(|mut file| file.write_all(format!("{why}\n").as_bytes()));
        assert!(written.is_ok(), "cannot write the list of skipped tests: {written:?}");
    }
}
