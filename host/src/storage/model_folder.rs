//! The folder of a model: resolves names in it to files, and confines them to it.

use super::error::{io_error, path_error, with_way_out};
use super::open_file::OpenFile;
use super::overlay::{Overlay, Staged};
use super::publish::refuse_unfinished;
use apr_engine::place::{Entry, Found, Place, check_name};
use apr_remote::cache::is_shared_payload;
use apr_sdk::{Error, Result, escape};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder on disk, as it is or as it will be.
pub struct ModelFolder {
    /// The path, as typed.
    folder: PathBuf,
    /// The resolved folders that its files may be in: itself, and the blobs of its download cache if it is in one.
    resolved: Vec<PathBuf>,
    /// The folder's name.
    name: String,
    /// The file that the user typed, if it was one: its name, and the path as typed.
    typed: Option<(String, PathBuf)>,
    /// The folder's future state, if that is to be opened.
    overlay: Option<Arc<Overlay>>,
}

impl ModelFolder {
    /// Finds what `path` leads to: a file in its folder, or a folder.
    ///
    /// # Errors
    /// NotFound; Io, also for a folder whose files are being replaced, or whose replacement was interrupted.
    pub fn locate(path: &Path, overlay: Option<Arc<Overlay>>) -> Result<Entry> {
        let found = match overlay.as_ref().map(|overlay| overlay.place_of(path)) {
            Some(Staged::Here(backing)) => Found::File(Arc::clone(backing)),
            _ => OpenFile::find(path).map_err(|error| with_way_out(error, path))?,
        };
        let folder = match path.parent() {
            _ if matches!(found, Found::Folder) => path.to_owned(),
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let resolved = folder.canonicalize().map_err(|e| path_error(&e, "resolve", &folder))?;
        refuse_unfinished(&resolved, &folder.display().to_string())?;
        let name = name_of_folder(&resolved, &file_name(&folder));
        let blobs = blobs_of(&resolved);
        let resolved = [resolved].into_iter().chain(blobs).collect();
        let file = match found {
            Found::File(backing) => Some((file_name(path), backing)),
            Found::Folder => None,
        };
        let typed = file.as_ref().map(|(name, _)| (name.clone(), path.to_owned()));
        let place = Arc::new(ModelFolder { folder, resolved, name, typed, overlay });
        Ok(Entry { place, file })
    }

    /// Resolves a path relative to the folder.
    fn confined(&self, path: &str) -> Result<PathBuf> {
        check_name(path)?;
        let typed = self.folder.join(path);
        let resolved = typed.canonicalize().map_err(|e| named_error(&e).in_file(path.to_owned()))?;
        let is_inside = self.resolved.iter().any(|root| resolved.starts_with(root));
        if !is_inside && !self.leads_to_shared(&typed, &resolved) {
            let message = format!("`{}` is a link that points outside the model's folder", escape(path, 200));
            return Err(Error::malformed(message).hint("copy the file into the folder"));
        }
        Ok(typed)
    }

    /// Returns whether a link in a download cache leads to one of its own blobs, and that to the store which the repositories of
    /// the cache share. A link straight into the store, past the repository's blobs, does not count.
    fn leads_to_shared(&self, typed: &Path, resolved: &Path) -> bool {
        let Some(blobs) = self.resolved.get(1) else { return false };
        let Some(root) = blobs.parent().and_then(Path::parent) else { return false };
        let link = std::fs::read_link(typed).ok();
        let blob = link.and_then(|link| Some(typed.parent()?.join(link)));
        let folder = blob.and_then(|blob| blob.parent()?.canonicalize().ok());
        folder.as_ref() == Some(blobs) && is_shared_payload(root, resolved)
    }
}

impl Place for ModelFolder {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn show(&self, name: &str) -> String {
        match &self.typed {
            _ if name.is_empty() => self.folder.display().to_string(),
            Some((own, typed)) if own == name => typed.display().to_string(),
            _ => self.folder.join(name).display().to_string(),
        }
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_name(name)?;
        match self.overlay.as_ref().map(|overlay| overlay.place(name)) {
            Some(Staged::Here(backing)) => return Ok(Found::File(Arc::clone(backing))),
            Some(Staged::Gone) => {
                return Err(Error::not_found("no such file or folder").in_file(name.to_owned()));
            }
            Some(Staged::There) | None => {}
        }
        OpenFile::find(&self.confined(name)?).map_err(|e| e.with_file(name.to_owned()))
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.confined(name).ok()?.metadata().ok().map(|meta| meta.len())
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        let gone = self.overlay.as_ref().map(|overlay| overlay.place(folder));
        if !folder.is_empty() && matches!(gone, Some(Staged::Gone)) {
            return Err(Error::not_found("no such file or folder").in_file(folder.to_owned()));
        }
        let there = match folder {
            "" => list(&self.folder),
            below => self.confined(below).and_then(|path| list(&path)),
        };
        match &self.overlay {
            Some(overlay) if overlay.has_folder(folder) => {
                Ok(overlay.entries(folder, there.unwrap_or_default()))
            }
            Some(overlay) => Ok(overlay.entries(folder, there?)),
            None => there,
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The name of a model's folder: as typed, except that a download cache
/// (`models--ORG--NAME/snapshots/REVISION`) is named after its model, and a path without a name (`.`) after
/// the actual folder.
fn name_of_folder(resolved: &Path, typed: &str) -> String {
    let own = resolved.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !typed.is_empty() && typed != own {
        return typed.to_owned();
    }
    let snapshots = resolved.parent().filter(|parent| parent.ends_with("snapshots"));
    let cache = snapshots.and_then(|snapshots| snapshots.parent()?.file_name()?.to_str());
    match cache.and_then(|cache| cache.strip_prefix("models--")) {
        Some(model) => model.replacen("--", "/", 1),
        None => own,
    }
}

/// The folder that links in a download cache lead to: `CACHE/blobs`, for the model in `CACHE/snapshots/NAME` or in a folder
/// there. Both belong to the same model's cache, to which its files are confined; a `blobs` that is itself a link does
/// not count.
fn blobs_of(resolved: &Path) -> Option<PathBuf> {
    let snapshots = resolved.ancestors().skip(1).find(|parent| parent.ends_with("snapshots"))?;
    let blobs = snapshots.parent()?.join("blobs");
    blobs.canonicalize().is_ok_and(|real| real == blobs).then_some(blobs)
}

/// Names in one folder. 2^20: no model has as many, and a list of them stays below 100 MB.
const MOST_ENTRIES: usize = 1 << 20;

fn list(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| path_error(&e, "list", folder))? {
        let entry = entry.map_err(|e| path_error(&e, "list", folder))?;
        if names.len() >= MOST_ENTRIES {
            let error = Error::limit(format!("the folder contains more than {MOST_ENTRIES} files"));
            return Err(error.in_file(folder.display().to_string()));
        }
        // No format can ask for a name that is not UTF-8.
        let Ok(mut name) = entry.file_name().into_string() else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            name.push('/');
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// The error for a name from the model that leads nowhere, such as a loop of links or an impossible name: the
/// model's fault, not the machine's.
fn named_error(error: &std::io::Error) -> Error {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        Some(Errno::LOOP) => Error::malformed("it is a circular link"),
        Some(Errno::NAMETOOLONG) => {
            Error::malformed("its name, or that of the link's target, is too long for a file")
        }
        Some(Errno::NOTDIR | Errno::INVAL) => {
            Error::malformed(format!("this is not a valid file name: {error}"))
        }
        _ => io_error(error, "open"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::ErrorKind;
    use std::os::unix::fs::symlink;

    const HASH: &str = "ab00000000000000000000000000000000000000000000000000000000000000";

    /// A cache as `huggingface_hub` 2.4.0 leaves it after a download from the Xet storage: the snapshot's link leads to the
    /// repository's blob, and that is a link to the payload in the store that all repositories share.
    struct Shared {
        root: PathBuf,
        snapshot: PathBuf,
    }

    impl Shared {
        fn new(name: &str) -> Shared {
            let root = std::env::temp_dir().join(format!("apr-shared-store-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            let repository = root.join("models--a--b");
            let snapshot = repository.join("snapshots/abc");
            for folder in [repository.join("blobs"), snapshot.clone(), root.join("blobs/ab")] {
                std::fs::create_dir_all(folder).unwrap();
            }
            std::fs::write(root.join("blobs/.huggingface-shared-blobs"), "1\n").unwrap();
            std::fs::write(root.join("blobs/ab").join(HASH), "shared").unwrap();
            symlink(format!("../../blobs/ab/{HASH}"), repository.join("blobs/etag")).unwrap();
            symlink("../../blobs/etag", snapshot.join("model")).unwrap();
            Shared { root, snapshot }
        }

        fn open(&self, name: &str) -> Result<Found> {
            ModelFolder::locate(&self.snapshot, None).unwrap().place.open(name)
        }

        fn is_refused(&self) -> bool {
            let error = self.open("model").err();
            let is_about_links =
                |error: &Error| error.message().contains("points outside the model's folder");
            error.is_some_and(|error| error.kind() == ErrorKind::Malformed && is_about_links(&error))
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn a_blob_may_lie_in_the_store_that_repositories_share() {
        let shared = Shared::new("opens");
        let Found::File(backing) = shared.open("model").unwrap() else { panic!("no file") };
        assert_eq!(backing.len(), 6);
        std::fs::create_dir(shared.snapshot.join("onnx")).unwrap();
        symlink("../../../blobs/etag", shared.snapshot.join("onnx/model")).unwrap();
        assert!(shared.open("onnx/model").is_ok());
    }

    #[test]
    fn nothing_else_opens_what_lies_outside_the_repository() {
        let shared = Shared::new("refuses");
        let blob = shared.root.join("models--a--b/blobs/etag");
        let relink = |target: &str, at: &Path| {
            std::fs::remove_file(at).unwrap();
            symlink(target, at).unwrap();
        };
        // Into the store, but not by its layout; beside it; and past the repository's blobs.
        std::fs::write(shared.root.join("blobs/ab/secret"), "secret").unwrap();
        std::fs::write(shared.root.join("secret"), "secret").unwrap();
        for target in ["../../blobs/ab/secret", "../../blobs/.huggingface-shared-blobs", "../../secret"] {
            relink(target, &blob);
            assert!(shared.is_refused(), "{target}");
        }
        relink(&format!("../../blobs/ab/{HASH}"), &blob);
        relink(&format!("../../../blobs/ab/{HASH}"), &shared.snapshot.join("model"));
        assert!(shared.is_refused());
        relink("../../blobs/etag", &shared.snapshot.join("model"));
        assert!(!shared.is_refused());
        // A payload that is itself a link, a folder of the store that is one, and a store without its mark.
        let payload = shared.root.join("blobs/ab").join(HASH);
        relink("../../secret", &payload);
        assert!(shared.is_refused());
        std::fs::remove_file(&payload).unwrap();
        std::fs::write(&payload, "shared").unwrap();
        std::fs::rename(shared.root.join("blobs/ab"), shared.root.join("elsewhere")).unwrap();
        symlink("../elsewhere", shared.root.join("blobs/ab")).unwrap();
        assert!(shared.is_refused());
        std::fs::remove_file(shared.root.join("blobs/ab")).unwrap();
        std::fs::rename(shared.root.join("elsewhere"), shared.root.join("blobs/ab")).unwrap();
        assert!(!shared.is_refused());
        std::fs::remove_file(shared.root.join("blobs/.huggingface-shared-blobs")).unwrap();
        assert!(shared.is_refused());
    }
}
