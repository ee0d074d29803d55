//! Any bytes as the PyTorch reader's files, and as a file to scan.
#![no_main]

use apr_fuzz::property::{Subject, check_model};
use apr_sdk::{Limits, MemorySource, Options};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SUBJECT: LazyLock<Subject> = LazyLock::new(Subject::pytorch);

fuzz_target!(|bytes: &[u8]| {
    check_model(&SUBJECT, bytes);
    let source = MemorySource::new("model.pt", bytes);
    for id in ["scan", "list-keys"] {
        let _either = SUBJECT.reader.report(id, &source, &Limits::default(), &Options::new());
    }
});
