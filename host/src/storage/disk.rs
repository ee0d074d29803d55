//! Resolves paths on this machine.

use super::model_folder::ModelFolder;
use super::small_file;
use apr_engine::place::{Entry, Places};
use apr_sdk::Result;
use std::path::Path;

/// The paths of this machine's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Places for Disk {
    fn locate(&self, path: &Path) -> Result<Entry> {
        ModelFolder::locate(path, None)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        small_file::read_bytes(path)
    }
}
