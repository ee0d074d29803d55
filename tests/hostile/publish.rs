//! An output is put into a folder that exists, and apr is killed, or the system refuses, at each single step: the folder is
//! the old model, the new one, or an error with the command that finishes it. The process that dies is this test's own
//! program, started again for one conversion.

use crate::build::big_of;
use crate::command::{Ended, contents, run};
use apr_engine::open::{OpenOptions, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_host::storage::publish::finish;
use apr_host::storage::publish::steps::{Step, Steps};
use apr_tests::{Scratch, host, options};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What comes of the step that is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The process dies.
    Killed,
    /// The system refuses this step and none after it.
    Refused,
    /// It refuses this one and all that follow.
    RefusedForGood,
}

struct At {
    number: usize,
    fate: Fate,
    seen: AtomicUsize,
}

impl Steps for At {
    fn before(&self, _: Step, _: &Path) -> io::Result<()> {
        let number = self.seen.fetch_add(1, Ordering::SeqCst);
        match self.fate {
            Fate::Killed if number == self.number => {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL)
            }
            Fate::Refused if number == self.number => Err(rustix::io::Errno::PERM),
            Fate::RefusedForGood if number >= self.number => Err(rustix::io::Errno::IO),
            _ => Ok(()),
        }
        .map_err(io::Error::from)
    }
}

fn host_with(number: usize, fate: Fate) -> (Host, Arc<At>) {
    let (mut host, at) = (host(), Arc::new(At { number, fate, seen: AtomicUsize::new(0) }));
    host.steps = Arc::<At>::clone(&at);
    (host, at)
}

/// A conversion into a folder that holds something.
struct Case {
    name: &'static str,
    to: &'static str,
    shards: bool,
    force: bool,
    /// Makes what is there before.
    before: fn(&Scratch),
}

const CASES: [Case; 5] = [
    Case { name: "shards over shards", to: "gguf", shards: true, force: true, before: same_format },
    Case {
        name: "a folder over a folder",
        to: "huggingface",
        shards: true,
        force: true,
        before: same_format,
    },
    Case {
        name: "a folder over weights",
        to: "huggingface",
        shards: true,
        force: true,
        before: other_weights,
    },
    Case { name: "shards beside a text", to: "safetensors", shards: true, force: false, before: text },
    Case { name: "a file over a file", to: "gguf", shards: false, force: true, before: one_file },
];

fn job(scratch: &Scratch, case: &Case, input: &str) -> ConvertOptions {
    ConvertOptions {
        to: Some(case.to.to_owned()),
        force: case.force,
        max_shard_size: case.shards.then_some(600_000),
        ..options(&scratch.at(input), &scratch.at("d"))
    }
}

/// The old model, written by the same kind of conversion, with a template that only it has.
fn same_format(scratch: &Scratch) {
    let case = if scratch.at("is-gguf").exists() { &CASES[0] } else { &CASES[1] };
    fs::create_dir(scratch.at("d")).unwrap();
    // Both are called the same, so that their files are too.
    fs::copy(scratch.at("m.safetensors"), scratch.at("new.safetensors")).unwrap();
    fs::copy(scratch.at("old.safetensors"), scratch.at("m.safetensors")).unwrap();
    convert(&host(), &job(scratch, case, "m.safetensors")).unwrap();
    fs::rename(scratch.at("new.safetensors"), scratch.at("m.safetensors")).unwrap();
    if case.to == "huggingface" {
        fs::write(scratch.at("d/chat_template.jinja"), "{{ old }}").unwrap();
        fs::create_dir(scratch.at("d/1_Pooling")).unwrap();
        fs::write(scratch.at("d/1_Pooling/config.json"), "{}").unwrap();
    }
}

/// Weights that would be opened instead of an index, and a text that stays.
fn other_weights(scratch: &Scratch) {
    text(scratch);
    fs::copy(scratch.at("old.safetensors"), scratch.at("d/model.safetensors")).unwrap();
    fs::write(scratch.at("d/tokenizer_config.json"), "{}").unwrap();
}

fn text(scratch: &Scratch) {
    fs::create_dir(scratch.at("d")).unwrap();
    fs::write(scratch.at("d/README.md"), "mine").unwrap();
}

fn one_file(scratch: &Scratch) {
    text(scratch);
    fs::write(scratch.at("d/m.gguf"), "old").unwrap();
}

/// The input, what is there before, and what will be there.
fn begin(scratch: &Scratch, case: &Case) -> [Vec<(String, Option<u32>)>; 2] {
    big_of(&scratch.at("old.safetensors"), 1, 1);
    big_of(&scratch.at("m.safetensors"), 1, 2);
    if case.to == "gguf" {
        fs::write(scratch.at("is-gguf"), "").unwrap();
    }
    (case.before)(scratch);
    copy(&scratch.at("d"), &scratch.at("old"));
    let old = contents(&scratch.at("d"));
    convert(&host(), &job(scratch, case, "m.safetensors")).unwrap();
    let new = contents(&scratch.at("d"));
    assert_ne!(old, new, "{}", case.name);
    [old, new]
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// What the folder holds beside apr's own names, or `None` if opening it is refused with the command that finishes it.
fn model(folder: &Path) -> Option<Vec<(String, Option<u32>)>> {
    let refused = |path: &Path| {
        let mut error = open(&host(), path, &OpenOptions::default()).err()?;
        // Children that other tests start hold our locks for a moment, until they have become other programs.
        while error.message().contains("another apr") {
            std::thread::sleep(Duration::from_millis(1));
            error = open(&host(), path, &OpenOptions::default()).err()?;
        }
        let hint = error.hint_text().unwrap_or_default().to_owned();
        hint.contains("apr convert --resume").then_some(error)
    };
    let held = folder.join(".apr-publish").exists();
    assert_eq!(held, refused(folder).is_some());
    if held {
        // A file of it alone is refused too.
        for name in apr_tests::names_in(folder).iter().filter(|name| !name.starts_with('.')) {
            let path = folder.join(name);
            assert!(path.is_dir() || refused(&path).is_some(), "{name} opens alone");
        }
        return None;
    }
    let own = |name: &str| name.split('/').next().is_some_and(|first| first.starts_with(".d.apr-"));
    Some(contents(folder).into_iter().filter(|(name, _)| !own(name)).collect())
}

/// Runs one conversion of [`CASES`] to its death; in a process of its own, which the other tests start.
#[test]
fn this_process_is_killed() {
    let Ok(orders) = std::env::var("APR_TEST_KILLED_AT") else { return };
    let [case, number, folder] = orders.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{orders}") };
    let (host, _) = host_with(number.parse().unwrap(), Fate::Killed);
    let case = &CASES[case.parse::<usize>().unwrap()];
    let input = Path::new(folder).join("m.safetensors");
    let job = ConvertOptions {
        to: Some(case.to.to_owned()),
        force: case.force,
        max_shard_size: case.shards.then_some(600_000),
        ..options(&input, &Path::new(folder).join("d"))
    };
    convert(&host, &job).unwrap();
}

/// Whether a conversion that is killed at a step was killed.
fn killed(scratch: &Scratch, case: usize, number: usize) -> bool {
    let orders = format!("{case} {number} {}", scratch.at("").display());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "publish::this_process_is_killed", "--nocapture"]);
    let ended = child.env("APR_TEST_KILLED_AT", orders).output().unwrap();
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    assert!(ended.status.success() || by_signal == Some(9), "{}", String::from_utf8_lossy(&ended.stderr));
    by_signal.is_some()
}

#[test]
fn killed_at_every_step_it_is_old_or_new_or_says_how_to_finish_slow() {
    for (number, case) in CASES.iter().enumerate() {
        let scratch = Scratch::in_memory();
        let [old, new] = begin(&scratch, case);
        let (mut n_old, mut n_refused, mut n_new, mut at) = (0, 0, 0, 0);
        loop {
            copy(&scratch.at("old"), &scratch.at("d"));
            if !killed(&scratch, number, at) {
                break;
            }
            let found = model(&scratch.at("d"));
            match &found {
                None => n_refused += 1,
                Some(found) if *found == old => n_old += 1,
                Some(found) => {
                    assert_eq!(*found, new, "{}, step {at}", case.name);
                    n_new += 1;
                }
            }
            mend(&scratch, case, at, found.is_none());
            assert_eq!(contents(&scratch.at("d")), new, "{}, step {at}", case.name);
            at += 1;
        }
        assert_eq!(contents(&scratch.at("d")), new, "{}", case.name);
        eprintln!("{}: {at} steps: {n_old} old, {n_refused} refused, {n_new} new", case.name);
        assert!(n_old > 0 && n_new > 0, "{}", case.name);
        assert!(n_refused > 5 || !case.shards, "{}", case.name);
    }
}

/// Someone comes upon what a killed conversion left.
fn mend(scratch: &Scratch, case: &Case, round: usize, refused: bool) {
    let (host, d) = (host(), scratch.at("d"));
    let mut again = job(scratch, case, "m.safetensors");
    match round % 4 {
        // With the command that the error names; what is left of staging goes with the next conversion.
        0 if refused => {
            let finished = finish(&d, "d", &host.steps).unwrap().unwrap();
            assert!(!finished.files.is_empty());
            assert!(finish(&d, "d", &host.steps).unwrap().is_none());
            again.force = true;
        }
        // With the same conversion, which then finds its work done, whatever else is asked.
        1 if refused => again.force = false,
        2 if refused => again.resume = true,
        _ => again.force = true,
    }
    convert(&host, &again).unwrap_or_else(|e| panic!("{}, round {round}: {e}", case.name));
}

#[test]
fn every_verb_refuses_what_is_unfinished_with_the_command_that_finishes_it() {
    let (scratch, case) = (Scratch::in_memory(), &CASES[1]);
    let [_, new] = begin(&scratch, case);
    copy(&scratch.at("old"), &scratch.at("d"));
    let mut at = 0;
    while !scratch.at("d/.apr-publish").exists() {
        copy(&scratch.at("old"), &scratch.at("d"));
        assert!(killed(&scratch, 1, at), "no step has a record");
        at += 1;
    }
    let file = apr_tests::names_in(&scratch.at("d")).into_iter().find(|name| name.ends_with(".safetensors"));
    let file = format!("d/{}", file.unwrap());
    let words =
        ["apr was interrupted", "part of the old model and part of the new one", "apr convert --resume d"];
    for path in ["d", &file, "d/model.safetensors.index.json"] {
        for verb in [
            &["inspect", path][..],
            &["tensors", path, "--json"],
            &["validate", path, "--checksum"],
            &["scan", path],
            &["diff", path, "m.safetensors"],
            &["diff", "m.safetensors", path],
            &["convert", path, "out.apr"],
            &["convert", path, "out.apr", "--plan"],
        ] {
            if !scratch.at(path).exists() {
                continue;
            }
            let ended = fails_with_any(&scratch, verb);
            assert_eq!(ended.code, 1, "{verb:?}: {}", ended.stderr);
            assert!(words.iter().all(|word| ended.stderr.contains(word)), "{verb:?}: {}", ended.stderr);
        }
    }
    let before = contents(&scratch.at("d"));
    // A single file written there is a writer too, and comes after.
    let other = ["convert", "old.safetensors", "d/other.apr", "--arch", "none"];
    let ended = run(&scratch.at(""), &other);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("finished the interrupted conversion"), "{}", ended.stderr);
    fs::remove_file(scratch.at("d/other.apr")).unwrap();
    assert_eq!(contents(&scratch.at("d")), new);
    assert_ne!(before, new);
    // And the command as it is printed.
    copy(&scratch.at("old"), &scratch.at("d"));
    assert!(killed(&scratch, 1, at));
    let ended = run(&scratch.at(""), &["convert", "--resume", "d"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("finished the interrupted conversion: 4 files moved into place in d"),
        "{}",
        ended.stdout
    );
    assert_eq!(contents(&scratch.at("d")), new);
}

/// Runs a verb that must fail and change nothing.
fn fails_with_any(scratch: &Scratch, args: &[&str]) -> Ended {
    let before = contents(&scratch.at(""));
    let ended = run(&scratch.at(""), args);
    assert_eq!(contents(&scratch.at("")), before, "{args:?}");
    ended
}

#[test]
fn refused_at_any_step_nothing_changed_or_the_output_is_there_slow() {
    for case in &CASES {
        let scratch = Scratch::in_memory();
        let [old, new] = begin(&scratch, case);
        let (mut n_old, mut n_new, mut n_left) = (0, 0, 0);
        for at in 0.. {
            copy(&scratch.at("old"), &scratch.at("d"));
            let (host, steps) = host_with(at, Fate::Refused);
            let outcome = convert(&host, &job(&scratch, case, "m.safetensors"));
            if steps.seen.load(Ordering::SeqCst) <= at {
                outcome.unwrap();
                break;
            }
            let found = contents(&scratch.at("d"));
            let unfinished = model(&scratch.at("d")).is_none();
            match outcome {
                // Cleaning up failed: what is left is named.
                Ok(done) => {
                    assert_eq!(model(&scratch.at("d")), Some(new.clone()), "{}, step {at}", case.name);
                    n_left += 1;
                    let is_left =
                        |name: &str| name.starts_with(".d.apr-old") || name.starts_with(".d.apr-part");
                    let left = found.iter().any(|(name, _)| is_left(name));
                    let said = done.warnings.iter().any(|warning| warning.contains("could not be removed"));
                    assert_eq!(said, left, "{}, step {at}: {:?}", case.name, done.warnings);
                }
                Err(error) if error.message().contains("the output is complete, but may be lost") => {
                    n_new += 1;
                    if unfinished {
                        assert!(error.hint_text().unwrap().contains("apr convert --resume"), "{error}");
                        finish(&scratch.at("d"), "d", &apr_tests::host().steps).unwrap().unwrap();
                    }
                    assert_eq!(
                        model(&scratch.at("d")),
                        Some(new.clone()),
                        "{}, step {at}: {error}",
                        case.name
                    );
                }
                Err(error) => {
                    n_old += 1;
                    let place = error.file().unwrap_or_default();
                    assert!(!place.contains(".apr-old"), "a name that nobody knows: {error}");
                    assert_eq!(found, old, "{}, step {at}: {error}", case.name);
                }
            }
        }
        eprintln!("{}: {n_old} old, {n_new} in place, {n_left} with something left", case.name);
        assert!(n_old > 0 && n_new > 0 && (n_left > 0 || !case.shards), "{}", case.name);
    }
}

#[test]
fn a_machine_that_refuses_everything_leaves_old_new_or_the_command_slow() {
    for case in &CASES {
        let scratch = Scratch::in_memory();
        let [old, new] = begin(&scratch, case);
        let mut n_unfinished = 0;
        for at in 0.. {
            copy(&scratch.at("old"), &scratch.at("d"));
            let (host, steps) = host_with(at, Fate::RefusedForGood);
            let outcome = convert(&host, &job(&scratch, case, "m.safetensors"));
            if steps.seen.load(Ordering::SeqCst) <= at {
                break;
            }
            match model(&scratch.at("d")) {
                Some(found) => assert!(found == old || found == new, "{}, step {at}: {found:?}", case.name),
                None => {
                    n_unfinished += 1;
                    let error = outcome.unwrap_err();
                    assert!(error.hint_text().unwrap().contains("apr convert --resume"), "{error}");
                }
            }
            mend(&scratch, case, at, scratch.at("d/.apr-publish").exists());
            assert_eq!(contents(&scratch.at("d")), new, "{}, step {at}", case.name);
        }
        assert!(n_unfinished > 5 || !case.shards, "{}", case.name);
    }
}
