//! The addresses of files: small ones at once or behind a relative redirect, large ones on the second port.

use super::super::encoding::{encoded_path, percent_encoded};
use super::super::message::{Request, Response};
use super::super::ranges::Served;
use super::State;
use super::access::Refusal;
use super::repository::{File, Kind, Repository, Snapshot, Storage};

impl State {
    /// A file at a revision, or the way to it.
    pub(super) fn resolve(
        &self,
        request: &Request,
        repository: &Repository,
        revision: &str,
        path: &str,
    ) -> Response {
        let found = self.at_revision(repository, revision).and_then(|snapshot| entry(snapshot, path));
        let (snapshot, file) = match found {
            Ok(found) => found,
            Err(refusal) => return refusal.as_text(),
        };
        let response = match &file.storage {
            Storage::Git => self.content(request, file),
            Storage::GitCached => {
                linked(Response::redirect(307, &cache_address(request, repository, snapshot, file)), file)
            }
            Storage::Lfs | Storage::Xet(_) => self.large(repository, snapshot, file),
        };
        response.header("X-Repo-Commit", &snapshot.commit)
    }

    /// What the relative redirect of [`Self::resolve`] leads to.
    pub(super) fn resolve_cached(
        &self,
        request: &Request,
        repository: &Repository,
        commit: &str,
        path: &str,
    ) -> Response {
        let found = self.at_revision(repository, commit).and_then(|snapshot| entry(snapshot, path));
        let (snapshot, file) = match found {
            Ok(found) => found,
            Err(refusal) => return refusal.as_text(),
        };
        if request.query_value("etag") != Some(format!("\"{}\"", file.etag())) {
            return Response::text(400, "the query of the redirect is needed");
        }
        self.content(request, file).header("X-Repo-Commit", &snapshot.commit)
    }

    fn content(&self, request: &Request, file: &File) -> Response {
        let compress = self.behaviour.compress;
        let content_type = "text/plain; charset=utf-8";
        let served = Served { content_type, compress, ..Served::tagged(file.content.clone(), &file.etag()) };
        self.front_mischief
            .answer(request, &served)
            .header("Content-Disposition", format!("inline; filename=\"{}\"", file.path.replace('"', "")))
    }

    fn large(&self, repository: &Repository, snapshot: &Snapshot, file: &File) -> Response {
        let elsewhere = self.elsewhere.lock().expect("nobody panics while it is held").clone();
        let signed = elsewhere.unwrap_or_else(|| self.cdn.sign(&repository.name, file));
        let mut response = linked(Response::redirect(302, &signed), file);
        if let Storage::Xet(hash) = &file.storage {
            let kind = repository.kind.plural();
            let token =
                format!("{}/api/{kind}/{}/xet-read-token/{}", self.url, repository.name, snapshot.commit);
            response = response
                .header("X-Xet-Hash", hash.as_str())
                .header("Link", format!("<{token}>; rel=\"xet-auth\""));
        }
        response.header("Accept-Ranges", "bytes").header("Vary", "Origin, Accept")
    }
}

/// What a redirect says of the file behind it.
fn linked(response: Response, file: &File) -> Response {
    response
        .header("X-Linked-Etag", format!("\"{}\"", file.etag()))
        .header("X-Linked-Size", file.content.len().to_string())
}

/// The file of a path, with the snapshot it is in.
fn entry<'a>(snapshot: &'a Snapshot, path: &str) -> Result<(&'a Snapshot, &'a File), Refusal> {
    let found = snapshot.files.iter().find(|file| file.path == path);
    let file = found.ok_or_else(|| Refusal {
        commit: Some(snapshot.commit.clone()),
        ..Refusal::new(404, "EntryNotFound", "Entry not found")
    })?;
    Ok((snapshot, file))
}

/// The relative address of a small file: it says what was asked for, and by which tag to find it.
fn cache_address(request: &Request, repository: &Repository, snapshot: &Snapshot, file: &File) -> String {
    let kind: Kind = repository.kind;
    format!(
        "/api/resolve-cache/{}/{}/{}/{}?{}=&etag={}",
        kind.plural(),
        repository.name,
        snapshot.commit,
        encoded_path(&file.path),
        percent_encoded(&request.path),
        percent_encoded(&format!("\"{}\"", file.etag())),
    )
}
