//! The hub's addresses answer as the note on its interface says. Its judge is the real client.

use std::time::Duration;

use super::super::hub::{Behaviour, File, Outage, Repository, samples};
use super::super::{Content, Habit, Hub, Lie, Stall, When};
use super::{get, head, split};

fn hub() -> Hub {
    Hub::start(samples::repositories())
}

fn at(hub: &Hub, path: &str) -> String {
    format!("{}{path}", hub.url())
}

#[test]
fn a_small_file_comes_at_once_or_by_a_relative_redirect() {
    let hub = hub();
    let direct = get(&at(&hub, "/apr/small/resolve/main/config.json"), &[]);
    assert_eq!(direct.status, 200);
    assert_eq!(direct.header("X-Repo-Commit").unwrap().len(), 40);
    assert_eq!(direct.header("ETag").unwrap().len(), 42);
    assert!(direct.header("X-Request-Id").is_some());
    let led = get(&at(&hub, "/apr/small/resolve/main/README.md"), &[]);
    let location = led.header("Location").unwrap();
    assert!(led.status == 307 && location.starts_with("/api/resolve-cache/models/apr/small/"), "{location}");
    let there = get(&at(&hub, location), &[]);
    assert_eq!((there.text().as_str(), there.header("ETag")), ("# small\n", led.header("X-Linked-Etag")));
    // Without the query nothing is found.
    assert_eq!(get(&at(&hub, location.split('?').next().unwrap()), &[]).status, 400);
}

#[test]
fn a_large_file_is_on_the_second_port() {
    let hub = hub();
    let led = get(&at(&hub, "/apr/small/resolve/main/model.safetensors"), &[("Range", "bytes=0-9")]);
    assert_eq!((led.status, led.header("X-Linked-Size")), (302, Some("300000")));
    let location = led.header("Location").unwrap();
    assert_eq!(split(location).0, hub.cdn_port());
    let part = get(location, &[("Range", "bytes=299990-400000")]);
    assert_eq!((part.status, part.header("Content-Range")), (206, Some("bytes 299990-299999/300000")));
    assert_eq!(part.header("ETag"), led.header("X-Linked-Etag"));
    let token = [("Authorization", "Bearer hf_reader")];
    assert_eq!(get(location, &token).status, 400);
    assert_eq!(get(&location.replace("Signature=", "Signature=0"), &[]).status, 403);
    let seen = hub.log().requests_to(hub.cdn_port());
    assert_eq!(seen.iter().map(|seen| seen.authorized).collect::<Vec<_>>(), [false, true, false]);
    let xet = head(&at(&hub, "/apr/xet/resolve/main/model.safetensors"), &[]);
    assert_eq!(xet.header("X-Xet-Hash").unwrap().len(), 64);
    assert!(xet.header("Link").unwrap().ends_with("; rel=\"xet-auth\""));
}

/// A new signed address.
fn signed(hub: &Hub) -> String {
    let led = head(&at(hub, "/apr/small/resolve/main/model.safetensors"), &[]);
    led.header("Location").unwrap().to_owned()
}

#[test]
fn signed_addresses_expire() {
    let twice = Behaviour { signed_uses: 2, ..Behaviour::default() };
    let hub = Hub::behaving(twice, samples::repositories());
    let (used, old) = (signed(&hub), signed(&hub));
    assert_eq!([0; 3].map(|_| get(&used, &[]).status), [200, 200, 403]);
    assert_eq!(get(&old, &[]).status, 200);
    hub.expire_signed();
    assert!(get(&old, &[]).text().contains("<Message>Request has expired</Message>"));
    assert_eq!(get(&signed(&hub), &[]).status, 200);
    let at_once = Behaviour { signed_for: Duration::ZERO, ..Behaviour::default() };
    let hub = Hub::behaving(at_once, samples::repositories());
    assert_eq!(get(&signed(&hub), &[]).status, 403);
}

#[test]
fn pages_are_linked_by_absolute_addresses() {
    let hub = Hub::behaving(Behaviour { page_len: 5, ..Behaviour::default() }, samples::repositories());
    let page = get(&at(&hub, "/api/models/apr/small/tree/main?recursive=true&expand=false"), &[]);
    let link = page.header("Link").unwrap();
    let next = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
    assert!(next.starts_with(hub.url()) && next.contains("recursive=true&expand=false"), "{next}");
    let last = get(next, &[]);
    assert_eq!(last.header("Link"), None);
    // Seven files and three folders.
    assert_eq!(page.json().as_array().unwrap().len() + last.json().as_array().unwrap().len(), 10);
}

#[test]
fn gzip_is_for_those_who_take_it() {
    let hub = hub();
    let url = at(&hub, "/apr/small/resolve/main/config.json");
    let range = ("Range", "bytes=0-3");
    let packed = get(&url, &[range, ("Accept-Encoding", "gzip, deflate")]);
    assert_eq!((packed.status, packed.header("Content-Encoding")), (200, Some("gzip")));
    assert_eq!(packed.header("Content-Range"), None);
    let plain = get(&url, &[range, ("Accept-Encoding", "identity")]);
    assert_eq!((plain.status, plain.header("Content-Encoding")), (206, None));
}

#[test]
fn a_renamed_repository_leads_to_its_name() {
    let hub = hub();
    let file = get(&at(&hub, "/apr/tiny/resolve/main/config.json?x=1"), &[]);
    assert_eq!(
        (file.status, file.header("Location")),
        (307, Some("/apr/small/resolve/main/config.json?x=1"))
    );
    let info = get(&at(&hub, "/api/models/apr/tiny?blobs=true"), &[]);
    assert_eq!(info.header("Location").unwrap(), at(&hub, "/api/models/apr/small?blobs=true"));
}

#[test]
fn outages_wear_off() {
    let hub = hub();
    hub.fail(Outage::status("/resolve/", 2, 503));
    hub.fail(Outage::rationed("/resolve/", 1, 55));
    hub.fail(Outage::retry_after("/api/", 1, 429, 7));
    let url = at(&hub, "/apr/small/resolve/main/config.json");
    assert_eq!([0; 2].map(|_| get(&url, &[]).status), [503, 503]);
    let rationed = get(&url, &[]);
    assert_eq!((rationed.status, rationed.header("RateLimit")), (429, Some("\"resolvers\";r=0;t=55")));
    let fine = get(&url, &[]);
    assert_eq!((fine.status, fine.header("RateLimit")), (200, Some("\"resolvers\";r=499;t=300")));
    assert_eq!(get(&at(&hub, "/api/models/apr/small"), &[]).header("Retry-After"), Some("7"));
    assert_eq!(get(&at(&hub, "/api/models/apr/small"), &[]).status, 200);
}

#[test]
fn a_hub_changes_and_misbehaves() {
    let hub = hub();
    let url = at(&hub, "/apr/new/resolve/main/model.gguf");
    assert_eq!(get(&url, &[]).status, 401);
    let content = Content::pattern(5000, 1);
    hub.put(Repository::model(
        "apr/new",
        vec![File::lfs("model.gguf", content.clone()), File::git("a", "b")],
    ));
    let location = || head(&url, &[]).header("Location").unwrap().to_owned();
    assert_eq!(get(&location(), &[]).body, content.whole());
    hub.misbehave_at_cdn(Habit::Stalling(Stall::closes_after(10, When::First(1))));
    assert_eq!([0; 2].map(|_| get(&location(), &[]).body.len()), [10, 5000]);
    hub.misbehave_at_front(Habit::Lying(Lie::Html));
    assert!(get(&at(&hub, "/apr/new/resolve/main/a"), &[]).text().starts_with("<!DOCTYPE html>"));
    hub.remove("apr/new");
    assert_eq!(get(&url, &[]).status, 401);
}

#[test]
fn a_mirror_loses_headers_and_leads_elsewhere() {
    let hub = hub();
    let led = || head(&at(&hub, "/apr/small/resolve/main/model.safetensors"), &[]);
    hub.set_header("X-Repo-Commit", None);
    hub.set_header("X-HF-Warning", Some("token; it is old"));
    hub.lead_large_to(Some("http://10.0.0.1/file"));
    let lost = led();
    assert_eq!((lost.header("X-Repo-Commit"), lost.header("X-Linked-Size")), (None, Some("300000")));
    assert_eq!(lost.header("X-HF-Warning"), Some("token; it is old"));
    assert_eq!(lost.header("Location"), Some("http://10.0.0.1/file"));
    hub.lead_large_to(None);
    assert_eq!(split(led().header("Location").unwrap()).0, hub.cdn_port());
}
