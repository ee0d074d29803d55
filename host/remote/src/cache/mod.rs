//! The cache of downloads, which is shared with the hub's own client.

mod roots;

pub use roots::{Env, Roots};
