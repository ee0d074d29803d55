//! A repository of the hub, at one commit: its listing, and the ways to its files.

use super::backing;
use crate::address::HubAddress;
use crate::cache::{BlobName, ContentDigest};
use crate::file::fetched_file::FetchedFile;
use crate::file::hashed_file::HashedFile;
use crate::file::object::Opened;
use crate::file::store::Store;
use crate::file::stream::StreamedFile;
use crate::file::window::{FIRST, Look};
use crate::hub::{Hub, Listed, Listing, licence};
use apr_engine::place::{Backing, Places};
use apr_sdk::{Error, Result, escape};
use std::sync::{Arc, OnceLock};

/// A repository at one commit.
pub struct HubRepository {
    hub: Hub,
    address: HubAddress,
    /// The revision that was asked for.
    revision: String,
    /// Part of the cache that files are kept in; nothing is kept without.
    store: Option<Store>,
    paths: Arc<dyn Places>,
    is_offline: bool,
    allows_unverified: bool,
    listing: OnceLock<Listing>,
    /// The commit that the first answer named, where nothing was listed.
    commit: OnceLock<String>,
}

impl HubRepository {
    /// The repository of an address; nothing is asked yet.
    pub fn new(
        hub: Hub,
        address: &HubAddress,
        revision: String,
        store: Option<Store>,
        paths: Arc<dyn Places>,
    ) -> HubRepository {
        HubRepository {
            store,
            paths,
            hub,
            address: address.clone(),
            revision,
            is_offline: false,
            allows_unverified: false,
            listing: OnceLock::new(),
            commit: OnceLock::new(),
        }
    }

    /// The same; what is not kept need not be what the hub announced.
    #[must_use]
    pub fn allowing_unverified(self, allows_unverified: bool) -> HubRepository {
        HubRepository { allows_unverified, ..self }
    }

    /// The same with what it holds; offline, nothing else is asked for.
    #[must_use]
    pub fn with_listing(mut self, listing: Listing, is_offline: bool) -> HubRepository {
        self.is_offline = is_offline;
        self.listing = OnceLock::from(listing);
        self
    }

    /// Listing of the repository; one request if it is not known.
    ///
    /// # Errors
    /// As [`Hub::listing`].
    pub fn listing(&self) -> Result<&Listing> {
        if let Some(listing) = self.listing.get() {
            return Ok(listing);
        }
        let listing = self.hub.listing(&self.address.repository, self.commit_or_revision())?;
        Ok(self.listing.get_or_init(|| listing))
    }

    /// The address.
    pub fn address(&self) -> &HubAddress {
        &self.address
    }

    /// The hub.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns whether nothing may be asked of the hub.
    pub fn is_offline(&self) -> bool {
        self.is_offline
    }

    /// Listing of the repository, if it is known.
    pub fn known(&self) -> Option<&Listing> {
        self.listing.get()
    }

    /// Entry of a file in the listing, if both are there.
    pub fn listed(&self, full: &str) -> Option<&Listed> {
        self.listing.get()?.files.get(full)
    }

    /// The commit, or the revision where that is not known.
    pub fn commit_or_revision(&self) -> &str {
        let listed = self.listing.get().map(|listing| listing.commit.as_str());
        listed.or_else(|| self.commit.get().map(String::as_str)).unwrap_or(&self.revision)
    }

    /// Facts that the hub states of the model; with `ask`, the hub is asked if it was not before.
    pub fn facts(&self, ask: bool) -> Vec<(String, String)> {
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

    /// Returns whether the cache has a file from when the revision was last seen.
    pub fn has_had(&self, full: &str) -> bool {
        let Some(store) = &self.store else { return false };
        let repository = store.repository();
        let commit = repository.commit_of(&self.revision).ok().flatten();
        commit.is_some_and(|commit| matches!(repository.file(&commit, full), Ok(Some(_))))
    }

    /// A file whose content the listing names, and the cache has.
    ///
    /// # Errors
    /// As [`Store::blob`].
    pub fn listed_in_cache(&self, full: &str) -> Result<Option<Arc<dyn Backing>>> {
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
            Arc::new(HashedFile::new(file, store.clone(), blob.clone()))
        }))
    }

    /// A file that the hub is asked for.
    ///
    /// # Errors
    /// As [`Hub::open`]; Io if the repository is at another commit by now.
    pub fn asked(&self, full: &str, shown: String) -> Result<Arc<dyn Backing>> {
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
            return backing(opened, &std::env::temp_dir(), announced);
        }
        let look = Look::new(opened);
        let Some(store) = &self.store else {
            let announced = blob.digest().filter(|_| !self.allows_unverified);
            return Ok(Arc::new(StreamedFile::new(look, announced)));
        };
        Ok(Arc::new(FetchedFile::new(
            look,
            store.clone(),
            blob,
            commit,
            self.revision.clone(),
            full.to_owned(),
        )))
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
