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

mod compression;
mod older_files;
mod older_rejects;
mod oldest_files;
mod oldest_rejects;
mod read;
mod rejects;
mod round_trip;
mod setup;

mod conformance {
    apr_testkit::conformance!(
        apr_plugin_apr::PLUGIN,
        fixtures = "tests/data",
        byte_identical = true,
        except = ["aligned_32.apr", "compressed_lz4.apr", "compressed_zstd.apr", "compressed_walked.apr"]
    );
}

mod oldest_conformance {
    apr_testkit::conformance!(apr_plugin_apr::PLUGIN, fixtures = "tests/oldest");
}

mod older_conformance {
    apr_testkit::conformance!(apr_plugin_apr::PLUGIN, fixtures = "tests/older");
}
