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

/// With tensor cores or without; nothing where there is no C++ compiler. Sums are in single precision and in another order, for which
/// bounds are twice as wide.
fn subject(has_tensor_cores: bool) -> Option<Subject> {
    emulated::library()?;
    let open = |options: &Options| emulated::kernel(has_tensor_cores).open(0, options).unwrap();
    let mut subject =
        Subject::new(emulated::kernel(has_tensor_cores), vec![("emulated", open(&Options::new()))]);
    // What takes times records no graphs.
    subject.timed = Some(open(&Options::new().with("timings", "on")));
    subject.workers = vec![1];
    subject.same_bits = false;
    subject.slack = 2.0;
    subject.skips = vec![("measure", "it has no kernel here".to_owned())];
    Some(subject)
}

mod with_tensor_cores {
    apr_testkit::kernel_conformance!(super::subject(true));
}

mod without_tensor_cores {
    apr_testkit::kernel_conformance!(super::subject(false).map(|mut subject| {
        // These take long.
        let alike = ["attention_with_every_mask", "attention_over_every_type_and_shape", "rope", "activate"];
        subject.skips.extend(alike.map(|name| (name, "its kernels are the same".to_owned())));
        subject
    }));
}
