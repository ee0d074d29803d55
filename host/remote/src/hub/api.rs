//! The hub's interface: what a repository holds, and its files.

use super::listing::Listing;
use super::refusal::refusal;
use crate::file::object::{Object, Opened};
use crate::http::retry::{ATTEMPTS, backoff};
use crate::http::{Client, Origin, Query, Secret};
use crate::names::RepositoryId;
use apr_sdk::{Error, ErrorKind, Result, escape};
use std::sync::Arc;
use url::Url;

/// The hub, unless `HF_ENDPOINT` says otherwise.
const HOME: &str = "https://huggingface.co";

/// Bytes of one listing: some 250 for each of the most files.
const LONGEST_LISTING: u64 = 32 << 20;

/// The way around a listing that is of no use.
const NO_LISTING: &str = "name a file of it, which needs no listing: hf://org/name/FILE; or tell its owner";

/// A hub.
pub struct Hub {
    client: Arc<Client>,
    endpoint: Url,
    counts_downloads: bool,
}

impl Hub {
    /// The hub at an endpoint, or the usual one; the token is sent to no other server.
    ///
    /// # Errors
    /// InvalidArgument for an endpoint that is no address.
    pub fn new(client: &Arc<Client>, endpoint: Option<&str>, token: Option<&Secret>) -> Result<Hub> {
        let text = endpoint.unwrap_or(HOME).trim_end_matches('/');
        let parsed = Url::parse(text).ok().and_then(|url| Some((Origin::of(&url)?, url)));
        let Some((origin, url)) = parsed else {
            let message = format!("HF_ENDPOINT is `{}`, which is no address", escape(text, 200));
            return Err(Error::invalid_argument(message).hint("set it to https://HOST, or unset it"));
        };
        client.name(&url);
        if let Some(token) = token {
            client.grant(origin, "authorization", Secret::new(format!("Bearer {}", token.reveal())))?;
        }
        Ok(Hub { client: Arc::clone(client), endpoint: url, counts_downloads: false })
    }

    /// The same hub, for downloads that it counts.
    #[must_use]
    pub fn counting(&self) -> Hub {
        Hub { client: Arc::clone(&self.client), endpoint: self.endpoint.clone(), counts_downloads: true }
    }

    /// The client that asks it.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// What a repository holds at a revision; one request.
    ///
    /// # Errors
    /// NotFound, or the hub's refusal; as [`Client::send`]; as [`Listing::parse`].
    pub fn listing(&self, id: &RepositoryId, revision: &str) -> Result<Listing> {
        let mut url = self.url(&["api", "models"], id, &["revision", revision], "");
        url.set_query(Some("blobs=true"));
        let shown = format!("hf://{id}@{revision}");
        // An answer that is cut is asked for again, as one that does not come.
        let mut failed = 0;
        loop {
            let answer =
                self.client.send(&Query::get(url.clone())).map_err(|e| e.with_file(shown.clone()))?;
            if let Some(warning) = answer.header_of_any("x-hf-warning") {
                self.client.options().observer.warn(&format!("the hub says: {}", escape(warning, 300)));
            }
            if answer.status != 200 {
                return Err(refusal(&answer).with_file(shown));
            }
            let failure = match answer.read(LONGEST_LISTING) {
                Ok(bytes) => return Listing::parse(&bytes).map_err(|e| e.in_file(shown).hint(NO_LISTING)),
                Err(failure) => failure,
            };
            failed += 1;
            if failed == ATTEMPTS || failure.kind() != ErrorKind::Io {
                return Err(failure.in_file(shown).hint(NO_LISTING));
            }
            self.client.wait(failure.message(), backoff(self.client.options().first_backoff, failed))?;
        }
    }

    /// Opens a file of a repository, with its first `len` bytes.
    ///
    /// # Errors
    /// As [`Object::open`], with the hub's refusals.
    pub fn open(
        &self,
        id: &RepositoryId,
        revision: &str,
        file: &str,
        shown: String,
        len: u64,
    ) -> Result<Opened> {
        let mut query = Query::get(self.url(&[], id, &["resolve", revision], file));
        if self.counts_downloads {
            query.headers.push(("x-hf-download-counter", "1".to_owned()));
        }
        let opened = Object::open(&self.client, query, shown.clone(), len, refusal)?;
        if opened.object.identity().commit.is_none() {
            let message = "the server is not a hub: it names no commit (`X-Repo-Commit`)";
            let hint = "check HF_ENDPOINT, and whether a proxy answers in the hub's place";
            return Err(Error::io(message).in_file(shown).hint(hint));
        }
        Ok(opened)
    }

    /// The URL of something about a repository: a revision is one part of it, a file as many as it has.
    fn url(&self, before: &[&str], id: &RepositoryId, behind: &[&str], file: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(before).extend(id.as_str().split('/')).extend(behind);
            path.extend(file.split('/').filter(|part| !part.is_empty()));
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client::ClientOptions;

    #[test]
    fn a_revision_is_one_part_of_a_url() {
        let client = Arc::new(Client::new(ClientOptions::default()));
        let hub = Hub::new(&client, Some("https://mirror.example/hub/"), None).unwrap();
        let id = RepositoryId::new("org/name").unwrap();
        assert_eq!(
            hub.url(&[], &id, &["resolve", "refs/pr/1"], "a b/c#d.bin").as_str(),
            "https://mirror.example/hub/org/name/resolve/refs%2Fpr%2F1/a%20b/c%23d.bin"
        );
        assert!(Hub::new(&client, Some("mirror"), None).is_err());
    }
}
