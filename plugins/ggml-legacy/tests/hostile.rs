//! Every fixture cut off at every byte, and with every byte of a header changed: an error with its place, or a model
//! whose payload can be read. A cut never yields a model that lacks a tensor.

use crate::fixture;
use apr_sdk::{ErrorKind, MemorySource, Options};

/// What each header byte is changed to, beside the flipped bits that the kit tries.
const VALUES: [u8; 2] = [0, 0x7f];

/// Opens and reads everything; gives how many tensors there were.
fn attempt(what: &str, bytes: Vec<u8>) -> Option<usize> {
    let source = MemorySource::new("m.bin", bytes);
    let placed = |error: apr_sdk::Error| {
        let kinds = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::LimitExceeded];
        assert!(kinds.contains(&error.kind()), "{what}: {:?} {error}", error.kind());
        assert!(error.file().is_some() && error.offset().is_some(), "{what}: no place: {error}");
    };
    let opened = fixture::open(&source, &Options::new()).map_err(placed).ok()?;
    for n in 0..opened.model.tensors.len() {
        let _refused_with_its_place = opened.payload(n, &source).map_err(placed);
    }
    Some(opened.model.tensors.len())
}

#[test]
fn a_cut_at_any_byte_is_refused_or_leaves_a_vocabulary() {
    for name in fixture::names() {
        let bytes = fixture::bytes(&name);
        let is_adapter = name == "ggla.bin";
        for cut in 0..bytes.len() {
            let what = format!("{name} cut to {cut} bytes");
            let tensors = attempt(&what, bytes[..cut].to_vec());
            assert!(is_adapter || tensors.is_none_or(|n| n == 0), "{what} opens with {tensors:?} tensors");
        }
    }
}

#[test]
fn any_header_byte_may_be_any_value() {
    for name in fixture::names() {
        let source = fixture::source(&name);
        let payload = fixture::open(&source, &Options::new()).unwrap().stored(&source).unwrap();
        let bytes = fixture::bytes(&name);
        for at in 0..bytes.len() {
            if payload.iter().any(|(_, start, end)| (*start..*end).contains(&(at as u64))) {
                continue;
            }
            for value in VALUES {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                attempt(&format!("{name} with byte {at} as {value}"), bytes);
            }
        }
    }
}
