//! Any bytes as a packed checkpoint.
#![no_main]

use apr_fuzz::property::check_packed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_packed(bytes);
});
