//! What a report measures is what a plain loop over the values finds, for every kind of payload; and its page, whatever is in
//! the model, is one that a browser shows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "a test may panic, and its numbers are small"
)]

mod bad_input;
mod browser;
mod measured;

use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::survey::{Survey, survey};
use apr_host::host::Host;
use apr_host::report::{MOST_TENSORS, survey_page};
use serde_json::json;
use std::path::Path;

/// A tensor to be written: name, type as safetensors has it, shape, bytes.
type Written<'t> = (&'t str, &'t str, &'t [u64], Vec<u8>);

/// Writes a safetensors file of these tensors.
fn write(path: &Path, tensors: &[Written<'_>]) {
    let mut at = 0;
    let mut header = serde_json::Map::new();
    for (name, dtype, shape, bytes) in tensors {
        let end = at + bytes.len();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]});
        header.insert((*name).to_owned(), entry);
        at = end;
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut out = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    tensors.iter().for_each(|(.., bytes)| out.extend_from_slice(bytes));
    std::fs::write(path, out).unwrap();
}

fn opened(host: &Host, path: &Path) -> OpenedModel {
    open(host, path, &OpenOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What is measured of one model, or of two.
fn measured(host: &Host, a: &Path, b: Option<&Path>) -> Survey {
    let b = b.map(|b| opened(host, b));
    survey(host, &opened(host, a), b.as_ref(), MOST_TENSORS).unwrap()
}

/// The page about a model.
fn page(a: &Path) -> String {
    survey_page(&measured(&apr_tests::host(), a, None), None).unwrap()
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
    (0..n).map(|_| (next() + next() + next()) * 0.04).collect()
}
