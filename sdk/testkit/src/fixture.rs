//! Files that another program wrote, as one model or several.

use crate::read_with_parts;
use crate::subject::guarded;
use apr_sdk::{
    Error, Extent, FileId, FormatManifest, LogLevel, Look, MemorySource, Options, Reader, Result, Score,
    Source,
};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// One model to open: its files, the one that is opened first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixture {
    /// Its name in messages.
    pub name: String,
    /// Names and contents; the first is opened, the others lie beside it.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Fixture {
    /// A model of one file.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Fixture {
        let name = name.into();
        Fixture { files: vec![(name.clone(), bytes.into())], name }
    }

    /// Its files as a source.
    pub fn source(&self) -> MemorySource {
        let mut files = self.files.iter().cloned();
        let (name, bytes) = files.next().unwrap_or_default();
        files.fold(MemorySource::new(name, bytes), |source, (name, bytes)| source.with(name, bytes))
    }

    /// The same model with file number `file` replaced.
    pub fn with_file(&self, file: usize, bytes: Vec<u8>) -> Fixture {
        let mut changed = self.clone();
        if let Some(slot) = changed.files.get_mut(file) {
            slot.1 = bytes;
        }
        changed
    }

    /// The score of the file that is opened. A probe of a file sees none of its neighbours, here as in the host.
    pub fn probe(&self, reader: &dyn Reader) -> Score {
        self.files.first().map_or(Score::NO, |(name, bytes)| probe_bytes(reader, name, bytes))
    }

    /// The models in `folder` and its folders: each file whose extension the manifest lists, or that the reader takes
    /// for its own, with the files beside it that opening it asks for. A folder named `rejects` holds no models. In the
    /// order of names.
    ///
    /// # Errors
    /// Io if the folder cannot be read; NotFound if no model is in it.
    pub fn load(folder: &Path, manifest: &FormatManifest, reader: &dyn Reader) -> Result<Vec<Fixture>> {
        let mut fixtures = Vec::new();
        Fixture::load_folder("", folder, manifest, reader, &mut fixtures)?;
        for (name, path) in list(folder)? {
            if path.is_dir() && name != "rejects" {
                Fixture::load_folder(&format!("{name}/"), &path, manifest, reader, &mut fixtures)?;
            }
        }
        if fixtures.is_empty() {
            let known = manifest.extensions.join("`, `.");
            let message = format!("{}: no fixture with the extension `.{known}`", folder.display());
            return Err(Error::not_found(message).hint("add a small file written by another program"));
        }
        Ok(fixtures)
    }

    fn load_folder(
        prefix: &str,
        path: &Path,
        manifest: &FormatManifest,
        reader: &dyn Reader,
        fixtures: &mut Vec<Fixture>,
    ) -> Result<()> {
        let mut files = Vec::new();
        for (name, path) in list(path)?.into_iter().filter(|(_, path)| path.is_file()) {
            files.push((name, read_file(&path)?));
        }
        for entry in 0..files.len() {
            let mut files = files.clone();
            files[..=entry].rotate_right(1);
            let mut fixture = Fixture { name: format!("{prefix}{}", files[0].0), files };
            if has_extension(&fixture.files[0].0, manifest) || fixture.probe(reader) >= Score::STRUCTURE {
                let asked = fixture.siblings_asked_for(&manifest.id, reader);
                let mut number = 0;
                fixture.files.retain(|_| {
                    number += 1;
                    number == 1 || asked.contains(&(number - 1))
                });
                fixtures.push(fixture);
            }
        }
        Ok(())
    }

    /// The numbers of the files that opening asks for. A model that does not open keeps what it asked for until then;
    /// the checks say why.
    fn siblings_asked_for(&self, format: &str, reader: &dyn Reader) -> HashSet<FileId> {
        let source = Asked { inner: self.source(), files: Mutex::default() };
        let _refused_later = guarded(|| read_with_parts(reader, format, &source, &Options::new()));
        source.files.into_inner().unwrap_or_default()
    }
}

/// Notes which siblings a reader asks for.
struct Asked {
    inner: MemorySource,
    files: Mutex<HashSet<FileId>>,
}

impl Source for Asked {
    fn name(&self, file: FileId) -> String {
        self.inner.name(file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        self.inner.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.inner.view(extent)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        let file = self.inner.sibling(path)?;
        if let Ok(mut files) = self.files.lock() {
            files.insert(file);
        }
        Ok(file)
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.inner.entries()
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.entries_of(folder)
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.inner.log(level, message);
    }
}

/// The score of a file with these bytes, from no more of them than the host shows.
pub(crate) fn probe_bytes(reader: &dyn Reader, name: &str, bytes: &[u8]) -> Score {
    reader.probe(&Look {
        name,
        len: bytes.len() as u64,
        head: &bytes[..bytes.len().min(Look::HEAD)],
        tail: &bytes[bytes.len().saturating_sub(Look::TAIL)..],
        is_folder: false,
        entries: &[],
    })
}

fn has_extension(name: &str, manifest: &FormatManifest) -> bool {
    let name = name.to_lowercase();
    manifest
        .extensions
        .iter()
        .any(|ext| name.strip_suffix(ext.as_str()).is_some_and(|stem| stem.ends_with('.')))
}

fn list(folder: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|e| Error::io(format!("{}: {e}", folder.display())))?;
    let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut files: Vec<_> = names.zip(entries.iter().map(fs::DirEntry::path)).collect();
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io(format!("{}: {e}", path.display())))
}
