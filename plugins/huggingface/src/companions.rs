//! A folder's other files: companions of the model, or left out and reported.

use crate::layout::{
    CARRIED, DEEPEST, MODULES, MOST_COMPANIONS, NO_COMPANION_FOLDERS, NO_COMPANIONS, OBJECTS, TOKENIZERS,
};
use crate::pooling;
use crate::weights::Files;
use apr_sdk::{Bytes, Error, ErrorKind, Extent, Result, Source, escape};

/// How many names a note has, and how many files have one of their own.
const SHOWN: usize = 10;

/// What was found.
#[derive(Default)]
pub struct Companions {
    /// Names and contents, sorted.
    pub assets: Vec<(String, Bytes)>,
    /// Names of what is left out, sorted.
    pub left_out: Vec<String>,
    /// Names of what cannot be opened as a file of the folder, and why not.
    unopened: Vec<(String, String)>,
}

impl Companions {
    /// Looks through a folder's `entries`. `taken` says which names are read already.
    ///
    /// # Errors
    /// Unsupported for more than [`MOST_COMPANIONS`]; Io.
    pub fn find(source: &dyn Source, entries: &[String], taken: impl Fn(&str) -> bool) -> Result<Companions> {
        let modules = if entries.iter().any(|name| name == MODULES) { modules(source) } else { Vec::new() };
        let mut found = Companions::default();
        for name in entries {
            let own =
                OBJECTS.contains(&name.as_str()) || TOKENIZERS.contains(&name.as_str()) || name == CARRIED;
            if own || taken(name) {
                continue;
            }
            match name.strip_suffix('/') {
                Some(folder) => {
                    found.folder(source, folder, modules.iter().any(|module| module == folder), 1)?
                }
                None => found.file(source, name.clone(), is_no_companion(name))?,
            }
        }
        Ok(found)
    }

    fn folder(&mut self, source: &dyn Source, path: &str, is_module: bool, depth: usize) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let refused =
            name.starts_with('.') || name.starts_with("checkpoint-") || NO_COMPANION_FOLDERS.contains(&name);
        if !is_module && refused || depth > DEEPEST {
            self.left_out.push(format!("{path}/"));
            return Ok(());
        }
        for name in source.entries_of(path)? {
            let inner = format!("{path}/{name}");
            match inner.strip_suffix('/') {
                Some(folder) => self.folder(source, folder, is_module, depth + 1)?,
                None => self.file(source, inner.clone(), !is_module && is_no_companion(&name))?,
            }
        }
        Ok(())
    }

    fn file(&mut self, source: &dyn Source, path: String, left_out: bool) -> Result<()> {
        if left_out {
            self.left_out.push(path);
            return Ok(());
        }
        if self.assets.len() >= MOST_COMPANIONS {
            let message = format!("the folder contains more than {MOST_COMPANIONS} companion files");
            let error = Error::unsupported(message);
            return Err(error.hint(
                "open only the weights with --bare, or move files that are not part of the model elsewhere",
            ));
        }
        match source.sibling(&path) {
            Ok(file) => {
                let bytes = Extent::new(file, 0, source.len(file)?);
                self.assets.push((path, bytes.into()));
                Ok(())
            }
            // A link that leaves the folder or leads nowhere, a pipe, a name that no file has: nothing that a model needs.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Malformed | ErrorKind::InvalidArgument | ErrorKind::NotFound
                ) =>
            {
                self.unopened.push((path, error.message().to_owned()));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes out what belongs to the weights.
    pub fn forget(&mut self, weights: &Files<'_>) {
        self.assets.retain(|(path, _)| !weights.contain(path));
        self.left_out.retain(|path| !weights.contain(path));
    }

    /// What to say of that which is left out.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.names_left_out().into_iter().collect();
        let shown = self.unopened.iter().take(SHOWN);
        notes.extend(shown.map(|(name, why)| format!("left out: `{}`: {why}", escape(name, 80))));
        match self.unopened.len().saturating_sub(SHOWN) {
            0 => {}
            more => notes.push(format!("left out: {more} more files that cannot be opened")),
        }
        notes
    }

    fn names_left_out(&self) -> Option<String> {
        if self.left_out.is_empty() {
            return None;
        }
        let shown: Vec<_> =
            self.left_out.iter().take(SHOWN).map(|name| format!("`{}`", escape(name, 80))).collect();
        let more = match self.left_out.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("files in the folder left out: {}{more}", shown.join(", ")))
    }
}

fn is_no_companion(name: &str) -> bool {
    let lower = name.to_lowercase();
    name.starts_with('.') || NO_COMPANIONS.iter().any(|ending| lower.ends_with(ending))
}

/// The folders of the modules that sentence-transformers lists. A list that is none names none.
fn modules(source: &dyn Source) -> Vec<String> {
    // Opening has read it, and refused what is no JSON.
    let list = pooling::short(source, MODULES).ok().flatten().unwrap_or_default();
    let paths = list.as_array().into_iter().flatten().filter_map(|module| module.get("path")?.as_str());
    paths.filter(|path| !path.is_empty()).map(str::to_owned).collect()
}
