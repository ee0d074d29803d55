//! Every case of `tests/cli/<verb>/<case>/`: what is typed, and what then stands on stdout and stderr, in the exit code and
//! in the folder.
//!
//! A case is a folder with a file `cmd`, one command a line. In it `%` is the case's scratch folder and `@` the
//! repository; all other files of the case are inputs, copied to the scratch folder first. `stdout`, `stderr`, `exit`
//! and `tree` say what must come of it; one that is left out stands for nothing, nothing, 0, and a folder that no
//! command of `apr` changed. `BLESS=1` writes them anew. Lines before the first that begins with `apr` set the case up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod hub;
mod scratch;
mod terminal;

use scratch::{Scratch, tree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

/// What came of a case, by the names of its files.
type Outcome = BTreeMap<&'static str, String>;

/// Held while all cases run, some of which keep every processor busy: on a terminal, keys that come together mean something else.
static QUIET: RwLock<()> = RwLock::new(());

const EXPECTED: [&str; 4] = ["stdout", "stderr", "exit", "tree"];

#[test]
fn every_case_holds() {
    let _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("cli");
    let program = apr_tests::program();
    let bless = std::env::var_os("BLESS").is_some_and(|value| !value.is_empty());
    let only = std::env::var("CASE").unwrap_or_default();
    let mut failures = Vec::new();
    let cases: Vec<PathBuf> = folders(&here).iter().flat_map(|verb| folders(verb)).collect();
    let chosen = cases.iter().filter(|case| case.to_string_lossy().contains(&only));
    let mut n_cases = 0;
    for case in chosen {
        n_cases += 1;
        let outcome = run_case(case, &program);
        if bless {
            write_expected(case, &outcome);
        }
        failures.extend(differences(case, &outcome));
    }
    assert!(n_cases > 0, "no case in {}", here.display());
    let shown = failures.join("\n");
    assert!(
        failures.is_empty(),
        "{} of {n_cases} cases differ (BLESS=1 accepts them):\n{shown}",
        failures.len()
    );
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn run_case(case: &Path, program: &Path) -> Outcome {
    let scratch = Scratch::new(case, &EXPECTED);
    let text = fs::read_to_string(case.join("cmd")).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    let mut outcome: Outcome = EXPECTED.map(|name| (name, String::new())).into();
    let mut before = None;
    let mut exits = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let words = words(line, &scratch);
        let is_apr = line.split_whitespace().any(|word| word == "apr" || word.starts_with("apr "));
        let is_apr = is_apr || line.contains("'apr ") || line.contains("\"apr ");
        if is_apr && before.is_none() {
            before = Some(tree(&scratch.folder));
        }
        let (stdout, stderr, exit) = run(&words, program, &scratch);
        if words.iter().any(|word| word == "--json") {
            assert_json(line, &stdout, &stderr);
        }
        if before.is_some() {
            exits.push(exit);
        } else {
            assert_eq!(exit, "0", "{}: `{line}` sets the case up and failed: {stderr}", case.display());
        }
        outcome.entry("stdout").or_default().push_str(&steady(&stdout, &scratch));
        outcome.entry("stderr").or_default().push_str(&steady(&stderr, &scratch));
    }
    if exits.iter().any(|exit| exit != "0") {
        outcome.insert("exit", format!("{}\n", exits.join("\n")));
    }
    let after = tree(&scratch.folder);
    if before.as_ref() != Some(&after) {
        outcome.insert("tree", after);
    }
    outcome
}

/// A line's words: quotes keep blanks together, `%` and `@/` are folders, `NAME=value` before a command is its own.
fn words(line: &str, scratch: &Scratch) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let folder = scratch.folder.to_str().unwrap();
    let root = scratch.root.to_str().unwrap();
    words.iter().map(|word| word.replace("@/", &format!("{root}/")).replace('%', folder)).collect()
}

fn run(words: &[String], program: &Path, scratch: &Scratch) -> (String, String, String) {
    let is_setting = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let n_settings = words.iter().take_while(is_setting).count();
    let (settings, words) = words.split_at(n_settings);
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = match words[0].as_str() {
        "apr" => Command::new(program),
        other => Command::new(other),
    };
    command.args(&words[1..]).current_dir(&scratch.folder).env_clear().env("PATH", path);
    // Nothing of the machine may be seen: no configuration, no plugins of the user, no device but the processor.
    command.env("HOME", &scratch.home).env("LC_ALL", "C.UTF-8").env("CUDA_VISIBLE_DEVICES", "");
    // The hub is asked only by what names it, and none elsewhere is.
    command.env(
        "HF_ENDPOINT",
        if words.iter().any(|word| word.contains("hf://")) { hub::endpoint() } else { "" },
    );
    command.envs(settings.iter().filter_map(|setting| setting.split_once('=')));
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("apr prints UTF-8");
    let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
    (text(output.stdout), text(output.stderr), exit)
}

/// With `--json` stdout is one document or nothing, and every line of stderr an object with a schema.
fn assert_json(line: &str, stdout: &str, stderr: &str) {
    if !stdout.is_empty() {
        let document: serde_json::Value =
            serde_json::from_str(stdout).unwrap_or_else(|e| panic!("`{line}`: {e}: {stdout}"));
        // A bill of materials is of another's form.
        let has_schema = document["schema"].is_string() || document["bomFormat"].is_string();
        assert!(document.is_array() || has_schema, "`{line}`: {stdout}");
    }
    for text in stderr.lines() {
        let object: serde_json::Value =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("`{line}`: {e}: {text}"));
        assert!(object["schema"].is_string(), "`{line}`: {text}");
    }
}

/// What differs from run to run and machine to machine, as a word: folders, times and bytes read.
fn steady(text: &str, scratch: &Scratch) -> String {
    let text =
        text.replace(scratch.folder.to_str().unwrap(), "%").replace(scratch.root.to_str().unwrap(), "@");
    let text = text.replace(scratch.home.to_str().unwrap(), "~");
    text.lines().map(|line| format!("{}\n", steady_line(line))).collect()
}

fn steady_line(line: &str) -> String {
    let trimmed = line.trim_start();
    if trimmed.starts_with("\"seconds\": ") {
        return line.replace(trimmed, "\"seconds\": TIME,");
    }
    // How much is read depends on how every plugin probes; tests of the plugins and benches count it.
    if trimmed.starts_with("\"header_bytes\": ") {
        return line.replace(trimmed, "\"header_bytes\": SIZE,");
    }
    if line.starts_with("  header  ") {
        return "  header         SIZE read".to_owned();
    }
    match line.rsplit_once(", ") {
        Some((rest, time)) if time.ends_with(" s") && time.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{rest}, TIME")
        }
        _ => line.to_owned(),
    }
}

fn write_expected(case: &Path, outcome: &Outcome) {
    for (name, text) in outcome {
        let path = case.join(name);
        if text.is_empty() {
            let _ = fs::remove_file(path);
        } else {
            fs::write(path, text).unwrap();
        }
    }
}

fn differences(case: &Path, outcome: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in outcome {
        let expected = fs::read_to_string(case.join(name)).unwrap_or_default();
        if expected != *text {
            let case = case.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(case).display();
            found.push(format!("== {case}/{name}\n-- expected\n{expected}-- found\n{text}"));
        }
    }
    found
}
