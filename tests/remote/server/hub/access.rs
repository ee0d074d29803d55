//! Who gets to see a repository, and what everybody else is told.

use serde_json::json;

use super::super::message::{Request, Response};
use super::State;
use super::repository::{Access, Kind, Repository};

/// A refusal: a status, a code, which not every one has, and a sentence.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: u16,
    pub code: Option<&'static str>,
    pub message: String,
    /// Known once the repository and its revision are found.
    pub commit: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code: Some(code), message: message.into(), commit: None }
    }

    /// A refusal that only its sentence explains.
    fn uncoded(status: u16, message: &str) -> Self {
        Self { status, code: None, message: message.to_owned(), commit: None }
    }

    /// As the interface says it.
    pub(super) fn as_json(&self) -> Response {
        self.marked(Response::json(self.status, &json!({ "error": self.message })))
    }

    /// As an address of a file says it.
    pub(super) fn as_text(&self) -> Response {
        self.marked(Response::text(self.status, &self.message))
    }

    fn marked(&self, mut response: Response) -> Response {
        if let Some(code) = self.code {
            response = response.header("X-Error-Code", code);
        }
        if let Some(commit) = &self.commit {
            response = response.header("X-Repo-Commit", commit);
        }
        response.header("X-Error-Message", self.message.as_str())
    }
}

impl State {
    /// The repository of a name, former names included, if the request may see it; with `files` also into it.
    pub(super) fn found(
        &self,
        request: &Request,
        kind: Kind,
        name: &str,
        files: bool,
    ) -> Result<Repository, Refusal> {
        let token = self.token(request)?;
        let all = self.repositories.read().expect("nobody panics while it is held");
        let of_kind = || all.iter().filter(|repository| repository.kind == kind);
        let found = of_kind().find(|repository| repository.name == name).or_else(|| {
            of_kind().find(|repository| repository.former_names.iter().any(|former| former == name))
        });
        let reads = |repository: &Repository| token.as_ref().is_some_and(|t| repository.readers.contains(t));
        let visible = found.filter(|repository| repository.access != Access::Private || reads(repository));
        let Some(repository) = visible else {
            return Err(match token {
                // Without a token what is missing and what is private look alike.
                None if self.behaviour.names_missing => {
                    Refusal::new(401, "RepoNotFound", "Invalid username or password.")
                }
                None => Refusal::uncoded(401, "Invalid username or password."),
                Some(_) => Refusal::new(404, "RepoNotFound", "Repository not found"),
            });
        };
        if repository.disabled {
            return Err(Refusal::uncoded(403, "Access to this resource is disabled."));
        }
        let gated = matches!(repository.access, Access::GatedAuto | Access::GatedManual);
        if files && gated {
            passes_gate(repository, token.as_deref())?;
        }
        Ok(repository.clone())
    }

    /// Whose token it is.
    pub(super) fn who(&self, request: &Request) -> Response {
        match self.token(request) {
            Ok(Some(token)) => {
                Response::json(200, &json!({ "type": "user", "name": format!("owner-of-{token}") }))
            }
            Ok(None) => Refusal::uncoded(401, "Invalid username or password.").as_json(),
            Err(refusal) => refusal.as_json(),
        }
    }

    /// The valid token that came with a request, if one came.
    fn token(&self, request: &Request) -> Result<Option<String>, Refusal> {
        let Some(value) = request.header("authorization") else { return Ok(None) };
        let token = value.strip_prefix("Bearer ").unwrap_or("");
        let known = self.tokens.read().expect("nobody panics while it is held");
        if known.contains(token) {
            return Ok(Some(token.to_owned()));
        }
        Err(Refusal::uncoded(401, "Invalid credentials in Authorization header"))
    }
}

fn passes_gate(repository: &Repository, token: Option<&str>) -> Result<(), Refusal> {
    let name = &repository.name;
    let has = |tokens: &[String]| token.is_some_and(|token| tokens.iter().any(|one| one == token));
    if token.is_none() {
        let message = format!(
            "Access to model {name} is restricted. You must have access to it and be authenticated to access it. Please log in."
        );
        return Err(Refusal::new(401, "GatedRepo", message));
    }
    if has(&repository.fine_grained) {
        let message = "Please enable access to public gated repositories in your fine-grained token settings to view this repository.";
        return Err(Refusal::new(403, "GatedRepo", message));
    }
    if !has(&repository.readers) {
        let message = format!(
            "Access to model {name} is restricted and you are not in the authorized list. Visit https://huggingface.co/{name} to ask for access."
        );
        return Err(Refusal::new(403, "GatedRepo", message));
    }
    Ok(())
}
