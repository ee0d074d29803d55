//! A view of an existing folder as it will be, with the output's files in it.

use super::Destination;
use crate::host::Host;
use crate::storage::model_folder::ModelFolder;
use crate::storage::overlay::Overlay;
use crate::storage::target::Target;
use apr_engine::convert::LaidOut;
use apr_engine::open::{OpenOptions, OpenedModel, open_entry};
use apr_engine::place::Backing;
use apr_engine::verify::compare_tensors;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file in the folder that is not part of the output.
pub(super) struct Other {
    pub(super) name: String,
    pub(super) identity: Option<(u64, u64)>,
    /// True if the model merely has it as a companion.
    is_companion: bool,
}

impl Other {
    /// Returns whether it may stay when the model changes: nothing is opened by it, and it may be somebody's work.
    pub(super) fn stays(&self) -> bool {
        is_for_people(&self.name) || (self.is_companion && !is_setting(&self.name))
    }

    /// Returns whether the model is incomplete without it.
    pub(super) fn is_of_model(&self) -> bool {
        !is_for_people(&self.name) && !self.is_companion
    }
}

/// The model that was opened, and those of its files that are not part of the output.
pub(super) struct Seen {
    pub(super) opened: OpenedModel,
    pub(super) others: Vec<Other>,
}

impl Seen {
    /// Names of the files that are not part of the output.
    pub(super) fn names(&self) -> Vec<String> {
        self.others.iter().map(|other| other.name.clone()).collect()
    }
}

/// The future folder of an output.
pub(super) struct View<'a> {
    pub(super) host: &'a Host,
    pub(super) laid_out: &'a LaidOut<'a>,
    pub(super) target: &'a Target,
    /// True if the user named the folder as the output.
    pub(super) is_folder: bool,
    /// True if the files replace those they are made from.
    pub(super) in_place: bool,
    files: Vec<(PathBuf, Arc<dyn Backing>)>,
    /// The folder for the files.
    pub(super) folder: PathBuf,
    /// The output's files by device and inode.
    ours: HashMap<(u64, u64), usize>,
    pub(super) inputs: Vec<(u64, u64)>,
}

impl<'a> View<'a> {
    /// A view of the future folder with the output's files, each with its final path.
    pub(super) fn new(
        host: &'a Host,
        laid_out: &'a LaidOut<'a>,
        destination: &'a Destination,
        files: Vec<(PathBuf, Arc<dyn Backing>)>,
    ) -> View<'a> {
        let Destination { target, is_folder, in_place, .. } = destination;
        let mut ours = HashMap::new();
        for (number, (_, file)) in files.iter().enumerate() {
            if let Some(identity) = file.identity() {
                ours.insert(identity, number);
            }
        }
        let folder = if target.folder { &target.path } else { target.parent() }.to_owned();
        let inputs = match in_place {
            true => Vec::new(),
            false => laid_out.source.files.all().iter().filter_map(|file| file.identity()).collect(),
        };
        View {
            host,
            laid_out,
            target,
            is_folder: *is_folder,
            in_place: *in_place,
            files,
            folder,
            ours,
            inputs,
        }
    }

    /// What lies over the folder: the output's files by their names in it, without the hidden files of writing them.
    pub(super) fn overlay(&self) -> Overlay {
        let mut overlay = Overlay { folder: self.folder.clone(), ..Overlay::default() };
        for (published, backing) in &self.files {
            if let Some(name) = published.strip_prefix(&self.folder).ok().and_then(Path::to_str) {
                overlay.staged.insert(name.to_owned(), Arc::clone(backing));
            }
        }
        for suffix in [".apr-part", ".apr-lock", ".apr-journal", ".apr-old", ".apr-record"] {
            overlay.hidden.insert(self.target.hidden(suffix));
        }
        overlay
    }

    /// Opens a path in the future folder.
    pub(super) fn open(&self, path: &Path, overlay: Overlay, bare: bool) -> Result<OpenedModel> {
        let entry = ModelFolder::locate(path, Some(Arc::new(overlay)))?;
        open_entry(self.host, &entry, path, &OpenOptions { bare, ..OpenOptions::default() })
    }

    /// Opens a path as a user would.
    pub(super) fn see(&self, path: &Path, overlay: &Overlay) -> Result<Seen> {
        let opened = self.open(path, overlay.clone(), false).map_err(|error| self.cannot_open(error))?;
        let others = self.others(&opened);
        Ok(Seen { opened, others })
    }

    /// Returns whether a file is one of the inputs.
    pub(super) fn reads(&self, other: &Other) -> bool {
        other.identity.is_some_and(|identity| self.inputs.contains(&identity))
    }

    /// The opened files that are not part of the output.
    pub(super) fn others(&self, opened: &OpenedModel) -> Vec<Other> {
        let companions: HashSet<&str> = opened.model.assets.iter().map(|asset| asset.name.as_str()).collect();
        let mut others = Vec::new();
        for file in opened.files.all() {
            let identity = file.identity();
            let is_ours = identity.is_some_and(|identity| self.ours.contains_key(&identity));
            if !file.is_folder() && !is_ours {
                let is_companion = companions.contains(file.name.as_str());
                others.push(Other { name: file.name.clone(), identity, is_companion });
            }
        }
        others
    }

    fn cannot_open(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Cancelled {
            return error;
        }
        let path = error.file().map_or(self.target.path.as_path(), Path::new);
        let file = self.target.show(path);
        let message = format!("the folder cannot be opened with the new files: {}", error.message());
        let hint = "move its current files elsewhere, or choose another folder; nothing was written";
        Error::io(message).in_file(file).hint(hint)
    }

    /// Fails unless what was opened is the planned model, all of it in the output's files.
    pub(super) fn compare(&self, opened: &OpenedModel) -> Result<()> {
        let files = opened.files.all();
        let places: Vec<_> = files.iter().map(|file| self.ours.get(&file.identity()?).copied()).collect();
        compare_tensors(&self.laid_out.model, opened, &self.laid_out.layout, &places)
    }

    pub(super) fn refusal(&self, others: &[String], way_out: &str) -> Error {
        let what = "the folder has files that would be opened together with the new ones, or instead of them";
        self.refused(what, others, way_out)
    }

    pub(super) fn refused(&self, what: &str, others: &[String], way_out: &str) -> Error {
        Error::io(format!("{what}: {}", list(others)))
            .code("E007")
            .in_file(self.target.show(&self.target.path))
            .hint(format!("{way_out}; nothing was written"))
    }
}

/// Files that people read and programs do not: they may stay when the model changes.
fn is_for_people(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    name.ends_with(".md") || ["readme", "license", "licence", "notice", "copying"].contains(&stem)
}

/// Settings and templates, which programs that open the folder use.
fn is_setting(name: &str) -> bool {
    let name = name.to_lowercase();
    [".json", ".jinja"].iter().any(|end| name.ends_with(end))
}

/// The first few names of a list, sorted.
pub(super) fn list(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let sorted: BTreeSet<&String> = names.iter().collect();
    let shown: Vec<_> = sorted.iter().take(SHOWN).map(|name| format!("`{}`", escape(name, 120))).collect();
    match sorted.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_and_templates_go() {
        for name in ["README.md", "LICENSE", "licence.txt", "docs/usage.MD", "NOTICE"] {
            assert!(is_for_people(name), "{name}");
        }
        for name in ["chat_template.jinja", "merges.txt", "config.json", "modeling.py", "readme_config.json"]
        {
            assert!(!is_for_people(name), "{name}");
        }
    }
}
