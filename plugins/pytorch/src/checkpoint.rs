//! An opened checkpoint, in any of the three layouts.

use crate::pickle::value::{Arena, Id};
use crate::storage::Located;
use apr_sdk::{Endian, FileId};

/// What the pickles said and where the storages are.
#[derive(Debug)]
pub struct Checkpoint {
    /// The number of the file in the model.
    pub file: FileId,
    /// Where the pickle of the object begins.
    pub at: u64,
    /// The pickles' values.
    pub arena: Arena,
    /// The value that was saved.
    pub root: Id,
    /// Where each of the arena's storages lies.
    pub located: Vec<Located>,
    /// The byte order of the storages.
    pub endian: Endian,
    /// How the file stores its pickles and storages.
    pub layout: Layout,
    /// What was assumed or left out.
    pub notes: Vec<String>,
}

/// The ways in which a file can store pickles and storages.
#[derive(Debug)]
pub enum Layout {
    /// A ZIP, with the folder its records lie in.
    Zip(apr_zip::Archive, String),
    /// Pickles one after another, storages behind them.
    Stream,
    /// A tar archive, as torch wrote it before 0.1.10.
    Tar,
}
