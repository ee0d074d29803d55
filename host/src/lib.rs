//! The program around the engine: plugins, storage, the Rosetta matrix, the command line.

pub mod bundled_plugins;
mod conversion;
pub mod convert;
pub mod destination;
pub mod host;
pub mod plugins;
pub mod report;
pub mod rosetta;
pub mod running;
pub mod scan;
pub use apr_engine::sizes;
pub mod storage;
pub mod threads;
