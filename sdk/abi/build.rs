//! Tells the crate what its manifest heads say: the target, the compiler, and a hash of the wire sources.
//!
//! Nothing of the wire is frozen before the first tagged release, so two development builds may only meet if their
//! wire sources are the same, and those of `apr-sdk`, whose numbers and types the wire carries. At the release `FROZEN`
//! becomes true: the hash is then 0, "frozen", and never compared; from there on the layout check and the version decide.
//! The tests make a synthetic pair of versions of that kind.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// True if the wire is frozen: from the first tagged release on, set in the commit that adds the frozen copy.
const FROZEN: bool = false;

/// FNV-1a, 32 bits: small, and the same everywhere. It goes on from the hash of `apr-sdk`.
const FNV_PRIME: u32 = 0x0100_0193;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output()?.stdout;
    println!("cargo::rustc-env=APR_ABI_RUSTC={}", String::from_utf8_lossy(&version).trim());
    println!("cargo::rustc-env=APR_ABI_TARGET={}", env::var("TARGET")?);
    let hash = if FROZEN { 0 } else { wire_hash()? };
    println!("cargo::rustc-env=APR_ABI_WIRE_HASH={hash}");
    Ok(())
}

/// The hash of the sources of `apr-sdk`, and of every file under `src`, by name: the wire types, and the adapters that give
/// them their meaning.
fn wire_hash() -> Result<u32, Box<dyn std::error::Error>> {
    let mut folders = vec![PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hash: u32 = env::var("DEP_APR_SDK_SOURCE_HASH")?.parse()?;
    for file in files {
        // A checkout may have turned line ends around: they say nothing.
        for byte in fs::read(file)?.into_iter().filter(|byte| *byte != b'\r') {
            hash = (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
    Ok(hash.max(1))
}
