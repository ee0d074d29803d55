//! What happens to the output: atomic, exclusive, never an input, nothing left behind.

use apr_engine::planned::request::VerifyMode;
use apr_host::convert::convert;
use apr_sdk::{ErrorKind, Result};
use apr_tests::{Scratch, assert_same_file, fixtures, host, must, options};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::Ordering;

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("it should fail").kind()
}

#[test]
fn an_existing_output_is_kept_without_force_and_replaced_with_it() {
    let (host, scratch) = (host(), Scratch::new());
    let output = scratch.at("o.gguf");
    std::fs::write(&output, "mine").unwrap();
    let mut o = options(&fixtures("gguf").join("small.gguf"), &output);
    assert_eq!(kind(convert(&host, &o)), ErrorKind::Io);
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert_eq!(scratch.names(), ["o.gguf"]);
    o.force = true;
    must(&host, &o);
    assert_same_file(&fixtures("gguf").join("small.gguf"), &output);
    assert_eq!(scratch.names(), ["o.gguf"]);
}

#[test]
fn an_output_that_is_an_input_is_refused_by_any_name() {
    let (host, scratch) = (host(), Scratch::new());
    let input = scratch.at("a.gguf");
    std::fs::copy(fixtures("gguf").join("small.gguf"), &input).unwrap();
    symlink(&input, scratch.at("link.gguf")).unwrap();
    std::fs::hard_link(&input, scratch.at("hard.gguf")).unwrap();
    for name in ["a.gguf", "link.gguf", "hard.gguf", "./a.gguf"] {
        let mut o = options(&input, &scratch.at(name));
        o.force = true;
        assert_eq!(kind(convert(&host, &o)), ErrorKind::InvalidArgument, "{name}");
    }
    assert_same_file(&fixtures("gguf").join("small.gguf"), &input);
    assert_eq!(scratch.names(), ["a.gguf", "hard.gguf", "link.gguf"]);
}

#[test]
fn an_output_that_is_a_link_is_written_where_it_points() {
    let (host, scratch) = (host(), Scratch::new());
    std::fs::write(scratch.at("old.gguf"), "old").unwrap();
    symlink(scratch.at("old.gguf"), scratch.at("link.gguf")).unwrap();
    let mut o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("link.gguf"));
    o.force = true;
    must(&host, &o);
    assert!(scratch.at("link.gguf").is_symlink());
    assert_same_file(&fixtures("gguf").join("small.gguf"), &scratch.at("old.gguf"));
}

#[test]
fn a_held_lock_refuses_a_second_writer_at_once() {
    let (host, scratch) = (host(), Scratch::new());
    let lock = std::fs::File::create(scratch.at(".o.gguf.apr-lock")).unwrap();
    lock.lock().unwrap();
    let o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf"));
    let error = convert(&host, &o).unwrap_err();
    assert!(error.message().contains("another apr"), "{error}");
    drop(lock);
    must(&host, &o);
    assert_eq!(scratch.names(), ["o.gguf"]);
}

#[test]
fn stale_staging_of_a_crash_is_replaced() {
    let (host, scratch) = (host(), Scratch::new());
    std::fs::write(scratch.at(".o.gguf.apr-part"), vec![7; 100_000]).unwrap();
    std::fs::write(scratch.at(".o.gguf.apr-journal"), "{}\n").unwrap();
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf")));
    assert_eq!(scratch.names(), ["o.gguf"]);
    assert_same_file(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf"));
}

#[test]
fn a_stopped_conversion_leaves_nothing() {
    let (host, scratch) = (host(), Scratch::new());
    host.cancel.store(true, Ordering::Relaxed);
    let o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf"));
    assert_eq!(kind(convert(&host, &o)), ErrorKind::Cancelled);
    assert!(scratch.names().is_empty());
}

#[test]
fn a_folder_that_does_not_exist_is_not_made() {
    let (host, scratch) = (host(), Scratch::new());
    let o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("no/such/o.gguf"));
    assert_eq!(kind(convert(&host, &o)), ErrorKind::NotFound);
    assert!(scratch.names().is_empty());
}

#[test]
fn files_go_into_an_existing_folder_beside_what_is_there() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("out");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("README"), "mine").unwrap();
    let mut o = options(&fixtures("gguf").join("split"), &folder);
    o.to = Some("gguf".to_owned());
    must(&host, &o);
    assert_eq!(apr_tests::names_in(&folder).len(), 4);
    assert_eq!(kind(convert(&host, &o)), ErrorKind::Io);
    o.force = true;
    must(&host, &o);
    assert_eq!(std::fs::read(folder.join("README")).unwrap(), b"mine");
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn max_shard_size_splits_and_the_parts_open_as_one() {
    let (host, scratch) = (host(), Scratch::new());
    let input = fixtures("gguf").join("types.gguf");
    for to in ["gguf", "safetensors", "apr"] {
        let input = if to == "safetensors" {
            fixtures("safetensors").join("numpy_dtypes.safetensors")
        } else {
            input.clone()
        };
        let folder = scratch.at(to);
        let mut o = options(&input, &folder);
        o.to = Some(to.to_owned());
        o.max_shard_size = Some(100);
        let done = must(&host, &o);
        assert!(done.files.len() > 2, "{to}: {:?}", done.files);
        let mut back = options(&folder, &scratch.at(&format!("{to}.apr")));
        back.verify = VerifyMode::Full;
        assert_eq!(must(&host, &back).tensors, done.tensors);
    }
}

#[test]
fn an_unwritable_folder_is_refused_before_work() {
    // Root may write anywhere, so this says something only for other users.
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = std::fs::write(folder.join("probe"), "").is_ok();
    let o = options(&fixtures("gguf").join("small.gguf"), &folder.join("o.gguf"));
    if is_root {
        must(&host, &o);
    } else {
        assert_eq!(kind(convert(&host, &o)), ErrorKind::Io);
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_link_to_nothing_yet_is_written_where_it_points() {
    let (host, scratch) = (host(), Scratch::new());
    std::fs::create_dir(scratch.at("real")).unwrap();
    symlink("real/o.gguf", scratch.at("link.gguf")).unwrap();
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &scratch.at("link.gguf")));
    assert!(scratch.at("link.gguf").is_symlink());
    assert_same_file(&fixtures("gguf").join("small.gguf"), &scratch.at("real/o.gguf"));
    assert_eq!(apr_tests::names_in(&scratch.at("real")), ["o.gguf"]);
}

#[test]
fn force_replaces_neither_a_device_nor_a_pipe_nor_a_folder() {
    let (host, scratch) = (host(), Scratch::new());
    let made = std::process::Command::new("mkfifo").arg(scratch.at("pipe.gguf")).status().unwrap();
    assert!(made.success());
    let folder = scratch.at("out");
    std::fs::create_dir_all(folder.join("split-00001-of-00003.gguf")).unwrap();
    let input = fixtures("gguf").join("split");
    for output in [scratch.at("pipe.gguf"), folder.clone()] {
        let mut o = options(&input, &output);
        (o.to, o.force) = (Some("gguf".to_owned()), true);
        assert_eq!(kind(convert(&host, &o)), ErrorKind::InvalidArgument, "{}", output.display());
    }
    assert_eq!(scratch.names(), ["out", "pipe.gguf"]);
    // Nor does reading one wait for its writer.
    let o = options(&scratch.at("pipe.gguf"), &scratch.at("o.apr"));
    assert_eq!(kind(convert(&host, &o)), ErrorKind::InvalidArgument);
}

#[test]
fn a_folder_that_exists_is_written_from_within() {
    // It may be a mount, to which nothing can be renamed; and the folder around it may be closed.
    let (host, scratch) = (host(), Scratch::new());
    let folder = scratch.at("out");
    std::fs::create_dir(&folder).unwrap();
    let lock = std::fs::File::create(folder.join(".out.apr-lock")).unwrap();
    lock.lock().unwrap();
    let mut o = options(&fixtures("gguf").join("split"), &folder);
    o.to = Some("gguf".to_owned());
    let error = convert(&host, &o).unwrap_err();
    assert!(error.message().contains("another apr"), "{error}");
    drop(lock);
    must(&host, &o);
    assert_eq!(apr_tests::names_in(&folder).len(), 3);
}

#[test]
fn an_input_that_changes_while_it_is_read_is_not_published() {
    struct Touch(std::path::PathBuf);
    impl apr_engine::progress::Progress for Touch {
        fn bytes(&self, _: u64, _: u64, _: &str) {
            let file = std::fs::File::options().write(true).open(&self.0).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        fn log(&self, _: apr_sdk::LogLevel, _: &str) {}
    }
    let (mut host, scratch) = (host(), Scratch::new());
    let input = scratch.at("a.gguf");
    std::fs::copy(fixtures("gguf").join("small.gguf"), &input).unwrap();
    host.progress = std::sync::Arc::new(Touch(input.clone()));
    let error = convert(&host, &options(&input, &scratch.at("o.gguf"))).unwrap_err();
    assert!(error.message().contains("changed while it was being read"), "{error}");
    assert_eq!(scratch.names(), ["a.gguf"]);
}
