//! Shared by the tests: a host with our plugins linked in, scratch folders, fixtures.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's failure is a panic, and its names are its documentation"
)]

pub mod commands;
pub mod counting;
pub mod documents;
pub mod kinds;
pub mod runs;
pub mod whisper;

use apr_engine::convert::output::format;
use apr_engine::convert::{Output, memory};
use apr_engine::registry::Registry;
use apr_host::convert::{ConvertOptions, Converted, convert};
use apr_host::host::Host;
use apr_sdk::{PluginDecl, Result};
pub use apr_testkit::skipped;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The output of a conversion without a place, under the name that the options give it.
pub fn unplaced<'h>(host: &'h Host, options: &ConvertOptions) -> Result<Output<'h>> {
    let format = format(host, options.to.as_deref(), options.output.as_deref())?;
    let name = options.output.as_ref().unwrap_or(&options.input);
    Output::unplaced(format, name, &options.input, options.shards(), options.foreign)
}

/// A conversion into memory.
pub fn in_memory(host: &Host, options: &ConvertOptions) -> Result<memory::Converted> {
    memory::convert(host, &options.request(), unplaced(host, options)?)
}

/// A host with every plugin of this repository, linked in.
pub fn host() -> Host {
    host_with(Registry::new())
}

/// The same behind what a registry has already.
pub fn host_with(registry: Registry) -> Host {
    host_but(registry, "")
}

/// A host that lacks one of them.
pub fn host_without(id: &str) -> Host {
    host_but(Registry::new(), id)
}

/// The same behind what a registry has already, without the plugin of this id.
pub fn host_but(mut registry: Registry, left_out: &str) -> Host {
    let all: [(&str, &'static PluginDecl); 13] = [
        ("apr", &apr_plugin_apr::PLUGIN),
        ("architectures", &apr_plugin_architectures::PLUGIN),
        ("cpu_kernels", &apr_plugin_cpu_kernels::PLUGIN),
        ("cuda_kernels", &apr_plugin_cuda_kernels::PLUGIN),
        ("ggml_legacy", &apr_plugin_ggml_legacy::PLUGIN),
        ("gguf", &apr_plugin_gguf::PLUGIN),
        ("huggingface", &apr_plugin_huggingface::PLUGIN),
        ("numpy", &apr_plugin_numpy::PLUGIN),
        ("onnx", &apr_plugin_onnx::PLUGIN),
        ("packed", &apr_plugin_packed::PLUGIN),
        ("pytorch", &apr_plugin_pytorch::PLUGIN),
        ("quants", &apr_plugin_quants::PLUGIN),
        ("safetensors", &apr_plugin_safetensors::PLUGIN),
    ];
    for (_, plugin) in all.into_iter().filter(|(id, _)| *id != left_out) {
        apr_host::plugins::add_bundled(&mut registry, plugin);
    }
    Host::new(registry)
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folder with a plugin's fixtures.
pub fn fixtures(plugin: &str) -> PathBuf {
    root().join("plugins").join(plugin).join("tests/data")
}

/// The fixtures of a plugin with this extension, sorted.
pub fn fixtures_with(plugin: &str, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(fixtures(plugin))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no .{extension} fixtures of {plugin}");
    found
}

/// A scratch folder of its own, removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh, empty folder among the system's temporary ones.
    pub fn new() -> Scratch {
        Scratch::below(&std::env::temp_dir())
    }

    /// A fresh, empty folder in memory where the system offers that and has room, so that syncing costs nothing.
    pub fn in_memory() -> Scratch {
        const ROOM: u64 = 2 << 30;
        let memory = Path::new("/dev/shm");
        let free =
            rustix::fs::statvfs(memory).map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
        if free >= ROOM { Scratch::below(memory) } else { Scratch::new() }
    }

    fn below(base: &Path) -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("apr-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                // A killed test of this process number has left it.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    made.unwrap();
                    return Scratch(path);
                }
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` in the folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Every name in it, sorted, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        names_in(&self.0)
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every name in a folder, sorted, hidden ones too.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Options for a conversion that keeps every name (`--arch none`).
pub fn options(input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        arch: Some("none".to_owned()),
        ..ConvertOptions::default()
    }
}

/// Converts, and panics with the whole error if that fails.
pub fn must(host: &Host, options: &ConvertOptions) -> Converted {
    convert(host, options)
        .unwrap_or_else(|e| panic!("{} -> {:?}: {e}", options.input.display(), options.output))
}

/// Panics unless two files have the same bytes.
pub fn assert_same_file(a: &Path, b: &Path) {
    let (one, two) = (std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    if one == two {
        return;
    }
    let at = one.iter().zip(&two).position(|(x, y)| x != y).unwrap_or(one.len().min(two.len()));
    panic!(
        "{} ({} bytes) and {} ({} bytes) differ from byte {at}",
        a.display(),
        one.len(),
        b.display(),
        two.len()
    );
}

/// The program as it is now; cargo does not build it for a test of another package.
pub fn program() -> PathBuf {
    executable("apr")
}

/// The program that serves a hub to the others (`tests/remote/hub.rs`).
pub fn hub_program() -> PathBuf {
    executable("hub")
}

fn executable(name: &str) -> PathBuf {
    let mut named = BUILT.iter().filter(|artifact| artifact["target"]["name"] == name);
    named.find_map(|artifact| artifact["executable"].as_str()).unwrap().into()
}

/// The library of a crate that the program is made of.
pub fn library(name: &str) -> PathBuf {
    let of_name = |artifact: &&Json| artifact["target"]["name"] == name;
    let files =
        BUILT.iter().filter(of_name).filter_map(|artifact| artifact["filenames"].as_array()).flatten();
    files.filter_map(Json::as_str).find(|file| file.ends_with(".rlib")).unwrap().into()
}

/// Cargo's messages of what it built, or had built before.
static BUILT: LazyLock<Vec<Json>> = LazyLock::new(build_program);

fn build_program() -> Vec<Json> {
    let me = std::env::current_exe().unwrap();
    let profile = me.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    // Of the whole workspace, whose features the tests have been built with: with its own alone, all would be compiled again.
    build.args([
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "apr",
        "--example",
        "hub",
        "--message-format=json-render-diagnostics",
    ]);
    if profile.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    build.arg("--target-dir").arg(profile.parent().unwrap());
    // What cargo tells a test of its package, build scripts take for a change of their own: ring and all that is built on it
    // would be compiled again, by this build and by the next one outside.
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start)) || name == "OUT_DIR"
        });
        if of_package {
            build.env_remove(name);
        }
    }
    let built = build.stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "apr does not build");
    let messages = String::from_utf8(built.stdout).unwrap();
    messages.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether `tests/golden/families` lists a golden model: there are many, each like one of the others in all but its table.
pub fn is_of_families(golden: &str) -> bool {
    family(golden).is_some()
}

/// Whether transformers has a class for a golden model.
pub fn is_of_library(golden: &str) -> bool {
    family(golden).is_none_or(|line| !line.contains("library=False"))
}

/// Whether a model in `tests/golden` has packed weights, which neither GGUF nor a folder made of it gives back as they were.
pub fn is_packed(golden: &str) -> bool {
    let config = std::fs::read(root().join("tests/golden").join(golden).join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    config.get("quantization_config").is_some()
}

/// Whether GGUF has not all of a model in `tests/golden`, so that no folder comes back of its file.
pub fn is_one_way(golden: &str) -> bool {
    golden == "qwen3-reranker-untied"
}

/// The first line of a model in `tests/golden/families`.
fn family(golden: &str) -> Option<&'static str> {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let folder = root().join("tests/golden/families");
        names_in(&folder).iter().filter_map(|name| std::fs::read_to_string(folder.join(name)).ok()).collect()
    });
    let listed = format!("    \"{golden}\": dict(");
    TEXTS.iter().flat_map(|text| text.lines()).find(|line| line.starts_with(&listed))
}
