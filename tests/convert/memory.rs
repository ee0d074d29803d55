//! From memory to memory: the same bytes, and the same refusals, as with files; and storage that fails, shrinks or changes
//! at any call.

use apr_engine::convert::{Translated, run};
use apr_engine::open::{Held, Listed};
use apr_engine::place::{Backing, Version};
use apr_engine::tiles::{Memory, TileRecord, TileSink};
use apr_host::convert::ConvertOptions;
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind, Result};
use apr_tests::{Scratch, fixtures, host, in_memory, names_in, unplaced};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A file or folder with all that is in it, under its own name.
fn held(path: &Path) -> Listed {
    fn take(path: &Path, name: String, files: &mut BTreeMap<String, Arc<dyn Backing>>) {
        if path.is_dir() {
            for entry in names_in(path) {
                take(&path.join(&entry), format!("{name}/{entry}"), files);
            }
        } else {
            files.insert(name, Arc::new(Held(fs::read(path).unwrap().into())));
        }
    }
    let mut listed = Listed::default();
    take(path, name_of(path), &mut listed.files);
    listed
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A host whose paths lead into memory.
fn host_of(listed: Listed, threads: usize) -> Host {
    let mut host = host();
    host.set_threads(threads);
    host.places = Arc::new(listed);
    host
}

fn options(input: &str, output: &str) -> ConvertOptions {
    ConvertOptions { input: input.into(), output: Some(output.into()), ..ConvertOptions::default() }
}

/// Fixtures of every format: whatever lies directly among a plugin's data, but for what makes or describes it.
fn inputs() -> Vec<PathBuf> {
    let plugins = ["apr", "ggml-legacy", "gguf", "numpy", "onnx", "pytorch", "safetensors"];
    let mut found = Vec::new();
    for plugin in plugins {
        let folder = fixtures(plugin);
        let names = names_in(&folder).into_iter();
        found.extend(names.filter(|n| !n.ends_with(".py") && !n.ends_with(".json")).map(|n| folder.join(n)));
    }
    assert!(found.len() > 100, "the scan found only {} fixtures", found.len());
    found
}

#[test]
fn every_fixture_gives_the_bytes_and_the_refusals_that_files_give() {
    let (files, scratch) = (host(), Scratch::in_memory());
    let (mut n_same, mut n_refused) = (0, 0);
    for input in inputs() {
        let name = name_of(&input);
        let memory = host_of(held(&input), 1);
        for target in ["out.apr", "out.gguf", "out.safetensors", "out.npz", "out.onnx", "out.pt"] {
            let output = scratch.at(target);
            let wanted = ConvertOptions { arch: Some("none".to_owned()), ..options("", "") };
            let of_files =
                ConvertOptions { input: input.clone(), output: Some(output.clone()), ..wanted.clone() };
            let of_memory =
                ConvertOptions { input: name.clone().into(), output: Some(target.into()), ..wanted };
            let by_files = apr_host::convert::convert(&files, &of_files);
            match (by_files, in_memory(&memory, &of_memory)) {
                (Ok(_), Ok(made)) => {
                    for (file, bytes) in &made.files {
                        assert!(fs::read(scratch.at(file)).unwrap() == *bytes, "{name} -> {file}");
                        fs::remove_file(scratch.at(file)).unwrap();
                    }
                    assert_eq!(scratch.names(), Vec::<String>::new(), "{name} -> {target}");
                    n_same += 1;
                }
                (Err(by_files), Err(error)) => {
                    assert_eq!(by_files.kind(), error.kind(), "{name} -> {target}: {by_files} | {error}");
                    assert_eq!(by_files.message(), error.message(), "{name} -> {target}");
                    n_refused += 1;
                }
                (by_files, by_memory) => panic!(
                    "{name} -> {target}: with files {:?}, in memory {:?}",
                    by_files.map(drop),
                    by_memory.map(drop)
                ),
            }
        }
    }
    assert!(n_same > 200 && n_refused > 20, "{n_same} were converted, {n_refused} refused");
}

/// What a failing sink says.
pub const INJECTED: &str = "the storage gave up";

/// A sink whose call of this number fails, and every later one.
struct Failing {
    inner: Box<dyn TileSink>,
    calls: Arc<AtomicUsize>,
    last: usize,
}

impl Failing {
    fn call(&self) -> Result<()> {
        match self.calls.fetch_add(1, Ordering::SeqCst) < self.last {
            true => Ok(()),
            false => Err(Error::io(INJECTED)),
        }
    }
}

impl TileSink for Failing {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.call()?;
        self.inner.write_at(file, offset, bytes)
    }

    fn set_len(&self, file: usize, len: u64) -> Result<()> {
        self.call()?;
        self.inner.set_len(file, len)
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        self.call()?;
        self.inner.read_back(file)
    }

    fn show(&self, file: usize) -> String {
        self.inner.show(file)
    }

    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        self.call()?;
        let inner = self.inner.scratch(len)?;
        Ok(Box::new(Failing { inner, calls: Arc::clone(&self.calls), last: self.last }))
    }

    fn laid_out(&self) -> Result<()> {
        self.call()?;
        self.inner.laid_out()
    }

    fn finished(&self, tile: usize, record: TileRecord) {
        self.inner.finished(tile, record);
    }
}

/// Converts into a sink whose call number `last` fails; gives how many calls there were.
pub fn with_failing(host: &Host, options: &ConvertOptions, last: usize) -> (Result<()>, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (request, output) = (options.request(), unplaced(host, options).unwrap());
    let done = run(host, &request, output, &|selected| Translated::new(selected), &mut |laid_out| {
        let files = laid_out.layout.files.iter().map(|file| (file.name.as_str(), file.len));
        let inner = Box::new(Memory::new(files)?);
        Ok(Box::new(Failing { inner, calls: Arc::clone(&calls), last }))
    });
    (done.map(drop), calls.load(Ordering::SeqCst))
}

#[test]
fn a_sink_may_fail_at_any_call() {
    // Plain payload; payload in streams; a writer without patches.
    let cases = [
        ("gguf/small.gguf", "out.apr"),
        ("numpy/deflated.npz", "out.apr"),
        ("gguf/small.gguf", "out.safetensors"),
    ];
    for (input, output) in cases {
        let (plugin, name) = input.split_once('/').unwrap();
        for threads in [1, 2] {
            let host = host_of(held(&fixtures(plugin).join(name)), threads);
            let options = ConvertOptions { arch: Some("none".to_owned()), ..options(name, output) };
            let (done, n_calls) = with_failing(&host, &options, usize::MAX);
            done.unwrap();
            assert!(n_calls > 5, "{input}: {n_calls} calls");
            for last in 0..n_calls {
                let error = with_failing(&host, &options, last).0.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "{input}, call {last}: {error}");
                assert!(error.message().contains(INJECTED), "{input}, call {last}: {error}");
            }
        }
    }
}

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// They can be read no more.
    Gone,
    /// They are others, and their version says so.
    Changed,
    /// Reading them takes its time.
    Slow,
}

/// Bytes that meet their fate at a call.
struct Fickle {
    bytes: Vec<u8>,
    calls: Arc<AtomicUsize>,
    last: usize,
    fate: Fate,
}

impl Fickle {
    fn is_met(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.last
    }
}

impl Backing for Fickle {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let begin = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes[begin..begin + out.len()]);
        match self.fate {
            Fate::Gone if self.is_met() => return Err(Error::io(INJECTED)),
            Fate::Changed if self.is_met() => out.iter_mut().for_each(|byte| *byte ^= 0x55),
            Fate::Slow if self.is_met() => std::thread::sleep(Duration::from_micros(200)),
            _ => {}
        }
        Ok(())
    }

    fn version(&self) -> Option<Version> {
        let modified = i128::from(self.fate == Fate::Changed && self.is_met());
        Some(Version { len: self.len(), modified, status: modified })
    }
}

/// Files by name.
type Files = Vec<(String, Vec<u8>)>;

/// Converts bytes that meet their fate at call `last`; gives how many calls there were.
fn of_fickle(path: &Path, output: &str, fate: Fate, last: usize) -> (Result<Files>, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let bytes = fs::read(path).unwrap();
    let fickle = Fickle { bytes, calls: Arc::clone(&calls), last, fate };
    let name = name_of(path);
    let files = [(name.clone(), Arc::new(fickle) as Arc<dyn Backing>)].into();
    let host = host_of(Listed { files, ..Listed::default() }, 2);
    let options = ConvertOptions { arch: Some("none".to_owned()), ..options(&name, output) };
    let made = in_memory(&host, &options).map(|made| made.files);
    (made, calls.load(Ordering::SeqCst))
}

#[test]
fn bytes_that_go_change_or_come_late_are_an_error_or_make_no_difference() {
    for (plugin, name, output) in [("gguf", "small.gguf", "out.apr"), ("numpy", "deflated.npz", "out.apr")] {
        let path = fixtures(plugin).join(name);
        let (whole, n_calls) = of_fickle(&path, output, Fate::Slow, usize::MAX);
        let whole = whole.unwrap();
        assert!(of_fickle(&path, output, Fate::Slow, 0).0.unwrap() == whole, "{name}, slowly");
        for last in 0..n_calls {
            let error = of_fickle(&path, output, Fate::Gone, last).0.map(drop).unwrap_err();
            assert!(error.message().contains(INJECTED), "{name}, gone at {last}: {error}");
            // What is read wrongly may be refused for itself; what is not, for the change.
            let error = of_fickle(&path, output, Fate::Changed, last).0.map(drop);
            assert!(error.is_err(), "{name}, changed at {last}, was converted");
        }
    }
}
