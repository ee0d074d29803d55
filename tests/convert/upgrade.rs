//! `apr upgrade` on every file of an older version: the new file is the same model, and needs no upgrade.

use apr_engine::open::{OpenOptions, open};
use apr_tests::{Scratch, fixtures, host, names_in, program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every fixture of a version that its format's writer does not write.
fn older_files() -> Vec<PathBuf> {
    let in_folder = |folder: PathBuf, chosen: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        let names = names_in(&folder).into_iter().filter(|name| chosen(name));
        names.map(|name| folder.join(name)).collect()
    };
    let gguf = |name: &str| {
        name.ends_with(".gguf") && (name.starts_with("version-1") || name.starts_with("version-2"))
    };
    let mut files = in_folder(fixtures("gguf"), &gguf);
    files
        .extend(in_folder(fixtures("pytorch"), &|name| name.starts_with("legacy_") && name.ends_with(".pt")));
    for folder in ["header_64", "version_1"] {
        let folder = fixtures("apr").with_file_name(folder);
        files.extend(in_folder(folder, &|name| name.ends_with(".apr")));
    }
    files
}

fn apr(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program()).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn every_older_file_is_upgraded_and_stays_the_same_model() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let files = older_files();
    assert!(files.len() > 25, "{}", files.len());
    for file in files {
        let out = scratch.at("new").with_extension(file.extension().unwrap());
        let [from, to] = [&file, &out].map(|path| path.to_str().unwrap());
        let (code, said) = apr(&["upgrade", from, "-o", to, "--force"]);
        assert_eq!(code, Some(0), "{from}: {said}");
        let (code, said) = apr(&["diff", from, to]);
        assert_eq!(code, Some(0), "{from}: {said}");
        assert!(older(&host, &file).is_some() && older(&host, &out).is_none(), "{from}");
        let (code, said) = apr(&["upgrade", to]);
        assert_eq!(code, Some(0), "{from}: {said}");
        assert!(said.contains("is up to date"), "{from}: {said}");
    }
}

fn older(host: &apr_host::host::Host, path: &Path) -> Option<String> {
    open(host, path, &OpenOptions::default()).unwrap().model.older
}
