//! What the plugin boundary costs: finding and loading 20 plugins, a call across it, and opening 100,000 tensors.
//!
//! `cargo bench -p apr-tests --bench boundary`
//!
//! The plugins are 20 copies of one: copies are libraries of their own, each judged, mapped, checked and constructed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench stops at the first surprise"
)]

mod bench;

use apr_engine::registry::{Format, Registry};
use apr_host::plugins::{DiscoverOptions, file_name};
use apr_sdk::{Limits, Look, MemorySource, ModelBuilder, Options, Reader};
use bench::{median, scratch, verdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const PLUGINS: usize = 20;
const TENSORS: u32 = 100_000;

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// Finds what lies in `folder` and loads it.
fn load(folder: &Path) -> Registry {
    let named = vec![folder.to_owned()];
    let mut registry = apr_host::plugins::discover(&DiscoverOptions { named, ..DiscoverOptions::default() });
    registry.load_all();
    assert!(registry.plugins()[0].state.is_ok(), "{:?}", registry.plugins()[0].state.as_ref().err());
    registry
}

/// A file of empty tensors with names of about 40 bytes.
fn many_tensors() -> Vec<u8> {
    let text = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    let counts = [u64::from(TENSORS).to_le_bytes(), 0u64.to_le_bytes()].concat();
    let mut file = [b"GGUF".as_slice(), &3u32.to_le_bytes(), &counts].concat();
    for n in 0..TENSORS {
        file.extend(text(&format!("model.layers.{n:06}.mlp.up_projection.w")));
        file.extend([&2u32.to_le_bytes()[..], &0u64.to_le_bytes(), &1u64.to_le_bytes()].concat());
        file.extend([&0u32.to_le_bytes()[..], &0u64.to_le_bytes()].concat());
    }
    file.resize(file.len().next_multiple_of(32), 0);
    file
}

/// The time to open and describe `source`, in milliseconds: the least of 20.
fn open(reader: &dyn Reader, source: &MemorySource) -> f64 {
    let file_len = |file| apr_sdk::Source::len(source, file);
    let times = (0..20).map(|_| {
        let (start, limits) = (Instant::now(), Limits::default());
        let model = reader.open(source, &limits, &Options::new()).unwrap();
        let mut builder = ModelBuilder::new("gguf", &limits, &file_len);
        model.describe(source, &mut builder).unwrap();
        assert_eq!(builder.finish().tensors.len(), TENSORS as usize);
        ms(start)
    });
    times.fold(f64::INFINITY, f64::min)
}

/// The mean time of a probe, in nanoseconds.
fn probe(reader: &dyn Reader) -> f64 {
    let look = Look { name: "x", len: 8, head: b"no such", tail: b"", is_folder: false, entries: &[] };
    let (start, n) = (Instant::now(), 1_000_000u32);
    for _ in 0..n {
        std::hint::black_box(reader.probe(std::hint::black_box(&look)));
    }
    ms(start) * 1e6 / f64::from(n)
}

fn main() {
    let folder = scratch("boundary");
    let built = std::env::current_exe().unwrap().with_file_name(file_name("gguf"));
    let mut times = Vec::new();
    for round in 0..11 {
        let folders: Vec<PathBuf> = (0..PLUGINS).map(|n| folder.join(format!("{round}-{n}"))).collect();
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
            std::fs::copy(&built, folder.join(file_name("gguf"))).unwrap();
        }
        let start = Instant::now();
        folders.iter().for_each(|folder| drop(load(folder)));
        times.push(ms(start));
    }
    let (first, middle) = (times[0], median(&mut times));
    println!(
        "load {PLUGINS} plugins: first {first:.1} ms, median {middle:.1} ms (target 20 ms): {}",
        verdict(middle <= 20.0)
    );
    let registry = load(&folder.join("0-0"));
    let loaded = registry.format("gguf").and_then(Format::reader).unwrap();
    let linked: Arc<dyn Reader> = Arc::from((apr_plugin_gguf::PLUGIN.reader)("gguf").unwrap());
    println!("probe: linked {:.1} ns, loaded {:.1} ns", probe(&*linked), probe(&*loaded));
    let source = MemorySource::new("many.gguf", many_tensors());
    let (plain, across) = (open(&*linked, &source), open(&*loaded, &source));
    println!("open {TENSORS} tensors: linked {plain:.1} ms, loaded {across:.1} ms");
    let _ = std::fs::remove_dir_all(&folder);
}
