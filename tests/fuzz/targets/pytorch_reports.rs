//! Any bytes as a file that the reports of PyTorch's reader are made of.
#![no_main]

use apr_fuzz::property::{Subject, check_reports};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SUBJECT: LazyLock<Subject> = LazyLock::new(Subject::pytorch);

fuzz_target!(|bytes: &[u8]| {
    check_reports(&SUBJECT, bytes);
});
