//! What came is not fetched again: after a line that broke, after Ctrl-C, and after a kill.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::models::{safetensors, single};
use super::program::{Machine, wait};
use super::server::encoding::sha256;
use super::server::hub::{Behaviour, File as HubFile, Repository};
use super::server::{Content, FileServer, Habit, Hub, Options, Pace, Seen, Stall, When};

const MIB: u64 = 1 << 20;

/// Bytes that were asked for.
fn asked(seen: &[Seen]) -> u64 {
    let len = |seen: &Seen| {
        let (first, last) = seen.range.as_deref()?.strip_prefix("bytes=")?.split_once('-')?;
        Some(last.parse::<u64>().ok()? + 1 - first.parse::<u64>().ok()?)
    };
    seen.iter().filter_map(len).sum()
}

#[test]
fn after_a_cut_the_rest_is_fetched() {
    let content = Content::pattern(20 * MIB, 4);
    for stall in [
        Stall::closes_after(3 * MIB + 5, When::Always),
        Stall::closes_after(100_000, When::First(5)),
        Stall::closes_after(2 * MIB, When::FirstConnection),
    ] {
        let hub = Hub::start(vec![Repository::model(
            "apr/model",
            vec![HubFile::lfs("model.gguf", content.clone())],
        )]);
        hub.misbehave_at_cdn(Habit::Stalling(stall));
        let machine = Machine::of(&hub);
        machine.ok(&["pull", "hf://apr/model"]);
        assert!(fs::read(blob(&machine, &content)).unwrap() == content.whole(), "{stall:?}");
        // What a connection sent before it was cut has come: nothing of it comes again, but for the first bytes.
        let sent = hub.log().sent_by(hub.cdn_port());
        assert!(sent <= content.len() + MIB, "{stall:?}: {sent} bytes: {:#?}", hub.log().lines());
    }
}

#[test]
fn after_a_reset_at_most_a_mebibyte_of_a_connection_is_fetched_again() {
    let content = Content::pattern(20 * MIB, 4);
    let hub =
        Hub::start(vec![Repository::model("apr/model", vec![HubFile::lfs("model.gguf", content.clone())])]);
    hub.misbehave_at_cdn(Habit::Stalling(Stall::resets_after(0, When::AtByte(11 * MIB + 7))));
    // A line that breaks at one byte for ever: what is before it and behind it comes once.
    let machine = Machine::of(&hub);
    let ended = machine.run(&["pull", "hf://apr/model"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    hub.misbehave_at_cdn(Habit::Honest);
    hub.log().clear();
    machine.ok(&["pull", "hf://apr/model"]);
    assert!(fs::read(blob(&machine, &content)).unwrap() == content.whole());
    let again = asked(&hub.log().requests_to(hub.cdn_port()));
    // The piece that broke is at most 8 MiB, and the first bytes are asked for once more.
    assert!(again <= 9 * MIB + MIB, "{again} bytes: {:#?}", hub.log().lines());
}

fn blob(machine: &Machine, content: &Content) -> PathBuf {
    machine.cache().join("models--apr--model/blobs").join(content.sha256().unwrap())
}

/// Bytes of a file that are on the disk or will be.
fn written(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.blocks() * 512)
}

/// Sends a signal to a process once so many bytes of a download are there; returns how many were.
fn interrupt(child: Child, partial: &Path, at: u64, signal: Signal) -> (u64, i32) {
    let began = Instant::now();
    while written(partial) < at {
        assert!(began.elapsed() < Duration::from_secs(20), "it has only {} bytes", written(partial));
        thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let ended = wait(child);
    (written(partial), ended.code)
}

#[test]
fn after_a_kill_at_most_8_mib_of_a_connection_are_fetched_again() {
    let content = Content::pattern(64 * MIB, 4);
    let cdn_pace = Pace { total: Some(100_000_000), ..Pace::default() };
    let behaviour = Behaviour { cdn_pace, ..Behaviour::default() };
    let hub = Hub::behaving(
        behaviour,
        vec![Repository::model("apr/model", vec![HubFile::lfs("model.gguf", content.clone())])],
    );
    for signal in [Signal::KILL, Signal::INT] {
        let machine = Machine::of(&hub);
        let partial = PathBuf::from(format!("{}.apr.incomplete", blob(&machine, &content).display()));
        let child = machine.command(&["pull", "hf://apr/model"]).spawn().unwrap();
        let (there, code) = interrupt(child, &partial, 40 * MIB, signal);
        assert_eq!(code, if signal == Signal::INT { 130 } else { 137 });
        assert!(!blob(&machine, &content).exists());
        hub.log().clear();
        let ended = machine.ok(&["pull", "hf://apr/model", "--json"]).json();
        assert!(fs::read(blob(&machine, &content)).unwrap() == content.whole());
        // Once to look, and the rest: of what was there, what the journal did not know yet.
        let again = asked(&hub.log().requests_to(hub.cdn_port())) - MIB;
        let lost = (again + there).saturating_sub(content.len());
        let most = if signal == Signal::INT { MIB } else { 24 * MIB };
        assert!(lost <= most, "{signal:?}: {lost} bytes again, {there} were there");
        assert_eq!(ended["files"][0]["fetched"], again, "{ended}");
    }
}

#[test]
fn a_download_that_a_conversion_began_is_continued_by_pull() {
    let content = safetensors("layer", 8, 32_000, 4);
    let cdn_pace = Pace { total: Some(100_000_000), ..Pace::default() };
    let behaviour = Behaviour { cdn_pace, ..Behaviour::default() };
    let hub = Hub::behaving(behaviour, vec![single("apr/model", &content)]);
    let machine = Machine::of(&hub);
    let partial = PathBuf::from(format!("{}.apr.incomplete", blob(&machine, &content).display()));
    let args = ["convert", "hf://apr/model/model.safetensors", "out.gguf", "--arch", "none"];
    interrupt(machine.command(&args).spawn().unwrap(), &partial, 30 * MIB, Signal::INT);
    hub.log().clear();
    machine.ok(&["pull", "hf://apr/model"]);
    let again = asked(&hub.log().requests_to(hub.cdn_port()));
    assert!(again <= content.len() - 28 * MIB, "{again} bytes");
    machine.ok(&[&args[..], &["--force"]].concat());
}

#[test]
fn what_came_and_changed_meanwhile_is_found_and_given_up() {
    let content = Content::pattern(24 * MIB, 4);
    let hub =
        Hub::start(vec![Repository::model("apr/model", vec![HubFile::lfs("model.gguf", content.clone())])]);
    hub.misbehave_at_cdn(Habit::Stalling(Stall::closes_after(0, When::AtByte(20 * MIB))));
    let machine = Machine::of(&hub);
    assert_eq!(machine.run(&["pull", "hf://apr/model"]).code, 1);
    hub.misbehave_at_cdn(Habit::Honest);
    let partial = PathBuf::from(format!("{}.apr.incomplete", blob(&machine, &content).display()));
    File::options().write(true).open(&partial).unwrap().write_all_at(b"rotten", 1000).unwrap();
    machine.fails(&["pull", "hf://apr/model"], 5, &["SHA-256", "E004"]);
    assert!(!partial.exists() && !blob(&machine, &content).exists());
    machine.ok(&["pull", "hf://apr/model"]);
    assert_eq!(sha256(&fs::read(blob(&machine, &content)).unwrap()), content.sha256().unwrap());
}

#[test]
fn what_came_of_another_version_is_not_continued() {
    let (old, new) = (Content::pattern(24 * MIB, 4), Content::pattern(24 * MIB, 5));
    let habit = Habit::Stalling(Stall::closes_after(0, When::AtByte(20 * MIB)));
    let server = FileServer::start(Options::default(), habit, old);
    let machine = Machine::new();
    let url = server.url_of("model.gguf");
    machine.fails(&["pull", &url, "-o", "model.gguf"], 1, &["127.0.0.1"]);
    assert!(!machine.at("model.gguf").exists());
    server.take_up(Habit::Honest);
    server.put(new.clone(), super::server::Validator::Strong);
    machine.ok(&["pull", &url, "-o", "model.gguf"]);
    assert!(fs::read(machine.at("model.gguf")).unwrap() == new.whole());
}
