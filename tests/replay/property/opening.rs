//! Opening any bytes: a refusal with its place, or a model whose every byte lies in its files.

use super::arrange::Arrangement;
use super::errors::{check_refusal, check_shown};
use super::lent::Lent;
use super::{Subject, memory};
use apr_sdk::{Budget, Bytes, Extent, Limits, Look, Payload, Score, Source, Value};
use apr_testkit::{MeteringSource, Opened, read_limited, read_with_parts, same_index};
use std::time::{Duration, Instant};

/// The longest one opening may take: inputs are small, so anything near it is a loop without end.
const LONGEST: Duration = Duration::from_secs(5);

/// Bytes of values and payloads that are read of one model.
const READ: u64 = 1 << 20;

/// Memory that opening takes whatever the file is: buffers, and the books of the counting itself.
const FIXED: u64 = 1 << 20;

/// Opens an arrangement and checks what comes of it.
pub fn check(subject: &Subject, arrangement: &Arrangement) -> Option<Opened> {
    probe(subject, arrangement);
    in_proportion(subject, arrangement);
    let budget = Budget::default();
    let source = Lent::new(arrangement, &budget);
    let start = Instant::now();
    let outcome = read_with_parts(&*subject.reader, subject.id(), &source, &subject.options(false));
    let took = start.elapsed();
    assert!(took < LONGEST, "opening took {} s", took.as_secs());
    match outcome {
        Ok(opened) => {
            check_model(&opened, &source);
            check_again(subject, &source, &opened);
            Some(opened)
        }
        Err(error) => {
            check_refusal("opening", &error);
            None
        }
    }
}

/// Probing sees the beginning and the end, and answers with a score.
fn probe(subject: &Subject, arrangement: &Arrangement) {
    let mut entries: Vec<_> = arrangement.files.iter().map(|(name, _)| name.clone()).collect();
    entries.sort();
    let (name, bytes) = &arrangement.files[0];
    let bytes = if arrangement.folder { &[] } else { &bytes[..] };
    let score = subject.reader.probe(&Look {
        name: if arrangement.folder { "folder" } else { name },
        len: bytes.len() as u64,
        head: &bytes[..bytes.len().min(Look::HEAD)],
        tail: &bytes[bytes.len().saturating_sub(Look::TAIL)..],
        is_folder: arrangement.folder,
        entries: &entries,
    });
    assert!(score <= Score::MAGIC_AND_VERSION, "{score:?}");
}

/// Opens under a budget without its base, so that memory must be earned by reading: what a small file may take beyond
/// that is what a large one would take out of proportion.
fn in_proportion(subject: &Subject, arrangement: &Arrangement) {
    let limits = Limits { budget: Budget::new(FIXED), ..Limits::default() };
    let source = Lent::new(arrangement, &limits.budget);
    let source = MeteringSource::new(&source);
    let options = subject.options(false);
    let (outcome, peak) =
        memory::peak(|| read_limited(&*subject.reader, subject.id(), &source, &options, &limits));
    let read = source.bytes_read();
    let allowed = 2 * FIXED + Budget::PER_BYTE * read;
    let how = if outcome.is_ok() { "opens" } else { "is refused" };
    assert!(peak <= allowed, "{peak} bytes of memory for {read} that were read, at most {allowed}; it {how}");
}

/// The same bytes give the same model.
fn check_again(subject: &Subject, source: &dyn Source, first: &Opened) {
    let again = read_with_parts(&*subject.reader, subject.id(), source, &subject.options(false));
    let again = again.unwrap_or_else(|e| panic!("opens once, not twice: {e}"));
    same_index(&first.model, &again.model).unwrap_or_else(|e| panic!("{e}"));
}

/// Everything lies inside the files and can be read.
fn check_model(opened: &Opened, source: &dyn Source) {
    let model = &opened.model;
    let mut left = READ;
    for (index, tensor) in model.tensors.iter().enumerate() {
        let len = tensor.payload_len().unwrap_or_else(|e| panic!("a tensor without length: {e}"));
        if let Payload::Extent { extent, .. } = &tensor.payload {
            inside("a payload", *extent, source);
        }
        let Some(rest) = left.checked_sub(len) else { continue };
        left = rest;
        let read = opened.payload(index, source).map(|bytes| bytes.len() as u64);
        match (&tensor.payload, read) {
            (_, Ok(there)) => assert_eq!(there, len, "payload of `{}`", tensor.name),
            // What lies in extents was checked; what must be decoded may still turn out to be damaged.
            (Payload::Extent { .. }, Err(error)) => panic!("`{}` cannot be read: {error}", tensor.name),
            (_, Err(error)) => check_refusal("reading a payload", &error),
        }
    }
    for file in model.foreign.iter().flat_map(|foreign| &foreign.files) {
        for (key, value) in &file.typed {
            let Some(bytes) = fetch("a metadata value", &value.bytes, &mut left, source) else { continue };
            let held = Value { kind: value.kind, bytes: Bytes::from(bytes) };
            held.check().unwrap_or_else(|e| panic!("metadata key {key:?}: {e}"));
        }
        file.verbatim.iter().for_each(|bytes| drop(fetch("a verbatim form", bytes, &mut left, source)));
    }
    model.assets.iter().for_each(|asset| drop(fetch("an asset", &asset.bytes, &mut left, source)));
    for checksum in &model.checksums {
        inside("what a checksum covers", checksum.covers, source);
        fetch("a checksum", &checksum.stored, &mut left, source);
    }
    model.notes.iter().for_each(|note| check_shown("a note", note));
}

fn inside(what: &str, extent: Extent, source: &dyn Source) {
    let len = source.len(extent.file).unwrap_or_else(|e| panic!("{what} in no file: {e}"));
    assert!(extent.end().is_some_and(|end| end <= len), "{what} outside its file of {len} bytes: {extent:?}");
}

/// The bytes, if there are few enough left to read.
pub fn fetch(what: &str, bytes: &Bytes, left: &mut u64, source: &dyn Source) -> Option<Vec<u8>> {
    if let Bytes::Extent(extent) = bytes {
        inside(what, *extent, source);
    }
    *left = left.checked_sub(bytes.len())?;
    Some(match bytes {
        Bytes::Inline(held) => held.to_vec(),
        Bytes::Extent(extent) => {
            let mut out = vec![0; extent.len as usize];
            source.read_at(extent.file, extent.offset, &mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
            out
        }
    })
}
