//! The moves that publish files into an existing folder: they go one by one. A record ([`record`]) lists them, every verb
//! refuses a folder that holds one, and the next writer finishes it first.

pub mod folder;
pub(super) mod moves;
pub mod record;
pub mod steps;

use crate::storage::lock::sweep_lock;
use crate::storage::target::remove;
use apr_engine::wording::n_of;
use apr_sdk::{Error, Result, escape};
use folder::Folder;
use record::{Found, Held, NAME};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::Steps;

/// Time to wait for another publication in the same folder, which only renames files.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// An interrupted publication that has now been finished. JSON: of `apr convert --resume FOLDER`: the fields below.
#[derive(Clone, Debug, Serialize)]
pub struct Finished {
    /// `apr.finished/1`.
    pub schema: &'static str,
    /// The path of the folder.
    pub folder: String,
    /// The files that are in place.
    pub files: Vec<String>,
    /// The old files that are gone.
    pub removed: Vec<String>,
    /// The digest of the conversion.
    #[serde(skip)]
    pub work: String,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = n_of(self.files.len(), "file");
        write!(
            f,
            "finished the interrupted conversion: {files} moved into place in {}",
            escape(&self.folder, 400)
        )?;
        match self.removed.len() {
            0 => Ok(()),
            removed => write!(f, ", {} removed", n_of(removed, "old file")),
        }
    }
}

/// The command that finishes an interrupted publication in a folder.
pub fn command(folder: &str) -> String {
    format!("apr convert --resume {}", escape(folder, 400))
}

/// Fails for a folder whose files are being replaced, or whose replacement was interrupted.
///
/// # Errors
/// Io, with the command that finishes it.
pub fn refuse_unfinished(path: &Path, shown: &str) -> Result<()> {
    if path.join(NAME).symlink_metadata().is_err() {
        return Ok(());
    }
    let folder = Folder::open(path, shown, Arc::new(steps::Unwatched))?;
    let (message, hint) = match Held::find(&folder, false)? {
        Found::None => return Ok(()),
        Found::Busy => ("another apr process is writing to this folder", "wait for it to finish".to_owned()),
        Found::Stopped(_) => (
            "apr was interrupted while moving files into this folder: it contains part of the old model and \
             part of the new one",
            format!("run `{}` to finish", command(shown)),
        ),
    };
    Err(Error::io(message).in_file(shown.to_owned()).hint(hint))
}

/// Finishes an interrupted publication in the folder at `path`, which messages call `shown`; `None` if there
/// is none.
///
/// # Errors
/// Io if that is impossible, or another apr is doing it.
pub fn finish(path: &Path, shown: &str, steps: &Arc<dyn Steps>) -> Result<Option<Finished>> {
    let folder = Folder::open(path, shown, Arc::clone(steps))?;
    let Some(Held { record, .. }) = &free(&folder)? else { return Ok(None) };
    moves::carry_out(&folder, record)?;
    // Other leftovers of the interrupted run; the lock too, unless it is held.
    remove(&path.join(format!("{}.apr-journal", record.hidden())));
    sweep_lock(&path.join(format!("{}.apr-lock", record.hidden())));
    let coming: HashSet<&str> = record.coming.iter().map(|file| file.name.as_str()).collect();
    let removed = record.leaving.iter().filter(|file| !coming.contains(file.name.as_str()));
    Ok(Some(Finished {
        schema: "apr.finished/1",
        folder: shown.to_owned(),
        files: record.coming.iter().map(|file| file.name.clone()).collect(),
        removed: removed.map(|file| file.name.clone()).collect(),
        work: record.work.clone(),
    }))
}

/// The record of a folder, once nobody else holds it.
pub(super) fn free(folder: &Folder) -> Result<Option<Held>> {
    let began = Instant::now();
    loop {
        match Held::find(folder, true)? {
            Found::None => return Ok(None),
            Found::Stopped(held) => return Ok(Some(held)),
            Found::Busy if began.elapsed() < LONGEST_WAIT => std::thread::sleep(Duration::from_millis(20)),
            Found::Busy => {
                let error = Error::io("another apr process is writing to this folder");
                return Err(error
                    .in_file(folder.show(""))
                    .hint("wait for it to finish, or choose another folder"));
            }
        }
    }
}
