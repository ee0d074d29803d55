//! The hub's refusals in words that help.

use crate::http::{Answer, failure};
use apr_sdk::{Error, escape};

/// The error for an answer of the hub that is no success.
pub fn refusal(answer: &Answer) -> Error {
    let code = answer.header_of_any("x-error-code").unwrap_or_default();
    let said = answer.header_of_any("x-error-message").map(|said| escape(said, 300)).unwrap_or_default();
    let request = answer.header_of_any("x-request-id").map(|id| format!(" (request {})", escape(id, 80)));
    let request = request.unwrap_or_default();
    match (answer.status, code) {
        (_, "GatedRepo") => Error::io(format!("access to this model is given on request{request}: {said}")).hint(
            "accept its terms on the model's page, and log in with `hf auth login`; a fine-grained token also needs \
             access to gated repositories",
        ),
        (_, "RevisionNotFound") => {
            Error::not_found("the model has no such revision").hint("check the name behind `@`: a branch, a tag or a commit")
        }
        (_, "EntryNotFound") => {
            Error::not_found("the model has no such file").hint("list its files: apr pull MODEL --plan")
        }
        (401, _) if said.contains("Invalid credentials") || said.contains("invalid") => {
            Error::io(format!("the hub does not accept the token{request}")).hint("log in anew: hf auth login")
        }
        (401 | 404, _) if code == "RepoNotFound" || code.is_empty() => Error::not_found(format!(
            "the hub has no such model, or it is private{request}"
        ))
        .hint("check the name; for a private model log in with `hf auth login`, or set HF_TOKEN"),
        (403, _) if said.contains("disabled") => {
            Error::io(format!("the hub has disabled this model: {said}")).hint("nothing can be read of it")
        }
        (403, _) if !said.is_empty() => Error::io(format!("the hub forbids it (403): {said}{request}"))
            .hint("check what your token may do"),
        _ => failure::of_status(answer),
    }
}
