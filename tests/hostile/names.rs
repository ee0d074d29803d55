//! Names with NUL, control and direction characters: read, escaped wherever they are shown, and refused by what cannot hold
//! them, with the tensor.

use crate::build::{entry, safetensors};
use crate::command::{fails, run};
use apr_engine::open::{OpenOptions, open};
use apr_tests::{Scratch, assert_same_file, host};
use std::fs;

/// As JSON, as it is, and as it is shown.
const NAMES: [(&str, &str, &str); 8] = [
    ("nul\\u0000name", "nul\0name", "nul\\u{0}name"),
    ("escape\\u001b[31mred", "escape\x1b[31mred", "escape\\u{1b}[31mred"),
    ("line\\nbreak", "line\nbreak", "line\\nbreak"),
    ("c1\\u009bname", "c1\u{9b}name", "c1\\u{9b}name"),
    ("right\\u202eleft", "right\u{202e}left", "right\\u{202e}left"),
    ("del\\u007f\\u061c", "del\u{7f}\u{61c}", "del\\u{7f}\\u{61c}"),
    ("unseen\\u200b\\u00ad\\ufeff", "unseen\u{200b}\u{ad}\u{feff}", "unseen\\u{200b}\\u{ad}\\u{feff}"),
    ("line\\u2028\\u2029break", "line\u{2028}\u{2029}break", "line\\u{2028}\\u{2029}break"),
];

#[test]
fn odd_names_are_read_escaped_and_refused_by_what_cannot_hold_them() {
    let scratch = Scratch::new();
    for (json, name, shown) in NAMES {
        let header = format!(r#"{{"__metadata__":{{"{json}":"{json}"}},{}}}"#, entry(json, "[4]", 0, 4));
        fs::write(scratch.at("in.safetensors"), safetensors(header.as_bytes(), b"abcd")).unwrap();
        let opened = open(&host(), &scratch.at("in.safetensors"), &OpenOptions::default()).unwrap();
        assert_eq!(opened.model.tensors[0].name, name);

        for args in [
            &["tensors", "in.safetensors"][..],
            &["inspect", "in.safetensors", "--full"],
            &["tensors", "in.safetensors", "--stats"],
        ] {
            let ended = run(&scratch.at(""), args);
            assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
            assert!(ended.stdout.contains(shown), "{args:?}: {:?}", ended.stdout);
            plain(&ended.stdout);
        }
        let ended = run(&scratch.at(""), &["tensors", "in.safetensors", "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(rows[0]["name"], name);
        plain(&ended.stdout);

        let ended = run(&scratch.at(""), &["convert", "in.safetensors", "m.apr", "--arch", "none"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        plain(&ended.stdout);
        let ended = run(&scratch.at(""), &["convert", "m.apr", "back.safetensors", "--arch", "none"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_same_file(&scratch.at("in.safetensors"), &scratch.at("back.safetensors"));
        if name.contains('\0') {
            let args = ["convert", "in.safetensors", "out.gguf", "--arch", "none"];
            let tensor = format!("tensor {shown}");
            fails(&scratch, &args, 4, &["GGUF", "cannot hold", "at in.safetensors", &tensor]);
        }
        // The same tensor twice: an error that names it.
        let twice = format!("{{{},{}}}", entry(json, "[4]", 0, 4), entry(json, "[4]", 4, 8));
        fs::write(scratch.at("twice.safetensors"), safetensors(twice.as_bytes(), b"abcdabcd")).unwrap();
        let ended = run(&scratch.at(""), &["inspect", "twice.safetensors", "--json"]);
        assert_eq!(ended.code, 4, "{}", ended.stderr);
        let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!(error["tensor"], name);
        plain(&ended.stderr);
        plain(&run(&scratch.at(""), &["inspect", "twice.safetensors"]).stderr);
        for name in ["m.apr", "back.safetensors"] {
            fs::remove_file(scratch.at(name)).unwrap();
        }
    }
}

/// Nothing that a terminal would obey.
fn plain(text: &str) {
    assert!(text.chars().all(|c| apr_sdk::is_printable(c) || c == '\n'), "{text:?}");
}
