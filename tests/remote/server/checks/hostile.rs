//! A hostile hub is as hostile as it says.

use serde_json::{Value, json};

use super::super::hostile_hub::PATHS;
use super::super::{HostileHub, Listing, Options};
use super::{Answer, get};

fn hub(listing: Listing) -> HostileHub {
    HostileHub::start(Options::default(), listing)
}

fn info(hub: &HostileHub) -> Answer {
    get(&format!("{}/api/models/evil/model?blobs=true", hub.url()), &[])
}

fn tree(hub: &HostileHub, query: &str) -> Answer {
    get(&format!("{}/api/models/evil/model/tree/main?{query}", hub.url()), &[])
}

/// The address in the header of the next page.
fn next(page: &Answer) -> String {
    let link = page.header("Link").unwrap();
    link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_owned()
}

fn paths(entries: &Value, key: &str) -> Vec<String> {
    entries.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn names_stand_in_both_listings() {
    let wanted: Vec<_> = PATHS.iter().map(|(_, path)| (*path).to_owned()).collect();
    let hub = hub(Listing::Paths(wanted.clone()));
    assert_eq!(paths(&info(&hub).json()["siblings"], "rfilename")[2..], wanted);
    assert_eq!(paths(&tree(&hub, "recursive=true").json(), "path")[2..], wanted);
    let file = get(&format!("{}/evil/model/resolve/main/%2e%2e/escaped", hub.url()), &[]);
    assert_eq!(file.text(), "payload of a hostile hub");
    assert_eq!(file.header("X-Repo-Commit").unwrap().len(), 40);
}

#[test]
fn a_long_listing_has_every_entry_once() {
    let long = hub(Listing::Long { entries: 1000, page_len: 400 });
    let siblings = paths(&info(&long).json()["siblings"], "rfilename");
    assert_eq!((siblings.len(), siblings[999].as_str()), (1000, "00000000000000000999.bin"));
    let mut page = tree(&long, "recursive=true");
    let mut listed = paths(&page.json(), "path");
    while page.header("Link").is_some() {
        page = get(&next(&page), &[]);
        listed.extend(paths(&page.json(), "path"));
    }
    assert_eq!(listed, siblings);
}

#[test]
fn a_million_entries_are_sent() {
    let long = hub(Listing::Long { entries: 1_000_000, page_len: 1_000_000 });
    let page = tree(&long, "recursive=true");
    assert_eq!(page.cut, None);
    assert!(page.body.ends_with(b" ]") && page.body.len() > 100 << 20);
    let last = page.body.len() - 200..page.body.len();
    assert!(String::from_utf8_lossy(&page.body[last]).contains("\"path\":\"00000000000000999999.bin\""));
}

#[test]
fn pages_lead_on_for_ever_or_back_or_away() {
    let endless = hub(Listing::Endless);
    let first = tree(&endless, "recursive=true");
    let second = get(&next(&first), &[]);
    assert_eq!(paths(&second.json(), "path"), ["1.bin"]);
    assert_ne!(next(&first), next(&second));
    let looped = hub(Listing::SelfLinked);
    let page = tree(&looped, "recursive=true");
    assert_eq!(next(&page), format!("{}/api/models/evil/model/tree/main?recursive=true", looped.url()));
    let away = "http://127.0.0.1:9/steal";
    assert_eq!(next(&tree(&hub(Listing::ForeignLink(away.to_owned())), "")), away);
}

#[test]
fn answers_are_whatever_they_were_told_to_be() {
    assert_eq!(info(&hub(Listing::Json(json!({ "siblings": 3 })))).json()["siblings"], 3);
    assert_eq!(tree(&hub(Listing::Deep(100_000)), "").body.len(), 200_000);
    let commit = hub(Listing::Commit("../../x".to_owned()));
    assert_eq!(info(&commit).json()["sha"], "../../x");
    assert_eq!(tree(&commit, "").header("X-Repo-Commit"), Some("../../x"));
    let shards = hub(Listing::Shards(vec!["http://127.0.0.1:9/shard".to_owned()]));
    let index = get(&format!("{}/evil/model/resolve/main/model.safetensors.index.json", shards.url()), &[]);
    assert_eq!(index.json()["weight_map"]["tensor.0"], "http://127.0.0.1:9/shard");
    for listing in [HostileHub::twins(), HostileHub::clashes()] {
        assert_eq!(info(&hub(listing)).json()["siblings"].as_array().unwrap().len(), 6);
    }
}
