//! Any bytes as the apr reader's files of version 1.
#![no_main]

use apr_fuzz::property::{Subject, check_older};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SUBJECT: LazyLock<Subject> = LazyLock::new(Subject::apr);

fuzz_target!(|bytes: &[u8]| {
    check_older(&SUBJECT, bytes);
});
