//! Foreign metadata: what only the source format can say, under that format's id, in two layers (design section 3).

use crate::{Bytes, Value};

/// All foreign metadata of one format: one record for each of the model's files in that format, entry file first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Foreign {
    /// The format's id.
    pub format: String,
    /// The files, in their order; a model of one file has one record with an empty name.
    pub files: Vec<ForeignFile>,
}

/// What one file of the source said.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ForeignFile {
    /// Its name relative to the model's folder; empty for a model of one file, whose name is not part of the model.
    pub name: String,
    /// How many tensors lie in it. They follow one another in the model's order; the counts of all files make up the
    /// model, or the part structure no longer applies and a writer forgets it.
    pub n_tensors: u64,
    /// The typed form: ordered and complete. What `--set`, diff and other formats' writers use.
    pub typed: Vec<(String, Value)>,
    /// The verbatim form: whatever the format's own writer needs beyond the typed form to repeat the file's exact
    /// bytes. It is used only if the writer's own reader, given those bytes, yields exactly the model about to be written.
    pub verbatim: Option<Bytes>,
}

impl Foreign {
    /// No files yet.
    pub fn new(format: impl Into<String>) -> Foreign {
        Foreign { format: format.into(), files: Vec::new() }
    }

    /// The first value of `key` in any file.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.files.iter().find_map(|file| file.get(key))
    }

    /// Whether the files' tensor counts add up to `n_tensors`, so that the part structure still applies.
    pub fn describes(&self, n_tensors: usize) -> bool {
        let sum = self.files.iter().try_fold(0u64, |n, file| n.checked_add(file.n_tensors));
        sum == Some(n_tensors as u64)
    }
}

impl ForeignFile {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.typed.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Adds or replaces a value; a new key comes last.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.typed.iter_mut().find(|(k, _)| k == key) {
            Some(slot) => slot.1 = value,
            None => self.typed.push((key.to_owned(), value)),
        }
    }
}
