//! What a hub refuses, in words that help; and what nobody should believe of a hub.

use serde_json::json;

use super::models::{safetensors, single};
use super::program::{Machine, complaint, files_below};
use super::server::hostile_hub::PATHS;
use super::server::hub::{File, Outage, Repository, samples};
use super::server::{Content, HostileHub, Hub, Listing, Options};

#[test]
fn refusals_say_what_to_do() {
    let hub = Hub::start(samples::repositories());
    hub.allow_token(samples::STRANGER);
    let login = "hf auth login";
    // Token, model, exit code, words.
    let cases: [(&str, &str, i32, &[&str]); 17] = [
        ("", "hf://apr/gated-auto", 1, &["on request", "terms", login]),
        ("", "hf://apr/gated-manual", 1, &["on request", login]),
        (samples::STRANGER, "hf://apr/gated-auto", 1, &["not in the authorized list", "terms"]),
        (samples::FINE_GRAINED, "hf://apr/gated-auto", 1, &["fine-grained token"]),
        ("", "hf://apr/private", 3, &["no such model, or it is private", login]),
        (samples::STRANGER, "hf://apr/private", 3, &["no such model, or it is private"]),
        ("", "hf://apr/missing", 3, &["no such model", "check the name"]),
        ("hf_wrong", "hf://apr/small", 1, &["does not accept the token", login]),
        ("", "hf://apr/disabled", 1, &["disabled"]),
        ("", "hf://apr/small@nothing", 3, &["no such revision", "`@`"]),
        ("", "hf://apr/small/nothing.gguf", 3, &["no such file"]),
        ("", "hf://datasets/apr/data", 4, &["this is a dataset of the hub", "hf://org/name"]),
        ("", "hf://spaces/apr/space", 4, &["this is a space of the hub"]),
        ("", "hf://apr", 2, &["owner", "hf://org/name"]),
        ("", "hf://apr/small@../x", 2, &["revision"]),
        ("", "hf://apr/small/../../etc/passwd", 4, &["`../../etc/passwd`"]),
        ("", "s3://bucket/model", 4, &["`s3://`", "hf://"]),
    ];
    let mut failures = Vec::new();
    for (token, model, code, words) in cases {
        let machine = Machine::of(&hub).with("HF_TOKEN", token);
        for args in [&["pull", model][..], &["inspect", model], &["convert", model, "out.gguf"]] {
            let ended = machine.run(args);
            let words = [words, &["apr/", "hf_"][..0]].concat();
            let wrong = complaint(&ended, code, &words);
            let wrong =
                wrong.or_else(|| (!machine.left().is_empty()).then(|| format!("{:?}", machine.left())));
            failures.extend(wrong.map(|wrong| format!("{args:?} as `{token}`: {wrong}: {}", ended.stderr)));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn readers_read() {
    let hub = Hub::start(samples::repositories());
    for name in ["gated-auto", "gated-manual", "private"] {
        let machine = Machine::of(&hub).with("HF_TOKEN", samples::READER);
        let ended = machine.ok(&["pull", &format!("hf://apr/{name}"), "-o", "folder"]);
        let what = if name == "private" { name.to_owned() } else { format!("apr/{name}") };
        let readme = std::fs::read_to_string(machine.at("folder/README.md")).unwrap();
        assert_eq!(readme, format!("# {what}\n"));
        // Terms that were accepted apply.
        assert_eq!(ended.stderr.contains("terms"), name != "private", "{}", ended.stderr);
    }
}

#[test]
fn the_number_of_a_request_is_said() {
    let hub = Hub::start(samples::repositories());
    Machine::of(&hub).fails(&["pull", "hf://apr/missing"], 3, &["Root=1-"]);
}

#[test]
fn a_hub_that_names_nothing_missing_is_understood() {
    let behaviour = super::server::hub::Behaviour { names_missing: false, ..Default::default() };
    let hub = Hub::behaving(behaviour, samples::repositories());
    Machine::of(&hub).fails(&["pull", "hf://apr/missing"], 3, &["no such model, or it is private"]);
}

#[test]
fn what_is_no_hub_is_named() {
    let hub = Hub::start(vec![single("apr/model", &safetensors("layer", 1, 10, 3))]);
    hub.set_header("X-Repo-Commit", None);
    let machine = Machine::of(&hub);
    machine.fails(&["pull", "hf://apr/model"], 1, &["X-Repo-Commit", "HF_ENDPOINT"]);
    machine.fails(&["inspect", "hf://apr/model/model.safetensors"], 1, &["X-Repo-Commit"]);
    for endpoint in ["nonsense", "file:///etc"] {
        let machine = Machine::new().with("HF_ENDPOINT", endpoint);
        machine.fails(&["pull", "hf://apr/model"], 2, &["HF_ENDPOINT", endpoint]);
    }
    // A page of a network that wants a login first.
    hub.set_header("X-Repo-Commit", Some(&"0".repeat(40)));
    hub.misbehave_at_front(super::server::Habit::Lying(super::server::Lie::Html));
    let ended = Machine::of(&hub).run(&["pull", "hf://apr/model"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
}

#[test]
fn a_failing_hub_is_no_missing_model() {
    let hub = Hub::start(samples::repositories());
    for (status, words) in [(410, "410"), (451, "451"), (418, "418")] {
        hub.fail(Outage::status("/api/", 1, status));
        let ended = Machine::of(&hub).run(&["pull", "hf://apr/small"]);
        assert!(ended.code != 0 && ended.stderr.contains(words), "{status}: {}", ended.stderr);
    }
}

/// Runs commands against a listing, of which nothing may come: neither a file, nor a crash, nor much memory or time.
fn refused(listing: &Listing, what: &str, code: i32, words: &[&str]) -> Vec<String> {
    let hub = HostileHub::start(Options::default(), listing.clone());
    let machine = Machine::new().with("HF_ENDPOINT", hub.url());
    let mut failures = Vec::new();
    for args in [
        &["pull", "hf://evil/model"][..],
        &["pull", "hf://evil/model", "-o", "out"],
        &["inspect", "hf://evil/model"],
    ] {
        let ended = machine.run(args);
        let wrong = complaint(&ended, code, words);
        failures.extend(wrong.map(|wrong| format!("{what}: {args:?}: {wrong}: {}", ended.stderr)));
    }
    let outside: Vec<_> = files_below(&machine.everything())
        .into_keys()
        .filter(|name| {
            !name.contains("models--evil--model/refs") && !name.contains("models--evil--model/trees")
        })
        .collect();
    if !outside.is_empty() {
        failures.push(format!("{what}: {outside:?} came of it"));
    }
    failures
}

#[test]
fn names_that_harm_are_refused() {
    let mut failures = Vec::new();
    // A percent is a character like another: nothing is decoded on the way to a path.
    for (case, path) in PATHS.into_iter().filter(|(case, _)| *case != "climbs in percent") {
        failures.extend(refused(&Listing::Paths(vec![path.to_owned()]), case, 4, &["evil/model"]));
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn listings_that_harm_are_refused() {
    let listings = [
        (Listing::Long { entries: 1_000_000, page_len: 1000 }, 4),
        (Listing::Json(json!([])), 4),
        (Listing::Json(json!({})), 4),
        (Listing::Json(json!({ "sha": 5, "siblings": {} })), 4),
        (Listing::Json(json!("x".repeat(100_000))), 4),
        (Listing::Deep(100_000), 4),
        (Listing::Commit("../../../escaped".to_owned()), 4),
        (Listing::Commit("main".to_owned()), 4),
        (Listing::Commit(String::new()), 4),
        (HostileHub::clashes(), 4),
    ];
    let mut failures = Vec::new();
    for (listing, code) in listings {
        failures.extend(refused(&listing, &format!("{listing:.60?}"), code, &["evil/model"]));
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn pages_without_end_are_not_turned() {
    for listing in
        [Listing::Endless, Listing::SelfLinked, Listing::ForeignLink("http://127.0.0.1:1/next".to_owned())]
    {
        let hub = HostileHub::start(Options::default(), listing.clone());
        let machine = Machine::new().with("HF_ENDPOINT", hub.url());
        machine.ok(&["pull", "hf://evil/model", "--include", "model.safetensors"]);
        assert!(hub.log().lines().len() <= 20, "{listing:?}: {:#?}", hub.log().lines());
    }
}

#[test]
fn shards_are_files_of_the_repository() {
    let content = safetensors("layer", 1, 10, 3);
    for shard in [
        "https://elsewhere.example/x",
        "../../../escaped",
        "/etc/passwd",
        "hf://apr/other/x",
        "a\\b",
        "",
        "missing.safetensors",
    ] {
        let index = json!({ "metadata": {}, "weight_map": { "layer.0": shard } }).to_string();
        let files = vec![
            File::git("model.safetensors.index.json", index),
            File::lfs("other.safetensors", content.clone()),
        ];
        let hub = Hub::start(vec![Repository::model("apr/model", files)]);
        let machine = Machine::of(&hub);
        for model in ["hf://apr/model", "hf://apr/model/model.safetensors.index.json"] {
            let ended = machine.run(&["convert", model, "out.gguf", "--arch", "none"]);
            assert!(matches!(ended.code, 3 | 4), "{shard}: {}: {}", ended.code, ended.stderr);
            assert!(
                complaint(&ended, ended.code, &["model.safetensors.index.json"]).is_none(),
                "{shard}: {}",
                ended.stderr
            );
            assert_eq!(machine.left(), [""; 0], "{shard}");
        }
        let lines = hub.log().lines();
        assert!(lines.iter().all(|line| !line.contains("escaped") && !line.contains("passwd")), "{lines:#?}");
    }
}

#[test]
fn several_models_in_a_repository_are_listed_with_their_sizes() {
    let weights = |name: &str, seed| File::lfs(name, safetensors("layer", 1, 1000, seed));
    let quantized = |name: &str, seed| File::lfs(name, Content::pattern(5000, seed));
    let repositories = vec![
        Repository::model("apr/same", vec![weights("one.safetensors", 1), weights("two.safetensors", 2)]),
        Repository::model("apr/types", vec![quantized("m-Q4_0.gguf", 1), quantized("m-Q8_0.gguf", 2)]),
        Repository::model("apr/mixed", vec![weights("one.safetensors", 1), quantized("m-Q8_0.gguf", 2)]),
    ];
    let hub = Hub::start(repositories);
    let machine = Machine::of(&hub);
    let cases: [(&str, i32, &[&str]); 3] = [
        ("hf://apr/same", 2, &["one.safetensors", "two.safetensors", "256 kB"]),
        ("hf://apr/types", 2, &["m-Q4_0.gguf", "m-Q8_0.gguf", "5.00 kB"]),
        ("hf://apr/mixed", 4, &["one.safetensors", "m-Q8_0.gguf", "256 kB", "5.00 kB"]),
    ];
    let mut failures = Vec::new();
    for (model, code, words) in cases {
        let ended = machine.run(&["inspect", model]);
        failures.extend(
            complaint(&ended, code, words).map(|wrong| format!("{model}: {wrong}: {}", ended.stderr)),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
