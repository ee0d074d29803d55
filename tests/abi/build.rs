//! Builds the plugins of these tests, the rogue in its variants, as crates of their own in the target folder: nothing is
//! written beside the sources, and a second run builds nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

/// Where everything of these tests lies.
pub static WORK: LazyLock<PathBuf> = LazyLock::new(|| {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
    fs::create_dir_all(work.join("markers")).unwrap();
    work
});

/// The workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The rogue, as a released build has it: the wire's hash is 0.
pub static ROGUE: LazyLock<PathBuf> = LazyLock::new(|| build("rogue", &root().join("sdk/abi"), "none", &[]));
/// The library of features, which says more than this version knows.
pub static FEATURES: LazyLock<PathBuf> = LazyLock::new(|| build("features", &detailed_abi(), "none", &[]));
/// The same without symbols.
pub static STRIPPED: LazyLock<PathBuf> =
    LazyLock::new(|| build("rogue-stripped", &root().join("sdk/abi"), "symbols", &[]));
/// The same, whose panics end the process.
pub static ABORTS: LazyLock<PathBuf> =
    LazyLock::new(|| build("rogue-abort", &root().join("sdk/abi"), "none", &["--", "-Cpanic=abort"]));
/// The same, built against the synthetic interface 1.1.
pub static NEXT: LazyLock<PathBuf> = LazyLock::new(|| build("rogue-next", &next_abi(), "none", &[]));

/// One build at a time: they share a target folder.
static BUILDING: Mutex<()> = Mutex::new(());

fn build(name: &str, abi: &Path, strip: &str, rustc: &[&str]) -> PathBuf {
    let _one = BUILDING.lock().unwrap();
    let (library, crate_folder) = (name.replace('-', "_"), WORK.join(name));
    let source = root().join("tests/abi").join(name.split('-').next().unwrap());
    let manifest = fs::read_to_string(source.join("Cargo.toml.in")).unwrap();
    let manifest = [
        ("@NAME@", name),
        ("@LIB@", &library),
        ("@STRIP@", strip),
        ("@ROOT@", root().to_str().unwrap()),
        ("@ABI@", abi.to_str().unwrap()),
    ]
    .iter()
    .fold(manifest, |text, (from, to)| text.replace(from, to));
    write_if_changed(&crate_folder.join("Cargo.toml"), manifest.as_bytes());
    for file in fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let name = file.file_name().unwrap();
            write_if_changed(&crate_folder.join(name), &fs::read(&file).unwrap());
        }
    }
    // The same versions as the workspace; cargo drops what this crate does not need.
    let (lock, copied) = (fs::read(root().join("Cargo.lock")).unwrap(), crate_folder.join("copied.lock"));
    if fs::read(&copied).ok().as_ref() != Some(&lock) {
        fs::write(crate_folder.join("Cargo.lock"), &lock).unwrap();
        fs::write(&copied, &lock).unwrap();
    }
    let target = WORK.join("target");
    let out = Command::new(env!("CARGO"))
        .args(["rustc", "--lib", "--offline", "--quiet", "--manifest-path"])
        .arg(crate_folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(rustc)
        .env("APR_ABI_FROZEN", "1")
        .env("APR_ROGUE_MARKERS", WORK.join("markers"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(out.status.success(), "building {name}: {}", String::from_utf8_lossy(&out.stderr));
    let file = apr_host::plugins::file_name(library.as_str());
    target.join("debug").join(file)
}

/// The wire crate as a version 1.1 would be: one field appended to the module, nothing else.
fn next_abi() -> PathBuf {
    let last = "pub take_faults: extern \"C\" fn() -> RVec<RString>,";
    let field = format!("{last}\n    pub motto: u64,");
    let edits =
        [(last, field.as_str()), ("            take_faults,\n", "            take_faults, motto: 11,\n")];
    let (next, edited) = copy_abi("next-abi", "1.1.0", &edits);
    assert_eq!(edited, 2, "the wire's last field is another one now: append after that");
    next
}

/// The wire crate of this version, which puts a detail of the future wherever there is room for one.
fn detailed_abi() -> PathBuf {
    // A key and a value of one byte each.
    let detail = "[1, 0, 0, 0, 0, 0, 0, 0, b'?', 1, 0, 0, 0, 0, 0, 0, 0, b'!']";
    let (lent, owned) =
        (format!("detail: {detail}.as_slice().into()"), format!("detail: {detail}.to_vec().into()"));
    let edits = [("detail: RSlice::EMPTY", lent.as_str()), ("detail: RVec::new()", owned.as_str())];
    let (detailed, edited) = copy_abi("detailed-abi", "1.0.0", &edits);
    assert_eq!(edited, 11, "a struct has a detail that this does not fill, or one less");
    detailed
}

/// A copy of the wire crate with every occurrence of some texts replaced; gives how many there were.
fn copy_abi(name: &str, version: &str, edits: &[(&str, &str)]) -> (PathBuf, usize) {
    let next = WORK.join(name);
    let from = root().join("sdk/abi");
    let manifest = format!(
        "[package]\nname = \"apr-abi\"\nversion = \"{version}\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\napr-sdk = {{ path = \"{}/sdk\" }}\n\
         abi_stable = {{ version = \"=0.11.3\", default-features = false }}\n",
        root().display()
    );
    write_if_changed(&next.join("Cargo.toml"), manifest.as_bytes());
    write_if_changed(&next.join("build.rs"), &fs::read(from.join("build.rs")).unwrap());
    let (mut folders, mut edited) = (vec![PathBuf::from("src")], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(from.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if from.join(&path).is_dir() {
                folders.push(path);
                continue;
            }
            let mut text = fs::read_to_string(from.join(&path)).unwrap();
            for (old, new) in edits {
                edited += text.matches(old).count();
                text = text.replace(old, new);
            }
            write_if_changed(&next.join(&path), text.as_bytes());
        }
    }
    (next, edited)
}

/// Keeps the time of change where nothing changed, so that cargo builds nothing.
fn write_if_changed(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
