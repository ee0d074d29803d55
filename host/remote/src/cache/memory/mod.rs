//! Memory of caches, in apr's state folder: which blobs were hashed, and which of them apr fetched itself.

mod ownership;
mod proofs;
mod stamp;
mod state_file;

pub use ownership::Ownership;
pub use proofs::{Proofs, Verdict};
pub use stamp::Stamp;
