//! Foreign metadata: what only the source format can express, stored under that format's id, typed and
//! verbatim.

use crate::{Bytes, Value};

/// All foreign metadata of one format: one record per file of the model in that format, entry file first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Foreign {
    /// The id of the format that the metadata belongs to.
    pub format: String,
    /// The files in order; a single-file model has one record with an empty name.
    pub files: Vec<ForeignFile>,
}

/// The foreign metadata of one source file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ForeignFile {
    /// Path relative to the model's folder; empty for a single-file model, whose name is not part of the
    /// model.
    pub name: String,
    /// Number of tensors in this file. Files hold consecutive tensors of the model; if the counts no longer add up to
    /// the model's, the split into files is void and writers ignore it.
    pub n_tensors: u64,
    /// The typed form: ordered and complete. Used by `--set`, `apr diff` and other formats' writers.
    pub typed: Vec<(String, Value)>,
    /// The verbatim form: whatever the format's own writer needs beyond the typed form to reproduce the file
    /// byte for byte. It is used only if the writer's own reader, given those bytes, yields exactly the model
    /// about to be written.
    pub verbatim: Option<Bytes>,
}

impl Foreign {
    /// A record of `format` without files.
    pub fn new(format: impl Into<String>) -> Foreign {
        Foreign { format: format.into(), files: Vec::new() }
    }

    /// The first value of `key` in any file.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.files.iter().find_map(|file| file.get(key))
    }

    /// Returns whether the files' tensor counts add up to `n_tensors`, so that the split into files still applies.
    pub fn describes(&self, n_tensors: usize) -> bool {
        let sum = self.files.iter().try_fold(0u64, |n, file| n.checked_add(file.n_tensors));
        sum == Some(n_tensors as u64)
    }
}

impl ForeignFile {
    /// The value of `key`, if this file has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.typed.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Adds or replaces a value; a new key is appended.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.typed.iter_mut().find(|(k, _)| k == key) {
            Some(slot) => slot.1 = value,
            None => self.typed.push((key.to_owned(), value)),
        }
    }
}
