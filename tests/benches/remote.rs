//! Models from elsewhere, from servers on this machine that answer after 20 ms and keep to a rate: requests and time of
//! looking into a model, and downloads beside `curl`.
//!
//! `cargo build --release && cargo bench -p apr-tests --bench remote [-- --rounds 3 --mib 1024 --only NAME]`
//!
//! The names: `header`, `shards`, `pull`, `parallel`, `convert`. Servers run in this process, on the same processors.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;
#[path = "../remote/server/mod.rs"]
#[allow(dead_code, unused_imports, reason = "a server has more to offer than one bench asks for")]
mod server;

use bench::{apr, argument, median, number, scratch, timed, verdict};
use server::hub::{Behaviour, File, Repository};
use server::{Content, Hub, Pace};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The round trip to every server.
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn main() {
    let only = argument("--only");
    let wants = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let (rounds, mib) = (number("--rounds", 3), number("--mib", 1024));
    println!("{} CPUs, {rounds} rounds, downloads of {mib} MiB", bench::cpus());
    if wants("header") {
        header();
    }
    if wants("shards") {
        shards();
    }
    if wants("pull") {
        pull(rounds, mib);
    }
    if wants("parallel") {
        parallel(rounds, mib / 4);
    }
    if wants("convert") {
        convert(rounds, mib);
    }
}

/// A hub whose files come from a second port at this pace.
fn hub(cdn_pace: Pace, repositories: Vec<Repository>) -> Hub {
    let behaviour = Behaviour { pace: Pace::round_trip(ROUND_TRIP), cdn_pace, ..Behaviour::default() };
    Hub::behaving(behaviour, repositories)
}

fn at_hub(hub: &Hub, home: &Path) -> Command {
    let mut command = Command::new(apr());
    command.env("HF_ENDPOINT", hub.url()).env("HF_HOME", home).stdout(Stdio::null());
    command
}

/// A file of 100 GB whose header, mostly of tokens, has about 12 MB.
fn header() {
    let head = large_header();
    let len = 100_000_000_000 / 64 * 64;
    let bytes = head.len();
    let file = File::lfs("m.gguf", Content::zeros(len).after(head).declaring(Some(&"a".repeat(64))));
    let hub = hub(Pace::round_trip(ROUND_TRIP), vec![Repository::model("org/large", vec![file])]);
    let home = scratch("remote-header");
    let mut times = Vec::new();
    for _ in 0..5 {
        hub.log().clear();
        times.push(timed(at_hub(&hub, &home).args(["inspect", "hf://org/large/m.gguf"])));
    }
    let requests = hub.log().requests().len();
    let local = home.join("m.gguf");
    std::fs::write(&local, large_header()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&local).unwrap().set_len(bytes as u64 + len).unwrap();
    let mut here: Vec<f64> =
        (0..5).map(|_| timed(Command::new(apr()).arg("inspect").arg(&local).stdout(Stdio::null()))).collect();
    let beyond = (median(&mut times) - median(&mut here)) * 1e3;
    println!(
        "header: {requests} requests for {:.1} MB of header; {beyond:.0} ms more than of a local file (targets 3, 250: {})",
        bytes as f64 / 1e6,
        verdict(requests <= 3 && beyond <= 250.0)
    );
}

/// A GGUF header with one tensor and a vocabulary.
fn large_header() -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    out.extend(b"GGUF");
    out.extend(3u32.to_le_bytes());
    out.extend(1u64.to_le_bytes());
    out.extend(2u64.to_le_bytes());
    text(&mut out, "general.architecture");
    out.extend(8u32.to_le_bytes());
    text(&mut out, "unknown");
    text(&mut out, "words");
    out.extend(9u32.to_le_bytes());
    out.extend(8u32.to_le_bytes());
    out.extend(400_000u64.to_le_bytes());
    (0..400_000).for_each(|n| text(&mut out, &format!("a longer word {n:08}")));
    text(&mut out, "weights");
    out.extend(1u32.to_le_bytes());
    out.extend((100_000_000_000u64 / 64 * 64).to_le_bytes());
    out.extend(24u32.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.resize(out.len().next_multiple_of(32), 0);
    out
}

/// A model in 30 files.
fn shards() {
    let mut files = Vec::new();
    let mut map = serde_json::Map::new();
    for n in 1..=30u64 {
        let name = format!("model-{n:05}-of-00030.safetensors");
        let header =
            format!(r#"{{"t{n}":{{"dtype":"F32","shape":[1024,1024],"data_offsets":[0,4194304]}}}}"#);
        let head = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let content = Content::zeros(4_194_304).after(head).declaring(Some(&format!("{n:064x}")));
        files.push(File::lfs(&name, content));
        map.insert(format!("t{n}"), name.into());
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    files.push(File::git("model.safetensors.index.json", index.to_string()));
    let hub = hub(Pace::round_trip(ROUND_TRIP), vec![Repository::model("org/shards", files)]);
    let home = scratch("remote-shards");
    let mut times = Vec::new();
    for _ in 0..5 {
        hub.log().clear();
        times.push(timed(at_hub(&hub, &home).args(["inspect", "hf://org/shards"])));
    }
    let requests = hub.log().requests().len();
    let seconds = median(&mut times);
    println!(
        "shards: {requests} requests, {:.0} ms (targets 1 + 2 + 60, 800: {})",
        seconds * 1e3,
        verdict(requests <= 63 && seconds <= 0.8)
    );
}

/// A model of one large file, whose values are small and finite BF16.
fn model(mib: u64) -> (Repository, u64) {
    let header = bench::safetensors_header(mib / 8, 8 << 20, "BF16", "[2048,2048]");
    let payload = (mib / 8) * (8 << 20);
    let content = Content::generated(payload, |offset, len| {
        let word = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).to_le_bytes();
        let first = offset / 2;
        let pairs = (first..(offset + len as u64).div_ceil(2)).flat_map(|at| {
            let [low, sign, ..] = word(at);
            [low, 0x3c | (sign & 0x80)]
        });
        pairs.skip((offset % 2) as usize).take(len).collect()
    });
    let content = content.after(header);
    let len = content.len();
    let mut hash = Sha256::new();
    let mut at = 0;
    while at < len {
        let piece = content.at(at, (len - at).min(8 << 20) as usize);
        hash.update(&piece);
        at += piece.len() as u64;
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = File::lfs("model.safetensors", content.declaring(Some(&digest)));
    (Repository::model("org/model", vec![file]), len)
}

fn sync(path: &Path) -> f64 {
    timed(Command::new("sync").arg(path))
}

/// The URL of the large file.
fn url(hub: &Hub) -> String {
    format!("{}/org/model/resolve/main/model.safetensors", hub.url())
}

/// Seconds in which curl writes the file, synced.
fn curl(hub: &Hub, to: &Path) -> f64 {
    let _ = std::fs::remove_file(to);
    timed(Command::new("curl").args(["-sL", "-o"]).arg(to).arg(url(hub))) + sync(to)
}

/// Seconds in which apr has it in its cache, synced.
fn pulled(hub: &Hub, home: &Path) -> f64 {
    let _ = std::fs::remove_dir_all(home);
    timed(at_hub(hub, home).args(["pull", "-q", "hf://org/model"])) + sync(&home.join("hub"))
}

/// A server with 300 MB/s in all.
fn pull(rounds: u64, mib: u64) {
    let (repository, len) = model(mib);
    let pace = Pace { total: Some(300_000_000), ..Pace::round_trip(ROUND_TRIP) };
    let hub = hub(pace, vec![repository]);
    let folder = scratch("remote-pull");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(curl(&hub, &folder.join("curl")));
        ours.push(pulled(&hub, &folder.join("home")));
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!(
        "pull: {:.0} MB/s, curl {:.0} MB/s, {:.2} times curl (target 0.9: {})",
        len as f64 / ours / 1e6,
        len as f64 / theirs / 1e6,
        theirs / ours,
        verdict(theirs / ours >= 0.9)
    );
}

/// A server with 30 MB/s for each connection.
fn parallel(rounds: u64, mib: u64) {
    let (repository, _) = model(mib);
    let pace = Pace { per_connection: Some(30_000_000), ..Pace::round_trip(ROUND_TRIP) };
    let hub = hub(pace, vec![repository]);
    let folder = scratch("remote-parallel");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(curl(&hub, &folder.join("curl")));
        ours.push(pulled(&hub, &folder.join("home")));
    }
    let ratio = median(&mut theirs) / median(&mut ours);
    println!("parallel: {ratio:.2} times curl's one connection (target 5: {})", verdict(ratio >= 5.0));
}

/// A server with 100 MB/s in all: quantizing on the way beside downloading alone.
fn convert(rounds: u64, mib: u64) {
    let (repository, len) = model(mib);
    let pace = Pace { total: Some(100_000_000), ..Pace::round_trip(ROUND_TRIP) };
    let hub = hub(pace, vec![repository]);
    let folder = scratch("remote-convert");
    let home = folder.join("home");
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(pulled(&hub, &home));
        let _ = std::fs::remove_dir_all(&home);
        let began = Instant::now();
        let output = folder.join("out.gguf");
        let mut command = at_hub(&hub, &home);
        command.args(["convert", "-q", "--force", "--arch", "none", "hf://org/model"]).arg(&output);
        timed(command.args(["--tensor-type", ".*=q4_K", "--quantize", "Q4_K_M"]));
        sync(&output);
        ours.push(began.elapsed().as_secs_f64());
    }
    let (ours, alone) = (median(&mut ours), median(&mut alone));
    println!(
        "convert: {len} bytes quantized in {ours:.2} s, downloaded in {alone:.2} s, {:.2} times (target 1.1: {})",
        ours / alone,
        verdict(ours / alone <= 1.1)
    );
}
