//! The page on JSON: what the source says of each document that a verb prints.

use apr_tests::documents::{assert_written, files_below};
use apr_tests::root;
use std::fs;

/// Names of the schemas in a file, in order of appearance.
fn schemas(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for literal in text.split('"').skip(1).step_by(2) {
        let is_schema = literal.starts_with("apr.")
            && literal.split_once('/').is_some_and(|(_, n)| n.parse::<u32>().is_ok());
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

/// Name and documentation of each field of a struct in a file, as a list; empty if there is no such struct.
fn fields(text: &str, name: &str) -> String {
    let Some((_, rest)) = text.split_once(&format!("struct {name} {{\n")) else { return String::new() };
    let (inside, _) = rest.split_once("\n}").unwrap();
    let (mut list, mut said) = (String::new(), String::new());
    for line in inside.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            said += comment;
        } else if let Some((field, _)) = line.trim_start_matches("pub ").split_once(": ") {
            list += &format!("- `{field}`:{said}\n");
            said.clear();
        }
    }
    list
}

/// Name of the struct behind a documentation that speaks of its fields.
fn described<'t>(text: &'t str, said: &'t str) -> Option<&'t str> {
    if let Some((_, rest)) = said.split_once("the fields of [`") {
        return rest.split_once('`').map(|(name, _)| name);
    }
    let is_below = said.contains("the fields below");
    let (_, behind) = text.split_once("the fields below").filter(|_| is_below)?;
    behind.split_once("struct ")?.1.split([' ', '<', '(']).next()
}

#[test]
fn the_page_on_json_says_what_the_source_says() {
    let mut entries = Vec::new();
    for file in files_below(&root().join("host/src"), "rs") {
        let text = fs::read_to_string(&file).unwrap();
        let (schemas, documented) = (schemas(&text), documented(&text));
        if schemas.is_empty() || documented.is_empty() {
            continue;
        }
        let names: Vec<String> = schemas.iter().map(|name| format!("`{name}`")).collect();
        let links = |text: &str| text.replace("[`", "`").replace("`]", "`");
        let mut said: Vec<String> = Vec::new();
        for comment in &documented {
            said.push(links(comment));
            let list = described(&text, comment).map(|name| fields(&text, name)).unwrap_or_default();
            said.extend(Some(links(list.trim_end())).filter(|list| !list.is_empty()));
        }
        entries.push(format!("## {}\n\n{}\n", names.join(", "), said.join("\n\n")));
    }
    entries.sort();
    assert!(entries.len() > 30, "only {} documents are documented", entries.len());
    assert_written("reference/json.md", "book", &entries.join("\n"));
}
