//! Digests of conversions: every model that is checked in or derived from one, to every writable format, with
//! every flag set in `flags.rs`. They show how a change to planning or running conversions affects output,
//! refusals and messages; a change that should change nothing must leave `digests.txt` alone.
//!
//! The inputs are found by walking (`inputs.rs`), so a new fixture gives new lines. A line of `digests.txt`
//! has an input, a format and, for the flag sets with the same result, one outcome: `BYTES.WORDS` for an
//! output, `!KIND.WORDS` for a refusal, with its stable code if it has one. BYTES covers the names and bytes
//! of all files, WORDS the notes, warnings and other messages. `outcome.rs` says what both exclude. For a
//! plan, BYTES covers the planned output; `plan.steps` covers how it will be computed, which may change by
//! itself. `Of` in `flags.rs` says why a model lacks a flag set.
//!
//! `BLESS=1 cargo test -p apr-tests --test baseline` rewrites the file; read the difference, and say in the
//! commit why it is right. `ONLY=PART` tries only the lines with that part in `INPUT > FORMAT` and prints
//! what is digested: run it before and after a change, and compare the two.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod blank;
mod flags;
mod inputs;
mod large;
mod listed;
mod outcome;
mod packed;

use crate::inputs::{Input, Inputs};
use crate::listed::{Cells, Listed};
use apr_engine::registry::Format;
use apr_host::host::Host;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many cases are tried at once.
const AT_ONCE: usize = 2;

/// A host whose conversions run on so many threads.
fn host(threads: usize) -> Host {
    let mut host = apr_tests::host();
    host.set_threads(threads);
    host
}

#[test]
fn every_conversion_gives_what_is_listed() {
    let (alone, together) = (host(1), host(2));
    let only = std::env::var("ONLY").ok();
    let inputs = Inputs::find(&alone);
    let mut targets: Vec<&Format> =
        alone.registry.formats().iter().filter(|format| format.manifest.writes).collect();
    targets.sort_by_key(|format| format.id());
    let pairs: Vec<(&Input, &Format)> = inputs
        .all
        .iter()
        .flat_map(|input| targets.iter().map(move |target| (input, *target)))
        .filter(|(input, target)| {
            only.as_ref().is_none_or(|part| listed::head(&input.name, target.id()).contains(part))
        })
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new((Listed::default(), BTreeMap::new())));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((input, target)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // A model of several tiles is worth several threads.
                    let host = if input.is_large { &together } else { &alone };
                    let outcomes = outcome::of(host, &inputs, input, target);
                    let cells: Cells =
                        outcomes.iter().map(|(set, outcome)| (set.clone(), outcome.cell())).collect();
                    let mut found = found.lock().unwrap();
                    found.0.insert(&input.name, target.id(), cells);
                    if only.is_some() {
                        let head = listed::head(&input.name, target.id());
                        found.1.insert(head.clone(), outcome::shown(&head, &outcomes));
                    }
                }
            });
        }
    });
    let (found, shown) = found.into_inner().unwrap();
    // Not caught, as what is printed would be.
    std::io::stdout().write_all(shown.into_values().collect::<String>().as_bytes()).unwrap();
    if std::env::var_os("BLESS").is_some() {
        assert!(only.is_none(), "the list is written as a whole: BLESS without ONLY");
        found.write();
    }
    let listed = only.iter().fold(Listed::read(), |listed, part| listed.only(part));
    let complaints = listed.differences(&found);
    assert!(
        complaints.is_empty(),
        "{}\n{} of {} lines differ (ONLY=PART shows what is digested; BLESS=1 accepts all, review reads the difference)",
        complaints.join("\n"),
        complaints.len(),
        found.len()
    );
}
