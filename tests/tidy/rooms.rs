//! Who may live where, and who may use what.

use crate::tree::{files, report, report_except};

#[test]
fn the_top_level_is_what_the_design_lists() {
    let listed = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "docs",
        "host",
        "sdk",
        "plugins",
        "tests",
    ];
    let there = apr_tests::names_in(&apr_tests::root());
    // `target` is build output; `shared` is lent to some checkouts.
    let visible = there.iter().filter(|n| !n.starts_with('.') && *n != "target" && *n != "shared");
    let odd: Vec<_> =
        visible.filter(|n| !listed.contains(&n.as_str())).map(|n| format!("{n}: put it in a room")).collect();
    report("top level", &odd);
    let missing: Vec<_> = listed
        .iter()
        .filter(|n| !there.contains(&(**n).to_owned()))
        .map(|n| format!("{n} is missing"))
        .collect();
    report("top level", &missing);
}

/// Whether the manifest of the plugin in this folder has a key, such as `kernels=`.
pub fn provides(plugin: &str, key: &str) -> bool {
    let lib = apr_tests::root().join("plugins").join(plugin).join("src/lib.rs");
    std::fs::read_to_string(lib).unwrap().lines().any(|line| line.trim_start().starts_with(key))
}

/// Whether the plugin in this folder is one of a format.
fn provides_a_format(plugin: &str) -> bool {
    provides(plugin, "formats=")
}

#[test]
fn the_host_names_no_format() {
    let names: Vec<String> = apr_tests::names_in(&apr_tests::root().join("plugins"))
        .into_iter()
        .filter(|n| n != "apr" && provides_a_format(n))
        .chain(["pytorch", "onnx", "numpy", "huggingface", "ggml", "keras", "tflite"].map(str::to_owned))
        .collect();
    let mut complaints = Vec::new();
    for file in files(&["rs"]).iter().filter(|f| f.under("host/") && !f.is_test()) {
        for (n, code) in file.code() {
            let lower = code.to_lowercase();
            if let Some(name) = names.iter().find(|name| lower.contains(name.as_str())) {
                let text =
                    format!("{}:{n} names `{name}`: what a format knows belongs into its plugin", file.path);
                complaints.push((file.path.clone(), text));
            }
        }
    }
    report_except(
        "the host knows no format",
        &complaints,
        &[
            ("host/src/bundled_plugins.rs", "links the plugins of the `bundled` feature"),
            (
                "host/engine/src/architecture/table/section/keys.rs",
                "activation functions have the names that configurations give them",
            ),
            ("host/remote/src/cache/roots.rs", "the hub's own client names its cache so"),
            ("host/remote/src/cache/shared_store.rs", "the hub's own client marks its store so"),
            (
                "host/src/cli/verbs/run/logits.rs",
                "logits are written as an array for other programs to judge",
            ),
        ],
    );
}

#[test]
fn abi_stable_lives_in_sdk_abi_alone() {
    let mut complaints = Vec::new();
    for file in files(&["rs", "toml"]).iter().filter(|f| !f.under("sdk/abi/") && !f.under("tests/")) {
        for (n, line) in file.text.lines().enumerate() {
            let is_pin = file.path == "Cargo.toml";
            let code = line.split("//").next().unwrap_or("");
            if code.contains("abi_stable") && !is_pin {
                complaints.push(format!("{}:{}: go through apr-abi", file.path, n + 1));
            }
        }
    }
    report("abi_stable", &complaints);
}

#[test]
fn plugins_do_no_io_start_no_threads_and_have_no_unsafe() {
    let forbidden =
        ["std::fs", "std::thread", "std::net", "std::process", "unsafe ", "std::env::", "apr_host"];
    let mut complaints = Vec::new();
    // Vector instructions, and the variable that chooses among them, are the one exception.
    let pure = |path: &str| !path.starts_with("plugins/quants/src/simd/");
    for file in files(&["rs"]).iter().filter(|f| f.under("plugins/") && !f.is_test() && pure(&f.path)) {
        // A compute backend may be unsafe, and is as pure as the others.
        let backend = file.path.split('/').nth(1).is_some_and(|plugin| provides(plugin, "kernels="));
        let forbidden = forbidden.iter().filter(|word| !(backend && **word == "unsafe "));
        for (n, code) in file.code() {
            // What was compiled for is no part of the environment.
            let code = code.replace("std::env::consts", "");
            if let Some(word) = forbidden.clone().find(|word| code.contains(*word)) {
                complaints.push(format!("{}:{n} uses `{}`: the host does that", file.path, word.trim()));
            }
        }
    }
    report("a plugin is a pure function over bytes", &complaints);
}

#[test]
fn threads_start_in_one_file() {
    let starts = ["thread::scope", "thread::spawn", "thread::Builder", "spawn_scoped"];
    let mut complaints = Vec::new();
    for file in files(&["rs"]).iter().filter(|f| f.under("host/") && !f.is_test()) {
        for (n, code) in file.code().filter(|(_, code)| starts.iter().any(|start| code.contains(start))) {
            let text = format!("{}:{n}: `{}`: hand the loop to a crew", file.path, code.trim());
            complaints.push((file.path.clone(), text));
        }
    }
    report_except(
        "threads",
        &complaints,
        &[
            (
                "host/src/threads/granted_threads.rs",
                "the crew of threads, which does with fewer than it asked for",
            ),
            ("host/remote/src/threads.rs", "what waits for the network is no loop of a crew"),
        ],
    );
}

#[test]
fn files_are_written_in_named_places() {
    let writes = [
        "File::create",
        "fs::write(",
        "fs::rename(",
        "fs::copy(",
        "fs::hard_link(",
        ".write(true)",
        "create_new(",
    ];
    let mut complaints = Vec::new();
    let places = ["host/src/storage/", "host/remote/src/cache/"];
    let is_ours = |path: &str| path.starts_with("host/") && !places.iter().any(|at| path.starts_with(at));
    for file in files(&["rs"]).iter().filter(|f| is_ours(&f.path) && !f.is_test()) {
        for (n, code) in file.code().filter(|(_, code)| writes.iter().any(|write| code.contains(write))) {
            let remedy = "write an `OutputFile`, whose check refuses to write over what is read";
            complaints.push((file.path.clone(), format!("{}:{n}: `{}`: {remedy}", file.path, code.trim())));
        }
    }
    report_except(
        "writes",
        &complaints,
        &[
            ("host/src/destination/output_file.rs", "the place itself"),
            ("host/src/destination/rows_folder.rs", "into a folder that it has just made"),
            (
                "host/src/cli/verbs/plugins/install.rs",
                "a library of another name in the user's plugin folder",
            ),
            ("host/src/cli/verbs/plugins/new.rs", "into a folder that it has just made"),
            ("host/remote/src/file/spool.rs", "a file whose name is gone again"),
            ("host/src/plugins/lock.rs", "the lock file of plugins"),
            ("host/src/plugins/rehearsal.rs", "an empty file in the cache"),
            ("host/src/rosetta/sources.rs", "into a scratch folder"),
            ("host/src/running/image_file.rs", "prepared weights in the cache"),
        ],
    );
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let may = |room: &str| -> &[&str] {
        match room {
            "sdk" => &[],
            "sdk/abi" | "sdk/testkit" => &["apr-sdk"],
            "host/engine" => &["apr-sdk"],
            "host/inference" => &["apr-engine", "apr-sdk"],
            "host/sandbox" => &["apr-inference", "apr-sdk"],
            "host/remote" => &["apr-engine", "apr-sdk"],
            "host" => &[
                "apr-engine",
                "apr-inference",
                "apr-remote",
                "apr-sandbox",
                "apr-sdk",
                "apr-abi",
                "apr-testkit",
                "apr-plugin-",
            ],
            _ => &["apr-sdk", "apr-abi", "apr-testkit", "apr-zip"],
        }
    };
    let mut complaints = Vec::new();
    for file in files(&["toml"]).iter().filter(|f| f.path.ends_with("/Cargo.toml") && !f.under("tests/")) {
        let room = file.path.trim_end_matches("/Cargo.toml");
        if room.starts_with("sdk/template/") {
            continue;
        }
        for (n, line) in file.text.lines().enumerate() {
            let Some(name) = line.split(['.', ' ', '=']).next().filter(|name| name.starts_with("apr-"))
            else {
                continue;
            };
            if !may(room).iter().any(|ok| name.starts_with(ok)) {
                complaints.push(format!("{}:{}: `{room}` may not use `{name}`", file.path, n + 1));
            }
        }
    }
    report("dependencies between rooms", &complaints);
}

/// The engine's folders, each with those before it that it may import.
const ENGINE: [&str; 17] = [
    "registry",
    "values",
    "open",
    "expression",
    "architecture",
    "contract",
    "planned",
    "select",
    "types",
    "packed",
    "layout",
    "tiles",
    "verify",
    "convert",
    "diff",
    "survey",
    "rosetta",
];

/// The layers of architectures, each with those before it that it may import.
const ARCHITECTURE: [&str; 15] = [
    "language",
    "table",
    "config",
    "description",
    "translate",
    "decoder",
    "adapter",
    "choices",
    "model",
    "check",
    "draft",
    "forward",
    "layers",
    "tensor_spec",
    "summary",
];

/// Imports of what comes later in an order, among the folders and files in `folder`; `start` is what paths into it begin with.
fn out_of_order(folder: &str, start: &str, order: &[&str]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|known| *known == name);
    let mut complaints = Vec::new();
    for file in files(&["rs"]).iter().filter(|f| f.under(folder)) {
        let inside = file.path.trim_start_matches(folder);
        let name = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
        let Some(own) = place(name) else {
            if inside.contains('/') {
                complaints.push(format!("{}: `{name}` has no place in the order of folders", file.path));
            }
            continue;
        };
        for (n, code) in file.code() {
            for used in code.split(start).skip(1) {
                let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
                if place(used).is_some_and(|other| other > own) {
                    complaints.push(format!("{}:{n}: `{name}` comes before `{used}`", file.path));
                }
            }
        }
    }
    complaints
}

#[test]
fn folders_of_the_engine_import_those_before_them() {
    report("the order of the engine's folders", &out_of_order("host/engine/src/", "crate::", &ENGINE));
}

#[test]
fn layers_of_architecture_import_those_before_them() {
    let complaints = out_of_order("host/engine/src/architecture/", "crate::architecture::", &ARCHITECTURE);
    report("the order of the layers of architectures", &complaints);
}

#[test]
fn folders_are_small_enough_to_be_seen_at_once() {
    const MOST: usize = 14;
    let mut counts = std::collections::BTreeMap::new();
    for file in files(&["rs"]).iter().filter(|f| f.under("host/")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        *counts.entry(folder).or_insert(0) += 1;
    }
    let large = counts.iter().filter(|(_, n)| **n > MOST);
    let complaints: Vec<_> =
        large.map(|(folder, n)| format!("{folder} holds {n} files: divide it")).collect();
    report("folders", &complaints);
}

#[test]
fn every_plugin_has_the_files_a_reader_looks_for() {
    let root = apr_tests::root().join("plugins");
    let mut complaints = Vec::new();
    for plugin in apr_tests::names_in(&root) {
        let always = ["README.md", "src/lib.rs"];
        let of_formats = ["src/layout.rs", "tests/read.rs", "tests/round_trip.rs", "tests/rejects.rs"];
        let files = always.iter().chain(of_formats.iter().filter(|_| provides_a_format(&plugin)));
        for file in files {
            if !root.join(&plugin).join(file).is_file() {
                complaints.push(format!("plugins/{plugin}/{file} is missing"));
            }
        }
        let lib = std::fs::read_to_string(root.join(&plugin).join("src/lib.rs")).unwrap();
        let id = plugin.replace('-', "_");
        // A module of vector code allows itself what its crate denies.
        let may = plugin == "quants" || provides(&plugin, "kernels=");
        let safe = if may { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        if !lib.contains(&format!("id: {id},")) || !lib.contains(safe) {
            complaints
                .push(format!("plugins/{plugin}/src/lib.rs must export id `{id}` and forbid unsafe code"));
        }
        if lib.lines().count() > 80 {
            complaints.push(format!(
                "plugins/{plugin}/src/lib.rs is longer than 80 lines: diagram, manifest, export line"
            ));
        }
    }
    report("plugins are alike", &complaints);
}
