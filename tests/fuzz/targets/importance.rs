//! Any bytes as an importance matrix.
#![no_main]

use apr_fuzz::property::check_importance;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_importance(bytes);
});
