//! Any bytes as a program for the kernels for NVIDIA's devices, which the processor emulates.
#![no_main]

use apr_fuzz::property::check_emulated_program;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check_emulated_program(bytes);
});
