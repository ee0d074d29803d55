//! Lists the tables in `tables/`, so that a new one is a new file and nothing else.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("tables");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    let id = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.sort_by_key(|path| id(path));
    let mut list = String::from("&[\n");
    for path in &files {
        // Both are quoted as Rust does it: a folder's name may hold anything.
        let _ = writeln!(list, "    ({:?}, include_str!({:?})),", id(path), path.to_string_lossy());
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("tables.rs"), list)?;
    let ids: Vec<String> = files.iter().map(|path| id(path)).collect();
    println!("cargo::rustc-env=APR_TABLES={}", ids.join(" "));
    Ok(())
}
