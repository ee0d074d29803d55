//! A [`Source`] over bytes in memory, for a plugin's tests and for a writer that consults its own reader.

use crate::{Error, Extent, FileId, LogLevel, Result, Source};
use std::sync::Mutex;

/// Named byte strings that act as the files of one model; the first is file 0.
#[derive(Debug, Default)]
pub struct MemorySource {
    files: Vec<(String, Vec<u8>)>,
    is_folder: bool,
    log: Mutex<Vec<String>>,
}

impl MemorySource {
    /// A source for a single-file model.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> MemorySource {
        MemorySource { files: vec![(name.into(), bytes.into())], ..MemorySource::default() }
    }

    /// A source for a folder, empty until [`MemorySource::with`] adds files.
    pub fn folder(name: impl Into<String>) -> MemorySource {
        MemorySource { files: vec![(name.into(), Vec::new())], is_folder: true, ..MemorySource::default() }
    }

    /// Adds a file for [`Source::sibling`] to find.
    pub fn with(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> MemorySource {
        self.files.push((name.into(), bytes.into()));
        self
    }

    /// Every message the plugin has logged so far.
    pub fn logged(&self) -> Vec<String> {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// The names directly below `prefix`, with the prefix removed; sorted, folders end in `/`.
    fn below(&self, prefix: &str) -> Vec<String> {
        let files = self.files.iter().skip(usize::from(self.is_folder));
        let below = files.filter_map(|f| f.0.strip_prefix(prefix));
        let direct = below.map(|name| match name.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => name.to_owned(),
        });
        let mut names: Vec<_> = direct.collect();
        names.sort();
        names.dedup();
        names
    }

    fn file(&self, file: FileId) -> Result<&(String, Vec<u8>)> {
        self.files
            .get(file as usize)
            .ok_or_else(|| Error::invalid_argument(format!("file {file} does not exist")))
    }
}

impl Source for MemorySource {
    fn name(&self, file: FileId) -> String {
        self.file(file).map(|f| f.0.clone()).unwrap_or_default()
    }

    fn len(&self, file: FileId) -> Result<u64> {
        Ok(self.file(file)?.1.len() as u64)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.view(Extent::new(file, offset, out.len() as u64))?);
        Ok(())
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        let (name, bytes) = self.file(extent.file)?;
        let range =
            usize::try_from(extent.offset).ok().zip(extent.end().and_then(|end| usize::try_from(end).ok()));
        range.and_then(|(start, end)| bytes.get(start..end)).ok_or_else(|| {
            Error::malformed(format!(
                "expected at least {} bytes, but the file has only {}",
                extent.len,
                bytes.len()
            ))
            .at(extent.offset)
            .in_file(name.clone())
        })
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        let mut files = self.files.iter().enumerate().skip(usize::from(self.is_folder));
        let file = files.find(|(_, f)| f.0 == path).and_then(|(n, _)| FileId::try_from(n).ok());
        file.ok_or_else(|| Error::not_found(format!("file `{path}` does not exist")))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(self.below(""))
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.below(&format!("{folder}/")))
    }

    fn is_folder(&self) -> bool {
        self.is_folder
    }

    fn log(&self, _level: LogLevel, message: &str) {
        if let Ok(mut log) = self.log.lock() {
            log.push(message.to_owned());
        }
    }
}
