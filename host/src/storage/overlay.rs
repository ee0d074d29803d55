//! A folder as it will be: staged files on top of the existing ones, with some of those gone. Opening through
//! an overlay shows what users will open once the files are in place.

use apr_engine::place::Backing;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The future state of a folder.
#[derive(Clone, Default)]
pub struct Overlay {
    /// The folder on disk.
    pub folder: PathBuf,
    /// The files that will be there, in their staged form, by name.
    pub staged: BTreeMap<String, Arc<dyn Backing>>,
    /// Names that will be gone; for a folder, including everything in it.
    pub hidden: BTreeSet<String>,
}

/// The future of a path in the folder.
pub enum Staged<'o> {
    /// A staged file.
    Here(&'o Arc<dyn Backing>),
    /// Gone.
    Gone,
    /// Unchanged.
    There,
}

impl Overlay {
    /// The future of `name`.
    pub fn place(&self, name: &str) -> Staged<'_> {
        if let Some(backing) = self.staged.get(name) {
            return Staged::Here(backing);
        }
        let gone = self.hidden.iter().any(|hidden| {
            name.strip_prefix(hidden.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if gone { Staged::Gone } else { Staged::There }
    }

    /// The future of `path`, if it is in the folder.
    pub fn place_of(&self, path: &Path) -> Staged<'_> {
        let name = path.strip_prefix(&self.folder).ok().and_then(Path::to_str);
        name.map_or(Staged::There, |name| self.place(name))
    }

    /// The future names in its subfolder `below`; `there` are the current ones. Folders end in `/`.
    pub fn entries(&self, below: &str, there: Vec<String>) -> Vec<String> {
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let mut names: BTreeSet<String> = there.into_iter().collect();
        names.retain(|name| {
            let path = format!("{prefix}{}", name.trim_end_matches('/'));
            !matches!(self.place(&path), Staged::Gone)
        });
        for name in self.staged.keys().filter_map(|name| name.strip_prefix(&prefix)) {
            names.insert(match name.split_once('/') {
                Some((folder, _)) => format!("{folder}/"),
                None => name.to_owned(),
            });
        }
        names.into_iter().collect()
    }

    /// Returns whether there will be files in a subfolder.
    pub fn has_folder(&self, below: &str) -> bool {
        self.staged.keys().any(|name| name.strip_prefix(below).is_some_and(|rest| rest.starts_with('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_engine::open::Held;

    #[test]
    fn a_folder_is_listed_as_it_will_be() {
        let bytes: Arc<dyn Backing> = Arc::new(Held([].into()));
        let staged =
            ["config.json", "1_Pooling/config.json"].map(|name| (name.to_owned(), Arc::clone(&bytes)));
        let hidden = [".d.apr-part", "old.bin", "sub/gone"].map(str::to_owned);
        let overlay =
            Overlay { folder: "/d".into(), staged: staged.into(), hidden: hidden.into_iter().collect() };
        let there = [".d.apr-part/", "config.json", "old.bin", "old.bin.x", "sub/"].map(str::to_owned);
        assert_eq!(overlay.entries("", there.into()), ["1_Pooling/", "config.json", "old.bin.x", "sub/"]);
        assert_eq!(overlay.entries("1_Pooling", Vec::new()), ["config.json"]);
        assert_eq!(overlay.entries("sub", vec!["gone".to_owned(), "x".to_owned()]), ["x"]);
        assert!(overlay.has_folder("1_Pooling") && !overlay.has_folder("1_Pool"));
        assert!(matches!(overlay.place("config.json"), Staged::Here(_)));
        assert!(matches!(overlay.place(".d.apr-part/x"), Staged::Gone));
        assert!(matches!(overlay.place_of(Path::new("/d/old.bin")), Staged::Gone));
        assert!(matches!(overlay.place_of(Path::new("/e/old.bin")), Staged::There));
    }
}
