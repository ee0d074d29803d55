//! README and the pages of the book, and the parts of them that tests write.

use crate::root;
use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "<!-- end of what is written -->\n";

/// README's text.
pub fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Folder of the book's pages.
pub fn book() -> PathBuf {
    root().join("docs/src")
}

/// Text of a page, by its path below the book's folder.
pub fn page(path: &str) -> String {
    fs::read_to_string(book().join(path)).unwrap_or_else(|error| panic!("docs/src/{path}: {error}"))
}

/// Paths of all pages below the book's folder, sorted.
pub fn pages() -> Vec<String> {
    let below = |path: &PathBuf| path.strip_prefix(book()).unwrap().to_str().unwrap().to_owned();
    files_below(&book(), "md").iter().map(below).collect()
}

/// Files below a folder whose names end in this extension, sorted; build output is left out.
pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in crate::names_in(folder) {
        let path = folder.join(&name);
        if path.is_dir() && name != "target" {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Compares the written part of a page with `text`, or writes it if `BLESS` is set. `room` is the test program that does so.
pub fn assert_written(path: &str, room: &str, text: &str) {
    let begin = format!("<!-- written by `BLESS=1 cargo test -p apr-tests --test {room}` -->\n");
    let whole = page(path);
    let (before, rest) =
        whole.split_once(&begin).unwrap_or_else(|| panic!("docs/src/{path} has no `{begin}`"));
    let (shown, after) = rest.split_once(END).unwrap_or_else(|| panic!("docs/src/{path} has no `{END}`"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(book().join(path), [before, &begin, text, END, after].concat()).unwrap();
    } else {
        assert_eq!(shown, text, "docs/src/{path} is out of date: BLESS=1 writes it");
    }
}

/// The cells of the first table behind a heading, without its head.
pub fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, text) = text.split_once(heading).unwrap_or_else(|| panic!("there is no `{heading}`"));
    let rows = text.lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    rows.map(cells).collect()
}
