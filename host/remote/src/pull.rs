//! Downloads: a model of the hub into the cache or a folder, a file behind HTTPS into a folder.

use crate::address::{Address, HubAddress};
use crate::cache::{BlobName, ContentDigest, Download, Partial, Tree, TreeFile};
use crate::fetch::Store;
use crate::hub::{Hub, Listed, Listing, select};
use crate::licence;
use crate::object::{Object, Opened};
use crate::places::Anywhere;
use crate::transfer::Transfer;
use crate::window::FIRST;
use apr_engine::progress::Progress;
use apr_engine::sizes::show_size;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Files up to this size are fetched side by side, larger ones one after another over several connections each.
const SMALL: u64 = 8 << 20;

/// Largest file that the hub gives by plain HTTP. Its own client has another way for larger ones.
const LARGEST: u64 = 50_000_000_000;

/// The folder for unfinished downloads in a folder that the user named.
const UNFINISHED: &str = ".apr-download";

/// What is downloaded, and where to.
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
    match Address::of(path) {
        None => Err(Error::invalid_argument("this is a path, and already here")
            .in_file(shown)
            .hint("name a model of the hub (hf://org/name), or an https address")),
        Some(address) => match address? {
            Address::Stdin => Err(Error::invalid_argument("standard input is not downloaded")
                .hint("name a model of the hub (hf://org/name), or an https address")),
            Address::Url(url) => of_url(anywhere, &url, options, progress),
            Address::Hub(address) => of_hub(anywhere, &address, options, progress),
        },
    }
}

/// Shows how far all downloads together are.
struct Meter<'a> {
    progress: &'a dyn Progress,
    done: AtomicU64,
    total: u64,
}

impl Meter<'_> {
    fn show(&self, more: u64, name: &str) {
        self.progress.bytes((self.done.load(Ordering::Relaxed) + more).min(self.total), self.total, name);
    }

    fn add(&self, bytes: u64, name: &str) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.show(0, name);
    }

    /// Waits for a transfer while showing it.
    fn follow(&self, transfer: &Transfer, name: &str) {
        while let Some(done) = transfer.done() {
            self.show(done, name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn of_hub(
    anywhere: &Anywhere,
    address: &HubAddress,
    options: &PullOptions,
    progress: &dyn Progress,
) -> Result<Pulled> {
    let began = Instant::now();
    let remote = anywhere.options()?;
    if remote.is_offline {
        return Err(Error::io("nothing may be asked of a server")
            .in_file(address.shown())
            .hint("unset HF_HUB_OFFLINE"));
    }
    let hub = anywhere.hub()?.counting();
    let id = &address.repository;
    let revision = address.revision.as_ref().or(remote.revision.as_ref());
    let revision = revision.map_or("main", String::as_str);
    let listing = hub.listing(id, revision)?;
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
        Some(store) => Target::Cache(store),
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
    let is_there = !options.plan && !waiting.is_empty();
    if let Some(free) = target.free_bytes().filter(|free| is_there && *free < total) {
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
        if let Some(store) = &store {
            note(store, revision, &listing)?;
        }
        let meter = Meter { progress, done: AtomicU64::new(0), total };
        let job = Job { hub: &hub, address, commit: &listing.commit, target: &target, meter: &meter };
        files.extend(job.fetch_all(waiting)?);
        if let Target::Folder { folder, .. } = target {
            // Not empty if something else is unfinished in it.
            let _ = std::fs::remove_dir(folder.join(UNFINISHED));
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
        return Ok(());
    }
    let message =
        format!("`{}` has {}: the hub gives no files so large by HTTP", escape(name, 200), show_size(bytes));
    let hint = format!(
        "get it with the hub's own client: hf download {} '{}'",
        address.repository,
        escape(name, 200)
    );
    Err(Error::unsupported(message).in_file(address.shown()).hint(hint))
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

/// Where files go.
enum Target<'a> {
    Cache(&'a Store),
    Folder { folder: &'a Path, force: bool },
}

impl Target<'_> {
    /// Returns whether a file is there with its content; of one in the cache, unless only planned, that is found out by
    /// hashing it, and it gets its name in the snapshot.
    fn has(&self, name: &str, blob: &BlobName, bytes: u64, is_plan: bool) -> Result<bool> {
        match self {
            Target::Cache(store) => {
                Ok(store.blob(blob, Some(bytes))?.is_some() && (is_plan || store.is_right(blob)?))
            }
            Target::Folder { folder, force } => {
                let path = folder.join(name);
                let Ok(meta) = path.metadata() else { return Ok(false) };
                if meta.is_file() && meta.len() == bytes && has_content(&path, blob, bytes)? {
                    return Ok(true);
                }
                match *force && meta.is_file() {
                    true => Ok(false),
                    false => Err(Error::io("the file is there, with other content")
                        .code("E007")
                        .in_file(path.display().to_string())
                        .hint("pass --force to replace it")),
                }
            }
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        match self {
            Target::Cache(store) => store.free_bytes(),
            Target::Folder { folder, .. } => crate::cache::Cache::new(*folder, None).free_bytes(),
        }
    }
}

/// Returns whether a file has the content that a blob is named after.
fn has_content(path: &Path, blob: &BlobName, bytes: u64) -> Result<bool> {
    let Some(expected) = blob.digest() else { return Ok(false) };
    let read =
        std::fs::File::open(path).and_then(|mut file| expected.of_content(&mut file, bytes, &|_| Ok(())));
    let found =
        read.map_err(|e| Error::io(format!("cannot read: {e}")).in_file(path.display().to_string()))?;
    Ok(found == expected)
}

/// A file that is to be fetched.
struct Wanted {
    name: String,
    blob: BlobName,
    bytes: u64,
}

/// The files of one repository that are fetched.
struct Job<'a> {
    hub: &'a Hub,
    address: &'a HubAddress,
    commit: &'a str,
    target: &'a Target<'a>,
    meter: &'a Meter<'a>,
}

impl Job<'_> {
    /// Fetches all files, small ones side by side.
    fn fetch_all(&self, wanted: Vec<Wanted>) -> Result<Vec<PulledFile>> {
        let (small, large): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|file| file.bytes <= SMALL);
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(file) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.fetch(file);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                let is_over = result.is_err();
                results.push(result);
                if is_over {
                    next.store(small.len(), Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            let most = self.hub.client().options().connections.min(small.len());
            for _ in 1..most {
                // Fewer threads are none too few: this one works as well.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let mut done = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.extend(large.iter().map(|file| self.fetch(file)));
        done.into_iter().collect()
    }

    fn fetch(&self, file: &Wanted) -> Result<PulledFile> {
        let Wanted { name, blob, bytes } = file;
        let done =
            |fetched| PulledFile { name: name.clone(), bytes: *bytes, fetched, verified: digest_text(blob) };
        match self.target {
            Target::Cache(store) => {
                let lock = store.lock(blob)?;
                // Whoever held the lock may have fetched it.
                if store.blob(blob, Some(*bytes))?.is_some() && store.is_right(blob)? {
                    store.link(self.commit, name, blob)?;
                    self.meter.add(*bytes, name);
                    return Ok(done(0));
                }
                let Opened { object, first } = self.open(file)?;
                let partial = store.partial(&object, lock, blob, self.commit)?;
                let resumed = partial.done();
                let transfer = Transfer::beginning(&object, first, partial, None)?;
                self.meter.follow(&transfer, name);
                store.end(&transfer, self.commit, name)?;
                self.meter.add(*bytes, name);
                Ok(done(bytes - resumed))
            }
            Target::Folder { folder, force } => {
                let Opened { object, first } = self.open(file)?;
                let download = Download { commit: self.commit.to_owned(), blob: blob.clone(), size: *bytes };
                let fetched =
                    into_file(&object, first, download, None, &folder.join(name), *force, &|transfer| {
                        self.meter.follow(transfer, name);
                    })?;
                self.meter.add(*bytes, name);
                Ok(done(fetched.0))
            }
        }
    }

    fn open(&self, file: &Wanted) -> Result<Opened> {
        let shown = format!("{}/{}", self.address.shown(), file.name);
        let opened =
            self.hub.open(&self.address.repository, self.commit, &file.name, shown.clone(), FIRST)?;
        let content = opened.object.identity().content.clone();
        if opened.object.len() != file.bytes || content.is_some_and(|content| content != file.blob.as_str()) {
            let message = "the hub gives another file than it lists";
            return Err(Error::io(message).in_file(shown).hint("run the command again"));
        }
        Ok(opened)
    }
}

/// Fetches a file to a path; returns the bytes that came, and the digest that was compared.
fn into_file(
    object: &Arc<Object>,
    first: crate::object::Stretch,
    download: Download,
    announced: Option<&ContentDigest>,
    path: &Path,
    force: bool,
    follow: &dyn Fn(&Transfer),
) -> Result<(u64, Option<String>)> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| Error::io(format!("cannot write: {e}")).in_file(shown.clone());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let size = download.size;
    let partial = Partial::open(&folder.join(UNFINISHED), None, download)?;
    let resumed = partial.done();
    let transfer = Transfer::beginning(object, first, partial, announced)?;
    follow(&transfer);
    let Some(verified) = transfer.finish()? else { return Err(Error::io("the transfer was ended before")) };
    let digest = verified.digest().map(ToString::to_string);
    verified.move_to(path, force)?;
    let _ = std::fs::remove_dir(folder.join(UNFINISHED));
    Ok((size - resumed, digest))
}

fn of_url(
    anywhere: &Anywhere,
    url: &url::Url,
    options: &PullOptions,
    progress: &dyn Progress,
) -> Result<Pulled> {
    use sha2::Digest as _;
    let began = Instant::now();
    let (opened, name) = anywhere.open_url(url)?;
    let Opened { object, first } = opened;
    let shown = object.shown().to_owned();
    let announced = options.sha256.clone().map(ContentDigest::Sha256);
    let path = match &options.output {
        Some(path) if path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/') => path.join(&name),
        Some(path) => path.clone(),
        None => PathBuf::from(&name),
    };
    if path.symlink_metadata().is_ok() && !options.force {
        let error = Error::io("this file already exists").code("E007").in_file(path.display().to_string());
        return Err(error.hint("pass --force to replace it, or name another with -o"));
    }
    let bytes = if object.len() == u64::MAX { 0 } else { object.len() };
    let mut pulled = PulledFile { name, bytes, fetched: bytes, verified: None };
    if !options.plan {
        let meter = Meter { progress, done: AtomicU64::new(0), total: bytes };
        // The version is part of the name: what came of another is not continued.
        let identity = sha2::Sha256::digest(format!("{shown}\n{}", object.version()));
        let blob: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        let blob = BlobName::new(&format!("url-{blob}"))?;
        let download = Download { commit: "0".repeat(40), blob, size: bytes };
        if object.takes_ranges() {
            let follow = |transfer: &Transfer| meter.follow(transfer, &pulled.name);
            let force = options.force;
            let (fetched, verified) =
                into_file(&object, first, download, announced.as_ref(), &path, force, &follow)?;
            pulled.fetched = fetched;
            pulled.verified = verified;
        } else {
            let (bytes, verified) = in_one_piece(first, &path, announced.as_ref(), options.force, &meter)?;
            pulled = PulledFile { bytes, fetched: bytes, verified, ..pulled };
        }
    }
    let mut warnings = Vec::new();
    if announced.is_none() && !options.plan {
        warnings.push(format!("{shown}: not verified: no digest was given (--sha256 HEX)"));
    }
    Ok(Pulled {
        model: shown,
        commit: None,
        path: path.display().to_string(),
        files: vec![pulled],
        licence: None,
        planned: options.plan,
        seconds: began.elapsed().as_secs_f64(),
        warnings,
    })
}

/// Fetches a file from a server without ranges, which cannot be continued; returns its length and digest.
fn in_one_piece(
    mut first: crate::object::Stretch,
    path: &Path,
    announced: Option<&ContentDigest>,
    force: bool,
    meter: &Meter<'_>,
) -> Result<(u64, Option<String>)> {
    use sha2::Digest as _;
    use std::io::Write as _;
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| Error::io(format!("cannot write: {e}")).in_file(shown.clone());
    let beside = path.with_file_name(format!(
        ".{}.apr-{}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let mut work = || -> Result<(u64, String)> {
        let mut file = std::fs::File::create_new(&beside).map_err(failed)?;
        let (mut hash, mut bytes) = (sha2::Sha256::new(), 0);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let n = first.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            file.write_all(&buffer[..n]).map_err(failed)?;
            hash.update(&buffer[..n]);
            bytes += n as u64;
            meter.show(bytes, &shown);
        }
        file.sync_all().map_err(failed)?;
        let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if announced.is_some_and(|announced| announced.digits() != digest) {
            let message = format!("the download has SHA-256 {digest}, but another was announced");
            return Err(Error::failed(message).code("E004").in_file(shown.clone()).hint("check the address"));
        }
        if force || path.symlink_metadata().is_err() {
            std::fs::rename(&beside, path).map_err(failed)?;
            return Ok((bytes, digest));
        }
        Err(Error::io("this file already exists").code("E007").in_file(shown.clone()))
    };
    let done = work();
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    done.map(|(bytes, digest)| (bytes, announced.map(|_| format!("SHA-256 {digest}"))))
}
