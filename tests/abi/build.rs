//! Builds the plugins of these tests, the rogue in its variants, by the compiler alone: against wire crates of their own and the libraries that
//! `apr` is made of, so that none of these is compiled again. Nothing is written beside the sources, and a second run builds
//! nothing.

use apr_tests::library;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

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
pub static ROGUE: LazyLock<PathBuf> = LazyLock::new(|| plugin("rogue", "rogue", &WIRE, &[]));
/// The same without symbols.
pub static STRIPPED: LazyLock<PathBuf> =
    LazyLock::new(|| plugin("rogue", "rogue_stripped", &WIRE, &["-Cstrip=symbols"]));
/// The same, whose panics end the process.
pub static ABORTS: LazyLock<PathBuf> =
    LazyLock::new(|| plugin("rogue", "rogue_abort", &WIRE, &["-Cpanic=abort"]));
/// The same, built against the synthetic interface 1.1.
pub static NEXT: LazyLock<PathBuf> = LazyLock::new(|| plugin("rogue", "rogue_next", &NEXT_WIRE, &[]));
/// The library of features, which says more than this version knows.
pub static FEATURES: LazyLock<PathBuf> =
    LazyLock::new(|| plugin("features", "features", &DETAILED_WIRE, &[]));

/// The library of a compute backend that knows one operation. It says more than this version knows, too.
pub static LINEAR: LazyLock<PathBuf> = LazyLock::new(|| plugin("linear", "linear", &DETAILED_WIRE, &[]));

/// What `apr plugins new --kind quantizer nibbles` writes, as a library: a plugin that brings the block type NIBBLES.
pub static NIBBLES: LazyLock<PathBuf> = LazyLock::new(|| quantizer("nibbles", &[]));

/// The template of a quantizer as a library of this name, with every occurrence of some texts replaced.
pub fn quantizer(name: &str, edits: &[(&str, &str)]) -> PathBuf {
    let source = WORK.join(format!("quantizer-{name}"));
    fs::create_dir_all(&source).unwrap();
    each_file(&root().join("sdk/template/quantizer/src"), &mut |path| {
        let mut text = fs::read_to_string(path).unwrap();
        for (old, new) in edits.iter().chain(&[("{{id}}", name), ("{{TYPE}}", "NIBBLES")]) {
            text = text.replace(old, new);
        }
        let copy = source.join(path.file_name().unwrap());
        if fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
            fs::write(copy, text).unwrap();
        }
    });
    compile(name, name, &WIRE, &[], &source)
}

/// The wire crate as it will be once it is frozen.
static WIRE: LazyLock<PathBuf> = LazyLock::new(|| wire("abi", &root().join("sdk/abi/src"), apr_abi::ABI.1));
/// The wire crate of the synthetic interface 1.1: one field appended to the module, nothing else.
static NEXT_WIRE: LazyLock<PathBuf> = LazyLock::new(|| {
    let last = "pub take_faults: extern \"C\" fn() -> RVec<RString>,";
    let field = format!("{last}\n    pub motto: u64,");
    let edits =
        [(last, field.as_str()), ("            take_faults,\n", "            take_faults, motto: 11,\n")];
    let (next, edited) = copy_abi("next-abi", &edits);
    assert_eq!(edited, 2, "the wire's last field is another one now: append after that");
    wire("next-abi", &next, apr_abi::ABI.1 + 1)
});
/// The wire crate of this version, which puts a detail of the future wherever there is room for one.
static DETAILED_WIRE: LazyLock<PathBuf> = LazyLock::new(|| {
    // A key and a value of one byte each.
    let detail = "[1, 0, 0, 0, 0, 0, 0, 0, b'?', 1, 0, 0, 0, 0, 0, 0, 0, b'!']";
    let (lent, owned) =
        (format!("detail: {detail}.as_slice().into()"), format!("detail: {detail}.to_vec().into()"));
    let edits = [("detail: RSlice::EMPTY", lent.as_str()), ("detail: RVec::new()", owned.as_str())];
    let (detailed, edited) = copy_abi("detailed-abi", &edits);
    assert_eq!(edited, 17, "a struct has a detail that this does not fill, or one less");
    wire("detailed-abi", &detailed, apr_abi::ABI.1)
});

/// The plugin of a folder beside this file, as a library of this name.
fn plugin(folder: &str, name: &str, wire: &Path, flags: &[&str]) -> PathBuf {
    compile(folder, name, wire, flags, &root().join("tests/abi").join(folder))
}

/// The plugin whose `lib.rs` lies in `source`, as a library of this name.
fn compile(folder: &str, name: &str, wire: &Path, flags: &[&str], source: &Path) -> PathBuf {
    let mut rustc = rustc();
    rustc.arg(format!("--crate-name=apr_plugin_{name}")).arg("--crate-type=cdylib").args(flags);
    rustc.env("CARGO_PKG_NAME", format!("apr-plugin-{folder}")).env("CARGO_PKG_VERSION", "0.1.0");
    rustc.env("CARGO_PKG_LICENSE", "MIT OR Apache-2.0").env("APR_ROGUE_MARKERS", WORK.join("markers"));
    let libraries = [("apr_sdk", library("apr_sdk")), ("apr_abi", wire.to_owned())];
    let output = WORK.join(apr_host::plugins::file_name(name));
    build(rustc, source, &libraries, output)
}

/// The wire crate from these sources, as `sdk/abi/build.rs` would have it built.
fn wire(name: &str, source: &Path, minor: u32) -> PathBuf {
    let version = Command::new(compiler()).arg("--version").output().unwrap().stdout;
    let mut rustc = rustc();
    rustc.args(["--crate-name=apr_abi", "--crate-type=rlib"]);
    let major = apr_abi::ABI.0;
    rustc.env("CARGO_PKG_NAME", "apr-abi").env("CARGO_PKG_VERSION", format!("{major}.{minor}.0"));
    rustc.env("CARGO_PKG_VERSION_MAJOR", major.to_string()).env("CARGO_PKG_VERSION_MINOR", minor.to_string());
    rustc.env("APR_ABI_RUSTC", String::from_utf8(version).unwrap().trim());
    rustc.env("APR_ABI_TARGET", apr_abi::manifest::TARGET).env("APR_ABI_WIRE_HASH", "0");
    let libraries = ["apr_sdk", "abi_stable"].map(|name| (name, library(name)));
    build(rustc, source, &libraries, WORK.join(name).join("libapr_abi.rlib"))
}

/// The compiler that cargo took for these tests.
fn compiler() -> PathBuf {
    let beside = Path::new(env!("CARGO")).with_file_name(format!("rustc{}", std::env::consts::EXE_SUFFIX));
    let other = if beside.is_file() { beside } else { PathBuf::from("rustc") };
    std::env::var_os("RUSTC").map_or(other, PathBuf::from)
}

fn rustc() -> Command {
    let mut rustc = Command::new(compiler());
    rustc.args(["--edition=2024", "--cap-lints=allow"]);
    rustc
}

/// Compiles the crate whose `lib.rs` lies in `source`, unless `output` was made of the same before.
fn build(mut rustc: Command, source: &Path, libraries: &[(&str, PathBuf)], output: PathBuf) -> PathBuf {
    rustc.arg(source.join("lib.rs")).arg("-o").arg(&output);
    let mut made_of = Vec::new();
    for (name, path) in libraries {
        rustc.arg("--extern").arg(format!("{name}={}", path.display()));
        rustc.arg("-L").arg(format!("dependency={}", path.parent().unwrap().display()));
        made_of.push(format!("{:?}", fs::metadata(path).unwrap().modified().unwrap()));
    }
    made_of.push(format!("{rustc:?}"));
    each_file(source, &mut |path| made_of.push(String::from_utf8(fs::read(path).unwrap()).unwrap()));
    let (made_of, stamp) = (made_of.join("\n"), output.with_extension("made-of"));
    if output.is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == made_of) {
        return output;
    }
    fs::create_dir_all(output.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&stamp);
    let out = rustc.output().unwrap();
    assert!(out.status.success(), "{rustc:?}: {}", String::from_utf8_lossy(&out.stderr));
    fs::write(stamp, made_of).unwrap();
    output
}

/// A copy of the wire crate's sources with every occurrence of some texts replaced; gives how many there were.
fn copy_abi(name: &str, edits: &[(&str, &str)]) -> (PathBuf, usize) {
    let (from, copy, mut edited) = (root().join("sdk/abi/src"), WORK.join(name).join("src"), 0);
    let _ = fs::remove_dir_all(&copy);
    each_file(&from, &mut |path| {
        let mut text = fs::read_to_string(path).unwrap();
        for (old, new) in edits {
            edited += text.matches(old).count();
            text = text.replace(old, new);
        }
        let path = copy.join(path.strip_prefix(&from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    });
    (copy, edited)
}

/// Every Rust file below a folder, in the order of the names.
fn each_file(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            each_file(&path, visit);
        } else if path.extension() == Some(OsStr::new("rs")) {
            visit(&path);
        }
    }
}
