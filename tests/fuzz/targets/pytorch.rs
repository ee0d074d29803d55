//! Any bytes as the PyTorch reader's files.
#![no_main]

use apr_fuzz::property::{Subject, check_model};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SUBJECT: LazyLock<Subject> = LazyLock::new(Subject::pytorch);

fuzz_target!(|bytes: &[u8]| {
    check_model(&SUBJECT, bytes);
});
