//! The backend through its interface, over a driver that runs the kernels on the processor.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_range_loop,
    reason = "tests fail by panicking, and their numbers are small"
)]

mod emulated;
mod locked;

use apr_sdk::Options;
use apr_testkit::kernels::Subject;

/// With tensor cores, and without.
fn subject() -> Option<Subject> {
    if emulated::library().is_none() {
        eprintln!("skipped: there is no C++ compiler");
        return None;
    }
    let open = |cores| emulated::kernel(cores).open(0, &Options::new().with("timings", "on")).unwrap();
    let devices = vec![("tensor cores", open(true)), ("none", open(false))];
    Some(Subject { devices, workers: vec![1], same_bits: false, is_timed: true, slack: 1.0 })
}

apr_testkit::kernel_tests!(subject);
