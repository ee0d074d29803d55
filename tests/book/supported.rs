//! What is supported: every row of `tests/supported.toml` names tests that exist, and every format has a row.

use apr_tests::documents::{assert_written, files_below};
use apr_tests::root;
use std::fs;
use toml::Table;

fn rows() -> Vec<Table> {
    let text = fs::read_to_string(root().join("tests/supported.toml")).unwrap();
    let table: Table = text.parse().unwrap();
    table["row"].as_array().unwrap().iter().map(|row| row.as_table().unwrap().clone()).collect()
}

fn tests(row: &Table) -> Vec<&str> {
    row["tests"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn the_page_shows_every_row() {
    let mut text = String::from("| | read | written | tests |\n| --- | --- | --- | --- |\n");
    for row in rows() {
        let cell = |key: &str| row[key].as_str().unwrap().to_owned();
        let tests: Vec<String> = tests(&row).iter().map(|name| format!("`{name}`")).collect();
        text +=
            &format!("| {} | {} | {} | {} |\n", cell("what"), cell("read"), cell("write"), tests.join(", "));
    }
    assert_written("reference/supported.md", "book", &text);
}

#[test]
fn every_row_names_tests_that_exist() {
    let mut sources = String::new();
    for folder in ["host", "plugins", "sdk", "tests"] {
        for file in files_below(&root().join(folder), "rs") {
            sources += &fs::read_to_string(file).unwrap();
        }
    }
    let rows = rows();
    assert!(rows.len() > 20, "the rows are gone");
    let mut missing = Vec::new();
    for row in &rows {
        let tests = tests(row);
        if tests.is_empty() {
            missing.push(format!("{} names no test", row["what"]));
        }
        for name in tests {
            if !sources.contains(&format!("fn {name}(")) {
                missing.push(format!("{} names the test `{name}`, which is not there", row["what"]));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_format_claimed_is_provided_and_every_one_provided_is_claimed() {
    let host = apr_tests::host();
    let mut provided: Vec<_> = host.registry.formats().iter().map(|f| f.id().to_owned()).collect();
    provided.sort();
    let rows = rows();
    // The row of a format is its id as code; the others say what is done between formats.
    let id = |row: &Table| Some(row["what"].as_str()?.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let mut claimed: Vec<String> = rows.iter().filter_map(id).collect();
    claimed.sort();
    assert_eq!(claimed, provided);
}
