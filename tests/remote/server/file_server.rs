//! A server with one file at every address: honest, a liar or a staller, with or without TLS.

use std::sync::{Arc, RwLock};

use super::content::Content;
use super::encoding::sha256;
use super::listen::{Options, Server};
use super::log::Log;
use super::message::{Request, Response};
use super::mischief::{Habit, Mischief};
use super::ranges::Served;

/// By what a client can tell that the file is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag, and a date.
    Strong,
    /// A weak entity tag, which holds for no range.
    Weak,
    /// A date alone.
    Date,
    Nothing,
}

/// A server of one file, until it is dropped.
pub struct FileServer {
    server: Server,
    state: Arc<State>,
}

struct State {
    served: RwLock<Served>,
    /// The name of the file, if not every name is its.
    only: RwLock<Option<String>>,
    mischief: Mischief,
}

impl FileServer {
    /// Serves bytes as they are.
    pub fn honest(content: Content) -> Self {
        Self::start(Options::default(), Habit::Honest, content)
    }

    /// Serves bytes and lies about it.
    pub fn lying(lie: super::liar::Lie, content: Content) -> Self {
        Self::start(Options::default(), Habit::Lying(lie), content)
    }

    /// Serves bytes over a bad line.
    pub fn stalling(stall: super::staller::Stall, content: Content) -> Self {
        Self::start(Options::default(), Habit::Stalling(stall), content)
    }

    /// Accepts connections, and neither reads nor writes: with TLS, not even its handshake begins.
    pub fn mute() -> Self {
        Self::start(Options { mute: true, ..Options::default() }, Habit::Honest, Content::bytes(""))
    }

    /// Serves bytes.
    pub fn start(options: Options, habit: Habit, content: Content) -> Self {
        let served = RwLock::new(served(content, Validator::Strong));
        let state = Arc::new(State { served, only: RwLock::default(), mischief: Mischief::new(habit) });
        let answering = state.clone();
        let server = Server::start(options, move |request: &Request| {
            let only = answering.only.read().expect("nobody panics while it is held").clone();
            if only.is_some_and(|name| !request.path.ends_with(&format!("/{name}"))) {
                return Response::text(404, "there is no such file");
            }
            let served = answering.served.read().expect("nobody panics while it is held").clone();
            answering.mischief.answer(request, &served)
        });
        Self { server, state }
    }

    /// The address of the file under a name, which every other address is, too.
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.server.url())
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn log(&self) -> &Log {
        self.server.log()
    }

    /// From now on it is another file, with tags and dates of this sort.
    pub fn put(&self, content: Content, validator: Validator) {
        *self.state.served.write().expect("nobody panics while it is held") = served(content, validator);
    }

    /// From now on the file has this name alone, and every other address has nothing: `/folder/name` is one of its own.
    pub fn be_only(&self, name: &str) {
        *self.state.only.write().expect("nobody panics while it is held") = Some(name.to_owned());
    }

    /// From now on it is another habit.
    pub fn take_up(&self, habit: Habit) {
        self.state.mischief.take_up(habit);
    }
}

/// A file. Its tag follows from its bytes, as far as they are looked at: their number, the first and the last.
fn served(content: Content, validator: Validator) -> Served {
    let ends = [content.at(0, 4096), content.at(content.len().saturating_sub(4096), 4096)].concat();
    let sum = sha256(&[ends.as_slice(), &content.len().to_le_bytes()].concat());
    let served = Served::tagged(content, &sum[..32]);
    let date = Some("Fri, 02 Jan 2026 03:04:05 GMT".to_owned());
    match validator {
        Validator::Strong => Served { modified: date, ..served },
        Validator::Weak => Served { etag: Some(format!("W/\"{}\"", &sum[..32])), ..served },
        Validator::Date => Served { etag: None, modified: date, ..served },
        Validator::Nothing => Served { etag: None, ..served },
    }
}
