//! The listing of a revision, page by page.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::encoding::{git_id, percent_encoded};
use super::super::message::{Request, Response};
use super::State;
use super::access::Refusal;
use super::repository::{File, Repository, Storage};

impl State {
    /// The entries below a folder, which is nothing for the root.
    pub(super) fn tree(
        &self,
        request: &Request,
        repository: &Repository,
        revision: &str,
        folder: &str,
    ) -> Response {
        let snapshot = match self.at_revision(repository, revision) {
            Ok(snapshot) => snapshot,
            Err(refusal) => return refusal.as_json(),
        };
        let asked = |key: &str| request.query_value(key).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let entries = below(&snapshot.files, folder, asked("recursive"), asked("expand"));
        if entries.is_empty() && !folder.is_empty() {
            let message = format!("{folder} does not exist on \"{revision}\"");
            let refusal = Refusal::new(404, "EntryNotFound", message);
            return Refusal { commit: Some(snapshot.commit.clone()), ..refusal }.as_json();
        }
        let page_len = request.query_value("limit").and_then(|v| v.parse().ok());
        let page_len = page_len.unwrap_or(self.behaviour.page_len).clamp(1, self.behaviour.page_len);
        let first: usize = request.query_value("cursor").and_then(|v| v.parse().ok()).unwrap_or(0);
        let page: Vec<_> = entries.iter().skip(first).take(page_len).cloned().collect();
        let next = first + page.len();
        let response = Response::json(200, &Value::Array(page)).header("X-Repo-Commit", &snapshot.commit);
        if next >= entries.len() {
            return response;
        }
        response.header("Link", format!("<{}>; rel=\"next\"", self.page_at(request, next)))
    }

    /// The absolute address of another page of the same listing.
    fn page_at(&self, request: &Request, cursor: usize) -> String {
        let kept = request.query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
        let cursor = format!("cursor={}", percent_encoded(&cursor.to_string()));
        let query: Vec<_> = kept.chain([cursor.as_str()]).collect();
        format!("{}{}?{}", self.url, request.path, query.join("&"))
    }
}

/// The entries below a folder in the order of their paths: what it has itself, or everything.
fn below(files: &[File], folder: &str, recursive: bool, expand: bool) -> Vec<Value> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut entries = BTreeMap::new();
    for file in files {
        let Some(within) = file.path.strip_prefix(&prefix) else { continue };
        let folders: Vec<_> = within.match_indices('/').map(|(at, _)| at).collect();
        let shown = if recursive { folders.len() } else { folders.len().min(1) };
        for at in &folders[..shown] {
            let path = format!("{prefix}{}", &within[..*at]);
            let oid = git_id(path.as_bytes());
            entries.insert(path.clone(), json!({ "type": "directory", "oid": oid, "size": 0, "path": path }));
        }
        if recursive || folders.is_empty() {
            entries.insert(file.path.clone(), entry(file, expand));
        }
    }
    entries.into_values().collect()
}

fn entry(file: &File, expand: bool) -> Value {
    let mut entry =
        json!({ "type": "file", "oid": file.git_id(), "size": file.content.len(), "path": file.path });
    if let (false, Some(digest)) = (file.is_in_git(), file.content.sha256()) {
        entry["lfs"] =
            json!({ "oid": digest, "size": file.content.len(), "pointerSize": file.pointer().len() });
    }
    if let Storage::Xet(hash) = &file.storage {
        entry["xetHash"] = json!(hash);
    }
    if expand {
        entry["lastCommit"] =
            json!({ "id": file.git_id(), "title": "Add it", "date": "2026-01-02T03:04:05.000Z" });
    }
    entry
}
