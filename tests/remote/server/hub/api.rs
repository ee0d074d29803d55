//! What the interface says of a repository: its files in short, its license, its revisions.

use serde_json::{Value, json};

use super::super::message::{Request, Response};
use super::State;
use super::access::Refusal;
use super::repository::{Access, File, Repository, Snapshot};

/// When everything on this hub was made.
const DATE: &str = "2026-01-02T03:04:05.000Z";

impl State {
    /// The description of a revision, with sizes if `blobs` says so.
    pub(super) fn info(&self, request: &Request, repository: &Repository, revision: &str) -> Response {
        let snapshot = match self.at_revision(repository, revision) {
            Ok(snapshot) => snapshot,
            Err(refusal) => return refusal.as_json(),
        };
        let with_sizes = request.query_value("blobs").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let siblings: Vec<_> = snapshot.files.iter().map(|file| sibling(file, with_sizes)).collect();
        let mut card = json!({});
        if let Some(license) = &repository.license {
            card["license"] = json!(license);
        }
        let tags: Vec<_> = repository.license.iter().map(|license| format!("license:{license}")).collect();
        let gated = match repository.access {
            Access::GatedAuto => json!("auto"),
            Access::GatedManual => json!("manual"),
            _ => json!(false),
        };
        let info = json!({
            "_id": &snapshot.commit[..24],
            "id": repository.name,
            "modelId": repository.name,
            "author": repository.name.split('/').next(),
            "sha": snapshot.commit,
            "createdAt": DATE,
            "lastModified": DATE,
            "private": repository.access == Access::Private,
            "gated": gated,
            "disabled": repository.disabled,
            "downloads": 0,
            "likes": 0,
            "tags": tags,
            "cardData": card,
            "siblings": siblings,
        });
        Response::json(200, &info)
    }

    /// The revisions and where they lead.
    pub(super) fn refs(&self, request: &Request, repository: &Repository) -> Response {
        let below = |prefix: &str| -> Vec<Value> {
            let refs = repository.refs.iter().filter_map(|(name, commit)| {
                let full =
                    if name.starts_with("refs/") { name.clone() } else { format!("refs/heads/{name}") };
                let short = full.strip_prefix(prefix)?.to_owned();
                Some(json!({ "name": short, "ref": full, "targetCommit": commit }))
            });
            refs.collect()
        };
        let mut refs = json!({
            "tags": below("refs/tags/"),
            "branches": below("refs/heads/"),
            "converts": below("refs/convert/"),
        });
        if request.query_value("include_prs").is_some() {
            refs["pullRequests"] = json!(below("refs/pr/"));
        }
        Response::json(200, &refs)
    }

    /// What a revision of a repository leads to.
    pub(super) fn at_revision<'a>(
        &self,
        repository: &'a Repository,
        revision: &str,
    ) -> Result<&'a Snapshot, Refusal> {
        let refusal = || Refusal::new(404, "RevisionNotFound", format!("Invalid rev id: {revision}"));
        repository.snapshot(revision).ok_or_else(refusal)
    }
}

fn sibling(file: &File, with_sizes: bool) -> Value {
    let mut sibling = json!({ "rfilename": file.path });
    if !with_sizes {
        return sibling;
    }
    sibling["size"] = json!(file.content.len());
    sibling["blobId"] = json!(file.git_id());
    if let (false, Some(digest)) = (file.is_in_git(), file.content.sha256()) {
        // The listing calls the digest `oid`, and this one calls it by its kind.
        sibling["lfs"] =
            json!({ "sha256": digest, "size": file.content.len(), "pointerSize": file.pointer().len() });
    }
    sibling
}
