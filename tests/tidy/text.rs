//! How files are written.

use crate::tree::{files, report, report_except};

/// The most lines of a file that is not a table.
const LONGEST: usize = 600;

#[test]
fn no_file_is_longer_than_can_be_read_once() {
    let complaints: Vec<_> = files(&["rs"])
        .iter()
        .filter(|f| f.text.lines().count() > LONGEST)
        .map(|f| {
            (
                f.path.clone(),
                format!(
                    "{} has {} lines, at most {LONGEST}: split it by thing",
                    f.path,
                    f.text.lines().count()
                ),
            )
        })
        .collect();
    report_except("length", &complaints, &[]);
}

#[test]
fn every_file_says_on_its_first_line_what_it_is_for() {
    let complaints: Vec<_> = files(&["rs"])
        .iter()
        .filter(|f| !f.text.starts_with("//! ") || f.text.lines().next().is_some_and(|l| l.len() < 15))
        .map(|f| format!("{}: begin with `//! ` and one sentence", f.path))
        .collect();
    report("first line", &complaints);
}

#[test]
fn nothing_is_called_utils_helpers_misc_or_common() {
    let banned = ["utils", "util", "helpers", "helper", "misc", "common"];
    let complaints: Vec<_> = files(&["rs", "toml", "md", "py", "sh"])
        .iter()
        .filter(|f| f.path.split(['/', '.']).any(|piece| banned.contains(&piece)))
        .map(|f| format!("{}: name it after what it holds", f.path))
        .collect();
    report("names", &complaints);
}

#[test]
fn no_merge_is_left_half_done() {
    let marks = ["<<<<<<< ", ">>>>>>> "];
    let mut complaints = Vec::new();
    for file in files(&["rs", "toml", "md", "py", "sh"]) {
        for (n, line) in file.text.lines().enumerate() {
            if marks.iter().any(|mark| line.starts_with(mark)) {
                complaints.push(format!("{}:{}: choose between the two", file.path, n + 1));
            }
        }
    }
    report("merges", &complaints);
}

#[test]
fn library_code_neither_panics_nor_prints() {
    let panics = [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("];
    let prints = ["println!(", "eprintln!(", "print!(", "eprint!(", "dbg!("];
    let mut complaints = Vec::new();
    for file in files(&["rs"]).iter().filter(|f| !f.is_test() && !f.under("sdk/testkit/")) {
        for (n, code) in file.code() {
            if let Some(word) = panics.iter().find(|word| code.contains(*word)) {
                complaints
                    .push((file.path.clone(), format!("{}:{n} has `{word}`: return an error", file.path)));
            }
            let may_print = file.under("host/src/cli/") || file.path == "host/src/main.rs";
            // A build script speaks to cargo by printing.
            let speaks = file.path.ends_with("/build.rs");
            if let Some(word) = prints.iter().find(|word| code.contains(*word) && !may_print && !speaks) {
                complaints.push((
                    file.path.clone(),
                    format!("{}:{n} has `{word}`: only the command line prints", file.path),
                ));
            }
        }
    }
    report_except("panics and prints", &complaints, &[]);
}

#[test]
fn every_allow_has_a_reason() {
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        let lines: Vec<_> = file.text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let opens =
                line.trim_start().starts_with("#[allow(") || line.trim_start().starts_with("#![allow(");
            let until = lines.len().min(n + 12);
            let attribute: String = lines[n..until].join(" ");
            let attribute = attribute.split(")]").next().unwrap_or("");
            if opens && !attribute.contains("reason") {
                complaints.push(format!("{}:{}: say why, with `reason = \"...\"`", file.path, n + 1));
            }
        }
    }
    report("allow", &complaints);
}

#[test]
fn every_unsafe_says_who_upholds_it() {
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        let lines: Vec<_> = file.text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let has = code.contains("unsafe {") || code.contains("unsafe impl");
            let near = lines[n.saturating_sub(8)..=n].iter().any(|l| l.contains("SAFETY:"));
            if has && !near && !file.under("tests/tidy/") {
                complaints.push(format!("{}:{}: say it in a SAFETY comment", file.path, n + 1));
            }
        }
    }
    report("unsafe", &complaints);
}

#[test]
fn unsafe_lives_in_named_places() {
    let rooms = [
        "sdk/abi/",
        "plugins/quants/src/simd/",
        "plugins/quants/tests/",
        "plugins/cpu-kernels/",
        "plugins/cuda-kernels/",
        "host/src/storage/mapping/",
        "tests/",
    ];
    let mut complaints = Vec::new();
    for file in files(&["rs"]).iter().filter(|f| !rooms.iter().any(|room| f.under(room))) {
        let has = |code: &str| code.contains("unsafe {") || code.contains("unsafe impl");
        for (n, _) in file.code().filter(|(_, code)| has(code)) {
            complaints.push((file.path.clone(), format!("{}:{n}: do it without `unsafe`", file.path)));
        }
    }
    let loading = "a plugin's library is loaded, and its symbol is believed";
    let handler = "a signal's handler is installed, which names the plugin that crashed";
    let inherited = "a new process closes what it inherited, before anything in it owns a descriptor";
    let lending = "threads that outlive a region are lent its body, which does not";
    report_except(
        "unsafe",
        &complaints,
        &[
            ("host/sandbox/src/worker/descriptors.rs", inherited),
            ("host/src/plugins/load.rs", loading),
            ("host/src/plugins/crash.rs", handler),
            ("host/src/threads/team.rs", lending),
        ],
    );
}

#[test]
fn nothing_names_a_machine_or_a_workplace() {
    let banned = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("bash", "_jobs"),
        concat!("crates", ".io"),
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("npmjs", ".org"),
    ];
    let mut complaints = Vec::new();
    for file in files(&["rs", "toml", "md", "py", "sh", "json", "stdout", "stderr", "cmd"]) {
        for (n, line) in file.text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|word| line.contains(*word)) {
                complaints.push(format!("{}:{} has `{word}`", file.path, n + 1));
            }
        }
    }
    report("places", &complaints);
}
