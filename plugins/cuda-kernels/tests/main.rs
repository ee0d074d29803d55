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
mod heads;
mod locked;
mod memory;
mod mutations;
mod races;

use apr_sdk::Options;
use apr_testkit::kernels::Subject;

/// With tensor cores, and without; nothing where there is no C++ compiler. Sums are in single precision and in another order, for
/// which bounds are twice as wide.
fn subject() -> Option<Subject> {
    emulated::library()?;
    let open = |cores, options: &Options| emulated::kernel(cores).open(0, options).unwrap();
    let as_usual = Options::new();
    let devices = vec![("tensor cores", open(true, &as_usual)), ("none", open(false, &as_usual))];
    let mut subject = Subject::new(emulated::kernel(true), devices);
    // What takes times records no graphs.
    subject.timed = Some(open(true, &Options::new().with("timings", "on")));
    subject.workers = vec![1];
    subject.same_bits = false;
    subject.slack = 2.0;
    Some(subject)
}

apr_testkit::kernel_conformance!(subject());
