//! The page on JSON: what the source says of each document that a verb prints.

use apr_tests::documents::{assert_written, files_below};
use apr_tests::root;
use std::fs;
use std::path::Path;

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

/// Name and documentation of each field of a struct that JSON shows, as a list; empty if there is no such struct.
fn fields(text: &str, name: &str) -> String {
    let Some((_, rest)) = text.split_once(&format!("struct {name} {{\n")) else { return String::new() };
    let (inside, _) = rest.split_once("\n}").unwrap();
    let (mut list, mut said) = (String::new(), String::new());
    let mut is_hidden = false;
    for line in inside.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            said += comment;
        } else if line == "#[serde(skip)]" {
            is_hidden = true;
        } else if let Some((field, _)) = line.trim_start_matches("pub ").split_once(": ") {
            if !is_hidden && field != "schema" {
                list += &format!("- `{field}`:{said}\n");
            }
            said.clear();
            is_hidden = false;
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

/// The document that a documentation names first, as in "`apr.tree/1`: `tensors`, ...", and what it says of it.
fn titled(said: &str) -> Option<(&str, &str)> {
    let (title, rest) = said.strip_prefix('`')?.split_once("`: ")?;
    (title.starts_with("apr") && !title.contains('`')).then_some((title, rest))
}

/// A documentation as the page shows it: without links, and "the fields below" instead of those of a struct.
fn shown(said: &str) -> String {
    let mut shown = said.to_owned();
    if let Some((before, rest)) = said.split_once("the fields of [`") {
        let (_, after) = rest.split_once("`]").unwrap();
        shown = format!("{before}the fields below{after}");
    }
    shown.replace("[`", "`").replace("`]", "`")
}

/// Text of all sources in a file's folder, the file's own first.
fn nearby(file: &Path) -> String {
    let own = fs::read_to_string(file).unwrap();
    let folder = file.parent().unwrap();
    let others = apr_tests::names_in(folder).into_iter().map(|name| folder.join(name));
    let others = others.filter(|path| path != file && path.extension().is_some_and(|end| end == "rs"));
    others.fold(own, |text, path| text + &fs::read_to_string(path).unwrap())
}

#[test]
fn the_page_on_json_says_what_the_source_says() {
    let mut entries = Vec::new();
    let folders = ["host/src", "host/engine/src/convert/plan"].map(|folder| root().join(folder));
    for file in folders.iter().flat_map(|folder| files_below(folder, "rs")) {
        let text = fs::read_to_string(&file).unwrap();
        let schemas = schemas(&text);
        for comment in documented(&text) {
            let (title, said) = match (titled(&comment), &schemas[..]) {
                (Some(titled), _) => titled,
                (None, []) => continue,
                (None, [schema]) => (*schema, comment.as_str()),
                (None, _) => panic!("{}: `{comment}` names no schema, and there are several", file.display()),
            };
            let list = described(&text, said).map(|name| fields(&nearby(&file), name)).unwrap_or_default();
            let list = if list.is_empty() { list } else { format!("\n{}", shown(&list)) };
            entries.push(format!("## `{title}`\n\n{}\n{list}", shown(said)));
        }
    }
    entries.sort();
    assert!(entries.len() > 30, "only {} documents are documented", entries.len());
    assert_written("reference/json.md", "book", &entries.join("\n"));
}
