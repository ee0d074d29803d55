//! An input that changes while it is read: noticed also where its time of change is put back, and not mistaken for one whose
//! mode or links changed.

use apr_engine::open::{OpenOptions, open};
use apr_engine::progress::Progress;
use apr_host::convert::convert;
use apr_sdk::{ErrorKind, LogLevel, Payload};
use apr_tests::{Scratch, fixtures, host, must, options};
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What happens to the input once the first tensor was written.
type Act = Box<dyn Fn(&str) + Send + Sync>;

struct Once {
    done: AtomicBool,
    act: Act,
}

impl Progress for Once {
    fn bytes(&self, _: u64, _: u64, tensor: &str) {
        if !self.done.swap(true, Ordering::Relaxed) {
            (self.act)(tensor);
        }
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// Inputs that are copied, cut across and swapped, and inflated.
fn inputs() -> Vec<PathBuf> {
    let mut inputs = vec![fixtures("gguf").join("small.gguf")];
    inputs.extend(["fortran.npz", "big_endian.npz", "deflated.npz"].map(|name| fixtures("numpy").join(name)));
    inputs.push(fixtures("pytorch").join("views.pt"));
    inputs
}

/// Converts a copy of `path` that `act` happens to; gives whether that worked.
fn converts(path: &Path, act: impl Fn(&Path) -> Act) -> bool {
    let (mut host, scratch) = (host(), Scratch::new());
    host.set_threads(1);
    let input = scratch.at(path.file_name().unwrap().to_str().unwrap());
    std::fs::copy(path, &input).unwrap();
    // A file system's clock ticks every few milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    let once = Arc::new(Once { done: AtomicBool::new(false), act: act(&input) });
    host.progress = once.clone();
    let output = scratch.at("out.apr");
    let done = convert(&host, &options(&input, &output));
    assert!(once.done.load(Ordering::Relaxed), "{}: nothing was written", path.display());
    assert_eq!(done.is_ok(), output.exists());
    if let Err(error) = &done {
        assert!(error.message().contains("changed while it was being read"), "{}: {error}", path.display());
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, input.to_str()));
        let hint = format!("do not modify `{}` while apr is running; nothing was published", input.display());
        assert_eq!(error.hint_text(), Some(hint.as_str()));
    }
    done.is_ok()
}

#[test]
fn a_change_whose_time_is_put_back_is_noticed() {
    for path in inputs() {
        let converted = converts(&path, |input| {
            let opened = open(&host(), input, &OpenOptions::default()).unwrap();
            let place = |payload: &Payload| match payload {
                Payload::Extent { extent, .. } => extent.offset,
                // In the deflated data of `zeros`, whose stream is the longest and followed first.
                _ => 3200,
            };
            let tensors = opened.model.tensors.iter();
            let places: Vec<(String, u64)> = tensors.map(|t| (t.name.clone(), place(&t.payload))).collect();
            let input = input.to_owned();
            Box::new(move |tensor| {
                let file = File::options().read(true).write(true).open(&input).unwrap();
                let modified = file.metadata().unwrap().modified().unwrap();
                let (_, at) = places.iter().find(|(name, _)| name == tensor).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, *at).unwrap();
                file.write_all_at(&[byte[0] ^ 1], *at).unwrap();
                file.set_modified(modified).unwrap();
            })
        });
        assert!(!converted, "{}", path.display());
    }
}

#[test]
fn another_mode_or_link_is_no_change() {
    for path in inputs() {
        let chmod = |input: &Path| -> Act {
            let input = input.to_owned();
            Box::new(move |_| std::fs::set_permissions(&input, Permissions::from_mode(0o640)).unwrap())
        };
        assert!(converts(&path, chmod), "{}", path.display());
        let link = |input: &Path| -> Act {
            let input = input.to_owned();
            Box::new(move |_| std::fs::hard_link(&input, input.with_extension("link")).unwrap())
        };
        assert!(converts(&path, link), "{}", path.display());
    }
}

#[test]
fn the_record_of_an_input_is_of_its_payload_in_file_order_whatever_is_done_to_it() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let golden = apr_tests::root().join("tests/golden/llama");
    apr_testkit::Checkpoint::golden(&golden).unwrap().write_to(&scratch.at("llama")).unwrap();
    let record = |input: &Path, output: &str, arch: Option<&str>, dtype| {
        let mut o = options(input, &scratch.at(output));
        o.arch = arch.map(str::to_owned);
        o.quantization.precision = dtype;
        must(&host, &o);
        let written = open(&host, &scratch.at(output), &OpenOptions::default()).unwrap();
        let record = written.fetch(&written.model.provenance.clone().unwrap()).unwrap();
        let record: serde_json::Value = serde_json::from_slice(record.inline().unwrap()).unwrap();
        assert!(record["inputs"].as_array().is_some_and(|inputs| !inputs.is_empty()), "{record}");
        record["inputs"].clone()
    };
    let mut o = options(&scratch.at("llama"), &scratch.at("llama.gguf"));
    o.arch = None;
    must(&host, &o);
    // Rows in another order, and as they are; other types; read in long runs or in short ones.
    let as_it_lies = record(&scratch.at("llama.gguf"), "none.apr", Some("none"), None);
    assert_eq!(as_it_lies, record(&scratch.at("llama.gguf"), "translated.apr", None, None));
    assert_eq!(as_it_lies, record(&scratch.at("llama.gguf"), "cast.apr", None, Some(apr_sdk::DType::F32)));
    let deflated = fixtures("numpy").join("deflated.npz");
    assert_eq!(
        record(&deflated, "a.apr", Some("none"), None),
        record(&deflated, "b.apr", Some("none"), Some(apr_sdk::DType::F64))
    );
}
