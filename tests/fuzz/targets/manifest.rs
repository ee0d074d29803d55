//! Any bytes as a plugin's manifest section, and as its text.
#![no_main]

use apr_fuzz::property::check_section;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_section(bytes);
});
