//! Requests that fail although nothing is wrong with them: busy, broken and rationed hubs.

use std::sync::Mutex;

use super::super::message::{Request, Response};

/// Failures to come.
#[derive(Clone, Debug)]
pub struct Outage {
    /// It is for requests whose path contains this: `/resolve/`, `/api/`, or `/repos/` for the second port.
    pub of: String,
    /// So many of them.
    pub times: u32,
    pub status: u16,
    /// Headers of the answer, such as `Retry-After`.
    pub headers: Vec<(String, String)>,
}

impl Outage {
    /// The next requests for paths that contain a text get a status.
    pub fn status(of: &str, times: u32, status: u16) -> Self {
        Self { of: of.to_owned(), times, status, headers: Vec::new() }
    }

    /// The next ones are too many, and may come again in so many seconds: said as the hub says it now.
    pub fn rationed(of: &str, times: u32, seconds: u64) -> Self {
        let rest = ("RateLimit".to_owned(), format!("\"resolvers\";r=0;t={seconds}"));
        let policy =
            ("RateLimit-Policy".to_owned(), "\"fixed window\";\"resolvers\";q=3000;w=300".to_owned());
        Self { headers: vec![rest, policy], ..Self::status(of, times, 429) }
    }

    /// The same, said as everybody else says it.
    pub fn retry_after(of: &str, times: u32, status: u16, seconds: u64) -> Self {
        let header = ("Retry-After".to_owned(), seconds.to_string());
        Self { headers: vec![header], ..Self::status(of, times, status) }
    }
}

/// What an outage answers to a request, if one hits it. The outage wears off by it.
pub(super) fn strike(outages: &Mutex<Vec<Outage>>, request: &Request) -> Option<Response> {
    let mut outages = outages.lock().expect("nobody panics while it is held");
    let hits = |outage: &&mut Outage| outage.times > 0 && request.path.contains(&outage.of);
    let outage = outages.iter_mut().find(hits)?;
    outage.times -= 1;
    let said = if outage.status == 429 { "We had to rate limit you" } else { "It does not work right now" };
    let response = Response::text(outage.status, said);
    Some(
        outage.headers.iter().fold(response, |response, (name, value)| response.header(name, value.as_str())),
    )
}
