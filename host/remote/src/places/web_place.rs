//! The place of a file behind HTTP, and that of standard input.

use crate::file::object::Object;
use crate::file::window::FIRST;
use crate::http::{Client, Query, failure};
use apr_engine::place::{Backing, Found, Place, check_name};
use apr_sdk::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// The folder of a URL: what its last part is relative to. Servers do not list it, so its entries are those that were found.
pub struct WebPlace {
    client: Arc<Client>,
    /// The URL that was typed; other files keep its query, which may be what gives access.
    url: Url,
    scratch: PathBuf,
    /// True if the digest of the typed file is known.
    is_announced: bool,
    files: Mutex<BTreeMap<String, Option<Arc<dyn Backing>>>>,
}

impl WebPlace {
    /// The folder around a URL.
    pub fn new(client: Arc<Client>, url: Url, scratch: PathBuf, is_announced: bool) -> WebPlace {
        WebPlace { client, url, scratch, is_announced, files: Mutex::default() }
    }

    /// The name of the typed file.
    pub fn file_name(&self) -> String {
        let last = self.url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
        let decoded = percent_decoded(last);
        if check_name(&decoded).is_ok() && !decoded.contains('/') { decoded } else { "download".to_owned() }
    }

    /// Keeps a file that was opened.
    pub fn keep(&self, name: &str, backing: Arc<dyn Backing>) -> Arc<dyn Backing> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(name.to_owned(), Some(Arc::clone(&backing)));
        backing
    }

    fn url_of(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop().extend(name.split('/'));
        }
        url
    }
}

/// Text of a part of a URL, whose escapes are resolved.
pub fn percent_decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Place for WebPlace {
    fn name(&self) -> String {
        let parts =
            self.url.path_segments().map(|parts| parts.filter(|part| !part.is_empty()).collect::<Vec<_>>());
        let folder = parts.and_then(|parts| parts.len().checked_sub(2).map(|at| percent_decoded(parts[at])));
        folder.unwrap_or_else(|| self.url.host_str().unwrap_or_default().to_owned())
    }

    fn show(&self, name: &str) -> String {
        let url = if name.is_empty() { self.url_of("") } else { self.url_of(name) };
        crate::http::origin::shown(&url)
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_name(name)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match files.get(name) {
            Some(known) => known.clone(),
            None => {
                let query = Query::get(self.url_of(name));
                let opened = Object::open(&self.client, query, self.show(name), FIRST, failure::of_status);
                let backing = match opened {
                    Ok(opened) => Some(crate::places::backing(opened, &self.scratch, None)?),
                    Err(error) if error.kind() == apr_sdk::ErrorKind::NotFound => None,
                    Err(error) => return Err(error.with_file(name.to_owned())),
                };
                files.insert(name.to_owned(), backing.clone());
                backing
            }
        };
        known
            .map(Found::File)
            .ok_or_else(|| Error::not_found("the server has no such file").in_file(name.to_owned()))
    }

    fn facts(&self, _ask: bool) -> Vec<(String, String)> {
        let verified = if self.is_announced { "yes" } else { "no" };
        vec![("verified".to_owned(), verified.to_owned())]
    }

    fn entries(&self, folder: &str) -> Result<Vec<String>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.iter().filter(|(name, backing)| backing.is_some() && !name.contains('/'));
        Ok(if folder.is_empty() { found.map(|(name, _)| name.clone()).collect() } else { Vec::new() })
    }
}

/// The place of standard input, which has nothing beside it.
#[derive(Clone, Copy, Debug)]
pub struct StdinPlace;

impl Place for StdinPlace {
    fn name(&self) -> String {
        "stdin".to_owned()
    }

    fn show(&self, _name: &str) -> String {
        "-".to_owned()
    }

    fn open(&self, name: &str) -> Result<Found> {
        check_name(name)?;
        let error = Error::not_found("a model from standard input has no files beside it");
        Err(error.in_file(name.to_owned()).hint("name the file or folder instead of `-`"))
    }

    fn entries(&self, _folder: &str) -> Result<Vec<String>> {
        Ok(vec![self.name()])
    }
}
