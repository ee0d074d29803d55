//! A hub whose listings are out to harm: names that climb, pages without end, shards that are elsewhere.

use serde_json::{Value, json};

use super::content::Content;
use super::encoding::{git_id, percent_decoded, sha256};
use super::listen::{Bound, Options, Server};
use super::log::Log;
use super::message::{Request, Response};
use super::ranges::Served;

/// The repository that is there, and every other one.
pub const REPOSITORY: &str = "evil/model";

/// What every file has in it.
const PAYLOAD: &[u8] = b"payload of a hostile hub";

/// The length of an entry in a long listing, its comma included.
const ENTRY_LEN: u64 = 160;

/// What every entry of a long listing has for its name in git.
const OID: &str = "0123456789012345678901234567890123456789";

/// Paths that no file of a repository has, with a name of the case.
pub const PATHS: [(&str, &str); 20] = [
    ("climbs", "../../escaped"),
    ("climbs later", "folder/../../escaped"),
    ("climbs at the end", "folder/.."),
    ("stays where it is", "./escaped"),
    ("absolute", "/tmp/escaped"),
    ("a NUL", "esc\0aped"),
    ("a line break", "esc\naped"),
    ("an escape sequence", "esc\u{1b}[31maped"),
    ("right to left", "esc\u{202e}deped"),
    ("climbs for Windows", "..\\..\\escaped"),
    ("a drive", "C:\\escaped"),
    ("a drive, relative", "C:escaped"),
    ("a share", "\\\\server\\share\\escaped"),
    ("a device", "folder/NUL"),
    ("a device with an extension", "con.safetensors"),
    ("a stream", "file.safetensors:stream"),
    ("ends in a dot", "escaped."),
    ("an empty piece", "folder//escaped"),
    ("empty", ""),
    ("climbs in percent", "%2e%2e/%2e%2e/escaped"),
];

/// What is wrong with its listings.
#[derive(Clone, Debug, PartialEq)]
pub enum Listing {
    /// These paths, along with `config.json` and `model.safetensors`.
    Paths(Vec<String>),
    /// So many files on pages of so many.
    Long { entries: u64, page_len: u64 },
    /// Page after page of one file, each with the next.
    Endless,
    /// `Link` leads to the page that it stands on.
    SelfLinked,
    /// `Link` leads to this address.
    ForeignLink(String),
    /// Any JSON at all as the description and as the listing.
    Json(Value),
    /// Arrays within arrays, so deep.
    Deep(usize),
    /// `model.safetensors.index.json` has these shards.
    Shards(Vec<String>),
    /// Every answer about a revision has this for its commit.
    Commit(String),
}

/// A hostile hub, until it is dropped.
pub struct HostileHub {
    server: Server,
}

impl HostileHub {
    /// A hub with such a listing for every repository.
    pub fn start(options: Options, listing: Listing) -> Self {
        let bound = Bound::new();
        let url = bound.url(&options);
        let hostile = Hostile { url, listing };
        Self { server: bound.serve(options, move |request: &Request| hostile.answer(request)) }
    }

    /// Two names that differ in case, or in how an accent is written: one file on some systems.
    pub fn twins() -> Listing {
        let names = ["Model.safetensors", "model.safetensors", "caf\u{e9}.bin", "cafe\u{301}.bin"];
        Listing::Paths(names.map(str::to_owned).to_vec())
    }

    /// A name that is a file and a folder, and one that is there twice.
    pub fn clashes() -> Listing {
        Listing::Paths(["weights", "weights/part.bin", "twice.bin", "twice.bin"].map(str::to_owned).to_vec())
    }

    pub fn url(&self) -> &str {
        self.server.url()
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn log(&self) -> &Log {
        self.server.log()
    }
}

struct Hostile {
    url: String,
    listing: Listing,
}

impl Hostile {
    fn answer(&self, request: &Request) -> Response {
        let commit = match &self.listing {
            Listing::Commit(commit) => commit.clone(),
            _ => git_id(b"hostile"),
        };
        let path = &request.path;
        let response = if let Some((_, name)) = path.split_once("/resolve/") {
            self.file(request, name.split_once('/').map_or("", |(_, name)| name))
        } else if path.contains("/tree/") {
            self.page(request)
        } else {
            self.info(&commit)
        };
        // A header ends with its line, whatever the commit is.
        response.header("X-Repo-Commit", commit.replace(['\r', '\n', '\0'], "?"))
    }

    /// The description of the repository.
    fn info(&self, commit: &str) -> Response {
        let whole = |siblings: Value| {
            let id = REPOSITORY;
            json!({ "id": id, "sha": commit, "private": false, "gated": false, "cardData": {}, "siblings": siblings })
        };
        match &self.listing {
            Listing::Json(value) => Response::json(200, value),
            Listing::Deep(depth) => deep(*depth),
            Listing::Long { entries, .. } => {
                let text = whole(json!("here")).to_string();
                let (before, after) = text.split_once("\"here\"").expect("it has been put there");
                long(before, *entries, 0, after)
            }
            _ => {
                let siblings = self.paths().into_iter().map(
                    |path| json!({ "rfilename": path, "size": PAYLOAD.len(), "blobId": git_id(PAYLOAD) }),
                );
                Response::json(200, &whole(siblings.collect()))
            }
        }
    }

    /// A page of the listing.
    fn page(&self, request: &Request) -> Response {
        let here = format!("{}{}?{}", self.url, request.path, request.query);
        let cursor: u64 = request.query_value("cursor").and_then(|value| value.parse().ok()).unwrap_or(0);
        let following = format!("{}{}?recursive=true&cursor=", self.url, request.path);
        match &self.listing {
            Listing::Json(value) => Response::json(200, value),
            Listing::Deep(depth) => deep(*depth),
            Listing::Long { entries, page_len } => {
                let n = (*page_len).min(entries - cursor.min(*entries));
                let page = long("", n, cursor, "");
                let next = cursor + n;
                if next < *entries { linked(page, &format!("{following}{next}")) } else { page }
            }
            Listing::Endless => {
                let page = json!([entry(&format!("{cursor}.bin"))]);
                linked(Response::json(200, &page), &format!("{following}{}", cursor + 1))
            }
            Listing::SelfLinked => linked(self.only_page(), &here),
            Listing::ForeignLink(address) => linked(self.only_page(), address),
            _ => self.only_page(),
        }
    }

    fn only_page(&self) -> Response {
        let entries = self.paths().iter().map(|path| entry(path)).collect();
        Response::json(200, &Value::Array(entries))
    }

    fn paths(&self) -> Vec<String> {
        let usual = ["config.json", "model.safetensors"].map(str::to_owned).to_vec();
        match &self.listing {
            Listing::Paths(paths) => [usual, paths.clone()].concat(),
            Listing::Shards(shards) => {
                let index = vec!["config.json".to_owned(), "model.safetensors.index.json".to_owned()];
                [index, shards.clone()].concat()
            }
            _ => usual,
        }
    }

    /// Whatever path is asked for is there.
    fn file(&self, request: &Request, path: &str) -> Response {
        let content = match (&self.listing, percent_decoded(path).as_str()) {
            (Listing::Shards(shards), "model.safetensors.index.json") => {
                let map = shards.iter().enumerate().map(|(n, shard)| (format!("tensor.{n}"), json!(shard)));
                let map: serde_json::Map<_, _> = map.collect();
                json!({ "metadata": { "total_size": PAYLOAD.len() }, "weight_map": map })
                    .to_string()
                    .into_bytes()
            }
            (_, "config.json") => b"{\"model_type\": \"llama\"}\n".to_vec(),
            _ => PAYLOAD.to_vec(),
        };
        let etag = git_id(&content);
        Served::tagged(Content::bytes(content), &etag).answer(request)
    }
}

fn entry(path: &str) -> Value {
    let lfs = json!({ "oid": sha256(PAYLOAD), "size": PAYLOAD.len(), "pointerSize": 127 });
    json!({ "type": "file", "oid": git_id(PAYLOAD), "size": PAYLOAD.len(), "path": path, "lfs": lfs })
}

fn linked(page: Response, address: &str) -> Response {
    page.header("Link", format!("<{address}>; rel=\"next\""))
}

/// So many entries between two texts, made as they are sent: one of a million costs no memory.
fn long(before: &str, n: u64, first: u64, after: &str) -> Response {
    // Both names of a path, so that an entry does for the description and for a page.
    let entries = Content::generated(n * ENTRY_LEN, move |offset, len| {
        let range = offset / ENTRY_LEN..(offset + len as u64).div_ceil(ENTRY_LEN);
        let text: String = range.map(|index| long_entry(first + index, index + 1 == n)).collect();
        text.as_bytes()[(offset % ENTRY_LEN) as usize..][..len].to_vec()
    });
    let tail = format!("]{after}").into_bytes();
    let entries_len = entries.len();
    let closed = Content::generated(entries_len + tail.len() as u64, move |offset, len| {
        let mut bytes = entries.at(offset, len);
        let from = offset.saturating_sub(entries_len) as usize;
        bytes.extend(&tail[from..][..len - bytes.len()]);
        bytes
    });
    Response::with(200, closed.after(format!("{before}[")))
        .header("Content-Type", "application/json; charset=utf-8")
}

/// An entry of a fixed length, with its comma or what stands in for the last one's.
fn long_entry(index: u64, is_last: bool) -> String {
    let path = format!("{index:020}.bin");
    let end = if is_last { ' ' } else { ',' };
    let text =
        ["{\"type\":\"file\",\"oid\":\"", OID, "\",\"size\":24,\"path\":\"", &path, "\",\"rfilename\":\""];
    let mut entry = text.concat();
    entry.push_str(&path);
    entry.push_str("\"}");
    entry.push(end);
    entry.extend(std::iter::repeat_n(' ', ENTRY_LEN as usize - entry.len()));
    entry
}

fn deep(depth: usize) -> Response {
    let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    Response::with(200, Content::bytes(text)).header("Content-Type", "application/json; charset=utf-8")
}
