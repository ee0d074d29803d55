//! A repository of the hub as a [`Place`].

use crate::address::HubAddress;
use crate::cache::{BlobName, ContentDigest};
use crate::file::kept::{Cached, Fetched, Store};
use crate::file::object::Opened;
use crate::file::streamed::Streamed;
use crate::file::window::{FIRST, Look};
use crate::hub::{Hub, Listing, licence, select};
use crate::names::check_file;
use crate::threads::side_by_side;
use apr_engine::place::{Backing, Entry, Found, Place, Places};
use apr_sdk::{Error, Result, escape};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A repository at one commit.
pub struct HubPlace {
    hub: Hub,
    address: HubAddress,
    /// The revision that was asked for.
    revision: String,
    include: Vec<String>,
    /// Where files are kept, and by whom those that are kept are opened; nothing is without.
    store: Option<Store>,
    paths: Arc<dyn Places>,
    /// The folder in the repository that names are relative to; empty for the repository itself.
    folder: String,
    is_offline: bool,
    allows_unverified: bool,
    listing: OnceLock<Listing>,
    /// The commit that the first answer named, where nothing was listed.
    commit: OnceLock<String>,
    files: Mutex<HashMap<String, Arc<dyn Backing>>>,
    /// First parts of the split models whose parts were opened.
    parts_opened: Mutex<HashSet<String>>,
}

impl HubPlace {
    /// The place of an address; nothing is asked yet.
    pub fn new(
        hub: Hub,
        address: &HubAddress,
        revision: String,
        include: Vec<String>,
        store: Option<Store>,
        paths: Arc<dyn Places>,
    ) -> HubPlace {
        HubPlace {
            store,
            paths,
            hub,
            address: address.clone(),
            revision,
            include,
            folder: String::new(),
            is_offline: false,
            allows_unverified: false,
            listing: OnceLock::new(),
            commit: OnceLock::new(),
            files: Mutex::default(),
            parts_opened: Mutex::default(),
        }
    }

    /// The same; what is not kept need not be what the hub announced.
    #[must_use]
    pub fn allowing_unverified(self, allows_unverified: bool) -> HubPlace {
        HubPlace { allows_unverified, ..self }
    }

    /// The same with what it holds; offline, nothing else is asked for.
    ///
    /// # Errors
    /// As [`HubPlace::listing`].
    pub fn with_listing(mut self, listing: Listing, is_offline: bool) -> Result<HubPlace> {
        self.is_offline = is_offline;
        let chosen = self.chosen(listing)?;
        self.listing = OnceLock::from(chosen);
        Ok(self)
    }

    /// What the repository holds, without what `--include` leaves out.
    ///
    /// # Errors
    /// As [`Hub::listing`]; NotFound if the patterns leave nothing.
    pub fn listing(&self) -> Result<&Listing> {
        if let Some(listing) = self.listing.get() {
            return Ok(listing);
        }
        let listing = self.hub.listing(&self.address.repository, self.commit_or_revision())?;
        let chosen = self.chosen(listing)?;
        Ok(self.listing.get_or_init(|| chosen))
    }

    fn chosen(&self, mut listing: Listing) -> Result<Listing> {
        if !self.include.is_empty() {
            listing.files.retain(|name, _| self.include.iter().any(|pattern| select::fits(pattern, name)));
            if listing.files.is_empty() {
                let message =
                    format!("no file of the model fits `{}`", escape(&self.include.join("`, `"), 200));
                let hint = "check the patterns of --include";
                return Err(Error::not_found(message).in_file(self.address.shown()).hint(hint));
            }
        }
        Ok(listing)
    }

    /// The entry of a file, or of a folder with models.
    ///
    /// # Errors
    /// As [`HubPlace::listing`] and [`Hub::open`].
    pub fn entry(mut self, path: &str) -> Result<Entry> {
        let is_folder = path.is_empty()
            || !has_extension(path) && self.listing()?.has_folder(path)
            || self.listing.get().is_some_and(|listing| listing.has_folder(path));
        if is_folder {
            self.listing()?;
            self.folder = path.to_owned();
            return Ok(Entry { place: Arc::new(self), file: None });
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.folder = folder.to_owned();
        let backing = self.file(name).map_err(|e| e.with_file(self.show(name)))?;
        Ok(Entry { place: Arc::new(self), file: Some((name.to_owned(), backing)) })
    }

    fn commit_or_revision(&self) -> &str {
        let listed = self.listing.get().map(|listing| listing.commit.as_str());
        listed.or_else(|| self.commit.get().map(String::as_str)).unwrap_or(&self.revision)
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
        let backing = match self.listed_in_cache(&full)? {
            Some(cached) => cached,
            None if self.is_offline => {
                let error =
                    Error::not_found("the file is not in the cache, and nothing may be asked of a server");
                return Err(error.in_file(name.to_owned()).hint("unset HF_HUB_OFFLINE"));
            }
            None => self.asked(&full, self.show(name))?,
        };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(files.entry(full).or_insert(backing)))
    }

    /// Opens the other parts of a split model side by side: whoever opens one opens all, and each takes a request or two.
    fn open_parts(&self, full: &str) {
        let Some(listing) = self.listing.get().filter(|_| select::is_part(full)) else { return };
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
                let _ = part.strip_prefix(&below).map(|name| self.file(name));
            }
        };
        side_by_side(self.hub.client().options().connections.min(parts.len()), &work);
    }

    /// A file whose content the listing names, and the cache has.
    fn listed_in_cache(&self, full: &str) -> Result<Option<Arc<dyn Backing>>> {
        let listed = self.listing.get().and_then(|listing| listing.files.get(full));
        let Some(listed) = listed else { return Ok(None) };
        if let Some(name) = listed.sha256.as_ref().or(listed.git_id.as_ref())
            && let Some(cached) = self.cached(&BlobName::new(name)?, listed.size)?
        {
            return Ok(Some(cached));
        }
        // Where there are no links, the snapshot has the file itself.
        let Some(store) = &self.store else { return Ok(None) };
        let found = store.repository().file(self.commit_or_revision(), full)?;
        match found.filter(|found| listed.size.is_none_or(|size| size == found.len)) {
            Some(found) => Ok(self.paths.locate(&found.path)?.file.map(|(_, file)| file)),
            None => Ok(None),
        }
    }

    fn cached(&self, blob: &BlobName, size: Option<u64>) -> Result<Option<Arc<dyn Backing>>> {
        let Some(store) = &self.store else { return Ok(None) };
        let Some(path) = store.blob(blob, size)? else { return Ok(None) };
        let file = self.paths.locate(&path)?.file;
        Ok(file.map(|(_, file)| -> Arc<dyn Backing> {
            Arc::new(Cached::new(file, store.clone(), blob.clone()))
        }))
    }

    /// A file that the hub is asked for.
    fn asked(&self, full: &str, shown: String) -> Result<Arc<dyn Backing>> {
        let opened = self.open_object(full, shown)?;
        let identity = opened.object.identity().clone();
        let (Some(content), Some(commit)) = (identity.content, identity.commit) else {
            return Ok(Arc::new(Look::new(opened)));
        };
        let blob = BlobName::new(&content)?;
        if let Some(cached) = self.cached(&blob, Some(opened.object.size()))? {
            return Ok(cached);
        }
        if !opened.object.takes_ranges() && opened.object.size() > FIRST {
            let announced = blob.digest().filter(|digest| matches!(digest, ContentDigest::Sha256(_)));
            return super::backing(opened, &std::env::temp_dir(), announced);
        }
        let look = Look::new(opened);
        let Some(store) = &self.store else {
            let announced = blob.digest().filter(|_| !self.allows_unverified);
            return Ok(Arc::new(Streamed::new(look, announced)));
        };
        Ok(Arc::new(Fetched::new(look, store.clone(), blob, commit, self.revision.clone(), full.to_owned())))
    }

    fn open_object(&self, full: &str, shown: String) -> Result<Opened> {
        let opened =
            self.hub.open(&self.address.repository, self.commit_or_revision(), full, shown.clone(), FIRST)?;
        let commit = opened.object.identity().commit.clone().unwrap_or_default();
        let first = self.listing.get().map(|listing| listing.commit.clone());
        let first = first.unwrap_or_else(|| self.commit.get_or_init(|| commit.clone()).clone());
        if first != commit {
            let message = format!(
                "the model changed while it was being read: it was commit {}, and is {}",
                escape(&first, 80),
                escape(&commit, 80)
            );
            return Err(Error::io(message).in_file(shown).hint("run the command again"));
        }
        Ok(opened)
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
            _ => self.address.repository.to_string(),
        }
    }

    fn show(&self, name: &str) -> String {
        match self.full(name).as_str() {
            "" => self.address.shown(),
            full => format!("{}/{full}", self.address.shown()),
        }
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_file(name)?;
        let full = self.full(name);
        // What is not listed is not asked for.
        if let Some(listing) = self.listing.get() {
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
        if ask && !self.is_offline && self.listing.get().is_none() {
            // What cannot be found out is not said.
            let _ = self.listing();
        }
        let listing = self.listing.get();
        let commit = listing.map(|listing| &listing.commit).or_else(|| self.commit.get());
        let licence = listing.and_then(|listing| listing.licence.as_ref());
        if let Some(warning) = licence.filter(|_| ask).and_then(|licence| licence::warning(licence)) {
            self.hub.client().options().observer.warn(&warning);
        }
        let gated = listing.and_then(|listing| listing.gated.as_ref());
        let facts = [("commit", commit), ("licence", licence), ("gated", gated)];
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?.clone())));
        // All that a payload is read of is named after its digest.
        let is_verified = self.store.is_some() || !self.allows_unverified;
        let verified = if is_verified { "yes" } else { "no" };
        known.chain([("verified".to_owned(), verified.to_owned())]).collect()
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.listing.get()?.files.get(&self.full(name))?.size
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        if !folder.is_empty() {
            check_file(folder)?;
        }
        Ok(self.listing()?.entries(&self.full(folder)))
    }
}
