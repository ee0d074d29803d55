//! The compiled kernels are those of the sources that lie beside them.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[test]
fn the_lock_names_every_source_and_every_module_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = fs::read_to_string(root.join("ptx/lock.txt")).unwrap();
    let mut named = BTreeSet::new();
    for line in lock.lines() {
        let Some((digest, path)) = line.split_once("  ") else { continue };
        let bytes = fs::read(root.join(path)).unwrap();
        let mut found = String::new();
        Sha256::digest(&bytes).iter().for_each(|byte| write!(found, "{byte:02x}").unwrap());
        assert_eq!(found, digest, "{path}: run plugins/cuda-kernels/compile.sh");
        named.insert(path.to_owned());
    }
    let in_folder = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        entries
            .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()))
            .collect::<Vec<_>>()
    };
    assert_eq!(named.iter().filter(|path| path.starts_with("cuda/")).count(), in_folder("cuda").len());
    for generation in ["compute_70", "compute_80", "compute_90"] {
        for path in in_folder(&format!("ptx/{generation}")) {
            assert!(named.contains(&path), "{path} is not in the lock");
        }
        for module in apr_plugin_cuda_kernels::NAMES {
            assert!(named.contains(&format!("ptx/{generation}/{module}.ptx")), "{generation} {module}");
        }
    }
}
