//! How much is asked for: as few requests, and as few bytes, as the question needs.

use std::time::Duration;

use super::models::{gguf, safetensors, sharded, single};
use super::program::Machine;
use super::server::hub::{Behaviour, File, Repository};
use super::server::{Content, FileServer, Hub, Log, Pace};

/// A round trip, so that what is asked for side by side is seen to be.
fn unhurried(repositories: Vec<Repository>) -> Hub {
    let pace = Pace::round_trip(Duration::from_millis(20));
    Hub::behaving(Behaviour { pace, cdn_pace: pace, ..Behaviour::default() }, repositories)
}

fn sent(log: &Log) -> u64 {
    log.requests().iter().map(|seen| seen.sent).sum()
}

#[test]
fn a_header_of_12_mb_before_100_gb_takes_three_requests() {
    let content = gguf(12_000_000, 100_000_000_000).declaring(Some(&"5".repeat(64)));
    let hub = unhurried(vec![Repository::model("apr/large", vec![File::lfs("large.gguf", content.clone())])]);
    let machine = Machine::of(&hub);
    let ended = machine.ok(&["inspect", "hf://apr/large/large.gguf", "--json"]);
    assert_eq!(ended.json()["tensor_count"], 10, "{}", ended.text());
    let lines = hub.log().lines();
    assert!(lines.len() <= 3, "{lines:#?}");
    // Behind https there is no redirect.
    let server = FileServer::honest(content);
    machine.ok(&["inspect", &server.url_of("large.gguf")]);
    assert!(server.log().lines().len() <= 2, "{:#?}", server.log().lines());
}

#[test]
fn a_repository_of_30_files_takes_a_listing_an_index_and_two_requests_a_file() {
    let hub = unhurried(vec![sharded("apr/sharded", 30, 4_000_000)]);
    let ended = Machine::of(&hub).ok(&["inspect", "hf://apr/sharded", "--json"]);
    assert_eq!(ended.json()["tensor_count"], 30, "{}", ended.text());
    let lines = hub.log().lines();
    let of = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(of("/api/models/"), 1, "{lines:#?}");
    assert!(of("index.json") <= 2, "{lines:#?}");
    assert_eq!(of("/resolve/"), 31, "{lines:#?}");
    assert!(lines.len() <= 1 + 2 + 2 * 30, "{lines:#?}");
    assert!(hub.log().most_at_once() >= 4, "at most {} at once", hub.log().most_at_once());
    // Headers were read, and next to nothing of 30 GB.
    assert!(sent(hub.log()) <= 32 << 20, "{} bytes", sent(hub.log()));
}

#[test]
fn a_slice_takes_the_header_and_at_most_a_mebibyte() {
    let content = safetensors("weight", 4, 4_000_000, 1).declaring(Some(&"6".repeat(64)));
    let local = safetensors("weight", 4, 4_000_000, 1).at(content.len() - 256, 16);
    let hub = Hub::start(vec![single("apr/slices", &content)]);
    let machine = Machine::of(&hub);
    let slice = "weight.3[-1, 0:4]";
    let ended = machine.ok(&["tensors", "hf://apr/slices/model.safetensors", slice, "--json"]);
    let first = f32::from_le_bytes(local[..4].try_into().unwrap());
    assert!(ended.text().contains(&format!("{first}")), "{first}: {}", ended.text());
    // Nobody knows the length of a header before: the first read takes a mebibyte.
    let large = hub.log().sent_by(hub.cdn_port());
    assert!(large <= (1 << 20) + (1 << 20), "{large} bytes: {:#?}", hub.log().lines());
}

#[test]
fn what_is_not_read_is_not_asked_for() {
    let content = safetensors("weight", 2, 1000, 1);
    let mut repository = single("apr/many", &content);
    let more = (0..500).map(|n| File::git(&format!("more/{n}.txt"), format!("{n}")));
    repository.snapshots[0].files.extend(more);
    let hub = Hub::start(vec![repository]);
    Machine::of(&hub).ok(&["inspect", "hf://apr/many/model.safetensors"]);
    let lines = hub.log().lines();
    assert!(lines.iter().all(|line| !line.contains("/more/")), "{:#?}", &lines[..20.min(lines.len())]);
    assert!(lines.len() <= 6, "{lines:#?}");
}

#[test]
fn an_empty_file_and_one_of_a_byte_are_no_models() {
    for content in [Content::bytes(""), Content::bytes("x")] {
        let server = FileServer::honest(content);
        let machine = Machine::new();
        machine.fails(&["inspect", &server.url_of("model.gguf")], 4, &["model.gguf"]);
        assert!(server.log().lines().len() <= 3, "{:#?}", server.log().lines());
    }
}
