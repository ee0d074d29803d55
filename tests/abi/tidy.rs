//! What the sources of the boundary must keep to.

use crate::build::root;
use crate::bundle::folders;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below `folder` with one of the endings, the target folder left out.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                found.extend(files(&path, endings));
            }
        } else if endings.iter().any(|ending| name.to_string_lossy().ends_with(ending)) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_method_after_the_marker_has_a_default() {
    for file in files(&root().join("sdk/abi/src/wire"), &[".rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        for wire_trait in text.split("#[sabi_trait]").skip(1) {
            let body = wire_trait.split("\n}").next().unwrap();
            let (_, after) = body.split_once("#[sabi(last_prefix_field)]").unwrap_or_else(|| {
                panic!("{}: a trait without its marker", file.display());
            });
            // The marked method itself ends with its signature; each later one must open a body.
            for method in after.split("\n    fn ").skip(2) {
                let signature = method.split(['{', ';']).next().unwrap();
                let ends_in_body = method[signature.len()..].starts_with('{');
                assert!(ends_in_body, "{}: `{signature}` has no default", file.display());
            }
        }
    }
}

#[test]
fn every_plugin_can_be_loaded_and_linked() {
    for name in folders() {
        let folder = root().join("plugins").join(&name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in [
            format!("name = \"apr-plugin-{name}\""),
            "crate-type = [\"cdylib\", \"rlib\"]".to_owned(),
            "apr-sdk.workspace = true".to_owned(),
            "[target.'cfg(not(target_family = \"wasm\"))'.dependencies]\napr-abi.workspace = true".to_owned(),
        ] {
            assert!(manifest.contains(&line), "plugins/{name}/Cargo.toml has no `{line}`");
        }
        let source = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        let id = format!("id: {},", name.replace('-', "_"));
        assert!(source.contains(&id), "plugins/{name}/src/lib.rs has no `{id}`: the id is the folder");
    }
}
