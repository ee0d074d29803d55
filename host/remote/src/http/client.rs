//! The client: one for the whole program, made on first use.

use super::answer::Answer;
use super::failure::{Failure, of_request, refusal_of};
use super::origin::{Origin, shown};
use super::rate::Rate;
use super::resolver::JudgingResolver;
use super::retry::{ATTEMPTS, LONGEST_WAIT, backoff, is_passing, wanted_wait};
use super::secret::Secret;
use crate::permits::Permits;
use apr_sdk::{Error, Result, escape};
use std::io::{self, Read};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Request, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use url::Url;

/// Redirects that one request may follow.
const MOST_HOPS: usize = 10;

/// Times that a link is asked for anew, because it was refused.
const STALE_LINKS: u32 = 3;

/// Pieces of all files that are fetched ahead: 96 MiB.
const MOST_PIECES: usize = 24;

/// Bytes of headers in one answer; the usual limit of servers is an eighth of it.
const MOST_HEADER_BYTES: usize = 64 << 10;

/// Learns what happens on the way; called from several threads.
pub trait Observer: Send + Sync {
    /// Something failed and is tried again, or takes longer than it should; a sentence.
    fn waits(&self, _why: &str) {}

    /// Something that the user should know.
    fn warn(&self, _message: &str) {}
}

/// Observes nothing.
#[derive(Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Settings of requests.
#[derive(Clone)]
pub struct ClientOptions {
    /// Allows `http` to other machines.
    pub insecure_http: bool,
    /// The most bytes per second of all bodies together.
    pub limit_rate: Option<u64>,
    /// The longest time without an answer to a connection or a request.
    pub answer_timeout: Duration,
    /// The longest time in which nothing arrives of a body.
    pub read_timeout: Duration,
    /// The first wait before another attempt.
    pub first_backoff: Duration,
    /// Connections to one host that are kept for the next request.
    pub connections: usize,
    /// Set when the user wants to stop.
    pub cancel: Arc<AtomicBool>,
    /// Learns what happens.
    pub observer: Arc<dyn Observer>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            insecure_http: false,
            limit_rate: None,
            answer_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            first_backoff: Duration::from_secs(1),
            connections: 8,
            cancel: Arc::default(),
            observer: Arc::new(Unobserved),
        }
    }
}

/// A request for what a URL leads to.
#[derive(Clone, Debug)]
pub struct Query {
    /// The URL.
    pub url: Url,
    /// The wanted bytes; all if `None`. One that ends at `u64::MAX` has no end.
    pub range: Option<Range<u64>>,
    /// Further headers, which may be sent to any host.
    pub headers: Vec<(&'static str, String)>,
}

impl Query {
    /// A request for all of it.
    pub fn get(url: Url) -> Query {
        Query { url, range: None, headers: Vec::new() }
    }

    /// A request for a range of it.
    pub fn range(url: Url, range: Range<u64>) -> Query {
        Query { range: Some(range), ..Query::get(url) }
    }
}

/// A header that is sent to one origin only.
struct Grant {
    origin: Origin,
    name: header::HeaderName,
    value: Secret,
}

/// An HTTP client.
pub struct Client {
    agent: Agent,
    resolver: Arc<JudgingResolver>,
    options: ClientOptions,
    grants: Mutex<Vec<Grant>>,
    rate: Option<Arc<Rate>>,
    connections: Arc<Permits>,
    pieces: Arc<Permits>,
}

impl Client {
    /// A client; it connects to nothing yet.
    pub fn new(options: ClientOptions) -> Client {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .accept_encoding("identity")
            .user_agent(concat!("apr/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(options.answer_timeout))
            .timeout_recv_response(Some(options.answer_timeout))
            .timeout_per_read(Some(options.read_timeout))
            .max_idle_connections(4 * options.connections)
            .max_idle_connections_per_host(options.connections)
            .max_response_header_size(MOST_HEADER_BYTES)
            .tls_config(tls)
            .build();
        let resolver = Arc::new(JudgingResolver::default());
        let agent =
            Agent::with_parts(config, DefaultConnector::default(), SharedResolver(Arc::clone(&resolver)));
        let rate = options.limit_rate.map(|rate| Arc::new(Rate::new(rate)));
        let connections = Permits::new(options.connections);
        let pieces = Permits::new(MOST_PIECES);
        Client { agent, resolver, options, grants: Mutex::default(), rate, connections, pieces }
    }

    /// Settings of requests.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Connections that fetch payload, of all files together.
    pub(crate) fn connections(&self) -> &Arc<Permits> {
        &self.connections
    }

    /// Pieces that are held in memory, of all files together.
    pub(crate) fn pieces(&self) -> &Arc<Permits> {
        &self.pieces
    }

    /// Trusts a server that the user named: it may be on any network.
    pub fn name(&self, url: &Url) {
        if let Some(host) = url.host_str() {
            self.resolver.allow(host);
        }
    }

    /// Sends a header with every request to one origin, and to no other; in place of an earlier one of this name.
    ///
    /// # Errors
    /// InvalidArgument for a name that no header has.
    pub fn grant(&self, origin: Origin, name: &str, value: Secret) -> Result<()> {
        let parsed = name.parse().map_err(|_| {
            Error::invalid_argument(format!("`{}` is not the name of a header", escape(name, 80)))
        })?;
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.retain(|grant| grant.origin != origin || grant.name != parsed);
        grants.push(Grant { origin, name: parsed, value });
        Ok(())
    }

    /// Sends a request until there is an answer that another attempt would not better, following redirects.
    ///
    /// # Errors
    /// Io for what attempts did not overcome, for too many redirects, and for those that lead where none may; InvalidArgument
    /// for an `http` URL of another machine; Cancelled.
    pub fn send(&self, query: &Query) -> Result<Answer> {
        let mut failed = 0;
        loop {
            self.refuse_cancelled()?;
            let failure = match self.follow(query) {
                Ok(answer)
                    if !(is_passing(answer.status) || failed < STALE_LINKS && is_stale(query, &answer)) =>
                {
                    return Ok(answer);
                }
                Ok(answer) => {
                    failed += 1;
                    let wanted = wanted_wait(&answer.headers);
                    let wait = wanted.unwrap_or_else(|| backoff(self.options.first_backoff, failed));
                    if failed == ATTEMPTS {
                        return Ok(answer);
                    }
                    let host = answer.url.host_str().unwrap_or_default();
                    if wait > LONGEST_WAIT {
                        let message = format!(
                            "`{host}` answered with status {}, and asks to wait {} s",
                            answer.status,
                            wait.as_secs()
                        );
                        return Err(Error::io(message)
                            .in_file(shown(&answer.url))
                            .hint("try again after that time"));
                    }
                    let why = format!("`{host}` answered with status {}", answer.status);
                    self.wait(&why, wait)?;
                    continue;
                }
                Err(failure) => failure,
            };
            failed += 1;
            if failed == ATTEMPTS || !failure.is_passing {
                return Err(failure.error);
            }
            self.wait(failure.error.message(), backoff(self.options.first_backoff, failed))?;
        }
    }

    /// Waits after a failure, and says so.
    ///
    /// # Errors
    /// Cancelled.
    pub fn wait(&self, why: &str, wait: Duration) -> Result<()> {
        self.options.observer.waits(&format!("{why}; next attempt in {:.0} s", wait.as_secs_f64().ceil()));
        let end = Instant::now() + wait;
        loop {
            self.refuse_cancelled()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Fails if the user wants to stop.
    ///
    /// # Errors
    /// Cancelled.
    pub fn refuse_cancelled(&self) -> Result<()> {
        match self.options.cancel.load(Ordering::Relaxed) {
            true => Err(Error::cancelled("stopped")),
            false => Ok(()),
        }
    }

    /// One attempt: the request, and those to which it is redirected.
    fn follow(&self, query: &Query) -> std::result::Result<Answer, Failure> {
        let mut url = query.url.clone();
        let mut hops = Vec::new();
        loop {
            self.check_scheme(&url).map_err(lasting)?;
            self.judge_literal(&url).map_err(lasting)?;
            let response = self.request(query, &url).map_err(|error| of_request(error, &url))?;
            let (parts, body) = response.into_parts();
            let status = parts.status.as_u16();
            let location = parts.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let next = location.filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
            let Some(next) = next else {
                let body = Paced { body: body.into_reader(), rate: self.rate.clone() };
                return Ok(Answer { status, headers: parts.headers, url, hops, body: Box::new(body) });
            };
            let next = redirected(&url, next).map_err(lasting)?;
            hops.push(parts.headers);
            if hops.len() > MOST_HOPS {
                let error = Error::io(format!("more than {MOST_HOPS} redirects")).in_file(shown(&query.url));
                return Err(lasting(error.hint("check the address")));
            }
            // What is read to its end leaves its connection for the next request.
            let _ = io::copy(&mut body.into_reader().take(64 << 10), &mut io::sink());
            url = next;
        }
    }

    fn request(
        &self,
        query: &Query,
        url: &Url,
    ) -> std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let mut request = Request::get(url.as_str());
        if let Some(range) = &query.range {
            let text = match range.end {
                u64::MAX => format!("bytes={}-", range.start),
                end => format!("bytes={}-{}", range.start, end.saturating_sub(1)),
            };
            request = request.header(header::RANGE, text);
        }
        for (name, value) in &query.headers {
            request = request.header(*name, value);
        }
        if let Some(origin) = Origin::of(url) {
            let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
            for grant in grants.iter().filter(|grant| grant.origin == origin) {
                request = request.header(&grant.name, grant.value.reveal());
            }
        }
        self.agent.run(request.body(()).map_err(ureq::Error::Http)?)
    }

    /// Fails for a host that is an address of a network where nobody was named.
    fn judge_literal(&self, url: &Url) -> Result<()> {
        let address = match url.host() {
            Some(url::Host::Ipv4(four)) => IpAddr::V4(four),
            Some(url::Host::Ipv6(six)) => IpAddr::V6(six),
            _ => return Ok(()),
        };
        let host = url.host_str().unwrap_or_default();
        self.resolver.judge_literal(host, address).map_err(|refused| refusal_of(&refused).in_file(shown(url)))
    }

    /// Fails for a URL that is not to be asked for: not HTTP, or readable by everyone on the way.
    fn check_scheme(&self, url: &Url) -> Result<()> {
        let is_here = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(four)) => four.is_loopback(),
            Some(url::Host::Ipv6(six)) => six.is_loopback(),
            None => false,
        };
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_here || self.options.insecure_http => Ok(()),
            "http" => {
                let error =
                    Error::invalid_argument("anyone on the way can read and change what comes by http");
                Err(error.in_file(shown(url)).hint("use https, or pass --insecure-http if you must"))
            }
            scheme => {
                let message = format!("addresses that begin with `{}:` are not read", escape(scheme, 20));
                Err(Error::invalid_argument(message).in_file(shown(url)).hint("use https"))
            }
        }
    }
}

fn lasting(error: Error) -> Failure {
    Failure { error, is_passing: false }
}

/// Returns whether a redirect led to a link that is not good any more: another redirect leads to a new one.
fn is_stale(query: &Query, answer: &Answer) -> bool {
    answer.status == 403 && !answer.hops.is_empty() && Origin::of(&answer.url) != Origin::of(&query.url)
}

/// The URL that a redirect leads to.
fn redirected(from: &Url, location: &str) -> Result<Url> {
    let refuse = |why: String| {
        let host = from.host_str().unwrap_or_default();
        Err(Error::io(format!("`{host}` redirects {why}")).in_file(shown(from)).hint("check the address"))
    };
    let Ok(mut next) = from.join(location) else {
        return refuse(format!(
            "to `{}`, which is no address",
            escape(location.split('?').next().unwrap_or_default(), 200)
        ));
    };
    if !matches!(next.scheme(), "http" | "https") {
        return refuse(format!("to `{}:`, which is not followed", escape(next.scheme(), 20)));
    }
    if from.scheme() == "https" && next.scheme() == "http" {
        return refuse("from https to http, which is not followed".to_owned());
    }
    // Nobody but the user says who apr is.
    let _ = next.set_username("");
    let _ = next.set_password(None);
    Ok(next)
}

/// A resolver that the client shares with its agent.
#[derive(Debug)]
struct SharedResolver(Arc<JudgingResolver>);

impl Resolver for SharedResolver {
    fn resolve(
        &self,
        uri: &ureq::http::Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> std::result::Result<ResolvedSocketAddrs, ureq::Error> {
        self.0.resolve(uri, config, timeout)
    }
}

/// A body that is held to the rate.
struct Paced<R> {
    body: R,
    rate: Option<Arc<Rate>>,
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // Small reads keep the rate even.
        let most = if self.rate.is_some() { out.len().min(64 << 10) } else { out.len() };
        let n = self.body.read(&mut out[..most])?;
        if let Some(rate) = &self.rate {
            rate.pass(n);
        }
        Ok(n)
    }
}
