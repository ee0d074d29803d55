//! What the apr plugin promises: reading, writing and reading back, refusing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests fail by panicking, and their numbers are small"
)]

mod check;
mod compression;
mod header_64_files;
mod header_64_rejects;
mod read;
mod rejects;
mod round_trip;
mod setup;
mod version_1_files;
mod version_1_rejects;

mod conformance {
    apr_testkit::conformance!(
        apr_plugin_apr::PLUGIN,
        fixtures = "tests/data",
        byte_identical = true,
        except = ["aligned_32.apr", "compressed_lz4.apr", "compressed_zstd.apr", "compressed_walked.apr"]
    );
}

mod version_1_conformance {
    apr_testkit::conformance!(apr_plugin_apr::PLUGIN, fixtures = "tests/version_1");
}

mod header_64_conformance {
    apr_testkit::conformance!(apr_plugin_apr::PLUGIN, fixtures = "tests/header_64");
}
