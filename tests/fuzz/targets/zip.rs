//! Any bytes as an archive.
#![no_main]

use apr_fuzz::property::check_archive;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_archive(bytes);
});
