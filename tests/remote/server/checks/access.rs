//! Who is let in, and what everybody else is told.

use super::super::Hub;
use super::super::hub::{Behaviour, samples};
use super::{Answer, get};

fn hub(behaviour: Behaviour) -> Hub {
    let hub = Hub::behaving(behaviour, samples::repositories());
    hub.allow_token(samples::STRANGER);
    hub
}

fn asked(hub: &Hub, path: &str, token: Option<&str>) -> Answer {
    let value = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = value.iter().map(|value| ("Authorization", value.as_str())).collect();
    get(&format!("{}{path}", hub.url()), &headers)
}

/// Status, code and sentence of an answer.
fn told(answer: &Answer) -> (u16, Option<&str>, &str) {
    (answer.status, answer.header("X-Error-Code"), answer.header("X-Error-Message").unwrap_or(""))
}

#[test]
fn private_and_missing_look_alike() {
    let hub = hub(Behaviour::default());
    for path in ["/apr/private/resolve/main/config.json", "/apr/missing/resolve/main/config.json"] {
        let anonymous = asked(&hub, path, None);
        assert_eq!(told(&anonymous), (401, Some("RepoNotFound"), "Invalid username or password."));
        let stranger = asked(&hub, path, Some(samples::STRANGER));
        assert_eq!(told(&stranger), (404, Some("RepoNotFound"), "Repository not found"));
        let invalid = asked(&hub, path, Some("hf_unknown"));
        assert_eq!(told(&invalid), (401, None, "Invalid credentials in Authorization header"));
    }
    let reader = Some(samples::READER);
    assert_eq!(asked(&hub, "/apr/private/resolve/main/config.json", reader).status, 200);
    assert_eq!(asked(&hub, "/api/models/apr/private", reader).json()["private"], true);
    assert_eq!(asked(&hub, "/api/models/apr/private", None).json()["error"], "Invalid username or password.");
}

#[test]
fn a_hub_need_not_name_what_is_missing() {
    let hub = hub(Behaviour { names_missing: false, ..Behaviour::default() });
    let anonymous = asked(&hub, "/apr/missing/resolve/main/config.json", None);
    assert_eq!(told(&anonymous), (401, None, "Invalid username or password."));
}

#[test]
fn a_gate_opens_to_those_who_agreed() {
    let hub = hub(Behaviour::default());
    for gate in ["auto", "manual"] {
        let path = format!("/apr/gated-{gate}/resolve/main/model.safetensors");
        let sentence = |token: Option<&str>, status: u16, words: &str| {
            let answer = asked(&hub, &path, token);
            let (got, code, message) = told(&answer);
            assert_eq!((got, code), (status, Some("GatedRepo")));
            assert!(message.contains(words), "{message}");
        };
        sentence(None, 401, "Please log in");
        sentence(Some(samples::STRANGER), 403, "not in the authorized list");
        sentence(Some(samples::FINE_GRAINED), 403, "fine-grained token settings");
        assert_eq!(asked(&hub, &path, Some(samples::READER)).status, 302);
        // What it is and what it has is no secret.
        let info = asked(&hub, &format!("/api/models/apr/gated-{gate}"), None);
        assert_eq!(info.json()["gated"], gate);
    }
}

#[test]
fn what_is_missing_within_is_named() {
    let hub = hub(Behaviour::default());
    let revision = asked(&hub, "/apr/small/resolve/nowhere/config.json", None);
    assert_eq!(told(&revision), (404, Some("RevisionNotFound"), "Invalid rev id: nowhere"));
    let entry = asked(&hub, "/apr/small/resolve/main/missing.json", None);
    assert_eq!(told(&entry), (404, Some("EntryNotFound"), "Entry not found"));
    assert_eq!(entry.header("X-Repo-Commit").unwrap().len(), 40);
    let revision = asked(&hub, "/api/models/apr/small/tree/nowhere?recursive=true", None);
    assert_eq!(told(&revision).1, Some("RevisionNotFound"));
    let folder = asked(&hub, "/api/models/apr/small/tree/main/missing", None);
    assert_eq!(told(&folder).1, Some("EntryNotFound"));
    let disabled = asked(&hub, "/apr/disabled/resolve/main/config.json", None);
    assert_eq!(told(&disabled), (403, None, "Access to this resource is disabled."));
}

#[test]
fn revisions_are_encoded_whole() {
    let hub = hub(Behaviour::default());
    let commit = |revision: &str| {
        let answer = asked(&hub, &format!("/apr/small/resolve/{revision}/config.json"), None);
        answer.header("X-Repo-Commit").map(str::to_owned)
    };
    let proposed = commit("refs%2Fpr%2F1").unwrap();
    assert_eq!(commit(&proposed), Some(proposed.clone()));
    assert_eq!(commit("v1"), commit("refs%2Ftags%2Fv1"));
    assert_ne!(commit("main"), commit("v1"));
    assert_eq!(commit("refs/pr/1"), None);
    let described = asked(&hub, "/api/models/apr/small/revision/refs%2Fpr%2F1", None);
    assert_eq!(described.json()["sha"], proposed);
}
