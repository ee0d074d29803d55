//! A source as the host lends it: views are charged to the budget, a folder has no length.

use super::arrange::Arrangement;
use apr_sdk::{Budget, Error, Extent, FileId, LogLevel, MemorySource, Result, Source, escape};

/// An arrangement's files.
pub struct Lent<'a> {
    files: MemorySource,
    folder: bool,
    budget: &'a Budget,
}

impl<'a> Lent<'a> {
    /// The files of `arrangement`, read under `budget`.
    pub fn new(arrangement: &Arrangement, budget: &'a Budget) -> Lent<'a> {
        let mut files = arrangement.files.iter().cloned();
        let first = if arrangement.folder { None } else { files.next() };
        let (name, bytes) = first.unwrap_or_default();
        let files =
            files.fold(MemorySource::new(name, bytes), |source, (name, bytes)| source.with(name, bytes));
        Lent { files, folder: arrangement.folder, budget }
    }
}

impl Source for Lent<'_> {
    fn name(&self, file: FileId) -> String {
        if self.folder && file == 0 { "folder".to_owned() } else { self.files.name(file) }
    }

    fn len(&self, file: FileId) -> Result<u64> {
        match (self.folder, file) {
            (true, 0) => Err(Error::io("it is a folder").in_file("folder")),
            _ => self.files.len(file),
        }
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.files.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        let bytes = self.files.view(extent)?;
        self.budget.charge(extent.len)?;
        self.budget.earn(extent.len);
        Ok(bytes)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        let outside = path.is_empty() || path.contains(['\0', '\\']);
        if outside || path.split('/').any(|piece| matches!(piece, "" | "." | "..")) {
            let error = Error::malformed(format!(
                "the file name `{}` points outside the model's folder",
                escape(path, 200)
            ));
            return Err(error.hint("only files inside the folder of the model are read"));
        }
        self.files.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(self.files.entries()?.into_iter().filter(|name| !name.is_empty()).collect())
    }

    fn is_folder(&self) -> bool {
        self.folder
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.files.log(level, message);
    }
}
