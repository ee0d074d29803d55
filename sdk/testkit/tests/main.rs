//! The testkit's own tests: every check is seen to pass on the template's format and to fail on a broken one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a test may fail loudly"
)]

// The quantizer's template, as below.
#[path = "../../template/quantizer/src/block.rs"]
mod block;
mod broken;
mod checks;
mod kernels;
// The template's own code, at the crate's root because it says `crate::layout`: so it compiles and passes wherever the
// workspace's tests run. Only its `lib.rs` has placeholders.
#[path = "../../template/format/src/layout.rs"]
mod layout;
mod parts;
mod payload;
mod quantizers;
#[path = "../../template/format/src/reader.rs"]
mod reader;
mod sources;
mod template;
mod weights;
mod write;
#[path = "../../template/format/src/writer.rs"]
mod writer;
