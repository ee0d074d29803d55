//! Files in a folder beside a new model: those of the previous model, and others that look like weights.

use super::view::{Other, View};
use crate::host::Host;
use crate::storage::overlay::Overlay;
use apr_engine::open::OpenedModel;
use apr_engine::open::parts::lone::INDEX;
use apr_sdk::escape;
use std::collections::BTreeSet;
use std::path::Path;

impl View<'_> {
    /// The files of the current model at `path`, if the new files replace some of them: the rest is useless
    /// without those. Excludes inputs and companions.
    pub(super) fn replaced(&self, path: &Path, bare: bool) -> Vec<String> {
        let before = Overlay { staged: Default::default(), ..self.overlay() };
        // The parts of a model that does not open are unknown.
        let Ok(opened) = self.open(path, before, bare) else { return Vec::new() };
        let mut own: Vec<_> = self.others(&opened).into_iter().filter(Other::is_of_model).collect();
        let coming: BTreeSet<&str> =
            self.laid_out.layout.files.iter().map(|file| file.name.as_str()).collect();
        if !own.iter().any(|other| coming.contains(other.name.as_str())) {
            return Vec::new();
        }
        own.retain(|other| !coming.contains(other.name.as_str()) && !self.reads(other));
        own.into_iter().map(|other| other.name).collect()
    }

    /// Names directly in the folder that look like a format's weights, and are not in `known`.
    pub(super) fn besides(&self, overlay: &Overlay, known: &[String]) -> Vec<String> {
        let there = names(&overlay.folder).into_iter().filter(|name| !name.starts_with('.'));
        let mut names = overlay.entries("", there.collect());
        names.retain(|name| {
            self.is_weights(name) && !overlay.staged.contains_key(name) && !known.contains(name)
        });
        names
    }

    fn is_weights(&self, name: &str) -> bool {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase());
        let formats = extension.map(|extension| self.host.registry.by_extension(&extension));
        name.ends_with(INDEX) || formats.is_some_and(|formats| !formats.is_empty())
    }

    /// A warning if a single file turns the model in its folder into another. What a header needs may come
    /// last; `is_whole` says that the file is complete.
    pub(super) fn becomes_another(&self, is_whole: bool) -> Option<String> {
        let overlay = self.overlay();
        if !has_model(self.host, &overlay.folder) {
            return None;
        }
        let old = Overlay { staged: Default::default(), ..overlay.clone() };
        let before = self.open(&self.folder, old, false).ok()?;
        let folder = escape(&self.target.show(&self.folder), 400);
        match self.open(&self.folder, overlay, false) {
            Ok(after) if consists_of(&after) == consists_of(&before) => {
                // A user who named the folder will open the folder.
                let file = self.is_folder.then(|| self.laid_out.layout.files.first())??;
                let file = escape(&self.target.show(&self.folder.join(&file.name)), 400);
                Some(format!(
                    "the folder `{folder}` still opens as its previous model: open the new one as `{file}`"
                ))
            }
            Ok(after) => Some(format!(
                "with this file, the folder `{folder}` opens as a different model: {} tensors, {} before; \
                 its other files are unchanged",
                after.model.tensors.len(),
                before.model.tensors.len()
            )),
            Err(error) if is_whole && !self.host.is_cancelled() => Some(format!(
                "with this file, the folder `{folder}` no longer opens as a model: {}",
                error.message()
            )),
            Err(_) => None,
        }
    }
}

/// The files that a model consists of, excluding companions.
fn consists_of(opened: &OpenedModel) -> BTreeSet<(u64, u64)> {
    let companions: BTreeSet<&str> = opened.model.assets.iter().map(|asset| asset.name.as_str()).collect();
    let files = opened.files.all().into_iter();
    let own = files.filter(|file| !file.is_folder() && !companions.contains(file.name.as_str()));
    own.filter_map(|file| file.identity()).collect()
}

/// Returns whether a folder contains a file that opens a model of several files.
pub(super) fn has_model(host: &Host, folder: &Path) -> bool {
    names(folder).iter().any(|name| {
        name.ends_with(INDEX) || host.registry.formats().iter().any(|f| f.manifest.claims.contains(name))
    })
}

/// Returns whether a folder is empty.
pub(super) fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = entries.filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_dir()));
    files.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
