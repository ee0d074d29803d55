//! What `apr` does around loading: a named library that kills the process which loads it is a refusal, since it is tried
//! in a child first; an installed one can be pinned to its build.

use crate::build::ROGUE;
use crate::library::Library;
use std::path::Path;
use std::process::{Command, Output};

/// `apr --plugin LIBRARY inspect FILE`, in a home of its own.
fn inspect(library: &Library) -> Output {
    let home = library.path.parent().unwrap();
    let file = home.join("a.rogue");
    std::fs::write(&file, "ROGUE").unwrap();
    let path = library.path.to_str().unwrap();
    apr(home, &["--plugin", path, "inspect", file.to_str().unwrap()])
}

fn apr(home: &Path, args: &[&str]) -> Output {
    Command::new(apr_tests::program()).env_clear().env("HOME", home).args(args).output().unwrap()
}

fn remembered(library: &Library) -> usize {
    let folder = library.path.parent().unwrap().join(".cache/apr/plugins-tried");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_library_that_kills_its_process_is_refused_and_apr_lives() {
    if !cfg!(target_os = "linux") {
        return;
    }
    for (token, word) in [(b"rogue-token-aborting", "signal"), (b"rogue-token-leaving0", "exit status: 0")] {
        let mut library = Library::copy_of(&ROGUE);
        let own = library.token().to_owned();
        library.replace(own.as_bytes(), token).write();
        let output = inspect(&library);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("loading it ends the process") && said.contains(word), "{said}");
        assert_eq!(remembered(&library), 0);
    }
}

#[test]
fn what_passed_is_remembered_by_its_digest() {
    let library = Library::copy_of(&ROGUE);
    library.write();
    for _ in 0..2 {
        let output = inspect(&library);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(remembered(&library), 1);
    }
    let folder = library.path.parent().unwrap().join(".cache/apr/plugins-tried");
    let name = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().file_name();
    assert_eq!(name.to_str().unwrap(), apr_host::plugins::sha256(Path::new(&library.path)).unwrap());
}

#[test]
fn an_installed_plugin_can_be_pinned_to_its_build() {
    let library = Library::copy_of(&ROGUE);
    library.write();
    let home = library.path.parent().unwrap();
    let must = |args: &[&str]| {
        let output = apr(home, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let path = library.path.to_str().unwrap();
    let digest = apr_host::plugins::sha256(&library.path).unwrap();
    assert!(must(&["plugins", "install", path, "--pin"]).contains(&digest));
    assert!(must(&["plugins", "list", "-q"]).lines().any(|id| id == "rogue"));
    // Another build of it, wherever it lies, is refused now.
    let other = Library::copy_of(&ROGUE);
    other.write();
    let other_path = other.path.to_str().unwrap();
    let file = home.join("a.rogue");
    std::fs::write(&file, "ROGUE").unwrap();
    let named = ["--plugin", other_path, "plugins", "list"];
    assert!(must(&named).contains("E_UNTRUSTED"), "{}", must(&named));
    // Installing is a decision: it moves the pin; removing takes it away.
    assert!(must(&["plugins", "install", other_path, "--force"]).contains("pinned to SHA-256"));
    assert!(must(&["plugins", "list", "-q"]).lines().any(|id| id == "rogue"));
    assert!(must(&["plugins", "remove", "rogue"]).contains("no longer pinned"));
    assert!(!must(&["--plugin", path, "plugins", "list"]).contains("E_UNTRUSTED"));
}

#[test]
fn a_check_warns_of_manifest_keys_that_nobody_knows() {
    let mut library = Library::copy_of(&ROGUE);
    library.replace(b"rogue.extensions=", b"rogue.extentions=").write();
    let home = library.path.parent().unwrap();
    let output = apr(home, &["plugins", "check", library.path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("warning: the manifest's key `rogue.extentions` is unknown to this apr"), "{said}");
}
