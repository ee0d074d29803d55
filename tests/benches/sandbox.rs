//! What the worker process of tokenizers and chat templates costs, beside the same calls in a process that does them itself:
//! starting it with tokenizers of 256 and of 100,000 tokens, and requests of the sizes that an answer and a message make.
//!
//! `cargo bench -p apr-tests --bench sandbox`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_inference::generation::Decoder;
use apr_inference::template::{Conversation, choose, render};
use apr_inference::tokens::{Encoding, Tokens};
use apr_sandbox::{Program, Watch};
use apr_sdk::tokenizer::{Kind, Parts, Spelling, TokenType, Tokenizer, byte_of};
use bench::{apr, argument, verdict};
use serde_json::json;
use std::process::Command;
use std::time::Instant;

const TOKENS: usize = 100_000;
const ROUNDS: usize = 9;
const REQUESTS: u32 = 2_000;
/// What the design allows: milliseconds to start, and for a request.
const START_MS: f64 = 5.0;
const REQUEST_MS: f64 = 0.2;

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

/// A tokenizer of bytes and many words.
fn tokenizer(n: usize) -> Vec<u8> {
    let mut of_bytes: Vec<(u8, char)> =
        (0..0x144).filter_map(char::from_u32).filter_map(|c| Some((byte_of(c)?, c))).collect();
    of_bytes.sort_unstable();
    let mut tokens: Vec<_> = of_bytes.iter().map(|(_, c)| Some(c.to_string())).collect();
    tokens.extend((tokens.len()..n).map(|n| Some(format!("Ġword{n}"))));
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let parts = Parts {
        kind: Kind::Bpe,
        spelling: Spelling::Bytes,
        types: vec![TokenType::Normal; tokens.len()],
        tokens,
        pre_tokenizer: Some(level.clone()),
        decoder: Some(level),
        chat_templates: vec![("default".to_owned(), CHATML.to_owned())],
        ..Parts::default()
    };
    Tokenizer::new(parts).unwrap().to_json()
}

fn least(mut call: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| call()).fold(f64::INFINITY, f64::min)
}

/// Milliseconds of a call, as the mean of many.
fn each(mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    (0..REQUESTS).for_each(|_| call());
    began.elapsed().as_secs_f64() * 1000.0 / f64::from(REQUESTS)
}

/// Milliseconds that loading a tokenizer takes in a process that has loaded none: what a verb without a worker would take.
fn loaded_in_a_new_process(n: usize) -> f64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--load", &n.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Loads a tokenizer, and prints the milliseconds that it took.
fn load(n: usize) {
    let json = tokenizer(n);
    let began = Instant::now();
    let mut tokens = Tokens::new(Tokenizer::from_json(&json).unwrap()).unwrap();
    assert!(!tokens.encode("Hi", Encoding::default()).unwrap().is_empty());
    println!("{}", began.elapsed().as_secs_f64() * 1000.0);
}

fn main() {
    if let Some(n) = argument("--load") {
        return load(n.parse().unwrap());
    }
    let how = Encoding::default();
    let program = || Program::at(apr());
    let mut json = Vec::new();
    for n in [256, TOKENS] {
        json = tokenizer(n);
        let loaded = least(|| loaded_in_a_new_process(n));
        let started = least(|| {
            let began = Instant::now();
            let tokens = apr_sandbox::Tokens::new(program(), json.clone(), Watch::default()).unwrap();
            assert!(!tokens.encode("Hi", how).unwrap().is_empty());
            began.elapsed().as_secs_f64() * 1000.0
        });
        let (beyond, kib) = (started - loaded, json.len() >> 10);
        println!("{n} tokens, {kib} KiB: {loaded:.1} ms here, {started:.1} ms in a worker that is started");
        println!("starting it: {beyond:.1} ms, {START_MS} allowed: {}", verdict(beyond <= START_MS));
    }

    let parts = Tokenizer::from_json(&json).unwrap();
    let mut here = Tokens::new(parts.clone()).unwrap();
    let there = apr_sandbox::Tokens::new(program(), json, Watch::default()).unwrap();
    let messages = (0..8).map(|n| json!({"role": "user", "content": format!("message {n}")})).collect();
    let chat = Conversation { messages, ..Conversation::default() };
    let ids = here.encode(" some text of nine tokens or more", how).unwrap();
    let requests: [(&str, f64, f64); 3] = [
        (
            "decoding some tokens",
            least(|| each(|| drop(here.decode(&ids, true).unwrap()))),
            least(|| each(|| drop(there.decode(&ids, true).unwrap()))),
        ),
        (
            "rendering 8 messages",
            least(|| each(|| drop(render(choose(&parts, None, false).unwrap(), &parts, &chat).unwrap()))),
            least(|| each(|| drop(there.render(None, &chat).unwrap()))),
        ),
        (
            "encoding a line",
            least(|| each(|| drop(here.encode("some words of a line", how).unwrap()))),
            least(|| each(|| drop(there.encode("some words of a line", how).unwrap()))),
        ),
    ];
    for (what, here, there) in requests {
        let is_met = verdict(there - here <= REQUEST_MS);
        println!(
            "{what}: {here:.4} ms here, {there:.4} ms in the worker, {REQUEST_MS} more allowed: {is_met}"
        );
    }
}
