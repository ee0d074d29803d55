//! A model that is elsewhere converts to the same bytes as the file itself.

use std::path::Path;

use super::models::{alone, safetensors, sharded, web};
use super::program::Machine;
use super::server::encoding::sha256;
use super::server::{Content, Habit, Hub, Lie};

/// Bytes of a model that is larger than what is read at once.
fn model() -> Content {
    safetensors("layer", 9, 5000, 3)
}

/// What converting the file itself makes.
fn expected(machine: &Machine, content: &Content, output: &str) -> Vec<u8> {
    machine.write("local/model.safetensors", content.whole());
    let made = format!("local/{output}");
    machine.ok(&["convert", "local/model.safetensors", &made, "--arch", "none"]);
    std::fs::read(machine.at(&made)).unwrap()
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

fn assert_same(machine: &Machine, output: &str, expected: &[u8], what: &str) {
    let bytes = std::fs::read(machine.at(output)).unwrap();
    assert!(bytes == expected, "{what}: {} bytes, not the {} expected ones", bytes.len(), expected.len());
    std::fs::remove_file(machine.at(output)).unwrap();
}

#[test]
fn every_way_in_makes_the_same_bytes() {
    let content = model();
    let repository = alone("apr/model", &content);
    let commit = repository.head().to_owned();
    let hub = Hub::start(vec![repository]);
    let server = web(Habit::Honest, &content);
    let machine = Machine::of(&hub);
    let right = sha256(&content.whole());
    let (hf, https) = ("hf://apr/model/model.safetensors", server.url_of("model.safetensors"));
    for output in ["out.gguf", "out.apr"] {
        let expected = expected(&machine, &content, output);
        let cases: [(&str, &str, &[&str]); 7] = [
            ("hub, nothing kept", hf, &["--no-cache"]),
            ("hub", hf, &[]),
            ("hub, by now in the cache", hf, &[]),
            ("https", &https, &[]),
            ("https, nothing kept", &https, &["--no-cache"]),
            ("https, with its digest", &https, &["--sha256", &right]),
            ("https, with its digest and nothing kept", &https, &["--no-cache", "--sha256", &right]),
        ];
        let mut from_hub: Option<Vec<u8>> = None;
        for (what, from, flags) in cases {
            machine.ok(&[&["convert", from, output, "--arch", "none"], flags].concat());
            let what = format!("{what}: {output}");
            if output == "out.gguf" {
                assert_same(&machine, output, &expected, &what);
                continue;
            }
            // This format records where a model comes from, and that is all that differs.
            machine.ok(&["diff", "local/out.apr", output]);
            let bytes = std::fs::read(machine.at(output)).unwrap();
            assert_eq!(has(&bytes, &commit), from == hf, "{what}: the commit");
            assert_eq!(
                has(&bytes, "\"verified\":\"no\""),
                from == https && !flags.contains(&"--sha256"),
                "{what}"
            );
            let same = if from == hf { from_hub.get_or_insert(bytes) } else { &bytes };
            assert_same(&machine, output, same, &what);
        }
        let ended = machine.run_with(&["convert", "-", output, "--arch", "none"], &content.whole());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        if output == "out.gguf" {
            assert_same(&machine, output, &expected, "standard input");
        } else {
            machine.ok(&["diff", "local/out.apr", output]);
        }
    }
    assert_eq!(temporary(&machine), [""; 0]);
}

#[test]
fn standard_output_has_the_same_bytes() {
    let content = model();
    let hub = Hub::start(vec![alone("apr/model", &content)]);
    let machine = Machine::of(&hub);
    for to in ["gguf", "apr", "safetensors"] {
        let expected = expected(&machine, &content, &format!("out.{to}"));
        for from in ["hf://apr/model/model.safetensors", "local/model.safetensors"] {
            machine.ok(&["convert", from, &format!("out.{to}"), "--arch", "none", "--force"]);
            let file = std::fs::read(machine.at(&format!("out.{to}"))).unwrap();
            let ended = machine.ok(&["convert", from, "-", "--to", to, "--arch", "none"]);
            assert!(ended.stdout == file, "{from} to {to}: {} bytes: {}", ended.stdout.len(), ended.stderr);
        }
        // Both at once.
        let args = ["convert", "-", "-", "--to", to, "--arch", "none"];
        let ended = machine.run_with(&args, &content.whole());
        assert!(ended.code == 0 && ended.stdout == expected, "to {to}: {}", ended.stderr);
    }
    assert_eq!(temporary(&machine), [""; 0]);
}

#[test]
fn a_repository_converts_as_its_folder() {
    let repository = sharded("apr/sharded", 5, 3000);
    let files = repository.snapshots[0].files.clone();
    let hub = Hub::start(vec![repository]);
    let machine = Machine::of(&hub);
    for file in files {
        machine.write(&format!("sharded/{}", file.path), file.content.whole());
    }
    machine.ok(&["convert", "sharded", "local.gguf", "--arch", "none"]);
    let expected = std::fs::read(machine.at("local.gguf")).unwrap();
    for flags in [&["--no-cache"][..], &[], &[]] {
        machine.ok(&[&["convert", "hf://apr/sharded", "out.gguf", "--arch", "none"], flags].concat());
        assert_same(&machine, "out.gguf", &expected, &format!("{flags:?}"));
    }
}

#[test]
fn every_verb_that_reads_takes_every_address() {
    let content = safetensors("layer", 2, 100, 3);
    let hub = Hub::start(vec![alone("apr/model", &content)]);
    let server = web(Habit::Honest, &content);
    let machine = Machine::of(&hub);
    let whole = content.whole();
    machine.write("model.safetensors", &whole);
    let https = server.url_of("model.safetensors");
    let verbs: [&[&str]; 8] = [
        &["inspect", "%", "--json"],
        &["tensors", "%", "--json", "--sha256"],
        &["tensors", "%", "layer.1[0, :4]"],
        &["validate", "%"],
        &["diff", "%", "model.safetensors"],
        &["diff", "model.safetensors", "%"],
        &["report", "%", "-o", "report.html", "--force"],
        &["convert", "%", "-n", "out.apr", "--arch", "none"],
    ];
    for verb in verbs {
        for from in ["hf://apr/model/model.safetensors", &https, "-"] {
            let args: Vec<&str> = verb.iter().map(|arg| if *arg == "%" { from } else { arg }).collect();
            let ended = machine.run_with(&args, if from == "-" { &whole } else { &[] });
            assert_eq!(ended.code, 0, "apr {args:?}: {}{}", ended.stderr, ended.text());
        }
    }
    assert_eq!(temporary(&machine), [""; 0]);
}

#[test]
fn another_digest_than_announced_leaves_no_output() {
    let content = model();
    let wrong = sha256(b"something else");
    for server in [web(Habit::Honest, &content), web(Habit::Lying(Lie::IgnoresRange), &content)] {
        let machine = Machine::new();
        let url = server.url_of("model.safetensors");
        for flags in [&["--sha256", &wrong][..], &["--sha256", &wrong, "--no-cache"]] {
            let args = [&["convert", &url, "out.gguf", "--arch", "none"], flags].concat();
            machine.fails(&args, 5, &["SHA-256", &url]);
            assert_eq!(machine.left(), [""; 0], "{flags:?}");
        }
        machine.fails(&["pull", &url, "-o", "out", "--sha256", &wrong], 5, &["SHA-256"]);
        assert_eq!(machine.left(), [""; 0]);
        machine.ok(&["pull", &url, "-o", "out", "--sha256", &sha256(&content.whole())]);
        assert_eq!(std::fs::read(machine.at("out")).unwrap(), content.whole());
        assert_eq!(machine.left(), ["out"]);
    }
}

#[test]
fn a_server_without_ranges_is_read_once_and_said() {
    let content = model();
    for lie in [Lie::IgnoresRange, Lie::Chunked, Lie::NoLength] {
        let server = web(Habit::Lying(lie), &content);
        let machine = Machine::new();
        let expected = expected(&machine, &content, "out.gguf");
        let url = server.url_of("model.safetensors");
        server.log().clear();
        let ended = machine.ok(&["convert", &url, "out.gguf", "--arch", "none"]);
        assert_same(&machine, "out.gguf", &expected, &format!("{lie:?}"));
        if lie == Lie::IgnoresRange {
            assert!(ended.stderr.contains("no ranges"), "{}", ended.stderr);
            let whole = server.log().requests().iter().filter(|seen| seen.sent == content.len()).count();
            assert_eq!(whole, 1, "{:#?}", server.log().lines());
        }
        assert_eq!(temporary(&machine), [""; 0]);
    }
}

#[test]
fn what_comes_by_a_pipe_may_be_cut_short() {
    let machine = Machine::new();
    let whole = safetensors("layer", 1, 100, 3).whole();
    for len in [0, 1, 7, 200, whole.len() - 1] {
        let ended = machine.run_with(&["convert", "-", "out.gguf", "--arch", "none"], &whole[..len]);
        assert!(matches!(ended.code, 4 | 3), "{len}: {} {}", ended.code, ended.stderr);
        assert!(ended.stderr.contains("error"), "{}", ended.stderr);
        assert_eq!(machine.left(), [""; 0], "{len}");
    }
}

fn temporary(machine: &Machine) -> Vec<String> {
    apr_tests::names_in(&machine.everything().join(Path::new("temporary")))
}
