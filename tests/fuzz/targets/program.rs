//! Any bytes as a program for a compute backend.
#![no_main]

use apr_fuzz::property::check_program;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_program(bytes);
});
