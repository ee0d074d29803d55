//! Any bytes as a plugin's library, whose manifest is read before it is loaded.
#![no_main]

use apr_fuzz::property::check_library;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_library(bytes);
});
