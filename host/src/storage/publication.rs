//! Gives a staged output its final names, so that whoever opens it sees the old model, the new one, or an
//! error.
//!
//! A single file, or a new folder, takes one rename. Files for an existing folder go one by one: see
//! [`crate::storage::publish`].

use super::overwrite::refuse_existing;
use super::publish::folder::{Folder, sync_folder};
use super::publish::record::{Held, Moving, NAME, Record};
use super::publish::{free, moves};
use super::staging::Staging;
use super::target::remove;
use apr_sdk::{Error, Result, escape};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Instructions for publishing.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// True to replace what exists.
    pub force: bool,
    /// Files of the folder to remove although no new file has their name.
    pub removing: Vec<String>,
    /// A digest of the conversion.
    pub work: String,
}

impl Staging {
    /// Makes everything durable and gives it its final names. A reader never sees a mixed model.
    ///
    /// # Errors
    /// Io; also if something has appeared under a final name and must not be replaced. Unless the error says
    /// otherwise, what was there before is unchanged.
    pub fn publish(&mut self, wishes: &Wishes) -> Result<Vec<PathBuf>> {
        for file in &self.files {
            file.keep_permissions()?;
            file.sync_all(self.steps.as_ref())?;
        }
        let finals: Vec<_> = self.files.iter().map(|f| f.published.clone()).collect();
        let parent = self.target.parent().to_owned();
        if !self.target.folder {
            self.rename(&self.stage, &self.target.path, wishes.force)?;
            self.placed(&parent)?;
        } else if !self.target.is_within() {
            self.sync_stage()?;
            self.rename(&self.stage, &self.target.path, false)?;
            self.placed(&parent)?;
        } else if let ([file], true) = (&self.files[..], wishes.removing.is_empty()) {
            let parent = file.published.parent().unwrap_or(&self.target.path).to_owned();
            self.make_folder(&parent)?;
            self.rename(&file.path, &file.published, wishes.force)?;
            self.placed(&parent)?;
            remove(&self.stage);
        } else {
            self.publish_into_folder(wishes)?;
        }
        self.done = true;
        remove(&self.target.beside(".apr-journal"));
        Ok(finals)
    }

    /// The files that should be gone after publishing but could not be removed, in words.
    pub fn left_over(&self) -> Vec<String> {
        let mut left_over = Vec::new();
        for end in [".apr-old", ".apr-part", ".apr-journal"] {
            let path = self.target.beside(end);
            if path.symlink_metadata().is_ok() {
                let shown = escape(&self.target.show(&path), 400);
                left_over.push(format!("{shown} is no longer needed, but could not be removed: remove it"));
            }
        }
        left_over
    }

    /// Called once the last name is in place: a later failure does not remove the output.
    fn placed(&mut self, folder: &Path) -> Result<()> {
        self.done = true;
        sync_folder(folder, self.steps.as_ref()).map_err(|error| {
            remove(&self.target.beside(".apr-journal"));
            let shown = self.target.show(&self.target.path);
            moves::in_place(&error).with_file(shown).hint("run `sync`, or copy the output to another disk")
        })
    }

    /// Makes the names in the staging folder durable.
    fn sync_stage(&self) -> Result<()> {
        let shown = self.target.show(&self.target.path);
        let stage = Folder::open(&self.stage, &shown, Arc::clone(&self.steps))?;
        stage.sync(self.names().iter().map(String::as_str))
    }

    /// The files' paths relative to their folder.
    fn names(&self) -> Vec<String> {
        let paths = self.files.iter().filter_map(|file| file.published.strip_prefix(&self.target.path).ok());
        paths.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Publishes file by file, with a record.
    fn publish_into_folder(&mut self, wishes: &Wishes) -> Result<()> {
        self.sync_stage()?;
        let shown = self.target.show(&self.target.path);
        let folder = Folder::open(&self.target.path, &shown, Arc::clone(&self.steps))?;
        folder.sync(std::iter::empty())?;
        // Another output's files may be on their way into the same folder.
        if let Some(Held { record, .. }) = &free(&folder)? {
            moves::carry_out(&folder, record)?;
        }
        let record = self.record(&folder, wishes)?;
        let held = Held::create(&folder, &self.target.hidden(".apr-record"), record);
        let outcome = held.and_then(|held| moves::carry_out(&folder, &held.record));
        // While the record exists, finishing needs the staged and the old files.
        self.done = outcome.is_ok() || folder.stat(NAME).is_ok_and(|stat| stat.is_some());
        outcome
    }

    /// The planned moves: entry files leave first and arrive last.
    fn record(&self, folder: &Folder, wishes: &Wishes) -> Result<Record> {
        let names = self.names();
        let entries: Vec<&String> = self.entries.iter().filter_map(|&number| names.get(number)).collect();
        let others: Vec<&String> = names.iter().filter(|name| !entries.contains(name)).collect();
        let mut leaving = Vec::new();
        for name in entries.iter().copied().chain(&wishes.removing).chain(others.iter().copied()) {
            let Some(stat) = folder.stat(name)? else { continue };
            if !wishes.force {
                let path = self.target.path.join(name);
                refuse_existing(&path, &self.target.show(&path))?;
                return Err(Error::io("the output exists").in_file(folder.show(name)));
            }
            moves::is_movable(folder, name, &stat)?;
            leaving.push(Moving::new(name, &stat));
        }
        let stage = self.target.hidden(".apr-part");
        let mut coming = Vec::with_capacity(names.len());
        for name in others.into_iter().chain(entries.into_iter().rev()) {
            let stat = folder
                .stat(&format!("{stage}/{name}"))?
                .ok_or_else(|| Error::io("the temporary file is missing").in_file(folder.show(name)))?;
            coming.push(Moving::new(name, &stat));
        }
        let old = self.target.hidden(".apr-old");
        folder.clear(&old);
        Ok(Record { stage, old, work: wishes.work.clone(), leaving, coming })
    }
}
