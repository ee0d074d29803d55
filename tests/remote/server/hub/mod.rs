//! A hub as Hugging Face's is: an interface, files of repositories, and a second port that has the large ones.
//!
//! Repositories are data ([`Repository`]) and may be replaced while the hub runs. What it answers follows what
//! `huggingface_hub` 2.4 reads, which is also its judge: `judge_hub.py` beside this room.

mod access;
mod api;
mod cdn;
mod outage;
mod repository;
mod resolve;
mod route;
pub mod samples;
mod tree;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use super::listen::{Bound, Options, Server};
use super::log::Log;
use super::message::{Request, Response};
use super::mischief::{Habit, Mischief};
use super::pace::Pace;

pub use outage::Outage;
pub use repository::{Access, File, Kind, Repository, Snapshot, Storage};

/// How a hub behaves, beyond what its repositories say.
#[derive(Clone)]
pub struct Behaviour {
    /// Entries of a listing on one page. The real hub has 1000.
    pub page_len: usize,
    /// How long a signed address of the second port holds.
    pub signed_for: Duration,
    /// How many requests a signed address serves.
    pub signed_uses: u32,
    /// Whether those who take gzip get it, as from the real one. They lose their range by it.
    pub compress: bool,
    /// Whether a missing repository is named as such to those without a token, who are told by a 401. Without it,
    /// only the status tells; `huggingface_hub` understands that over HTTPS alone.
    pub names_missing: bool,
    /// The delays and rates of the interface's port.
    pub pace: Pace,
    /// The delays and rates of the second port.
    pub cdn_pace: Pace,
    /// TLS on both ports, and the log that both share.
    pub options: Options,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            page_len: 1000,
            signed_for: Duration::from_secs(3600),
            signed_uses: u32::MAX,
            compress: true,
            names_missing: true,
            pace: Pace::default(),
            cdn_pace: Pace::default(),
            options: Options::default(),
        }
    }
}

/// A hub, until it is dropped.
pub struct Hub {
    state: Arc<State>,
    front: Server,
    cdn: Server,
}

impl Hub {
    /// A hub with these repositories, which is in a hurry.
    pub fn start(repositories: Vec<Repository>) -> Self {
        Self::behaving(Behaviour::default(), repositories)
    }

    /// A hub with these repositories.
    pub fn behaving(behaviour: Behaviour, repositories: Vec<Repository>) -> Self {
        let (front, cdn) = (Bound::new(), Bound::new());
        let tokens = repositories.iter().flat_map(|repository| repository.readers.clone()).collect();
        let (slow, slow_cdn) = (behaviour.pace, behaviour.cdn_pace);
        let options = behaviour.options.clone();
        let state = Arc::new(State {
            url: front.url(&options),
            cdn: cdn::Cdn::new(cdn.url(&options), &behaviour),
            behaviour,
            repositories: RwLock::new(repositories),
            tokens: RwLock::new(tokens),
            outages: Mutex::default(),
            front_mischief: Mischief::default(),
            headers: Mutex::default(),
            elsewhere: Mutex::default(),
        });
        let (of_front, of_cdn) = (state.clone(), state.clone());
        let front = front.serve(Options { pace: slow, ..options.clone() }, move |request: &Request| {
            of_front.answer(request)
        });
        let cdn = cdn.serve(Options { pace: slow_cdn, ..options }, move |request: &Request| {
            of_cdn.answer_cdn(request)
        });
        Self { state, front, cdn }
    }

    /// What `HF_ENDPOINT` is set to.
    pub fn url(&self) -> &str {
        self.front.url()
    }

    /// The port of the interface.
    pub fn port(&self) -> u16 {
        self.front.port()
    }

    /// The port of the large files, which is another origin.
    pub fn cdn_port(&self) -> u16 {
        self.cdn.port()
    }

    /// Both ports' requests in the order of their arrival.
    pub fn log(&self) -> &Log {
        self.front.log()
    }

    /// Makes a token valid, as those of readers are. Every other one is refused.
    pub fn allow_token(&self, token: &str) {
        self.state.tokens.write().expect("nobody panics while it is held").insert(token.to_owned());
    }

    /// Adds a repository, or puts it in the place of the one of its name.
    pub fn put(&self, repository: Repository) {
        repository.readers.iter().for_each(|token| self.allow_token(token));
        let mut all = self.state.repositories.write().expect("nobody panics while it is held");
        all.retain(|other| (other.kind, &other.name) != (repository.kind, &repository.name));
        all.push(repository);
    }

    /// Takes a repository away.
    pub fn remove(&self, name: &str) {
        let mut all = self.state.repositories.write().expect("nobody panics while it is held");
        all.retain(|other| other.name != name);
    }

    /// Makes the next requests fail that an outage is for. Outages of several calls come one after another.
    pub fn fail(&self, outage: Outage) {
        self.state.outages.lock().expect("nobody panics while it is held").push(outage);
    }

    /// From now on, small files are served in this habit, whatever was asked for.
    pub fn misbehave_at_front(&self, habit: Habit) {
        self.state.front_mischief.take_up(habit);
    }

    /// From now on, large files are served in this habit by the second port.
    pub fn misbehave_at_cdn(&self, habit: Habit) {
        self.state.cdn.mischief.take_up(habit);
    }

    /// From now on, every answer of the interface's port has this header with this value, or loses it: a warning of
    /// the hub, or a mirror that does not pass on what it does not know.
    pub fn set_header(&self, name: &str, value: Option<&str>) {
        let change = (name.to_owned(), value.map(str::to_owned));
        self.state.headers.lock().expect("nobody panics while it is held").push(change);
    }

    /// From now on, large files are led to this address, or to the second port again.
    pub fn lead_large_to(&self, address: Option<&str>) {
        *self.state.elsewhere.lock().expect("nobody panics while it is held") = address.map(str::to_owned);
    }

    /// Lets every signed address given out so far expire.
    pub fn expire_signed(&self) {
        self.state.cdn.expire_all();
    }
}

/// What the two ports answer from.
struct State {
    /// The address of the interface.
    url: String,
    behaviour: Behaviour,
    repositories: RwLock<Vec<Repository>>,
    tokens: RwLock<HashSet<String>>,
    outages: Mutex<Vec<Outage>>,
    /// What small files suffer from.
    front_mischief: Mischief,
    /// Headers that the interface's port adds, and those that it loses.
    headers: Mutex<Vec<(String, Option<String>)>>,
    /// Where large files are led to in place of the second port.
    elsewhere: Mutex<Option<String>>,
    cdn: cdn::Cdn,
}

impl State {
    fn answer(&self, request: &Request) -> Response {
        let response = match outage::strike(&self.outages, request) {
            Some(response) => response,
            None => self.routed(request),
        };
        let response = response.header("X-Request-Id", format!("Root=1-{:08x}", request.ordinal));
        self.with_headers(with_ration(request, response))
    }

    fn with_headers(&self, mut response: Response) -> Response {
        for (name, value) in self.headers.lock().expect("nobody panics while it is held").iter() {
            response = match value {
                Some(value) => response.replacing(name, value.as_str()),
                None => response.losing(name),
            };
        }
        response
    }

    fn answer_cdn(&self, request: &Request) -> Response {
        match outage::strike(&self.outages, request) {
            Some(response) => response,
            None => self.cdn.answer(request),
        }
    }
}

/// The answer with what is left of the client's ration. It stands on every answer, and only `r=0` means waiting.
fn with_ration(request: &Request, response: Response) -> Response {
    if response.headers.iter().any(|(name, _)| name == "RateLimit") {
        return response;
    }
    let topic = if request.path.starts_with("/api/") { "api" } else { "resolvers" };
    response
        .header("RateLimit", format!("\"{topic}\";r=499;t=300"))
        .header("RateLimit-Policy", format!("\"fixed window\";\"{topic}\";q=500;w=300"))
}
