//! The library's errors and the servers' refusals, in our words.

use super::answer::Answer;
use super::origin::shown;
use super::resolver::Refused;
use apr_sdk::{Error, escape};
use std::io;
use url::Url;

/// An error, and whether another attempt may help.
pub struct Failure {
    /// The error.
    pub error: Error,
    /// True for what passes: a lost connection, a busy server.
    pub is_passing: bool,
}

/// The failure of a request that got no answer.
pub fn of_request(error: ureq::Error, url: &Url) -> Failure {
    let host = url.host_str().unwrap_or_default().to_owned();
    let file = shown(url);
    let lasting = |error: Error| Failure { error: error.in_file(file.clone()), is_passing: false };
    match error {
        ureq::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
            Some(refused) => lasting(refusal_of(refused)),
            None if error.kind() == io::ErrorKind::InvalidData => {
                lasting(untrusted(&host, &error.to_string()))
            }
            // What a resolver without an answer says; one that could not be asked may be, later.
            None if error.to_string().contains("not known") => lasting(unknown(&host)),
            None => Failure { error: unreachable(&host, &error).in_file(file), is_passing: true },
        },
        ureq::Error::Timeout(_) => {
            let error = Error::io(format!("`{host}` did not answer in time"));
            Failure { error: error.in_file(file).hint("try again later"), is_passing: true }
        }
        ureq::Error::HostNotFound => lasting(unknown(&host)),
        ureq::Error::Rustls(error) => lasting(untrusted(&host, &error.to_string())),
        ureq::Error::Tls(error) => lasting(untrusted(&host, error)),
        ureq::Error::InvalidProxyUrl | ureq::Error::ConnectProxyFailed(_) => lasting(
            Error::io(format!("the proxy failed: {error}"))
                .hint("check HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment"),
        ),
        other => lasting(
            Error::io(format!("`{host}` does not speak HTTP: {}", escape(&other.to_string(), 200)))
                .hint("check the address, and whether a proxy answers in the server's place"),
        ),
    }
}

/// The error for an address that was refused.
pub fn refusal_of(refused: &Refused) -> Error {
    Error::io(format!("refused to connect: {refused}, and a redirect led there"))
        .hint("name that server yourself if you trust it")
}

fn unknown(host: &str) -> Error {
    Error::io(format!("there is no host `{host}`")).hint("check the address, and the connection")
}

fn unreachable(host: &str, error: &io::Error) -> Error {
    Error::io(format!("cannot reach `{host}`: {}", escape(&error.to_string(), 200)))
        .hint("check the connection, or read what is in the cache: HF_HUB_OFFLINE=1")
}

fn untrusted(host: &str, why: &str) -> Error {
    let error = Error::io(format!("cannot trust `{host}`: {}", escape(why, 200)));
    if why.contains("expired") || why.contains("not valid yet") {
        return error
            .hint("check the clock of this machine; if it is right, the server's owner has to renew it");
    }
    error.hint(
        "if your network has a certificate authority of its own, name its certificates in SSL_CERT_FILE",
    )
}

/// The error of a body that ended early or stalled.
pub fn broken(error: &io::Error, host: &str) -> Error {
    Error::io(format!("the transfer from `{host}` broke off: {}", escape(&error.to_string(), 200)))
        .hint("check the connection, and try again")
}

/// The error for a status that is no success, of a server of which nothing else is known.
pub fn of_status(answer: &Answer) -> Error {
    let host = answer.url.host_str().unwrap_or_default();
    let status = answer.status;
    let error = match status {
        401 => Error::io(format!("`{host}` asks who you are (401)"))
            .hint("pass --header-file FILE with an Authorization header, or add the host to ~/.netrc"),
        403 => Error::io(format!("`{host}` forbids it (403)"))
            .hint("check that your account, or the link, has access; links with a signature expire"),
        404 | 410 => {
            Error::not_found(format!("`{host}` has no such file ({status})")).hint("check the address")
        }
        407 => Error::io("the proxy asks who you are (407)").hint("put user and password into HTTPS_PROXY"),
        416 => Error::io(format!("`{host}` has no such range of the file (416)"))
            .hint("run the command again: the file changed, or the server is wrong about its length"),
        429 => Error::io(format!("`{host}` says that there were too many requests (429)"))
            .hint("wait for some minutes, and try again"),
        500..=599 => Error::io(format!("`{host}` failed ({status})"))
            .hint("try again later: the fault is the server's"),
        _ => Error::io(format!("`{host}` answered with status {status}")).hint("check the address"),
    };
    error.in_file(shown(&answer.url))
}
