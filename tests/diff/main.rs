//! Comparing models, through the library, with our plugins linked in.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

mod kinds;
mod same;
mod tensors;

use apr_engine::diff::{Diff, DiffOptions, diff};
use apr_engine::open::{OpenOptions, open};
use apr_host::host::Host;
use apr_sdk::Result;
use std::path::Path;

/// Opens both files and compares them.
fn compare(host: &Host, a: &Path, b: &Path, options: &DiffOptions) -> Result<Diff> {
    let open = |path: &Path| open(host, path, &OpenOptions::default());
    diff(host, &open(a)?, &open(b)?, options)
}

/// The same, of files that must be comparable.
fn compared(a: &Path, b: &Path, options: &DiffOptions) -> Diff {
    compare(&apr_tests::host(), a, b, options).unwrap()
}

/// A SafeTensors file of these tensors: name, type, shape as JSON, bytes.
fn write(path: &Path, tensors: &[(&str, &str, &str, &[u8])]) {
    let mut at = 0;
    let mut entries = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let end = at + bytes.len();
        entries
            .push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut out = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    tensors.iter().for_each(|(.., bytes)| out.extend_from_slice(bytes));
    std::fs::write(path, out).unwrap();
}

/// Little-endian bytes of F32 values.
fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `n` values that look like weights, from a seed.
fn weights(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..n).map(|_| next()).collect()
}
