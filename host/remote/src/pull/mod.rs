//! Downloads: a model of the hub into the cache or a folder, a file behind HTTPS into a folder.

mod job;
mod meter;
mod target;
mod web;

use crate::address::{Address, HubAddress};
use crate::cache::{BlobName, Tree, TreeFile};
use crate::file::fetched_file::{LARGEST, too_large};
use crate::file::store::Store;
use crate::hub::{Hub, Listed, Listing, licence, select};
use crate::names::RepositoryId;
use crate::places::{Anywhere, RemoteOptions};
use apr_engine::progress::Progress;
use apr_engine::sizes::show_size;
use apr_sdk::{Error, Result, escape};
use job::{Job, Wanted};
use meter::Meter;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use target::Target;
use web::{of_url, remove_unfinished};

/// Choice of files, and the place that they go to.
#[derive(Clone, Debug, Default)]
pub struct PullOptions {
    /// Patterns of the files that are wanted; all if empty.
    pub include: Vec<String>,
    /// Patterns of the files that are not.
    pub exclude: Vec<String>,
    /// The folder, or of a single file the file, to write; the cache if there is none.
    pub output: Option<PathBuf>,
    /// The SHA-256 that a single file must have.
    pub sha256: Option<String>,
    /// True to replace files that are there.
    pub force: bool,
    /// True to find out what would be done, and do nothing.
    pub plan: bool,
}

/// A file that was downloaded. JSON: the fields below.
#[derive(Clone, Debug, Serialize)]
pub struct PulledFile {
    /// The file's name in the model.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes that came over the network, or would.
    pub fetched: u64,
    /// The digest that its content was found to have; null if none was announced, or nothing was read.
    pub verified: Option<String>,
}

/// A download. JSON: of `apr pull`: the fields below.
#[derive(Clone, Debug, Serialize)]
pub struct Pulled {
    /// The model, as it is named.
    pub model: String,
    /// The commit; null for what is not on the hub.
    pub commit: Option<String>,
    /// The folder, or the file, that it is in.
    pub path: String,
    /// The files (each `name`, `bytes`, `fetched`, `verified`).
    pub files: Vec<PulledFile>,
    /// The licence that the model's card names; null if it names none.
    pub licence: Option<String>,
    /// True if nothing was done.
    pub planned: bool,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Downloads what an address leads to.
///
/// # Errors
/// InvalidArgument for what cannot be downloaded; the refusal of the server; Failed with the code E004 for content that is
/// not what was announced; Io, also if there is no space; Cancelled.
pub fn pull(
    anywhere: &Anywhere,
    path: &Path,
    options: &PullOptions,
    progress: &dyn Progress,
) -> Result<Pulled> {
    let shown = path.display().to_string();
    match anywhere.address(path)? {
        None => Err(Error::invalid_argument("this is a path, and already here")
            .in_file(shown)
            .hint("name a model of the hub (hf://org/name), or an https address")),
        Some(address) => match address {
            Address::Stdin => Err(Error::invalid_argument("standard input is not downloaded")
                .hint("name a model of the hub (hf://org/name), or an https address")),
            Address::Url(url) => of_url(anywhere, &url, options, progress),
            Address::Hub(address) => of_hub(anywhere, &address, options, progress),
        },
    }
}

fn of_hub(
    anywhere: &Anywhere,
    address: &HubAddress,
    options: &PullOptions,
    progress: &dyn Progress,
) -> Result<Pulled> {
    let began = Instant::now();
    if options.sha256.is_some() {
        return Err(Error::invalid_argument(
            "--sha256 is for a file behind https: the hub names digests itself",
        )
        .hint("leave out --sha256"));
    }
    let remote = anywhere.options()?;
    let hub = anywhere.hub()?.counting();
    let id = &address.repository;
    let revision = address.revision.as_ref().or(remote.revision.as_ref());
    let revision = revision.map_or("main", String::as_str);
    let listing = match remote.is_offline {
        true => cached(remote, id, &hub, revision)?.ok_or_else(|| {
            Error::io("this is not all in the cache, and nothing may be asked of a server")
                .in_file(address.shown())
                .hint("unset HF_HUB_OFFLINE")
        })?,
        false => hub.listing(id, revision)?,
    };
    let chosen = chosen(&listing, address, options)?;
    let cache = match &options.output {
        Some(_) => None,
        None => Some(remote.cache().ok_or_else(|| {
            Error::io("there is no cache to keep it in")
                .hint("name a folder with -o, or set HF_HOME or APR_CACHE to one")
        })?),
    };
    let store = cache.map(|cache| Store::new(cache, id, hub.client()));
    let mut warnings: Vec<String> =
        listing.licence.as_deref().and_then(licence::warning).into_iter().collect();
    let folder = match (&store, &options.output) {
        (Some(store), _) => store.repository().snapshot(&listing.commit)?,
        (None, folder) => folder.clone().unwrap_or_default(),
    };
    let target = match &store {
        Some(store) => Target::Cache(store, &listing.commit),
        None => Target::Folder { folder: &folder, force: options.force },
    };
    let mut waiting = Vec::new();
    let mut files = Vec::new();
    for (name, listed) in chosen {
        let blob = blob_of(&name, listed)?;
        let bytes = listed.size.unwrap_or(0);
        if target.has(&name, &blob, bytes, options.plan)? {
            let verified = (!options.plan).then(|| digest_text(&blob)).flatten();
            files.push(PulledFile { name, bytes, fetched: 0, verified });
        } else {
            refuse_too_large(address, &name, bytes)?;
            waiting.push(Wanted { name, blob, bytes });
        }
    }
    let total = waiting.iter().map(|file| file.bytes).sum();
    let there: u64 = waiting.iter().map(|file| target.partly(&file.blob)).sum();
    let fetches = !options.plan && !waiting.is_empty();
    if let Some(free) = target.free_bytes().filter(|free| fetches && free.saturating_add(there) < total) {
        let message =
            format!("the disk has {} left, and the files need {}", show_size(free), show_size(total));
        let error = Error::io(message).in_file(folder.display().to_string());
        return Err(
            error.hint("free some space, choose files with --include, or name a folder on another disk")
        );
    }
    if options.plan {
        let planned = waiting.into_iter().map(|file| PulledFile {
            name: file.name,
            bytes: file.bytes,
            fetched: file.bytes,
            verified: None,
        });
        files.extend(planned);
    } else {
        if let Some(store) = store.as_ref().filter(|_| !remote.is_offline) {
            note(store, revision, &listing)?;
        }
        let meter = Meter::new(progress, total);
        let job = Job { hub: &hub, address, commit: &listing.commit, target: &target, meter: &meter };
        files.extend(job.fetch_all(waiting)?);
        if let Target::Folder { folder, .. } = target {
            files.iter().for_each(|file| remove_unfinished(&folder.join(&file.name)));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(how) = &listing.gated {
        warnings
            .push(format!("access to this model is given on request ({}): its terms apply", escape(how, 40)));
    }
    Ok(Pulled {
        model: address.shown(),
        commit: Some(listing.commit.clone()),
        path: folder.display().to_string(),
        files,
        licence: listing.licence.clone(),
        planned: options.plan,
        seconds: began.elapsed().as_secs_f64(),
        warnings,
    })
}

/// Files of a revision in the cache, if all are there.
fn cached(remote: &RemoteOptions, id: &RepositoryId, hub: &Hub, revision: &str) -> Result<Option<Listing>> {
    let Some(cache) = remote.cache() else { return Ok(None) };
    let store = Store::new(cache, id, hub.client());
    let Some(commit) = store.commit_of(revision)? else { return Ok(None) };
    let (listing, missing) = store.snapshot(&commit)?;
    Ok(Some(listing).filter(|listing| missing.unwrap_or(0) == 0 && !listing.files.is_empty()))
}

/// The files that are meant, by name.
fn chosen<'l>(
    listing: &'l Listing,
    address: &HubAddress,
    options: &PullOptions,
) -> Result<BTreeMap<String, &'l Listed>> {
    let mut chosen: BTreeMap<String, &Listed> = BTreeMap::new();
    let word = match &address.word {
        Some(word) => Some(select::tagged(listing, word).map_err(|e| e.in_file(address.shown()))?),
        None => None,
    };
    for (name, listed) in &listing.files {
        let is_below = name == &address.file || name.starts_with(&format!("{}/", address.file));
        let is_meant = match &word {
            Some(first) => select::same_model(first, name),
            None => address.file.is_empty() || is_below,
        };
        let is_included = options.include.is_empty() || options.include.iter().any(|p| select::fits(p, name));
        let is_excluded = options.exclude.iter().any(|pattern| select::fits(pattern, name));
        if is_meant && is_included && !is_excluded {
            chosen.insert(name.clone(), listed);
        }
    }
    if chosen.is_empty() {
        let error = Error::not_found("the model has no such file").in_file(address.shown());
        return Err(error.hint("list its files: apr pull MODEL --plan"));
    }
    Ok(chosen)
}

fn blob_of(name: &str, listed: &Listed) -> Result<BlobName> {
    let content = listed.sha256.as_ref().or(listed.git_id.as_ref()).ok_or_else(|| {
        Error::io(format!("the hub does not say what `{}` contains", escape(name, 200)))
            .hint("get the file with the hub's own client: hf download")
    })?;
    BlobName::new(content)
}

fn digest_text(blob: &BlobName) -> Option<String> {
    blob.digest().map(|digest| digest.to_string())
}

fn refuse_too_large(address: &HubAddress, name: &str, bytes: u64) -> Result<()> {
    if bytes <= LARGEST {
        Ok(())
    } else {
        Err(too_large(&address.repository, name, bytes).in_file(address.shown()))
    }
}

/// Notes in the cache what the hub said of a revision.
fn note(store: &Store, revision: &str, listing: &Listing) -> Result<()> {
    store.note_ref(revision, &listing.commit)?;
    let mut files = BTreeMap::new();
    for (name, listed) in &listing.files {
        // A listing that is not complete is none.
        let (Some(size), Some(blob_id)) = (listed.size, listed.git_id.clone()) else { return Ok(()) };
        let lfs_size = listed.sha256.as_ref().map(|_| size);
        let lfs_sha256 = listed.sha256.clone();
        files.insert(name.clone(), TreeFile { size, blob_id, lfs_sha256, lfs_size, xet_hash: None });
    }
    store.repository().set_tree(&listing.commit, &Tree::new(files))
}
