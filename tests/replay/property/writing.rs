//! What opens can be written back: the same model or a refusal, the second time the same bytes, and the same bytes after
//! a way through the format that carries everything.

use super::Subject;
use super::arrange::Arrangement;
use super::errors::{check_refusal, check_write_refusal};
use super::lent::Lent;
use super::opening::fetch;
use apr_sdk::{Budget, Error, LayoutRequest, Model, Options, Source, ValueType};
use apr_testkit::{Opened, carried, read_with_parts, write};
use std::collections::HashMap;

/// Payload bytes of a model that is written. Damaged files let many tensors share the same bytes.
const MOST: u64 = 4 << 20;

/// Bytes of metadata values that are compared.
const COMPARED: u64 = 4 << 20;

/// What the in-memory sink says of padding that would fill the machine; the host's sink leaves a hole instead.
const LONG_GAP: &str = "a gap above";

/// Writes what was opened, and checks what comes of it.
pub fn check(subject: &Subject, arrangement: &Arrangement, opened: &Opened) {
    let bytes = opened.model.tensors.iter().map(|tensor| tensor.payload_len().unwrap_or(u64::MAX));
    let too_much = bytes.fold(0, u64::saturating_add) > MOST;
    if too_much || subject.writer.is_none() || carried(&subject.manifest, &opened.model).is_err() {
        return;
    }
    let budget = Budget::default();
    let source = Lent::new(arrangement, &budget);
    // Files with names are a folder's, even if it is one alone: an index that lists none.
    let files =
        opened.model.foreign_of(subject.id()).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    let several = files.iter().any(|file| !file.name.is_empty());
    let request = subject.request(several);
    let Some(written) = written(subject, opened, &source, &request) else { return };
    let again_source = Lent::new(&written, &budget);
    let again = reread(subject, &again_source);
    same_model((&opened.model, opened, &source), (&again.model, &again, &again_source), subject);
    let twice = rewritten(subject, &again, &again_source, &request);
    same_files("written twice", &written, &twice);
    if let Some(carrier) = &subject.carrier {
        through(subject, carrier, (opened, &source), (&written, &request));
    }
}

/// Goes through the format that carries everything, and back.
fn through(
    subject: &Subject,
    carrier: &Subject,
    (opened, source): (&Opened, &dyn Source),
    (direct, request): (&Arrangement, &LayoutRequest),
) {
    if carried(&carrier.manifest, &opened.model).is_err() {
        return;
    }
    let Some(inside) = written(carrier, opened, source, &carrier.request(false)) else { return };
    let budget = Budget::default();
    let inside_source = Lent::new(&inside, &budget);
    let back = reread(carrier, &inside_source);
    let twice = rewritten(subject, &back, &inside_source, request);
    same_files("after a way through the carrier", direct, &twice);
}

/// The files that the writer makes; `None` if it refuses.
fn written(
    subject: &Subject,
    opened: &Opened,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Option<Arrangement> {
    match try_write(subject, opened, source, request) {
        Ok(files) => Some(Arrangement { files, folder: false }),
        Err(error) if error.message().starts_with(LONG_GAP) => None,
        Err(error) => {
            check_write_refusal("writing", &error);
            None
        }
    }
}

/// The files that the writer must make again.
fn rewritten(
    subject: &Subject,
    opened: &Opened,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Arrangement {
    let files = try_write(subject, opened, source, request);
    let files = files.unwrap_or_else(|e| panic!("written once, not twice: {:?} {e}", e.kind()));
    Arrangement { files, folder: false }
}

fn try_write(
    subject: &Subject,
    opened: &Opened,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let writer = subject.writer.as_deref().unwrap();
    write(
        writer,
        &subject.manifest.carries,
        &opened.model,
        source,
        &|index| opened.payload(index, source),
        request,
    )
}

/// Reads what was written, with the options' defaults.
fn reread(subject: &Subject, source: &dyn Source) -> Opened {
    let options: Options = subject.options(false);
    read_with_parts(&*subject.reader, subject.id(), source, &options).unwrap_or_else(|error| {
        check_refusal("reading what was written", &error);
        panic!("what was written does not open: {error}")
    })
}

type Content<'a> = (&'a Model, &'a Opened, &'a dyn Source);

fn same_model(wanted: Content<'_>, found: Content<'_>, subject: &Subject) {
    same_tensors(wanted, found, subject.manifest.carries.one_tensor);
    let id = subject.id();
    let (a, b) = (typed(wanted.0, wanted.2, id), typed(found.0, found.2, id));
    assert_eq!(a.len(), b.len(), "metadata keys: {:?} became {:?}", keys(&a), keys(&b));
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a, b, "metadata");
    }
}

fn same_tensors(
    (wanted, wanted_open, source): Content<'_>,
    (found, found_open, found_source): Content<'_>,
    one_tensor: bool,
) {
    let places: HashMap<_, _> = found.tensors.iter().enumerate().map(|(n, t)| (t.name.as_str(), n)).collect();
    assert_eq!(wanted.tensors.len(), found.tensors.len(), "number of tensors");
    for (n, tensor) in wanted.tensors.iter().enumerate() {
        // The only tensor of a format without names is called after the file.
        let at = if one_tensor { Some(&0) } else { places.get(tensor.name.as_str()) };
        let at = *at.unwrap_or_else(|| panic!("tensor {:?} is lost", tensor.name));
        let there = &found.tensors[at];
        assert_eq!((tensor.dtype, &tensor.shape), (there.dtype, &there.shape), "tensor {:?}", tensor.name);
        let (a, b) = (wanted_open.payload(n, source), found_open.payload(at, found_source));
        assert!(a.unwrap() == b.unwrap(), "the payload of {:?} differs", tensor.name);
    }
}

type Entry = (String, ValueType, Option<Vec<u8>>);

fn typed(model: &Model, source: &dyn Source, id: &str) -> Vec<Entry> {
    let mut left = COMPARED;
    let files = model.foreign_of(id).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    let entries = files.iter().flat_map(|file| &file.typed);
    entries.map(|(key, v)| (key.clone(), v.kind, fetch("a value", &v.bytes, &mut left, source))).collect()
}

fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|(key, ..)| key.as_str()).collect()
}

fn same_files(what: &str, wanted: &Arrangement, found: &Arrangement) {
    let names = |files: &Arrangement| files.files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(wanted), names(found), "{what}: names");
    for ((name, a), (_, b)) in wanted.files.iter().zip(&found.files) {
        let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        assert!(
            a == b,
            "{what}: {name} has {} bytes, expected {}; the first difference is at {at}",
            b.len(),
            a.len()
        );
    }
}
