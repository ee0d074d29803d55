//! Sources of bytes: a [`Backing`] is a run of bytes, a [`Place`] a folder of these, and [`Places`] resolves
//! the user's paths. The engine knows neither files nor networks; whoever has them implements these traits.

use apr_sdk::{Error, Result, escape, has_controls};
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::Arc;

/// Tells whether bytes have changed. Constant for bytes that cannot change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Length in bytes.
    pub len: u64,
    /// Time of the last change of the bytes, as far as known; in nanoseconds since 1970 if it is a time.
    pub modified: i128,
    /// Time of the last change of anything about them, which nobody can reset.
    pub status: i128,
}

/// A run of bytes with random access: a file, bytes in memory, a remote object.
pub trait Backing: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Fills `out` with the bytes at `offset`. The caller has checked that they are within
    /// [`len`](Backing::len).
    ///
    /// # Errors
    /// Io, also if there are fewer bytes by now. The caller adds file and offset.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// The version of the bytes now; `None` if that cannot be told.
    fn version(&self) -> Option<Version>;

    /// The version when the bytes were opened.
    fn opened_version(&self) -> Option<Version> {
        self.version()
    }

    /// Equal for any two paths to the same bytes (device and inode); `None` if unknown.
    fn identity(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns whether the name they were opened by now leads elsewhere, or nowhere.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Announces that most of these ranges will be read soon: what is far away may be fetched ahead. The last call counts.
    ///
    /// # Errors
    /// Io if that is seen to be impossible.
    fn will_read(&self, _ranges: &[Range<u64>]) -> Result<()> {
        Ok(())
    }

    /// Fails if the bytes that were read are not those that whoever has them promised. Called before a result that rests on
    /// them counts.
    ///
    /// # Errors
    /// Failed with the code E004; Io.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The target of a name in a place.
#[derive(Clone)]
pub enum Found {
    /// A file, with its bytes.
    File(Arc<dyn Backing>),
    /// A folder.
    Folder,
}

/// A folder with a model in it. Names are relative to it, with `/`; the place ensures that none leads out of
/// it.
pub trait Place: Send + Sync {
    /// The folder's name.
    fn name(&self) -> String;

    /// A file's path as the user would type it; the folder's for an empty name.
    fn show(&self, name: &str) -> String;

    /// Opens what a name leads to.
    ///
    /// # Errors
    /// NotFound; Malformed for a name, or a link, that leaves the folder; Io. Errors have the name as their
    /// file.
    fn open(&self, name: &str) -> Result<Found>;

    /// Length in bytes of the file with this name, if that costs nothing to find out.
    fn size(&self, _name: &str) -> Option<u64> {
        None
    }

    /// What whoever gave the model says of it, for people and records: `commit`, `licence`, `gated`, and `verified`, which is
    /// `yes` if what was announced of the content is compared before anything made of it counts. With `ask`, also what must
    /// be asked for. Empty for files on this machine.
    fn facts(&self, _ask: bool) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The names in the folder, or in a subfolder, sorted; folders end in `/`.
    ///
    /// # Errors
    /// As [`Place::open`]; LimitExceeded.
    fn entries(&self, folder: &str) -> Result<Vec<String>>;
}

/// Fails for a name that no file of a place can have: one that leads out of it, or that cannot be printed
/// unescaped.
///
/// # Errors
/// Malformed, with a hint.
pub fn check_name(name: &str) -> Result<()> {
    let shown = escape(name, 200);
    let inside = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    if name.is_empty() || name.contains('\0') || !inside {
        let message = format!("the file name `{shown}` points outside the model's folder");
        return Err(Error::malformed(message)
            .hint("move the file into the model's folder: apr reads nothing outside it"));
    }
    if has_controls(name) {
        let message = format!("the file name `{shown}` contains control characters");
        return Err(Error::malformed(message).hint("rename the file and update what refers to it"));
    }
    Ok(())
}

/// The target of a user's path: a file with the place around it, or the place itself.
#[derive(Clone)]
pub struct Entry {
    /// The folder, or the file's folder.
    pub place: Arc<dyn Place>,
    /// The file's name in that folder and its bytes; `None` for the folder. The file may be a link out of the
    /// folder if the user named it.
    pub file: Option<(String, Arc<dyn Backing>)>,
}

/// Resolves the paths that users type.
pub trait Places: Send + Sync {
    /// Finds what a path leads to.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for anything but a file or folder; Io. Errors have the path as their file.
    fn locate(&self, path: &Path) -> Result<Entry>;

    /// Reads a small file that is not a model: a value, a list of names.
    ///
    /// # Errors
    /// As [`Places::locate`]; InvalidArgument for a folder; LimitExceeded.
    fn read(&self, path: &Path) -> Result<Vec<u8>>;
}
