//! Where bytes come from: a [`Backing`] is a run of bytes, a [`Place`] a folder of such, and [`Places`] knows what a path of
//! the user's means. The engine knows neither files nor a network; whoever has them implements these.

use apr_sdk::{Error, Result, escape, has_controls};
use std::path::{Component, Path};
use std::sync::Arc;

/// What tells that bytes are no longer what they were. Of bytes that cannot change, always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// How many bytes there are.
    pub len: u64,
    /// When bytes were last changed, as far as that can be told; in nanoseconds since 1970 where it is a time.
    pub modified: i128,
    /// When anything about them was last changed, which nobody can put back.
    pub status: i128,
}

/// A run of bytes that can be read at any place: a file, bytes in memory, a remote object.
pub trait Backing: Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Fills `out` from `offset`. The caller has checked that it ends within [`len`](Backing::len).
    ///
    /// # Errors
    /// Io, also if there are fewer bytes now; neither with the file nor the offset, which the caller adds.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// What tells that the bytes are still the same; `None` if nothing can tell.
    fn version(&self) -> Option<Version>;

    /// The same as it was when the bytes were opened.
    fn opened_version(&self) -> Option<Version> {
        self.version()
    }

    /// Equal for two paths to the same bytes (device and inode); `None` if unknown.
    fn identity(&self) -> Option<(u64, u64)> {
        None
    }

    /// Whether the name that it was opened by leads elsewhere now, or nowhere.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a name of a place leads to.
#[derive(Clone)]
pub enum Found {
    /// Bytes.
    File(Arc<dyn Backing>),
    /// A folder.
    Folder,
}

/// A folder that a model lies in. Names in it are relative, with `/`; that none leads out of it is the place's duty.
pub trait Place: Send + Sync {
    /// What the folder is called.
    fn name(&self) -> String;

    /// A file of it as the user would type it; the folder itself for an empty name.
    fn show(&self, name: &str) -> String;

    /// What a name leads to.
    ///
    /// # Errors
    /// NotFound; Malformed for a name, or a link, that leaves the folder; Io. With the name as the file.
    fn open(&self, name: &str) -> Result<Found>;

    /// The names in the folder, or in one below it, sorted; folders end in `/`.
    ///
    /// # Errors
    /// As [`Place::open`]; LimitExceeded.
    fn entries(&self, folder: &str) -> Result<Vec<String>>;
}

/// Fails for a name that cannot be one of a place's: one that leads out of it, or that no message can show as it is.
///
/// # Errors
/// Malformed, with the way out.
pub fn check_name(name: &str) -> Result<()> {
    let shown = escape(name, 200);
    let inside = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    if name.is_empty() || name.contains('\0') || !inside {
        let message = format!("the file name `{shown}` leaves the model's folder");
        return Err(Error::malformed(message)
            .hint("move the file into the model's folder: apr reads nothing outside it"));
    }
    if has_controls(name) {
        let message = format!("the file name `{shown}` has control characters");
        return Err(Error::malformed(message).hint("rename the file, and what names it"));
    }
    Ok(())
}

/// What a path of the user's leads to: a file with the place around it, or the place itself.
#[derive(Clone)]
pub struct Entry {
    /// The folder, or the one that the file lies in.
    pub place: Arc<dyn Place>,
    /// The file's name there, and its bytes; `None` for the folder. The user may name a file that is a link out of it.
    pub file: Option<(String, Arc<dyn Backing>)>,
}

/// What the paths mean that the user gives.
pub trait Places: Send + Sync {
    /// What a path leads to.
    ///
    /// # Errors
    /// NotFound; InvalidArgument for what is neither file nor folder; Io. With the path as the file.
    fn locate(&self, path: &Path) -> Result<Entry>;

    /// The bytes of a small file that is no model: a value, a list of names.
    ///
    /// # Errors
    /// As [`Places::locate`]; InvalidArgument for a folder; LimitExceeded.
    fn read(&self, path: &Path) -> Result<Vec<u8>>;
}
