//! A prompt with figures of every operation against the same prompt without, in alternating rounds: what a trace costs.
//!
//! `cargo bench -p apr-tests --bench traced [-- --model PATH --tokens 256 --rounds 15 --threads 2]`
//!
//! The model is the trained one of `tests/model`, unless another is named. The bound is that of `apr trace`: a fifth of the prefill.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_engine::open::{OpenOptions, open};
use apr_host::running::{Backend, LoadOptions, Loaded, load};
use apr_inference::generation::Model;
use apr_inference::trace::{Subject, Tracer};
use bench::{argument, median, number};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() {
    let model =
        argument("--model").map_or_else(|| apr_tests::root().join("tests/model/weights"), PathBuf::from);
    let count = number("--tokens", 256) as u32;
    let threads = number("--threads", 2) as usize;
    let mut host = apr_tests::host();
    host.set_threads(threads);
    let opened = open(&host, &model, &OpenOptions::default()).unwrap();
    let options =
        LoadOptions { backend: Backend::Host, threads, context: Some(count), ..LoadOptions::default() };
    let mut plain = load(&host, &opened, &options).unwrap();
    let mut traced = load(&host, &opened, &LoadOptions { measures: true, ..options }).unwrap();
    let vocabulary = plain.facts.vocabulary;
    let ids: Vec<u32> = (0..count).map(|n| 3 + n * 37 % (vocabulary - 3)).collect();
    let (mut without, mut with, mut measuring) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=number("--rounds", 15) {
        plain.runner.clear().unwrap();
        let began = Instant::now();
        plain.runner.feed(&ids).unwrap();
        let took = began.elapsed();
        let (all, own) = trace(&mut traced, &ids);
        // The first makes pages of caches and values.
        if round > 0 {
            without.push(took.as_secs_f64());
            with.push(all.as_secs_f64());
            measuring.push(own as f64 / 1e9);
        }
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let rates = [least(&without), least(&with)];
    let mut ratios: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with / without).collect();
    println!("{}: {count} tokens, {threads} threads", model.display());
    println!(
        "least: {:.2} ms without, {:.2} ms with a trace: {:+.1} %",
        rates[0] * 1e3,
        rates[1] * 1e3,
        (rates[1] / rates[0] - 1.0) * 100.0
    );
    println!("median of the rounds' ratios: {:+.1} %", (median(&mut ratios) - 1.0) * 100.0);
    println!("measuring alone, median: {:.2} ms", median(&mut measuring) * 1e3);
}

/// The duration of a traced prompt, figures read, and the nanoseconds that its measures took.
fn trace(loaded: &mut Loaded, ids: &[u32]) -> (Duration, u64) {
    loaded.runner.clear().unwrap();
    let began = Instant::now();
    let subject = Subject {
        runner: &mut loaded.runner,
        built: &loaded.built,
        specs: &loaded.specs,
        probes: &loaded.probes,
    };
    let now = || began.elapsed();
    let mut tracer = Tracer::new(subject, &now);
    tracer.feed(ids).unwrap();
    let recording = tracer.finish().prompt;
    (began.elapsed(), recording.steps.iter().map(|step| step.measuring).sum())
}
