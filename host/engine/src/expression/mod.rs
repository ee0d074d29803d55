//! How tensors are made of others, as data, and how their bytes come of it.

pub mod compose;
pub mod gather;
pub mod making;
pub mod payload;
mod scatter;
pub mod spool;
pub mod transcode;
pub mod work;
