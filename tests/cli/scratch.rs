//! A case's scratch folder: its inputs, and what is left in it.

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of its own for one case; removed when the case is done.
pub struct Scratch {
    /// Where the commands run.
    pub folder: PathBuf,
    /// The user's home, empty.
    pub home: PathBuf,
    /// The repository.
    pub root: PathBuf,
    all: PathBuf,
}

impl Scratch {
    /// A folder with a copy of the case's inputs: all of its files but `cmd` and those named in `expected`.
    pub fn new(case: &Path, expected: &[&str]) -> Scratch {
        let name = case.file_name().unwrap().to_str().unwrap();
        let verb = case.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
        let all = std::env::temp_dir().join(format!("apr-cli-{}-{verb}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&all);
        let (folder, home) = (all.join("work"), all.join("home"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&home).unwrap();
        for entry in fs::read_dir(case).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name();
            let is_input = name != "cmd" && !expected.iter().any(|expected| name == **expected);
            if is_input {
                fs::copy(entry.path(), folder.join(name)).unwrap();
            }
        }
        // Messages show real paths, so ours must be real before it is looked for in them.
        let real = |path: &Path| path.canonicalize().unwrap();
        let root = real(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        Scratch { folder: real(&folder), home: real(&home), root, all }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.all);
    }
}

/// Every file below `folder`: path, length, the beginning of its SHA-256; links with where they point.
pub fn tree(folder: &Path) -> String {
    let mut lines = Vec::new();
    list(folder, "", &mut lines);
    lines.sort();
    lines.concat()
}

fn list(folder: &Path, prefix: &str, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap()) {
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if path.is_symlink() {
            lines.push(format!("{name} -> {}\n", fs::read_link(&path).unwrap().display()));
        } else if path.is_dir() {
            lines.push(format!("{name}/\n"));
            list(&path, &format!("{name}/"), lines);
        } else {
            let bytes = fs::read(&path).unwrap();
            let digest: String =
                Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            lines.push(format!("{name} {} {digest}\n", bytes.len()));
        }
    }
}
