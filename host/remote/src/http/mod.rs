//! HTTP as the rest of this crate needs it: one request at a time, redirects judged hop by hop, retries, ranges.

pub mod answer;
pub mod client;
pub(crate) mod failure;
mod guard;
pub(crate) mod origin;
mod rate;
mod resolver;
pub(crate) mod retry;
mod secret;

pub use answer::{Answer, ContentRange};
pub use client::{Client, Query};
pub use origin::{Origin, shown};
pub use secret::Secret;
