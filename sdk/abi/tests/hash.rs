//! What tells development builds apart is of all sources that give the wire its meaning.

use apr_abi::manifest::WIRE_HASH;
use std::fs;
use std::path::{Path, PathBuf};

/// FNV-1a over every file below a folder, by name, going on from `hash`.
fn hash(folder: &Path, hash: u32) -> u32 {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let bytes = files.iter().flat_map(|file| fs::read(file).unwrap()).filter(|byte| *byte != b'\r');
    bytes.fold(hash, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[test]
fn a_development_build_is_known_by_the_sources_of_sdk_and_wire() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_sdk = hash(&here.join("../src"), 0x811c_9dc5);
    assert_eq!(WIRE_HASH, hash(&here.join("src"), of_sdk).max(1));
}
