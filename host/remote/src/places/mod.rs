//! Resolves what users type: addresses here, paths by whoever resolves those.

pub mod hub_place;
pub mod hub_repository;
pub mod web_place;

use crate::address::{Address, HubAddress};
use crate::cache::{Cache, ContentDigest, Roots, hex};
use crate::file::object::{Object, Opened};
use crate::file::spool::Spool;
use crate::file::store::Store;
use crate::file::stream::StreamedFile;
use crate::file::window::{FIRST, Look};
use crate::http::client::ClientOptions;
use crate::http::{Client, Origin, Query, Secret, failure};
use crate::hub::{Hub, Listing, select};
use crate::names::is_commit;
use crate::places::hub_place::HubPlace;
use crate::places::hub_repository::HubRepository;
use crate::places::web_place::{StdinPlace, WebPlace, percent_decoded};
use crate::typed::TypedAddresses;
use apr_engine::place::{Backing, Entry, Place, Places};
use apr_sdk::{Error, Result};
use sha2::{Digest, Sha256};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use url::Url;

/// Bytes of a small file that is no model.
const MOST_SMALL: u64 = 64 << 20;

/// Settings of remote models, from environment, configuration and flags.
#[derive(Clone, Default)]
pub struct RemoteOptions {
    /// Settings of requests.
    pub client: ClientOptions,
    /// The hub, if it is not the usual one.
    pub endpoint: Option<String>,
    /// The token for the hub.
    pub token: Option<Secret>,
    /// True if nothing may be asked of any server.
    pub is_offline: bool,
    /// The revision, for addresses that name none.
    pub revision: Option<String>,
    /// Headers for the servers of `https` addresses.
    pub headers: Vec<(String, Secret)>,
    /// Users and passwords for hosts.
    pub logins: crate::settings::netrc::Logins,
    /// True if nothing that is downloaded is kept.
    pub keeps_nothing: bool,
    /// True if what is not kept need not be what the hub announced: no more is fetched than is read.
    pub allows_unverified: bool,
    /// True if snapshots in the cache are to hold files in place of links.
    pub has_no_links: bool,
    /// The folders of downloads, if the environment names any.
    pub roots: Option<Roots>,
    /// The folder of what apr remembers, if there is one.
    pub state: Option<PathBuf>,
    /// The SHA-256 that the file behind an `https` address must have, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Addresses as they were typed.
    pub typed: TypedAddresses,
    /// The folder for what can be read only once.
    pub scratch: PathBuf,
}

impl RemoteOptions {
    /// The cache of what comes from the hub; `None` if nothing is to be kept, or can be.
    pub fn cache(&self) -> Option<Cache> {
        let roots = self.roots.as_ref().filter(|_| !self.keeps_nothing)?;
        let cache = Cache::new(&roots.hub, self.state.clone());
        Some(if self.has_no_links { cache.without_links() } else { cache })
    }
}

/// Makes the options when the first address is resolved: until then no file of the user's is read for them.
pub type MakeOptions = Box<dyn Fn() -> Result<RemoteOptions> + Send + Sync>;

/// Places of addresses, and of paths.
pub struct Anywhere {
    paths: Arc<dyn Places>,
    make: MakeOptions,
    options: OnceLock<RemoteOptions>,
    /// Made when the first address is resolved: without one there is no client.
    client: OnceLock<Arc<Client>>,
    /// Bytes of standard input, which cannot be read twice.
    stdin: Mutex<Option<Arc<Spool>>>,
}

impl Anywhere {
    /// Places of addresses, and of what `paths` resolves.
    pub fn new(paths: Arc<dyn Places>, make: MakeOptions) -> Anywhere {
        Anywhere { paths, make, options: OnceLock::new(), client: OnceLock::new(), stdin: Mutex::default() }
    }

    /// The options.
    ///
    /// # Errors
    /// Any error from making them.
    pub fn options(&self) -> Result<&RemoteOptions> {
        match self.options.get() {
            Some(options) => Ok(options),
            None => {
                let made = (self.make)()?;
                Ok(self.options.get_or_init(|| made))
            }
        }
    }

    /// The client.
    ///
    /// # Errors
    /// As [`Anywhere::options`].
    pub fn client(&self) -> Result<&Arc<Client>> {
        let options = self.options()?;
        Ok(self.client.get_or_init(|| Arc::new(Client::new(options.client.clone()))))
    }

    /// The hub.
    ///
    /// # Errors
    /// As [`Hub::new`].
    pub fn hub(&self) -> Result<Hub> {
        let options = self.options()?;
        Hub::new(self.client()?, options.endpoint.as_deref(), options.token.as_ref())
    }

    /// The address that a path is, as it was typed.
    ///
    /// # Errors
    /// As [`Address::of`]; any error from making the options.
    pub fn address(&self, path: &Path) -> Result<Option<Address>> {
        match Address::of(path).transpose()? {
            Some(Address::Url(url)) => {
                let typed = self.options()?.typed.of(path).cloned();
                Ok(Some(Address::Url(typed.unwrap_or(url))))
            }
            other => Ok(other),
        }
    }

    fn refuse_offline(&self, shown: &str) -> Result<()> {
        match self.options()?.is_offline {
            true => Err(Error::io("this is not in the cache, and nothing may be asked of a server")
                .in_file(shown)
                .hint("unset HF_HUB_OFFLINE, or name a file on this machine")),
            false => Ok(()),
        }
    }

    fn in_hub(&self, address: &HubAddress) -> Result<Entry> {
        let shown = address.shown();
        let options = self.options()?;
        let hub = self.hub()?;
        let revision = address.revision.as_ref().or(options.revision.as_ref());
        let revision = revision.map_or("main", String::as_str).to_owned();
        let store = options.cache().map(|cache| Store::new(cache, &address.repository, hub.client()));
        let paths = Arc::clone(&self.paths);
        let known = match &store {
            Some(store) if options.is_offline || is_commit(&revision) => {
                known(store, &revision, options.is_offline)?
            }
            _ => None,
        };
        if known.is_none() {
            self.refuse_offline(&shown)?;
        }
        let repository = HubRepository::new(hub, address, revision, store, paths);
        let repository = repository.allowing_unverified(options.allows_unverified);
        let repository = match known {
            Some(listing) => repository.with_listing(listing, options.is_offline),
            None => repository,
        };
        let place = HubPlace::new(repository);
        let mut file = address.file.clone();
        if let Some(word) = &address.word {
            file = select::tagged(place.listing()?, word).map_err(|e| e.in_file(shown.clone()))?;
        }
        place.entry(&file)
    }

    /// Opens the file that a URL leads to; also returns its name.
    ///
    /// # Errors
    /// As [`Object::open`].
    pub fn open_url(&self, url: &Url) -> Result<(Opened, String)> {
        let (opened, place) = self.asked(url)?;
        Ok((opened, place.file_name()))
    }

    fn asked(&self, url: &Url) -> Result<(Opened, WebPlace)> {
        let shown = crate::http::origin::shown(url);
        self.refuse_offline(&shown)?;
        let client = self.client()?;
        let options = self.options()?;
        client.name(url);
        let mut plain = url.clone();
        if let Some(origin) = Origin::of(url) {
            for (name, value) in &options.headers {
                client.grant(origin.clone(), name, value.clone())?;
            }
            let typed = (!url.username().is_empty()).then(|| {
                let password = url.password().unwrap_or_default();
                crate::settings::netrc::basic(&percent_decoded(url.username()), &percent_decoded(password))
            });
            if let Some(login) = typed.or_else(|| options.logins.of(origin.host())) {
                client.grant(origin, "authorization", login)?;
            }
            let _ = plain.set_username("");
            let _ = plain.set_password(None);
        }
        let opened = Object::open(client, Query::get(plain.clone()), shown, FIRST, failure::of_status)?;
        Ok((
            opened,
            WebPlace::new(Arc::clone(client), plain, options.scratch.clone(), options.sha256.is_some()),
        ))
    }

    fn on_the_web(&self, url: &Url) -> Result<Entry> {
        let (opened, place) = self.asked(url)?;
        let name = place.file_name();
        let options = self.options()?;
        let announced = options.sha256.clone().map(ContentDigest::Sha256);
        let backing = place.keep(&name, backing(opened, &options.scratch, announced)?);
        Ok(Entry { place: Arc::new(place), file: Some((name, backing)) })
    }

    fn standard_input(&self) -> Result<Entry> {
        let options = self.options()?;
        let mut kept = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let spool = match &*kept {
            Some(spool) => Arc::clone(spool),
            None => {
                let mut input = std::io::stdin().lock();
                if input.is_terminal() {
                    return Err(Error::invalid_argument(
                        "a model cannot be typed: standard input is a terminal",
                    )
                    .hint("pipe a model into it, or name a file"));
                }
                let cancel = &options.client.cancel;
                let spool = Spool::new(&options.scratch, &mut |out| loop {
                    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
                        return Err(Error::cancelled("stopped"));
                    }
                    match input.read(out) {
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        read => {
                            return read.map_err(|e| Error::io(format!("cannot read standard input: {e}")));
                        }
                    }
                })?;
                let spool = Arc::new(spool);
                *kept = Some(Arc::clone(&spool));
                spool
            }
        };
        let backing: Arc<dyn Backing> = spool;
        Ok(Entry { place: Arc::new(StdinPlace), file: Some((StdinPlace.name(), backing)) })
    }
}

/// Files of a revision in the cache: all of them, or, offline, those that are there.
fn known(store: &Store, revision: &str, is_offline: bool) -> Result<Option<Listing>> {
    let Some(commit) = store.commit_of(revision)? else { return Ok(None) };
    let (listing, missing) = store.snapshot(&commit)?;
    let is_enough = match missing {
        Some(0) => true,
        Some(missing) if is_offline => {
            let all = missing + listing.files.len();
            let message = format!("{missing} of the {all} files of this model are not in the cache");
            store.client().options().observer.warn(&message);
            true
        }
        _ => is_offline,
    };
    Ok(Some(listing).filter(|listing| is_enough && !listing.files.is_empty()))
}

/// The bytes of a file that was opened: all of them at once, if the server gives no ranges.
pub(crate) fn backing(
    opened: Opened,
    scratch: &Path,
    announced: Option<ContentDigest>,
) -> Result<Arc<dyn Backing>> {
    if opened.object.takes_ranges() {
        return Ok(Arc::new(StreamedFile::new(Look::new(opened), announced)));
    }
    let Opened { object, mut first } = opened;
    let host = object.shown();
    object
        .client()
        .options()
        .observer
        .warn(&format!("{host}: the server gives no ranges, so all of the file is read first"));
    let mut hash = Sha256::new();
    let spool = Spool::new(scratch, &mut |out| {
        let n = first.read(out)?;
        hash.update(&out[..n]);
        Ok(n)
    })?;
    let digest = hex(&hash.finalize());
    match announced {
        Some(announced) if announced.digits() != digest => {
            let message = format!("the file has SHA-256 {digest}, but another was announced");
            Err(Error::failed(message).code("E004").in_file(host).hint("check the address"))
        }
        _ => Ok(Arc::new(spool)),
    }
}

impl Places for Anywhere {
    fn locate(&self, path: &Path) -> Result<Entry> {
        match self.address(path)? {
            None => self.paths.locate(path),
            Some(address) => match address {
                Address::Url(url) => self.on_the_web(&url),
                Address::Hub(address) => self.in_hub(&address),
                Address::Stdin => self.standard_input(),
            },
        }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        // `-` is a name that whoever reads values has a meaning for.
        let Some(address) = Address::of(path).filter(|address| !matches!(address, Ok(Address::Stdin))) else {
            return self.paths.read(path);
        };
        address?;
        let entry = self.locate(path)?;
        let Some((name, backing)) = entry.file else {
            return Err(Error::invalid_argument("this is a folder, not a file").in_file(entry.place.show("")));
        };
        let shown = entry.place.show(&name);
        if backing.len() > MOST_SMALL {
            return Err(Error::limit(format!("the file is larger than {MOST_SMALL} bytes")).in_file(shown));
        }
        let mut bytes = vec![0; usize::try_from(backing.len()).unwrap_or(0)];
        backing.read_at(0, &mut bytes).map_err(|e| e.in_file(shown))?;
        Ok(bytes)
    }
}
