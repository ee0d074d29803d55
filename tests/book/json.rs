//! The page on JSON: what the source says of each document that a verb prints.

use apr_tests::documents::assert_written;
use apr_tests::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the schemas in a file, in order of appearance.
fn schemas(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for literal in text.split('"').skip(1).step_by(2) {
        let is_schema = literal.starts_with("apr.") && literal.split_once('/').is_some_and(|(_, n)| n.parse::<u32>().is_ok());
        if is_schema && !found.contains(&literal) {
            found.push(literal);
        }
    }
    found
}

/// What doc comments say behind `JSON:`, one text for each.
fn documented(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("///").map(str::trim);
        open = match (open.take(), comment) {
            (Some(said), Some(more)) if !more.is_empty() => Some(format!("{said} {more}")),
            (Some(said), _) => {
                found.push(said);
                None
            }
            (None, Some(first)) => first.split_once("JSON: ").map(|(_, said)| said.to_owned()),
            (None, None) => None,
        };
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for name in apr_tests::names_in(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_page_on_json_says_what_the_source_says() {
    let mut files = Vec::new();
    sources(&root().join("host/src"), &mut files);
    let mut entries = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (schemas, documented) = (schemas(&text), documented(&text));
        if schemas.is_empty() || documented.is_empty() {
            continue;
        }
        let names: Vec<String> = schemas.iter().map(|name| format!("`{name}`")).collect();
        let links = |text: &str| text.replace("[`", "`").replace("`]", "`");
        let said: Vec<String> = documented.iter().map(|text| links(text)).collect();
        entries.push(format!("## {}\n\n{}\n", names.join(", "), said.join("\n\n")));
    }
    entries.sort();
    assert!(entries.len() > 30, "only {} documents are documented", entries.len());
    assert_written("reference/json.md", "book", &entries.join("\n"));
}
