//! A repository of the hub, or a folder in it, as a [`Place`].

use super::hub_repository::HubRepository;
use crate::file::lazy::LazyFile;
use crate::hub::select;
use crate::names::check_file;
use crate::threads::side_by_side;
use apr_engine::place::{Backing, Entry, Found, Place};
use apr_sdk::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A folder of a repository at one commit.
pub struct HubPlace {
    repository: Arc<HubRepository>,
    /// The folder in the repository that names are relative to; empty for the repository itself.
    folder: String,
    files: Mutex<HashMap<String, Arc<dyn Backing>>>,
    /// First parts of the split models whose parts were opened.
    parts_opened: Mutex<HashSet<String>>,
}

impl HubPlace {
    /// The repository itself.
    pub fn new(repository: HubRepository) -> HubPlace {
        HubPlace {
            repository: Arc::new(repository),
            folder: String::new(),
            files: Mutex::default(),
            parts_opened: Mutex::default(),
        }
    }

    /// What the repository holds.
    ///
    /// # Errors
    /// As [`HubRepository::listing`].
    pub fn listing(&self) -> Result<&crate::hub::Listing> {
        self.repository.listing()
    }

    /// The entry of a file, or of a folder with models.
    ///
    /// # Errors
    /// As [`HubRepository::listing`] and [`HubRepository::asked`].
    pub fn entry(mut self, path: &str) -> Result<Entry> {
        let is_folder = path.is_empty()
            || !has_extension(path) && self.repository.listing()?.has_folder(path)
            || self.repository.known().is_some_and(|listing| listing.has_folder(path));
        if is_folder {
            self.repository.listing()?;
            self.folder = path.to_owned();
            return Ok(Entry { place: Arc::new(self), file: None });
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.folder = folder.to_owned();
        if self.repository.has_had(path) {
            // The listing says whether that is still the file; asking for it would fetch its beginning.
            self.repository.listing()?;
        }
        let backing = self.file(name).map_err(|e| e.with_file(self.show(name)))?;
        Ok(Entry { place: Arc::new(self), file: Some((name.to_owned(), backing)) })
    }

    /// A name in the place, as the repository has it.
    fn full(&self, name: &str) -> String {
        match self.folder.as_str() {
            "" => name.to_owned(),
            folder if name.is_empty() => folder.to_owned(),
            folder => format!("{folder}/{name}"),
        }
    }

    fn file(&self, name: &str) -> Result<Arc<dyn Backing>> {
        let full = self.full(name);
        if let Some(known) = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(&full) {
            return Ok(Arc::clone(known));
        }
        let repository = &self.repository;
        let size = repository.listed(&full).and_then(|listed| listed.size);
        let backing: Arc<dyn Backing> = match (repository.listed_in_cache(&full)?, size) {
            (Some(cached), _) => cached,
            (None, _) if repository.is_offline() => {
                let error =
                    Error::not_found("the file is not in the cache, and nothing may be asked of a server");
                return Err(error.in_file(name.to_owned()).hint("unset HF_HUB_OFFLINE"));
            }
            // Many are only listed by whoever opens a folder, and never read.
            (None, Some(size)) => {
                let (repository, shown) = (Arc::clone(repository), self.show(name));
                let key = format!("{} {full}", repository.commit_or_revision());
                let asked = full.clone();
                Arc::new(LazyFile::new(size, &key, Box::new(move || repository.asked(&asked, shown.clone()))))
            }
            (None, None) => repository.asked(&full, self.show(name))?,
        };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(files.entry(full).or_insert(backing)))
    }

    /// Opens the other parts of a split model side by side: whoever opens one opens all, and each takes a request or two.
    fn open_parts(&self, full: &str) {
        let Some(listing) = self.repository.known().filter(|_| select::is_part(full)) else { return };
        let mut opened = self.parts_opened.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<&String> =
            listing.files.keys().filter(|name| select::same_model(full, name)).collect();
        if parts.len() < 3 || !opened.insert(parts[0].clone()) {
            return;
        }
        let next = AtomicUsize::new(0);
        let below = if self.folder.is_empty() { String::new() } else { format!("{}/", self.folder) };
        let work = || {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                // What fails here fails again where it is needed, and is told there.
                let file = part.strip_prefix(&below).and_then(|name| self.file(name).ok());
                let _ = file.filter(|file| !file.is_empty()).map(|file| file.read_at(0, &mut [0]));
            }
        };
        side_by_side(self.repository.hub().client().options().connections.min(parts.len()), &work);
    }
}

/// Returns whether a name looks like a file's.
fn has_extension(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.trim_start_matches('.').contains('.'))
}

impl Place for HubPlace {
    fn name(&self) -> String {
        match self.folder.rsplit('/').next() {
            Some(folder) if !folder.is_empty() => folder.to_owned(),
            _ => self.repository.address().repository.to_string(),
        }
    }

    fn show(&self, name: &str) -> String {
        match self.full(name).as_str() {
            "" => self.repository.address().shown(),
            full => format!("{}/{full}", self.repository.address().shown()),
        }
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_file(name)?;
        let full = self.full(name);
        // What is not listed is not asked for.
        if let Some(listing) = self.repository.known() {
            if listing.has_folder(&full) {
                return Ok(Found::Folder);
            }
            if !listing.files.contains_key(&full) {
                return Err(Error::not_found("the model has no such file").in_file(name.to_owned()));
            }
        }
        self.open_parts(&full);
        self.file(name).map(Found::File).map_err(|e| e.with_file(name.to_owned()))
    }

    fn facts(&self, ask: bool) -> Vec<(String, String)> {
        self.repository.facts(ask)
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.repository.known()?.files.get(&self.full(name))?.size
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        if !folder.is_empty() {
            check_file(folder)?;
        }
        Ok(self.repository.listing()?.entries(&self.full(folder)))
    }
}
