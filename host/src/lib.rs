//! The program around the engine: plugins, storage, the Rosetta matrix, the command line.

pub mod bundled;
pub mod convert;
pub mod host;
pub mod in_place;
mod output;
pub mod output_file;
pub mod outputs;
pub mod overwrite;
pub mod plugins;
pub mod report;
pub mod rosetta;
pub mod running;
pub mod scan;
pub mod sizes;
mod staged_output;
pub mod storage;
pub mod threads;
