//! Hashes the sources of this crate for the build script of `apr-abi`: a development build of the interface is that of
//! both. What a plugin and the host say to each other is in the types of this crate as much as in the wire's.

use std::path::PathBuf;
use std::{env, fs, io};

/// FNV-1a, 32 bits, as in `apr-abi`.
const FNV_BASIS: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::metadata=source_hash={}",
        hash(PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("src"))?
    );
    Ok(())
}

/// The hash of every file below a folder, in the order of their names.
fn hash(folder: PathBuf) -> io::Result<u32> {
    let mut folders = vec![folder];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hash = FNV_BASIS;
    for file in files {
        // A checkout may have turned line ends around: they say nothing.
        for byte in fs::read(file)?.into_iter().filter(|byte| *byte != b'\r') {
            hash = (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    Ok(hash)
}
