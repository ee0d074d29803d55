//! An output's destination, and its hidden names.

use super::error::io_error;
use apr_engine::layout::Layout;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An output's destination.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file, or the folder for the files; links resolved.
    pub path: PathBuf,
    /// True if it is a folder.
    pub folder: bool,
    /// The path as typed, for messages.
    typed: PathBuf,
    /// The folder of the hidden names: beside a file or a new folder, inside an existing folder. That may be a mount
    /// point, to which nothing can be renamed from outside, and its parent may belong to others.
    home: PathBuf,
    /// The base of the hidden names, if not the name of `path`.
    name: Option<OsString>,
}

impl Target {
    /// The target at `path` as typed: an output that is a link stands for what it points to.
    ///
    /// # Errors
    /// NotFound if its parent folder does not exist.
    pub fn new(path: &Path, folder: bool) -> Result<Target> {
        let typed = path.to_owned();
        if let Ok(path) = path.canonicalize() {
            let home =
                if folder && path.is_dir() { &path } else { path.parent().unwrap_or(&path) }.to_owned();
            return Ok(Target { path, folder, typed, home, name: None });
        }
        let path = &followed(path);
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().map_err(|e| unresolved(&e, parent))?;
        let name = path.file_name().ok_or_else(|| {
            Error::invalid_argument("the output has no file name").in_file(path.display().to_string())
        })?;
        Ok(Target { path: parent.join(name), folder, typed, home: parent, name: None })
    }

    /// A path of this output in the way the user typed it.
    pub fn show(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.path) {
            Ok(inside) if inside.as_os_str().is_empty() => self.typed.clone(),
            Ok(inside) => self.typed.join(inside),
            Err(_) if path == self.parent() => self.typed_parent(),
            Err(_) => path.to_owned(),
        };
        let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { &shown };
        shown.display().to_string()
    }

    fn typed_parent(&self) -> PathBuf {
        self.typed.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// This file with others beside it: the same place, as the folder for all of them.
    pub fn with_companions(&self) -> Target {
        Target {
            path: self.parent().to_owned(),
            folder: true,
            typed: self.typed_parent(),
            home: self.parent().to_owned(),
            name: self.path.file_name().map(ToOwned::to_owned),
        }
    }

    /// The folder that contains the target.
    pub fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The folder with the hidden names.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns whether files are moved into an existing folder, one by one.
    pub fn is_within(&self) -> bool {
        self.folder && self.home == self.path
    }

    /// The path of this target's hidden name with `suffix`.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        self.home.join(self.hidden(suffix))
    }

    /// This target's hidden name with `suffix`.
    pub fn hidden(&self, suffix: &str) -> String {
        let name = self.name.as_deref().or(self.path.file_name()).unwrap_or_default().to_string_lossy();
        // File systems allow 255 bytes; a long name is cut, and the lock file keeps two such outputs apart.
        let cut = (0..=name.len().min(200)).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
        format!(".{}{suffix}", &name[..cut])
    }

    /// The final paths of a layout's files.
    pub fn finals(&self, layout: &Layout) -> Vec<PathBuf> {
        if self.folder {
            layout.files.iter().map(|f| self.path.join(&f.name)).collect()
        } else {
            vec![self.path.clone()]
        }
    }
}

fn unresolved(error: &std::io::Error, parent: &Path) -> Error {
    let shown = parent.display().to_string();
    match io_error(error, "resolve") {
        error if error.kind() == ErrorKind::NotFound => {
            let hint = format!("create it first: mkdir -p '{}'", escape(&shown, 200));
            Error::not_found("the output's folder does not exist").hint(hint).in_file(shown)
        }
        error => error.in_file(shown),
    }
}

/// The destination of a dangling link, where the output is created. Follows as many links as the kernel does.
pub(crate) fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    path
}

/// Removes a file or folder of ours, if it exists.
pub(crate) fn remove(path: &Path) {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => drop(std::fs::remove_dir_all(path)),
        Ok(_) => drop(std::fs::remove_file(path)),
        Err(_) => {}
    }
}
