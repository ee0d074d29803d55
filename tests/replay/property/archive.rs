//! Archives alone: what `apr-zip` finds lies in the file, is what its checksum says, and is found again without the data.

use super::errors::check_refusal;
use apr_sdk::{Limits, MemorySource};
use apr_zip::{Archive, Method, Skeleton};

/// The longest entry that is read, in bytes. 4 MiB: fuzzing wants many small ones.
const LONGEST: u64 = 4 << 20;

/// Opens any bytes as an archive, reads its entries and takes the file apart. Gives whether it opened.
pub fn check(input: &[u8]) -> bool {
    let (source, limits) = (MemorySource::new("a.zip", input), Limits::default());
    let archive = match Archive::open(&source, 0, &limits) {
        Ok(archive) => archive,
        Err(error) => {
            check_refusal("opening an archive", &error);
            return false;
        }
    };
    let file = input.len() as u64;
    for entry in archive.entries() {
        assert!(
            entry.header < entry.data.offset && entry.data.end().is_some_and(|end| end <= file),
            "{entry:?}"
        );
        assert!(entry.method != Method::Stored || entry.raw_len == entry.data.len, "{entry:?}");
        if entry.raw_len > LONGEST {
            continue;
        }
        match archive.read(&source, entry, &Limits::default()) {
            Ok(raw) => {
                assert_eq!(raw.len() as u64, entry.raw_len, "{entry:?}");
                assert_eq!(crc32fast::hash(&raw), entry.crc32, "{entry:?}");
            }
            Err(error) => check_refusal("reading an entry", &error),
        }
    }
    let stored = archive.entries().iter().filter(|entry| entry.method == Method::Stored);
    let payloads: Vec<_> = stored.map(|entry| entry.data).collect();
    let skeleton = Skeleton::take(&source, 0, &payloads, &Limits::default()).unwrap();
    let skeleton = skeleton.expect("entries share no bytes");
    assert_eq!(Skeleton::parse(&skeleton.to_bytes()).as_ref(), Some(&skeleton));
    let again = Archive::open(&skeleton, 0, &Limits::default()).unwrap();
    let places = |archive: &Archive| -> Vec<_> {
        archive.entries().iter().map(|e| (e.name.clone(), e.data, e.raw_len, e.crc32)).collect()
    };
    assert_eq!(places(&again), places(&archive));
    true
}
