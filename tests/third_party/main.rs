//! The path of a third-party author: a plugin is created with `apr plugins new`, built outside the workspace
//! against the SDK alone, tested, checked, used, installed and removed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

#[cfg(target_os = "linux")]
use apr_tests::commands::{Block, Shell, blocks};
use apr_tests::{Scratch, assert_same_file, fixtures, program, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a working toy format may take (issue 3): lines that are neither empty nor comments.
const MOST_LINES: usize = 80;

/// Released plugins are optimized, which nothing here looks at: it would take most of the time.
const UNOPTIMIZED: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");

/// Keeps others from building a plugin of the same name in the same folder meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static BUILDING: Mutex<()> = Mutex::new(());
    BUILDING.lock().unwrap_or_else(PoisonError::into_inner)
}

struct User {
    program: PathBuf,
    folder: PathBuf,
    data: PathBuf,
}

impl User {
    fn apr(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.folder).env_clear();
        // Nothing of the machine may be seen; what is installed goes into the scratch folder.
        command.env("HOME", self.folder.join("home")).env("XDG_DATA_HOME", &self.data).output().unwrap()
    }

    fn must(&self, args: &[&str]) -> String {
        let output = self.apr(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "apr {args:?}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    fn ids(&self) -> Vec<String> {
        self.must(&["plugins", "list", "-q"]).lines().map(str::to_owned).collect()
    }

    /// Name, type, shape and SHA-256 of every tensor, by name.
    fn payloads(&self, args: &[&str]) -> Vec<String> {
        let text = self.must(&[args, &["--json", "--sha256"]].concat());
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let shown = |row: &serde_json::Value| {
            let members = ["name", "dtype", "shape", "bytes", "sha256"].map(|key| row[key].to_string());
            members.join(" ")
        };
        let mut rows: Vec<_> = rows.iter().map(shown).collect();
        rows.sort();
        assert!(rows.len() > 2 && !rows[0].contains("null"), "{text}");
        rows
    }
}

#[test]
fn a_third_party_writes_builds_checks_installs_and_uses_a_plugin_slow() {
    let _alone = alone();
    let scratch = Scratch::new();
    let user = User { program: program(), folder: scratch.at(""), data: scratch.at("data") };

    // Without `--sdk`: this program lies in the SDK's source tree.
    user.must(&["plugins", "new", "my-format"]);
    let plugin = scratch.at("my-format");
    let (_, n_lines) = lines(&plugin.join("src"));
    assert!((20..=MOST_LINES).contains(&n_lines), "{n_lines} lines of code");
    let target = target(&user.program);
    fs::copy(root().join("Cargo.lock"), plugin.join("Cargo.lock")).unwrap();
    cargo(&plugin, &target, &["build", "--release"]);
    cargo(&plugin, &target, &["test", "--release"]);

    let library = target.join("release").join(apr_host::plugins::file_name("my_format"));
    let library = library.to_str().unwrap();
    checks(&user, library);
    converts(&user, library);
    installs(&user, library);
    finds_a_probe_that_forgets(&user, &plugin, &target, library);
    let names = scratch.names();
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
}

/// A plugin of each other kind: it builds, passes its own tests and the checks, and does what it says.
#[test]
fn a_third_party_writes_a_quantizer_a_backend_and_a_table_slow() {
    let scratch = Scratch::new();
    let user = User { program: program(), folder: scratch.at(""), data: scratch.at("data") };
    for (kind, name, most) in [("quantizer", "my-blocks", 70), ("backend", "my-device", 270)] {
        user.must(&["plugins", "new", name, "--kind", kind]);
        let plugin = scratch.at(name);
        let (_, n_lines) = lines(&plugin.join("src"));
        assert!((20..=most).contains(&n_lines), "{kind}: {n_lines} lines of code");
        let target = target(&user.program);
        fs::copy(root().join("Cargo.lock"), plugin.join("Cargo.lock")).unwrap();
        cargo(&plugin, &target, &["build", "--release"]);
        cargo(&plugin, &target, &["test", "--release"]);
        let id = name.replace('-', "_");
        let library = target.join("release").join(apr_host::plugins::file_name(&id));
        let checked = user.must(&["plugins", "check", library.to_str().unwrap()]);
        assert!(checked.ends_with(" 0 failed\n"), "{checked}");
        user.must(&["plugins", "install", library.to_str().unwrap()]);
        assert!(user.ids().contains(&id));
    }
    brings_a_block_type(&user);
    user.must(&["plugins", "new", "my-model", "--kind", "table"]);
    let table = "my-model/my-model.toml";
    assert!(user.must(&["arch", "check", table]).ends_with("(my-model): sound\n"));
    let checked = user.must(&["plugins", "check", table]);
    assert!(checked.ends_with("2 passed, 0 skipped, 0 failed\n"), "{checked}");
    user.must(&["plugins", "install", table]);
    assert!(user.must(&["arch", "list", "-q"]).lines().any(|id| id == "my-model"));
}

/// SafeTensors -> APR in the plugin's own block type -> F16, with the plugin installed.
fn brings_a_block_type(user: &User) {
    let model = root().join("tests/model/weights/model.safetensors");
    let listed = user.must(&["plugins", "info", "my_blocks"]);
    assert!(listed.contains("block type MY_BLOCKS: 32 elements in 18 bytes"), "{listed}");
    let (model, to) =
        (model.to_str().unwrap(), ["m.apr", "--bare", "--arch", "none", "--quantize", "my_blocks"]);
    user.must(&[&["convert", model][..], &to].concat());
    assert!(user.must(&["tensors", "m.apr"]).contains("MY_BLOCKS"));
    user.must(&["convert", "m.apr", "m.safetensors", "--arch", "none", "--dequantize", "f16"]);
    user.must(&["plugins", "remove", "my_blocks"]);
    assert!(user.must(&["tensors", "m.apr"]).contains("MY_BLOCKS"));
}

/// Where all of these plugins are built, so that the SDK is built once.
fn target(program: &Path) -> PathBuf {
    program.parent().and_then(Path::parent).unwrap().join("third_party")
}

/// The commands of README's section, as they stand there, in a folder with `path/to/apr` and a model.
#[test]
#[cfg(target_os = "linux")]
fn the_commands_of_the_readme_work_as_written_slow() {
    let _alone = alone();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let scratch = newcomer();
    let mut shell = Shell::new(&scratch);
    let sections = blocks(&readme, "## Write a plugin", Some("## Documentation"));
    assert_eq!(follow(&mut shell, &sections), 5, "the section has other commands");
    let made = fs::read(shell.folder.join("model.toy")).unwrap();
    assert!(made.starts_with(b"TOY1"), "the last command wrote something else");
    let (n_lines, n_code) = lines(&shell.folder.join("src"));
    let said = format!("in {n_code} lines of code, {n_lines} with comments");
    assert!(readme.contains(&said), "README does not say `{said}`");
}

/// The same of the SDK's README, from nothing to a plugin that is installed and in the matrix.
#[test]
#[cfg(target_os = "linux")]
fn the_commands_of_the_sdks_readme_work_as_written_slow() {
    let _alone = alone();
    let readme = fs::read_to_string(root().join("sdk/README.md")).unwrap();
    let scratch = newcomer();
    let mut shell = Shell::new(&scratch);
    let sections = blocks(&readme, "## 1. Start from something that works", Some("# Further on"));
    assert_eq!(follow(&mut shell, &sections), 8, "the sections have other commands");
    assert!(shell.folder.join("target/doc/apr_sdk/struct.Cursor.html").is_file(), "no API docs");
    let whole = fs::read_to_string(root().join("sdk/template/format/tests/conformance.rs")).unwrap();
    let uncompiled: Vec<_> = sections.iter().filter(|block| block.language.starts_with("rust,")).collect();
    assert!(uncompiled.iter().all(|block| whole.contains(&block.text)), "the template has another line");
    assert_eq!(uncompiled.len(), 1, "let the testkit's doctests compile the others");
}

/// A folder with the sources where READMEs say they are.
#[cfg(target_os = "linux")]
fn newcomer() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.at("path/to")).unwrap();
    std::os::unix::fs::symlink(root(), scratch.at("path/to/apr")).unwrap();
    scratch
}

/// Runs every command, and compares what is shown of its output; gives how many there were.
#[cfg(target_os = "linux")]
fn follow(shell: &mut Shell, blocks: &[Block]) -> usize {
    let commands: Vec<_> = blocks.iter().flat_map(Block::commands).collect();
    for (command, shown) in &commands {
        let printed = shell.run(command);
        let printed: Vec<&str> = printed.lines().collect();
        for line in shown {
            assert!(printed.contains(&line.as_str()), "`{command}` does not print `{line}`: {printed:#?}");
        }
        if shell.folder.join("Cargo.toml").is_file() && !shell.folder.join("Cargo.lock").exists() {
            furnish(&shell.folder);
        }
    }
    commands.len()
}

/// What a network and some minutes would do: versions, the SDK built before, and somebody's model.
#[cfg(target_os = "linux")]
fn furnish(plugin: &Path) {
    fs::copy(root().join("Cargo.lock"), plugin.join("Cargo.lock")).unwrap();
    let target = target(&program());
    fs::create_dir_all(&target).unwrap();
    std::os::unix::fs::symlink(target, plugin.join("target")).unwrap();
    fs::copy(fixtures("gguf").join("small.gguf"), plugin.join("model.gguf")).unwrap();
}

fn checks(user: &User, library: &str) {
    let checked = user.must(&["plugins", "check", library]);
    assert!(checked.ends_with(" 0 failed\n"), "{checked}");
    let checked = user.must(&["plugins", "check", library, "--fixtures", "my-format/tests/data"]);
    assert!(checked.ends_with("0 skipped, 0 failed\n"), "{checked}");
}

/// A probe that knows the fixture, and takes what the writer makes of a model without tensors for nobody's.
fn finds_a_probe_that_forgets(user: &User, plugin: &Path, target: &Path, library: &str) {
    let reader = plugin.join("src/reader.rs");
    let text = fs::read_to_string(&reader).unwrap();
    let known = "if look.head_is(&layout::MAGIC) {";
    assert!(text.contains(known), "the template's probe is another");
    let forgets = text.replace(known, "if look.head_is(&layout::MAGIC) && look.u32_le(4) > Some(0) {");
    // As the manifest's magic is raised to a score, the host would still open it: the probe must stand alone.
    fs::write(&reader, forgets).unwrap();
    cargo(plugin, target, &["build", "--release"]);
    let checked = user.apr(&["plugins", "check", library, "--fixtures", "my-format/tests/data"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(5), "{said}");
    let found = "`my_format` does not recognize the output of its own writer: any model, `kit.toy`, scores 0";
    assert!(said.contains(found) && said.ends_with("0 skipped, 1 failed\n"), "{said}");
}

/// GGUF -> toy -> GGUF keeps every payload; toy -> APR -> toy gives the same bytes.
fn converts(user: &User, library: &str) {
    let gguf = fixtures("gguf").join("small.gguf");
    let gguf = gguf.to_str().unwrap();
    let with = ["--plugin", library];
    let convert = |from: &str, to: &str| {
        user.must(&[&with[..], &["convert", from, to, "--arch", "none"]].concat());
    };
    convert(gguf, "m.toy");
    convert("m.toy", "back.gguf");
    assert_eq!(user.payloads(&["tensors", gguf]), user.payloads(&["tensors", "back.gguf"]));
    assert_eq!(user.payloads(&["tensors", gguf]), user.payloads(&["--plugin", library, "tensors", "m.toy"]));
    let fixture = "my-format/tests/data/small.toy";
    convert(fixture, "m.apr");
    convert("m.apr", "back.toy");
    assert_same_file(&user.folder.join(fixture), &user.folder.join("back.toy"));
    let unknown = user.apr(&["convert", fixture, "unknown.apr"]);
    assert_eq!(unknown.status.code(), Some(4), "no plugin reads it");
}

fn installs(user: &User, library: &str) {
    assert!(!user.ids().contains(&"my_format".to_owned()));
    user.must(&["plugins", "install", library]);
    assert!(user.data.join("apr/plugins").is_dir());
    assert!(user.ids().contains(&"my_format".to_owned()));
    user.must(&["convert", "my-format/tests/data/small.toy", "installed.apr", "--arch", "none"]);
    assert_same_file(&user.folder.join("m.apr"), &user.folder.join("installed.apr"));
    joins_the_matrix(user);
    assert_eq!(user.apr(&["plugins", "install", library]).status.code(), Some(1), "it is installed already");
    user.must(&["plugins", "remove", "my_format"]);
    assert!(!user.ids().contains(&"my_format".to_owned()));
}

/// What lies in the plugin folder is in the Rosetta matrix, there and back, with nothing named anywhere.
fn joins_the_matrix(user: &User) {
    let listed = user.must(&["rosetta", "list", "-q"]);
    let ran = user.must(&["rosetta", "run", "--models", "F16/,I8/,names/,mixed/", "--json"]);
    let ran: serde_json::Value = serde_json::from_str(&ran).unwrap();
    for format in ["apr", "gguf", "safetensors"] {
        for pair in [(format, "my_format"), ("my_format", format)] {
            assert!(listed.contains(&format!("{} {}\n", pair.0, pair.1)), "{listed}");
            let rows = ran["pairs"].as_array().unwrap();
            let row = rows.iter().find(|row| row["from"] == pair.0 && row["to"] == pair.1).unwrap();
            assert!(row["arrived"].as_u64() > Some(10) && row["arrived"] == row["returned"], "{row}");
            assert_eq!((&row["red"], &row["command_line"]), (&0.into(), &true.into()), "{row}");
        }
    }
}

/// Lines of Rust that are not empty, and of these those that are no comment and no documentation.
fn lines(source: &Path) -> (usize, usize) {
    let files = fs::read_dir(source).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let text: String = files.collect();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    (lines.clone().count(), lines.filter(|line| !line.starts_with("//")).count())
}

/// Runs cargo as the plugin's author would. Our lock file stands in for a registry that may be out of reach.
fn cargo(plugin: &Path, target: &Path, args: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(args).arg("--quiet").arg("--target-dir").arg(target).current_dir(plugin);
    cargo.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env(UNOPTIMIZED.0, UNOPTIMIZED.1);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
