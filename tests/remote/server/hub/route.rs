//! Which part of the hub a request is for.

use super::super::message::{Request, Response};
use super::State;
use super::repository::Kind;

/// A repository in an address, and what follows it.
struct Target {
    kind: Kind,
    name: String,
    rest: Vec<String>,
}

/// Words that follow a repository's name in addresses.
const AFTER_NAME: [&str; 6] = ["resolve", "revision", "tree", "refs", "xet-read-token", "raw"];

impl State {
    /// The answer to what no outage hit.
    pub(super) fn routed(&self, request: &Request) -> Response {
        let segments = request.segments();
        let pieces: Vec<&str> = segments.iter().map(String::as_str).collect();
        match pieces.as_slice() {
            ["api", "resolve-cache", plural, rest @ ..] => match target(plural, rest) {
                Some(target) => self.of_cache(request, &target),
                None => Response::text(404, "no such address"),
            },
            ["api", "whoami-v2"] => self.who(request),
            ["api", plural, rest @ ..] => match target(plural, rest) {
                Some(target) => self.of_interface(request, &target),
                None => Response::text(404, "no such address"),
            },
            [plural @ ("datasets" | "spaces"), rest @ ..] => self.of_file(request, target(plural, rest)),
            rest => self.of_file(request, target("models", rest)),
        }
    }

    fn of_interface(&self, request: &Request, target: &Target) -> Response {
        let rest: Vec<&str> = target.rest.iter().map(String::as_str).collect();
        let found = self.found(request, target.kind, &target.name, false);
        let (repository, name) = match found {
            Ok(repository) if repository.name != target.name => {
                // Absolute here and relative for files: clients have to understand both.
                return Response::redirect(
                    307,
                    &format!("{}{}", self.url, moved(request, target, &repository.name)),
                );
            }
            Ok(repository) => (repository, target.name.as_str()),
            Err(response) => return response.as_json(),
        };
        match rest.as_slice() {
            [] => self.info(request, &repository, "main"),
            ["revision", revision] => self.info(request, &repository, revision),
            ["tree", revision, folder @ ..] => self.tree(request, &repository, revision, &folder.join("/")),
            ["refs"] => self.refs(request, &repository),
            _ => Response::text(404, &format!("nothing of {name} is there")),
        }
    }

    fn of_file(&self, request: &Request, target: Option<Target>) -> Response {
        let Some(target) = target else { return Response::text(404, "no such address") };
        let [verb, revision, path @ ..] = target.rest.as_slice() else {
            return Response::text(404, "no such address");
        };
        if verb != "resolve" {
            return Response::text(404, "no such address");
        }
        match self.found(request, target.kind, &target.name, true) {
            Ok(repository) if repository.name != target.name => {
                Response::redirect(307, &moved(request, &target, &repository.name))
            }
            Ok(repository) => self.resolve(request, &repository, revision, &path.join("/")),
            Err(response) => response.as_text(),
        }
    }

    fn of_cache(&self, request: &Request, target: &Target) -> Response {
        let [commit, path @ ..] = target.rest.as_slice() else {
            return Response::text(404, "no such address");
        };
        match self.found(request, target.kind, &target.name, true) {
            Ok(repository) => self.resolve_cached(request, &repository, commit, &path.join("/")),
            Err(response) => response.as_text(),
        }
    }
}

/// The repository that pieces of an address name: two of them, or one where nothing, a known
/// word or a commit follows.
fn target(plural: &str, pieces: &[&str]) -> Option<Target> {
    let kind = [Kind::Model, Kind::Dataset, Kind::Space].into_iter().find(|kind| kind.plural() == plural)?;
    let is_commit = |piece: &str| piece.len() == 40 && piece.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_word =
        |at: usize| pieces.get(at).is_none_or(|piece| AFTER_NAME.contains(piece) || is_commit(piece));
    let n_name = if is_word(1) { 1 } else { 2 };
    if pieces.len() < n_name {
        return None;
    }
    let rest = pieces[n_name..].iter().map(|piece| (*piece).to_owned()).collect();
    Some(Target { kind, name: pieces[..n_name].join("/"), rest })
}

/// The path and query of a request with another name for its repository.
fn moved(request: &Request, target: &Target, name: &str) -> String {
    let path = request.path.replacen(&target.name, name, 1);
    if request.query.is_empty() { path } else { format!("{path}?{}", request.query) }
}
