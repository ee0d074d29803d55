//! The specification's checklist: every point that `apr validate --quality` judges has a file that fails it, or that shows
//! what it accepts.
//!
//! A case is a file `cases/POINT_WHAT.toml`:
//!
//! ```text
//! point      the number of the point
//! base       a checked-in model, relative to the repository's root
//! files      other files next to it, of a model of several
//! edits      where in the base (`at`) which bytes (`was`) become which (`put`), in hexadecimal digits, by offset
//! sum        true: the checksum in the footer is made right again
//! generate   metadata of 200 MB, which is made here: see `Generate`
//! arguments  more flags
//! exit       the exit code
//! code       the code of the error, if it has one
//! verdict    the verdict on the point, of a file that opens; otherwise the error's hint must name the point
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod base;

use apr_engine::verify::checklist::points;
use apr_tests::{Scratch, program, root};
use base::Edit;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{fs, path::PathBuf};

/// Addresses that the program may have, in KiB: 16 × a header of 200 MB would be more.
const MEMORY: u64 = 3 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    point: u8,
    base: PathBuf,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    edits: Vec<Edit>,
    #[serde(default)]
    sum: bool,
    generate: Option<base::Generate>,
    #[serde(default)]
    arguments: Vec<String>,
    exit: i32,
    code: Option<String>,
    verdict: Option<String>,
}

/// Every case with its name.
fn cases() -> Vec<(String, Case)> {
    let folder = root().join("tests/structure/cases");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = toml::from_str(&fs::read_to_string(path).unwrap());
        let case: Case = case.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(name.starts_with(&format!("{:02}_", case.point)), "{name}: the name begins with the point");
        (name, case)
    };
    paths.iter().map(read).collect()
}

#[test]
fn every_point_has_a_case() {
    let cases = cases();
    let covered: BTreeSet<u8> = cases.iter().map(|(_, case)| case.point).collect();
    let all: BTreeSet<u8> = points().unwrap().iter().map(|point| point.number).collect();
    assert_eq!(covered, all, "the points with a case, and those in the table");
    // A point with no bad file is one that must accept something, or that no file of a test can fail.
    let is_bad = |case: &Case| case.exit != 0 || case.verdict.as_deref() == Some("warn");
    let bad: BTreeSet<u8> =
        cases.iter().filter(|(_, case)| is_bad(case)).map(|(_, case)| case.point).collect();
    let only_accepted: Vec<u8> = all.difference(&bad).copied().collect();
    assert_eq!(only_accepted, [15, 20, 23, 25], "must pass: 15, 20, 25; planned: 23");
}

#[test]
fn every_case_holds() {
    let mut wrong = String::new();
    for (name, case) in cases() {
        for found in case.problems() {
            writeln!(wrong, "{name}: {found}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_bases_pass() {
    let bases: BTreeSet<PathBuf> = cases().into_iter().map(|(_, case)| case.base).collect();
    for base in bases {
        let ended = Ended::of(&root().join(&base), &["--checksum".to_owned(), "--strict".to_owned()]);
        assert_eq!(ended.exit, 0, "{}: {}", base.display(), ended.error);
        let verdicts: Vec<&str> = ended.points().iter().filter_map(|p| p["verdict"].as_str()).collect();
        assert!(verdicts.iter().all(|verdict| ["pass", "not-applicable"].contains(verdict)), "{verdicts:?}");
    }
}

impl Case {
    fn problems(&self) -> Vec<String> {
        let scratch = Scratch::new();
        let file = self.write(&scratch);
        let ended = Ended::of(&file, &self.arguments);
        let mut problems = Vec::new();
        let mut expect = |what: &str, is_so: bool| {
            if !is_so {
                problems.push(format!("{what}: {}{}", ended.error, ended.answer));
            }
        };
        expect(&format!("expected exit {}, not {}", self.exit, ended.exit), self.exit == ended.exit);
        expect(
            &format!("expected code {:?}", self.code),
            self.code.as_deref() == ended.error["code"].as_str(),
        );
        match &self.verdict {
            None => expect("the hint names the point", ended.hinted().contains(&self.point)),
            Some(verdict) => {
                let found = ended.points().iter().find(|point| point["number"] == self.point);
                let found = found.and_then(|point| point["verdict"].as_str());
                expect(&format!("expected the verdict {verdict}"), found == Some(verdict));
            }
        }
        if self.verdict.as_deref() == Some("warn") {
            let strict = [&self.arguments[..], &["--strict".to_owned()]].concat();
            expect("`--strict` makes it an error", Ended::of(&file, &strict).exit == 5);
        }
        problems
    }

    /// Writes the case's files, and returns the one to validate.
    fn write(&self, scratch: &Scratch) -> PathBuf {
        let base = root().join(&self.base);
        let mut bytes = fs::read(&base).unwrap();
        base::edit(&mut bytes, &self.edits);
        if let Some(generate) = self.generate {
            bytes = generate.metadata_of(&bytes);
        }
        if self.sum {
            base::sum(&mut bytes);
        }
        for name in &self.files {
            fs::copy(base.with_file_name(name), scratch.at(name)).unwrap();
        }
        let file = scratch.at(&base.file_name().unwrap().to_string_lossy());
        fs::write(&file, bytes).unwrap();
        file
    }
}

/// How `apr validate FILE --quality --json` ended.
struct Ended {
    exit: i32,
    answer: Json,
    error: Json,
}

impl Ended {
    fn of(file: &Path, arguments: &[String]) -> Ended {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {MEMORY}; exec \"$@\"")).arg("sh").arg(program());
        command.args(["validate", "--quality", "--json"]).args(arguments).arg(file);
        command.env_clear().env("HOME", file.parent().unwrap());
        let output = command.output().unwrap();
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or_default();
        Ended {
            exit: output.status.code().unwrap_or(-1),
            answer: json(&output.stdout),
            error: json(&output.stderr),
        }
    }

    fn points(&self) -> &[Json] {
        self.answer["points"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The points that the error's hint names.
    fn hinted(&self) -> Vec<u8> {
        let hint = self.error["hint"].as_str().unwrap_or_default();
        let named =
            hint.split_once("this fails point ").and_then(|(_, rest)| rest.split_once(" of the checklist"));
        let named = named.map(|(numbers, _)| numbers).unwrap_or_default();
        named.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    }
}
