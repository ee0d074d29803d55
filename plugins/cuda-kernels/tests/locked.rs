//! The compiled kernels are those of the sources that lie beside them.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn digest(bytes: &[u8]) -> String {
    let mut found = String::new();
    Sha256::digest(bytes).iter().for_each(|byte| write!(found, "{byte:02x}").unwrap());
    found
}

#[test]
fn the_lock_names_every_source_and_every_module_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = fs::read_to_string(root.join("ptx/lock.txt")).unwrap();
    let mut named = BTreeSet::new();
    for line in lock.lines() {
        let (locked, found, path) = match line.split("  ").collect::<Vec<_>>()[..] {
            [locked, path] => (locked, digest(&fs::read(root.join(path)).unwrap()), path),
            [locked, path, size] => {
                let module = path.strip_prefix("ptx/compute_").and_then(|path| path.strip_suffix(".ptx"));
                let (capability, name) = module.unwrap().split_once('/').unwrap();
                let capability: i32 = capability.parse().unwrap();
                let text = apr_plugin_cuda_kernels::ptx(name, (capability / 10, capability % 10)).unwrap();
                assert_eq!(text.len().to_string(), size, "{path}");
                (locked, digest(text.as_bytes()), path)
            }
            _ => continue,
        };
        assert_eq!(found, locked, "{path}: run plugins/cuda-kernels/compile.sh");
        named.insert(path.to_owned());
    }
    for folder in ["cuda", "ptx"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy());
            assert!(path == "ptx/lock.txt" || named.contains(&path), "{path} is not in the lock");
        }
    }
    for generation in ["compute_70", "compute_80", "compute_90"] {
        for module in apr_plugin_cuda_kernels::NAMES {
            assert!(named.contains(&format!("ptx/{generation}/{module}.ptx")), "{generation} {module}");
        }
    }
}
