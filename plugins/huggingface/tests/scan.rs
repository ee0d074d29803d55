//! The report `scan` of files in memory.

use crate::fixture::{folder, reader};
use apr_sdk::{Limits, Look, MemorySource, Options, Report, Score};

fn report(source: &MemorySource) -> Report {
    reader().report("scan", source, &Limits::default(), &Options::new()).unwrap()
}

#[test]
fn a_folder_is_scanned_as_a_whole() {
    let config = r#"{"model_type": "own", "auto_map": {"AutoModel": "sub/modeling.Own"}}"#;
    let files: [(&str, &[u8]); 3] =
        [("config.json", config.as_bytes()), ("tokenizer_config.json", b"{}"), ("sub/modeling.py", b"")];
    let made = report(&folder(&files));
    assert!(!made.passed);
    assert!(
        made.text.contains("auto_map.AutoModel: sub/modeling.Own: runs sub/modeling.py from the folder"),
        "{}",
        made.text
    );
    assert!(report(&folder(&files[1..2])).passed);
}

#[test]
fn a_class_outside_of_the_folder_is_not_taken_for_one_of_it() {
    for name in ["../modeling.Own", "/etc/modeling.Own", "modeling", "", "a--b--c.D"] {
        let config = format!(r#"{{"auto_map": {{"AutoModel": "{name}"}}}}"#);
        let made = report(&folder(&[("config.json", config.as_bytes())]));
        assert!(!made.passed && !made.text.contains("from the folder"), "{name}: {}", made.text);
    }
}

#[test]
fn names_without_end_take_neither_memory_nor_time() {
    let (key, value) = ("k".repeat(1 << 20), "\"m.C\",".repeat(1 << 20));
    let config = format!("{{\"{key}\": {{\"auto_map\": [{value} null]}}}}");
    let made = report(&folder(&[("config.json", config.as_bytes())]));
    assert!(!made.passed && made.json.len() < 16 << 20);
    assert!(made.text.ends_with("trust_remote_code=True would run code"));
    assert!(!report(&folder(&[("config.json", "[".repeat(1 << 20).as_bytes())])).passed);
}

#[test]
fn only_names_of_a_folders_own_files_are_known() {
    let score = |name: &str| {
        let look = Look { name, len: 2, head: b"{}", tail: b"", is_folder: false, entries: &[] };
        reader().probe(&look)
    };
    assert_eq!(score("modules.json"), Score::EXTENSION);
    assert_eq!(score("other.json"), Score::NO);
}
