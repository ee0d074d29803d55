//! Servers that lie, stall and fail: either what comes is right after all, or an error says what is wrong, and nothing is
//! left that could be taken for the model.

use std::sync::Mutex;
use std::thread;

use super::models::{alone, safetensors, single, web};
use super::program::{Ended, Machine, complaint};
use super::server::encoding::sha256;
use super::server::hub::{Behaviour, Outage};
use super::server::{Content, FileServer, Habit, Hub, Lie, Stall, When};

/// What has to come of a road.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// Success, with the right bytes.
    Right,
    /// Failure with this exit code, and these words.
    Fails(i32, &'static [&'static str]),
}

use Outcome::{Fails, Right};

/// Longer than the first request, so that there are others.
fn model() -> Content {
    safetensors("layer", 3, 5000, 3)
}

/// The ways by which a model comes in.
#[derive(Clone, Copy, Debug)]
enum Road {
    /// Into the cache.
    Pull,
    /// Into the cache, and through it.
    Convert,
    /// From the hub, with nothing kept.
    Stream,
    /// From another server, with a digest.
    Https,
    /// Its header alone, from another server.
    Inspect,
}

const ROADS: [Road; 5] = [Road::Pull, Road::Convert, Road::Stream, Road::Https, Road::Inspect];

/// One server of each sort, whose model is served in one habit.
struct Servers {
    hub: Hub,
    https: FileServer,
    content: Content,
    converted: Vec<u8>,
}

impl Servers {
    fn new() -> Self {
        let content = model();
        let machine = Machine::new();
        machine.write("model.safetensors", content.whole());
        machine.ok(&["convert", "model.safetensors", "out.gguf", "--arch", "none"]);
        let converted = std::fs::read(machine.at("out.gguf")).unwrap();
        let hub = Hub::start(vec![alone("apr/model", &content)]);
        let https = web(Habit::Honest, &content);
        Self { hub, https, content, converted }
    }

    /// Takes a road while the model is served in a habit; what is wrong with what came of it, if something is.
    fn take(&self, road: Road, habit: Habit, outcome: Outcome, impatient: bool) -> Option<String> {
        self.hub.misbehave_at_cdn(habit.clone());
        self.https.take_up(habit);
        let machine = Machine::of(&self.hub);
        let machine = if impatient { machine.impatient() } else { machine };
        let before = machine.cached();
        let ended = self.run(&machine, road);
        let wrong = self.judged(&machine, road, &ended, outcome);
        let wrong = wrong.or_else(|| {
            let left = machine.left();
            (ended.code != 0 && !left.is_empty()).then(|| format!("it left {left:?}"))
        });
        let wrong = wrong.or_else(|| {
            // What failed leaves the cache as it was, but for what was noted of the model and what is continued.
            let is_noted = |name: &str| {
                ["refs/", "trees/", ".apr.", "CACHEDIR.TAG"].iter().any(|part| name.contains(part))
                    || name.ends_with("README.md")
                    || name.ends_with("config.json")
            };
            let large = sha256(&self.content.whole());
            let is_added = |(name, sum): &(&String, &String)| {
                !before.contains_key(*name)
                    && !is_noted(name)
                    && ended.code != 0
                    && (name.contains(&large) || **sum == large || name.ends_with("model.safetensors"))
            };
            let cached = machine.cached();
            cached.iter().find(is_added).map(|(name, _)| format!("the cache has {name}"))
        });
        wrong.map(|wrong| {
            format!("{road:?}: {wrong}\n    {}", ended.stderr.trim_end().replace('\n', "\n    "))
        })
    }

    fn run(&self, machine: &Machine, road: Road) -> Ended {
        let hf = "hf://apr/model/model.safetensors";
        let url = self.https.url_of("model.safetensors");
        let right = sha256(&self.content.whole());
        match road {
            Road::Pull => machine.run(&["pull", "hf://apr/model"]),
            Road::Convert => machine.run(&["convert", hf, "out.gguf", "--arch", "none"]),
            Road::Stream => machine.run(&["convert", hf, "out.gguf", "--arch", "none", "--no-cache"]),
            Road::Https => machine.run(&["convert", &url, "out.gguf", "--arch", "none", "--sha256", &right]),
            Road::Inspect => machine.run(&["inspect", &url]),
        }
    }

    fn judged(&self, machine: &Machine, road: Road, ended: &Ended, outcome: Outcome) -> Option<String> {
        match outcome {
            Fails(code, words) => return complaint(ended, code, words),
            Right if ended.code != 0 => return Some(format!("it fails ({})", ended.code)),
            Right => {}
        }
        let bytes = match road {
            Road::Inspect => return None,
            Road::Pull => {
                let blob = sha256(&self.content.whole());
                std::fs::read(machine.cache().join("models--apr--model/blobs").join(blob)).unwrap_or_default()
            }
            _ => std::fs::read(machine.at("out.gguf")).unwrap_or_default(),
        };
        let right = match road {
            Road::Pull => self.content.whole(),
            _ => self.converted.clone(),
        };
        (bytes != right).then(|| format!("the result is wrong: {} bytes", bytes.len()))
    }
}

/// Takes roads in habits, several at a time, and lists what went wrong.
fn judge(cases: Vec<(Habit, Vec<(Road, Outcome)>)>, impatient: bool) {
    let failures = Mutex::new(Vec::new());
    let cases = Mutex::new(cases);
    thread::scope(|scope| {
        // Who waits for a timeout keeps no processor busy.
        for _ in 0..if impatient { 10 } else { 3 } {
            scope.spawn(|| {
                let servers = Servers::new();
                while let Some((habit, roads)) = { cases.lock().unwrap().pop() } {
                    for (road, outcome) in roads {
                        let wrong = servers.take(road, habit.clone(), outcome, impatient);
                        let wrong = wrong.map(|wrong| format!("{habit:?} by {wrong}"));
                        failures.lock().unwrap().extend(wrong);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn all(outcome: Outcome) -> Vec<(Road, Outcome)> {
    ROADS.map(|road| (road, outcome)).to_vec()
}

#[test]
fn lies_are_found_or_do_no_harm() {
    const ANOTHER: Outcome = Fails(1, &["another range than was asked for"]);
    const CHANGED: Outcome =
        Fails(1, &["the file changed while it was being read: it was ETag", "ETag another"]);
    const DIGEST: Outcome = Fails(5, &["SHA-256", "E004"]);
    const UNLISTED: Outcome = Fails(1, &["the hub gives another file than it lists"]);
    const PAGE: Outcome = Fails(4, &["a web page"]);
    const POINTER: Outcome = Fails(4, &["Git LFS pointer"]);
    const UNKNOWN: Outcome = Fails(4, &["the contents are not"]);
    const ZEROS: Outcome = Fails(4, &["starts with zeros"]);
    // In the order of `ROADS`: pull, convert, stream, https, inspect.
    let lies = [
        (Lie::TooLong(100), [Right; 5]),
        (Lie::TooShort(100), [Fails(1, &["the transfer from `127.0.0.1` broke off"]); 5]),
        (Lie::LongPart(100), [Right; 5]),
        (Lie::ClippedPart(100), [ANOTHER; 5]),
        // All of it is read first, and apr says so.
        (Lie::IgnoresRange, [Right; 5]),
        (Lie::WrongStart(7), [ANOTHER; 5]),
        (Lie::ShiftedPart(7), [DIGEST, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]),
        (Lie::WrongTotal(9), [UNLISTED, ANOTHER, ANOTHER, ANOTHER, ANOTHER]),
        (Lie::NoTotal, [ANOTHER; 5]),
        (Lie::NoContentRange, [ANOTHER; 5]),
        (Lie::Gzip, [Fails(1, &["compresses the file (gzip) unasked"]); 5]),
        (Lie::NoLength, [Right; 5]),
        (Lie::Chunked, [Right; 5]),
        (Lie::ChangedAfter(1), [CHANGED; 5]),
        (Lie::SecretlyChangedAfter(1), [DIGEST, DIGEST, DIGEST, DIGEST, Right]),
        (Lie::RetaggedAfter(1), [CHANGED; 5]),
        (Lie::ShrunkAfter(1, 1000), [CHANGED; 5]),
        (Lie::Pointer, [UNLISTED, POINTER, POINTER, DIGEST, POINTER]),
        (Lie::Html, [UNLISTED, PAGE, PAGE, DIGEST, PAGE]),
        (Lie::DisguisedHtml, [UNLISTED, PAGE, PAGE, DIGEST, PAGE]),
        (Lie::JsonError, [UNLISTED, UNKNOWN, UNKNOWN, DIGEST, UNKNOWN]),
        (Lie::EndlessHeaders, [Fails(1, &["headers"]); 5]),
        (Lie::OtherBytes, [DIGEST, DIGEST, DIGEST, DIGEST, Right]),
        (Lie::Zeros, [DIGEST, ZEROS, ZEROS, ZEROS, ZEROS]),
        (Lie::Unsatisfiable, [Fails(1, &["no such range of the file (416)"]); 5]),
        (Lie::NoHead, [Right; 5]),
    ];
    let of = |outcomes: [Outcome; 5]| ROADS.into_iter().zip(outcomes).collect();
    judge(lies.into_iter().map(|(lie, outcomes)| (Habit::Lying(lie), of(outcomes))).collect(), false);
}

#[test]
fn lines_that_break_are_made_again() {
    let first = [1, 3].map(When::First);
    let mut stalls = vec![
        Stall::resets_after(300_000, When::Always),
        Stall::closes_after(300_000, When::Always),
        Stall::resets_after(500_000, When::FirstConnection),
    ];
    stalls.extend(
        first.iter().flat_map(|when| [Stall::resets_after(0, *when), Stall::closes_after(70_000, *when)]),
    );
    judge(stalls.into_iter().map(|stall| (Habit::Stalling(stall), all(Right))).collect(), false);
}

#[test]
fn lines_that_stay_broken_end_in_an_error() {
    let stalls = [
        Stall::resets_after(0, When::Always),
        Stall::closes_after(0, When::Always),
        Stall::silent(),
        Stall::stops_after(0),
        Stall::resets_after(0, When::AtByte(1000)),
    ];
    let cases = stalls.into_iter().flat_map(|stall| {
        // Each takes as long as all attempts together.
        ROADS.map(|road| (Habit::Stalling(stall), vec![(road, Fails(1, &["127.0.0.1"]))]))
    });
    judge(cases.collect(), true);
}

#[test]
fn a_line_that_hangs_once_is_made_again() {
    let stall = Stall { when: When::First(1), ..Stall::stops_after(200_000) };
    let cases = ROADS.map(|road| (Habit::Stalling(stall), vec![(road, Right)]));
    judge(cases.to_vec(), true);
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let server = FileServer::mute();
    let url = server.url_of("model.gguf");
    Machine::new().impatient().fails(&["inspect", &url], 1, &["127.0.0.1", "did not answer in time"]);
}

#[test]
fn a_port_without_a_server_is_named() {
    let url = FileServer::honest(Content::bytes("")).url_of("model.gguf");
    Machine::new().fails(&["inspect", &url], 1, &["cannot reach `127.0.0.1`"]);
    let hub = Hub::start(vec![]).url().to_owned();
    Machine::new().with("HF_ENDPOINT", hub).fails(&["inspect", "hf://a/b"], 1, &["hf://a/b", "127.0.0.1"]);
}

#[test]
fn failures_that_pass_are_tried_again_and_said() {
    let outages = [
        Outage::status("/resolve/", 2, 503),
        Outage::status("/api/", 2, 500),
        Outage::status("/api/", 1, 502),
        Outage::status("/repos/", 3, 504),
        Outage::status("/resolve/", 1, 408),
        Outage::status("/repos/", 2, 429),
        Outage::retry_after("/resolve/", 2, 503, 0),
        Outage::rationed("/resolve/", 1, 0),
        // A signed address that has expired is asked for anew.
        Outage::status("/repos/", 1, 403),
    ];
    let content = model();
    let hub = Hub::start(vec![single("apr/model", &content)]);
    for outage in outages {
        let machine = Machine::of(&hub);
        hub.fail(outage.clone());
        let ended = machine.ok(&["pull", "hf://apr/model", "--progress", "json"]);
        let blob = machine.cache().join("models--apr--model/blobs").join(sha256(&content.whole()));
        assert!(std::fs::read(blob).unwrap() == content.whole(), "{outage:?}");
        let status = outage.status.to_string();
        assert!(outage.status == 403 || ended.stderr.contains(&status), "{outage:?}: {}", ended.stderr);
    }
}

#[test]
fn failures_that_stay_end_in_words_that_help() {
    let busy = "there were too many requests";
    let cases: [(Outage, &[&str]); 6] = [
        (Outage::status("/resolve/", 99, 503), &["failed (503)", "try again later"]),
        (Outage::status("/api/", 99, 500), &["failed (500)"]),
        (Outage::status("/repos/", 99, 504), &["failed (504)"]),
        (Outage::status("/repos/", 99, 403), &["forbids it (403)"]),
        (Outage::status("/resolve/", 99, 429), &[busy, "wait"]),
        // Nobody is kept waiting for an hour.
        (Outage::retry_after("/resolve/", 99, 429, 3600), &["status 429", "3600 s"]),
    ];
    for (outage, words) in cases {
        let hub = Hub::start(vec![single("apr/model", &model())]);
        let machine = Machine::of(&hub);
        hub.fail(outage.clone());
        let ended = machine.run(&["pull", "hf://apr/model"]);
        let wrong = complaint(&ended, 1, words);
        assert!(wrong.is_none(), "{outage:?}: {}: {}", wrong.unwrap(), ended.stderr);
        let n = hub.log().requests().iter().filter(|seen| seen.path.contains(&outage.of)).count();
        assert!(n <= 3 * 6 * 2, "{outage:?}: {n} requests");
    }
}

#[test]
fn signed_addresses_that_serve_once_are_asked_for_anew() {
    let content = safetensors("layer", 3, 50_000, 3);
    let behaviour = Behaviour { signed_uses: 1, ..Behaviour::default() };
    let hub = Hub::behaving(behaviour, vec![single("apr/model", &content)]);
    let machine = Machine::of(&hub);
    machine.ok(&["pull", "hf://apr/model"]);
    let blob = machine.cache().join("models--apr--model/blobs").join(sha256(&content.whole()));
    assert!(std::fs::read(blob).unwrap() == content.whole());
}
