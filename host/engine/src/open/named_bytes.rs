//! Places made of a list of names with their bytes: models in memory, and output that is read back.

use crate::place::{Backing, Entry, Found, Place, Places, Version, check_name};
use apr_sdk::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Bytes in memory.
#[derive(Clone, Debug)]
pub struct Held(pub Arc<[u8]>);

impl Backing for Held {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(begin..begin.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| Error::io("unexpected end of file"))?);
        Ok(())
    }

    fn version(&self) -> Option<Version> {
        Some(Version { len: self.len(), ..Version::default() })
    }
}

/// A place that holds the files in a list, by name.
#[derive(Clone, Default)]
pub struct Listed {
    /// The folder's name.
    pub name: String,
    /// The files' bytes, by name.
    pub files: BTreeMap<String, Arc<dyn Backing>>,
    /// The names to show in messages, where they differ.
    pub shown: BTreeMap<String, String>,
}

impl Listed {
    /// The entry for a name, or the folder if it is empty. A file's folder is the one in its name.
    ///
    /// # Errors
    /// NotFound.
    pub fn entry(&self, name: &str) -> Result<Entry> {
        if name.is_empty() || self.has_folder(name) {
            return Ok(Entry { place: Arc::new(self.below(name)), file: None });
        }
        let Some(bytes) = self.files.get(name) else {
            return Err(Error::not_found("no such file or folder").in_file(name.to_owned()));
        };
        let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
        let place = Arc::new(self.below(folder));
        Ok(Entry { place, file: Some((own.to_owned(), Arc::clone(bytes))) })
    }

    fn has_folder(&self, name: &str) -> bool {
        let prefix = format!("{name}/");
        self.files.range(prefix.clone()..).next().is_some_and(|(first, _)| first.starts_with(&prefix))
    }

    /// The subfolder `folder` as a place of its own.
    fn below(&self, folder: &str) -> Listed {
        if folder.is_empty() {
            return self.clone();
        }
        let prefix = format!("{folder}/");
        let mut below =
            Listed { name: folder.rsplit('/').next().unwrap_or(folder).to_owned(), ..Listed::default() };
        for (name, bytes) in &self.files {
            if let Some(inside) = name.strip_prefix(&prefix) {
                below.files.insert(inside.to_owned(), Arc::clone(bytes));
                below.shown.insert(inside.to_owned(), self.show(name));
            }
        }
        below
    }
}

impl Place for Listed {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn show(&self, name: &str) -> String {
        match self.shown.get(name) {
            Some(shown) => shown.clone(),
            None if name.is_empty() => self.name.clone(),
            None => name.to_owned(),
        }
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_name(name)?;
        match self.files.get(name) {
            Some(bytes) => Ok(Found::File(Arc::clone(bytes))),
            None if self.has_folder(name) => Ok(Found::Folder),
            None => Err(Error::not_found("no such file or folder").in_file(name.to_owned())),
        }
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        if !folder.is_empty() && !self.has_folder(folder) {
            return Err(Error::not_found("no such file or folder").in_file(folder.to_owned()));
        }
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = self.files.keys().filter_map(|name| name.strip_prefix(&prefix));
        let entries = inside.map(|name| match name.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => name.to_owned(),
        });
        Ok(entries.collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl Places for Listed {
    fn locate(&self, path: &Path) -> Result<Entry> {
        self.entry(&named(path))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let name = named(path);
        match self.open(&name)? {
            Found::File(bytes) => {
                let len =
                    usize::try_from(bytes.len()).map_err(|_| Error::limit("it does not fit in memory"))?;
                let mut out = vec![0; len];
                bytes.read_at(0, &mut out).map_err(|e| e.in_file(name))?;
                Ok(out)
            }
            Found::Folder => Err(Error::invalid_argument("this is a folder, not a file").in_file(name)),
        }
    }
}

/// The name that a user's path stands for; empty for the folder itself.
fn named(path: &Path) -> String {
    let name = path.to_string_lossy();
    let name = name.trim_end_matches('/').trim_start_matches("./");
    if name == "." { String::new() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Listed {
        let files = names.iter().map(|name| ((*name).to_owned(), held(name.as_bytes()))).collect();
        Listed { name: "m".to_owned(), files, ..Listed::default() }
    }

    fn held(bytes: &[u8]) -> Arc<dyn Backing> {
        Arc::new(Held(bytes.into()))
    }

    #[test]
    fn names_lead_to_files_and_folders_and_nowhere_else() {
        let place = listed(&["a.bin", "sub/b.bin", "sub/deep/c.bin"]);
        assert_eq!(place.entries("").unwrap(), ["a.bin", "sub/"]);
        assert_eq!(place.entries("sub").unwrap(), ["b.bin", "deep/"]);
        assert!(matches!(place.open("sub"), Ok(Found::Folder)));
        assert!(matches!(place.open("sub/b.bin"), Ok(Found::File(_))));
        for outside in ["", "..", "../x", "/etc/passwd", "./a.bin", "a\tbin"] {
            assert!(place.open(outside).is_err(), "{outside}");
        }
        assert!(place.open("b.bin").is_err() && place.entries("a.bin").is_err());
    }

    #[test]
    fn a_file_is_located_in_its_folder() {
        let place = listed(&["a.bin", "sub/b.bin", "sub/deep/c.bin"]);
        let entry = place.locate(Path::new("sub/b.bin")).unwrap();
        assert_eq!(entry.file.unwrap().0, "b.bin");
        assert_eq!(entry.place.name(), "sub");
        assert_eq!(entry.place.show("b.bin"), "sub/b.bin");
        assert_eq!(entry.place.entries("").unwrap(), ["b.bin", "deep/"]);
        assert!(place.locate(Path::new("sub")).unwrap().file.is_none());
        assert!(place.locate(Path::new("none")).is_err());
        assert_eq!(place.read(Path::new("a.bin")).unwrap(), b"a.bin");
    }

    #[test]
    fn bytes_end_where_they_end() {
        let held = Held(b"0123".as_slice().into());
        let mut out = [0; 2];
        held.read_at(2, &mut out).unwrap();
        assert_eq!(&out, b"23");
        assert!(held.read_at(3, &mut out).is_err() && held.read_at(u64::MAX, &mut out).is_err());
    }
}
