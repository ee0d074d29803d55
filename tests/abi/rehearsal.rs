//! What `apr` does around loading: a library that the user named or installed and that kills the process which loads it
//! is a refusal, since it is tried in a child first; an installed one can be pinned to its build.

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
    for (token, word) in DEADLY {
        let library = with_token(token);
        let output = inspect(&library);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("plugin `rogue` terminated the process that loaded it") && said.contains(word),
            "{said}"
        );
        assert_eq!(remembered(&library), 0);
    }
}

/// Tokens with which the library ends the process that loads it, or makes its reader; and how that shows.
const DEADLY: [(&[u8; 20], &str); 3] = [
    (b"rogue-token-aborting", "signal: 6"),
    (b"rogue-token-leaving0", "exit status: 0"),
    (b"rogue-token-reading0", "signal: 11"),
];

fn with_token(token: &[u8; 20]) -> Library {
    let mut library = Library::copy_of(&ROGUE);
    let own = library.token().to_owned();
    library.replace(own.as_bytes(), token).write();
    library
}

/// Where a user's plugins are installed.
const INSTALLED: &str = ".local/share/apr/plugins";

#[test]
fn a_library_that_kills_its_process_is_not_installed() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let good = Library::copy_of(&ROGUE);
    good.write();
    for (token, word) in DEADLY {
        let library = with_token(token);
        let (home, path) = (library.path.parent().unwrap(), library.path.to_str().unwrap());
        let target = home.join(INSTALLED).join(library.path.file_name().unwrap());
        let refused = |args: &[&str]| {
            let output = apr(home, args);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(
                said.starts_with("error[E_PLUGIN]: plugin `rogue` terminated the process that loaded it: "),
                "{said}"
            );
            assert!(said.contains(word) && said.contains(path), "{said}");
        };
        refused(&["plugins", "install", path]);
        assert!(!target.exists(), "{}", target.display());
        // Nor does it take the place of one that works.
        assert!(apr(home, &["plugins", "install", good.path.to_str().unwrap()]).status.success());
        refused(&["plugins", "install", path, "--force"]);
        assert_eq!(std::fs::read(&target).unwrap(), good.bytes);
    }
}

#[test]
fn an_installed_library_that_kills_its_process_keeps_nobody_from_other_files() {
    if !cfg!(target_os = "linux") {
        return;
    }
    for (token, word) in DEADLY {
        let library = with_token(token);
        let home = library.path.parent().unwrap();
        let folder = home.join(INSTALLED);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(&library.path, folder.join(library.path.file_name().unwrap())).unwrap();
        let run = |args: &[&str]| {
            let output = apr(home, args);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (code, told, said) = run(&["plugins", "list"]);
        assert_eq!(code, Some(0), "{said}");
        let why = format!("  E_PLUGIN: plugin `rogue` terminated the process that loaded it: {word}");
        assert!(told.lines().any(|line| line.starts_with(&why)), "{told}{said}");
        let (code, ids, said) = run(&["plugins", "list", "-q"]);
        assert!(code == Some(0) && !ids.contains("rogue") && ids.contains("safetensors"), "{ids}{said}");
        // A file of another format is read, with a warning.
        let header = br#"{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let whole = [&(header.len() as u64).to_le_bytes(), &header[..], &[7]].concat();
        std::fs::write(home.join("a.safetensors"), whole).unwrap();
        let (code, _, said) = run(&["inspect", home.join("a.safetensors").to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("warning: ")
                && said.contains("plugin `rogue` terminated the process that loaded it"),
            "{said}"
        );
        // Its own file is not.
        std::fs::write(home.join("a.rogue"), "ROGUE").unwrap();
        let (code, _, said) = run(&["inspect", home.join("a.rogue").to_str().unwrap()]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("error[E_PLUGIN]: ") && said.contains("libapr_plugin_rogue.so"), "{said}");
        let (code, _, said) = run(&["plugins", "remove", "rogue"]);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_library_beside_apr_that_kills_its_process_is_listed_as_refused() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let library = with_token(b"rogue-token-aborting");
    let home = library.path.parent().unwrap();
    // An installation of its own, whose only plugin it is.
    let (program, plugins) = (home.join("bin/apr"), home.join("lib/apr/plugins"));
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::create_dir_all(home.join("bin")).unwrap();
    std::fs::copy(apr_tests::program(), &program).unwrap();
    std::fs::copy(&library.path, plugins.join(library.path.file_name().unwrap())).unwrap();
    let output =
        Command::new(program).env_clear().env("HOME", home).args(["plugins", "list"]).output().unwrap();
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        told.contains("E_PLUGIN: plugin `rogue` terminated the process that loaded it: signal: 6"),
        "{told}{said}"
    );
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
    assert!(said.contains("warning: unknown key `rogue.extentions` in the manifest"), "{said}");
}
