//! A server on a port of the loopback interface: it accepts, and gives each connection a thread.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::connection::{Connection, Stream};
use super::log::Log;
use super::message::{Request, Response};
use super::pace::{Pace, Rate};

/// Answers requests, several at a time.
pub trait Service: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Response;
}

impl<F: Fn(&Request) -> Response + Send + Sync + 'static> Service for F {
    fn answer(&self, request: &Request) -> Response {
        self(request)
    }
}

/// How a server behaves whatever it serves.
#[derive(Clone, Default)]
pub struct Options {
    pub pace: Pace,
    /// With it, the server speaks HTTPS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Where requests are noted. Servers may share it.
    pub log: Log,
    /// Connections are accepted, and nothing is read or written.
    pub mute: bool,
}

/// A port that listens, and does not answer yet: its address is known before its service is made.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// A free port of 127.0.0.1.
    pub fn new() -> Self {
        Self::at(IpAddr::V4(Ipv4Addr::LOCALHOST), 0).expect("the loopback interface has a free port")
    }

    /// A port of an address, which this machine may not have.
    pub fn at(address: IpAddr, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, port))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:port`, or the same with `https`.
    pub fn url(&self, options: &Options) -> String {
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Begins to answer.
    pub fn serve(self, options: Options, service: impl Service) -> Server {
        let url = self.url(&options);
        let shared = Arc::new(Shared {
            port: self.port(),
            pace: options.pace,
            total_rate: options.pace.total.map(Rate::new),
            log: options.log,
            service: Box::new(service),
            ordinals: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            sockets: Mutex::default(),
        });
        let accepting = {
            let shared = shared.clone();
            thread::spawn(move || accept(&self.listener, &shared, options.tls.as_ref(), options.mute))
        };
        Server { address: self.address, url, shared, accepting: Some(accepting) }
    }
}

/// A server, until it is dropped.
pub struct Server {
    address: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to answer on a free port.
    pub fn start(options: Options, service: impl Service) -> Self {
        Bound::new().serve(options, service)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:port`, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn log(&self) -> &Log {
        &self.shared.log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        for (_, socket) in self.shared.sockets.lock().expect("nobody panics while it is held").drain() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // One more connection ends the wait for the next one.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// What the connections of a server have in common.
pub(super) struct Shared {
    pub port: u16,
    pub pace: Pace,
    pub total_rate: Option<Rate>,
    pub log: Log,
    pub service: Box<dyn Service>,
    ordinals: AtomicU64,
    stopped: AtomicBool,
    /// The open connections by their numbers, to be shut down at the end.
    sockets: Mutex<HashMap<u64, TcpStream>>,
}

impl Shared {
    pub(super) fn next_ordinal(&self) -> u64 {
        self.ordinals.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub(super) fn forget(&self, number: u64) {
        self.sockets.lock().expect("nobody panics while it is held").remove(&number);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, tls: Option<&Arc<ServerConfig>>, mute: bool) {
    for (number, socket) in (0..).zip(listener.incoming()) {
        if shared.stopped() {
            return;
        }
        let Ok(socket) = socket else { continue };
        shared.log.connected(shared.port);
        let Ok(kept) = socket.try_clone() else { continue };
        shared.sockets.lock().expect("nobody panics while it is held").insert(number, kept);
        // It may have stopped meanwhile, and looked for connections before there was this one.
        if shared.stopped() {
            shared.forget(number);
            return;
        }
        if mute {
            continue;
        }
        let (shared, tls) = (shared.clone(), tls.cloned());
        thread::spawn(move || {
            // An error is an end like another: the client sees it, and the test asks the client.
            let _ = converse(&shared, socket, tls, number);
            shared.forget(number);
        });
    }
}

fn converse(
    shared: &Shared,
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    number: u64,
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let below = socket.try_clone()?;
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(socket),
        Some(config) => {
            let session = ServerConnection::new(config).map_err(std::io::Error::other)?;
            Box::new(StreamOwned::new(session, socket))
        }
    };
    let rate = shared.pace.per_connection.map(Rate::new);
    let mut connection = Connection { shared, stream, socket: below, number, unread: Vec::new(), rate };
    connection.run()
}
