//! What a conversion gave, as two digests: of what was written or of what kind the refusal is, and of what was said.

use crate::blank::{Places, blank_versions};
use crate::flags::{Case, FLAG_SETS, FlagSet, Verb};
use crate::inputs::{Input, Inputs};
use apr_engine::registry::Format;
use apr_host::convert::{ConvertOptions, convert, plan};
use apr_host::host::Host;
use apr_sdk::{Error, Result};
use apr_tests::{Scratch, names_in, root};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// What a conversion says beside its files. Not its time, and not the figures of what quantizing lost, which are sums of
/// floats.
const SAID: &[&str] =
    &["from", "to", "tensors", "verified", "changed", "coverage", "looked", "notes", "warnings"];
/// What a plan says of how the work will be done, rather than of what will be there: of it all, and of a tensor.
const STEPS: (&str, &str) = ("payload_memory", "ops");

/// How many digits of a digest of bytes are listed, and how many of one of words.
const BYTES: usize = 7;
const WORDS: usize = 3;

/// What a conversion gave.
pub struct Outcome {
    /// A digest of the bytes, or the kind of the refusal.
    given: String,
    /// What the digest is of, a line each.
    shown: Vec<String>,
    /// What was said.
    words: String,
}

impl Outcome {
    /// How it stands in the list.
    pub fn cell(&self) -> String {
        match &self.words[..] {
            "" => self.given.clone(),
            words => format!("{}.{}", self.given, &hex(words.as_bytes())[..WORDS]),
        }
    }

    fn of_json(given: &Json, words: String) -> Outcome {
        let shown = format!("{given:#}");
        Outcome { given: hex(shown.as_bytes())[..BYTES].to_owned(), shown: vec![shown], words }
    }

    fn of_error(error: &Error, left: &[String], places: &Places) -> Outcome {
        let mut given = format!("!{:?}", error.kind());
        if let Some(code) = error.stable_code() {
            write!(given, ":{code}").unwrap();
        }
        if !left.is_empty() {
            given.push_str("+files");
        }
        let words = [vec![error.to_string()], error.causes().to_vec()].concat().join("\n");
        Outcome { given, shown: left.to_vec(), words: places.blank(&words) }
    }
}

/// What was digested, as text.
pub fn shown(head: &str, outcomes: &[(String, Outcome)]) -> String {
    let mut text = format!("{head}\n");
    for (set, outcome) in outcomes {
        writeln!(text, "  {set} = {}", outcome.cell()).unwrap();
        outcome.shown.iter().for_each(|line| writeln!(text, "    {line}").unwrap());
        outcome.words.lines().for_each(|line| writeln!(text, "    | {line}").unwrap());
    }
    text
}

/// What an input gives for a format, by flag set.
pub fn of(host: &Host, inputs: &Inputs, input: &Input, target: &Format) -> Vec<(String, Outcome)> {
    let case = Case { input, target };
    let sets = FLAG_SETS.iter().filter(|set| set.of.has(input));
    sets.flat_map(|set| try_set(host, inputs, &case, set)).collect()
}

fn try_set(host: &Host, inputs: &Inputs, case: &Case<'_>, set: &FlagSet) -> Vec<(String, Outcome)> {
    let mut options = ConvertOptions {
        input: case.input.path.clone(),
        to: Some(case.target.id().to_owned()),
        ..ConvertOptions::default()
    };
    if !(set.ask)(&mut options, case) {
        return Vec::new();
    }
    let scratch = Scratch::in_memory();
    let manifest = &case.target.manifest;
    let name = match manifest.extensions.first() {
        Some(extension) if !manifest.folder && options.max_shard_size.is_none() => format!("out.{extension}"),
        _ => "out".to_owned(),
    };
    options.output = Some(scratch.at(&name));
    let places = Places::new([
        (scratch.path().to_owned(), "OUT"),
        (inputs.scratch.path().to_owned(), "IN"),
        (root(), "ROOT"),
    ]);
    let done = match set.verb {
        Verb::Convert => converted(host, &options, &scratch, &places).map(|outcome| vec![("", outcome)]),
        Verb::Plan => planned(host, &options, &places),
    };
    let outcomes =
        done.unwrap_or_else(|error| vec![("", Outcome::of_error(&error, &scratch.names(), &places))]);
    outcomes.into_iter().map(|(what, outcome)| (format!("{}{what}", set.name), outcome)).collect()
}

fn converted(host: &Host, options: &ConvertOptions, scratch: &Scratch, places: &Places) -> Result<Outcome> {
    let done = convert(host, options)?;
    let mut files = Vec::new();
    collect(scratch.path(), "", &mut files);
    blank_versions(&mut files);
    let mut all = Sha256::new();
    let mut shown = Vec::new();
    for (name, bytes) in &files {
        let line = format!("{} {} {name}", hex(bytes), bytes.len());
        all.update(&line);
        all.update("\n");
        shown.push(line);
    }
    let said = serde_json::to_value(&done).unwrap();
    let said: String = SAID.iter().map(|key| format!("{key}: {:#}\n", said[*key])).collect();
    Ok(Outcome { given: hex_of(all)[..BYTES].to_owned(), shown, words: places.blank(&said) })
}

/// What will be there, and how the work will be done: a change of the second alone changes no output.
fn planned(host: &Host, options: &ConvertOptions, places: &Places) -> Result<Vec<(&'static str, Outcome)>> {
    let mut there = serde_json::to_value(plan(host, options)?).unwrap();
    let mut steps = json!({ (STEPS.0): there[STEPS.0].take() });
    let object = there.as_object_mut().unwrap();
    object.remove(STEPS.0);
    let said: String = ["coverage", "notes", "warnings"]
        .iter()
        .map(|key| format!("{key}: {:#}\n", object.remove(*key).unwrap_or_default()))
        .collect();
    for tensor in there["tensors"].as_array_mut().into_iter().flatten() {
        let ops = tensor.as_object_mut().unwrap().remove(STEPS.1).unwrap_or_default();
        steps[tensor["name"].as_str().unwrap()] = ops;
    }
    let there: Json = serde_json::from_str(&places.blank(&there.to_string())).unwrap();
    let outcomes = [
        ("", Outcome::of_json(&there, places.blank(&said))),
        (".steps", Outcome::of_json(&steps, String::new())),
    ];
    Ok(outcomes.into())
}

/// Every file below a folder by its path there, sorted.
fn collect(folder: &Path, path: &str, files: &mut Vec<(String, Vec<u8>)>) {
    for name in names_in(folder) {
        let (here, name) = (folder.join(&name), format!("{path}{name}"));
        if here.is_dir() {
            collect(&here, &format!("{name}/"), files);
        } else {
            files.push((name, fs::read(&here).unwrap()));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    hex_of(Sha256::new_with_prefix(bytes))
}

fn hex_of(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
