//! A command about files here asks for nothing elsewhere: it makes no socket, starts no thread for one, and reads no token.

use std::fs;
use std::process::Command;

use super::models::{safetensors, single};
use super::program::Machine;
use super::server::Hub;

/// What a command asks of the system, in a line each; nothing, said aloud, where that cannot be watched.
fn calls(machine: &Machine, args: &[&str]) -> Option<Vec<String>> {
    let apr = machine.command(args);
    let log = machine.at("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=network,openat,prctl", "-o"]).arg(&log);
    command.arg(apr.get_program()).args(args).current_dir(machine.at("")).env_clear();
    command.envs(apr.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let watched = command.output().ok().and_then(|out| Some((out, fs::read_to_string(&log).ok()?)));
    let Some((out, text)) = watched.filter(|(_, text)| text.contains("openat(")) else {
        apr_tests::skipped("tests/remote: no strace here, so nobody watches for sockets");
        return None;
    };
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    Some(text.lines().map(str::to_owned).collect())
}

fn is_remote(call: &str) -> bool {
    let words = [
        "socket(",
        "connect(",
        "/etc/resolv.conf",
        "/etc/ssl",
        ".netrc",
        ".cache/huggingface",
        "cacert",
        "\"transfer\"",
        "\"ahead\"",
        "\"hash\"",
    ];
    words.iter().any(|word| call.contains(word))
}

#[test]
fn a_local_command_makes_no_socket_and_reads_no_token() {
    let content = safetensors("layer", 2, 100, 3);
    let hub = Hub::start(vec![single("apr/model", &content)]);
    hub.allow_token("hf_token");
    let machine = Machine::of(&hub).with("HF_TOKEN", "hf_token");
    machine.write("model.safetensors", content.whole());
    for args in [
        &["inspect", "model.safetensors"][..],
        &["convert", "model.safetensors", "out.gguf", "--arch", "none", "--force"],
        &["validate", "model.safetensors"],
        &["plugins", "list"],
        &["config", "show"],
    ] {
        let Some(calls) = calls(&machine, args) else { return };
        let remote: Vec<_> = calls.iter().filter(|call| is_remote(call)).collect();
        assert!(remote.is_empty(), "{args:?}: {remote:#?}");
    }
    // Whoever watches would see it.
    let Some(calls) = calls(&machine, &["inspect", "hf://apr/model"]) else { return };
    assert!(calls.iter().any(|call| is_remote(call) && call.contains("connect(")));
    assert!(!hub.log().lines().is_empty());
}

#[test]
fn help_and_versions_ask_nobody() {
    let hub = Hub::start(vec![]);
    let machine = Machine::of(&hub);
    for args in [&["--help"][..], &["--version"], &["pull", "--help"], &["cache", "--help"]] {
        machine.ok(args);
    }
    assert_eq!(hub.log().lines(), [""; 0]);
}
