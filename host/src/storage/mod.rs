//! Files on this machine: inputs that are read, and outputs that are staged, recorded and published.

pub mod disk;
pub mod error;
mod journal;
pub(crate) mod lock;
pub mod mapping;
pub mod model_folder;
pub mod open_file;
pub mod overlay;
pub mod overwrite;
pub mod publication;
pub mod publish;
mod recorder;
pub mod small_file;
pub mod staged_file;
pub mod staging;
pub mod target;

pub use journal::{Journal, Journaling};
pub use recorder::Recorder;
