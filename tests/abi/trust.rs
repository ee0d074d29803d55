//! Who may have put a plugin where it lies: files and folders that others may write are refused before they are opened.
#![cfg(unix)]

use crate::build::ROGUE;
use crate::library::{Library, folder, refusal};
use apr_host::plugins::{DiscoverOptions, sha256};
use apr_sdk::Error;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

fn rogue() -> Library {
    let library = Library::copy_of(&ROGUE);
    library.write();
    library
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn named(path: &Path) -> DiscoverOptions {
    DiscoverOptions { named: vec![path.to_owned()], ..DiscoverOptions::default() }
}

fn untrusted(options: &DiscoverOptions, names: &Path) -> Error {
    let error = refusal(&apr_host::plugins::discover(options));
    assert_eq!(error.explicit_code(), Some("E_UNTRUSTED"), "{error}");
    assert!(error.message().contains(names.to_str().unwrap()), "{error}");
    error
}

fn trusted(options: &DiscoverOptions) {
    let registry = apr_host::plugins::discover(options);
    assert!(registry.plugins()[0].state.is_ok(), "{:?}", registry.plugins()[0].state.as_ref().err());
}

#[test]
fn a_file_in_a_good_folder_is_trusted() {
    trusted(&named(&rogue().path));
}

#[test]
fn rejects_a_file_and_a_folder_that_anyone_may_write() {
    let library = rogue();
    chmod(&library.path, 0o666);
    untrusted(&named(&library.path), &library.path);
    chmod(&library.path, 0o644);
    trusted(&named(&library.path));
    let folder = library.path.parent().unwrap();
    chmod(folder, 0o777);
    let error = untrusted(&named(&library.path), folder);
    assert!(error.hint_text().unwrap().contains("chmod o-w"), "{error}");
    chmod(folder, 0o1777);
    trusted(&named(&library.path));
    chmod(folder, 0o755);
}

#[test]
fn rejects_links_into_and_from_bad_folders() {
    let (bad, good) = (rogue(), rogue());
    let bad_folder = bad.path.parent().unwrap();
    chmod(bad_folder, 0o777);
    let into = folder().join("into.so");
    symlink(&bad.path, &into).unwrap();
    untrusted(&named(&into), bad_folder);
    let from = bad_folder.join("from.so");
    symlink(&good.path, &from).unwrap();
    untrusted(&named(&from), bad_folder);
    let fine = folder().join("fine.so");
    symlink(&good.path, &fine).unwrap();
    trusted(&named(&fine));
    chmod(bad_folder, 0o755);
}

#[test]
fn rejects_another_owner_unless_the_folder_is_trusted_or_the_executables() {
    const STRANGER: u32 = 54_321;
    let library = rogue();
    let folder = library.path.parent().unwrap().canonicalize().unwrap();
    if std::os::unix::fs::chown(&library.path, Some(STRANGER), None).is_err() {
        apr_tests::skipped("tests/abi: only root can give a file to another user");
        return;
    }
    let error = untrusted(&named(&library.path), &library.path.canonicalize().unwrap());
    assert!(error.hint_text().unwrap().contains("plugins.trusted_folders"), "{error}");
    let trusting = DiscoverOptions { trusted_folders: vec![folder.clone()], ..named(&library.path) };
    trusted(&trusting);
    // Trust in the owner is no trust in everyone.
    chmod(&library.path, 0o666);
    untrusted(&trusting, &library.path);
    chmod(&library.path, 0o644);
    // Beside an executable of the same owner; and not when it is only named.
    let plugins = folder.join("bin/plugins");
    fs::create_dir_all(&plugins).unwrap();
    let (executable, beside) = (folder.join("bin/apr"), plugins.join(library.path.file_name().unwrap()));
    fs::write(&executable, "").unwrap();
    fs::copy(&library.path, &beside).unwrap();
    for path in [&executable, &beside] {
        std::os::unix::fs::chown(path, Some(STRANGER), None).unwrap();
    }
    trusted(&DiscoverOptions { executable: Some(executable), ..DiscoverOptions::default() });
    untrusted(&named(&beside), &beside.canonicalize().unwrap());
}

#[test]
fn a_group_may_write_only_if_it_is_ones_own() {
    let library = rogue();
    chmod(&library.path, 0o664);
    trusted(&named(&library.path));
    if std::os::unix::fs::chown(&library.path, None, Some(54_321)).is_err() {
        apr_tests::skipped("tests/abi: only root can give a file to another group");
        return;
    }
    chmod(&library.path, 0o664);
    untrusted(&named(&library.path), &library.path);
    assert_eq!(fs::metadata(&library.path).unwrap().gid(), 54_321);
}

#[test]
fn the_lock_pins_a_build() {
    let library = rogue();
    let lock = library.path.with_file_name("plugins.lock");
    let with_lock =
        |listed_only| DiscoverOptions { lock: Some(lock.clone()), listed_only, ..named(&library.path) };
    trusted(&with_lock(false));
    untrusted(&with_lock(true), Path::new("rogue"));
    let digest = sha256(&library.path).unwrap();
    fs::write(&lock, format!(r#"{{"plugins":[{{"id":"rogue","sha256":"{digest}"}}]}}"#)).unwrap();
    trusted(&with_lock(true));
    fs::write(&lock, format!(r#"{{"plugins":[{{"id":"rogue","sha256":"{}"}}]}}"#, "0".repeat(64))).unwrap();
    untrusted(&with_lock(false), Path::new(&digest));
    fs::write(&lock, "{").unwrap();
    untrusted(&with_lock(false), &lock);
    assert!(!library.ran());
}

#[test]
fn plugins_are_looked_for_in_order_and_never_by_a_relative_path() {
    let (user, system, beside) = (rogue(), rogue(), rogue());
    let folder_of = |library: &Library| library.path.parent().unwrap().to_owned();
    let target = folder_of(&beside).join("target");
    fs::create_dir_all(target.join("deps")).unwrap();
    fs::write(target.join(".cargo-lock"), "").unwrap();
    let name = beside.path.file_name().unwrap();
    for folder in ["", "deps"] {
        fs::copy(&beside.path, target.join(folder).join(name)).unwrap();
    }
    fs::copy(&beside.path, target.join("deps").join("libserde_derive-0123.so")).unwrap();
    let options = DiscoverOptions {
        plugin_path: vec!["relative".into()],
        user: Some(folder_of(&user)),
        executable: Some(target.join("apr")),
        system: vec![folder_of(&system), "/nonexistent".into()],
        ..DiscoverOptions::default()
    };
    let registry = apr_host::plugins::discover(&options);
    let found: Vec<_> = registry.plugins().iter().map(|plugin| plugin.path.clone().unwrap()).collect();
    assert_eq!(
        found,
        ["relative".into(), user.path.clone(), target.join("deps").join(name), system.path.clone()]
    );
    let codes: Vec<_> = registry.plugins().iter().map(|plugin| plugin.state.as_ref().err()).collect();
    assert_eq!(codes[0].unwrap().explicit_code(), Some("E_UNTRUSTED"));
    assert!(codes[1].is_none());
    assert!(codes[2..].iter().all(|error| error.unwrap().explicit_code() == Some("E_DUPLICATE_ID")));
}
