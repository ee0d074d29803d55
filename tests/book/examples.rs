//! Every console example of README and the guide is a case of the command line's tests.

use apr_tests::documents::{page, pages, readme};
use std::collections::{BTreeMap, BTreeSet};

/// A line without what differs from run to run.
fn steady(line: &str) -> String {
    // How much of a header is read depends on the machine's pages.
    if line.starts_with("  header ") && line.ends_with(" read") {
        return "  header SIZE read".to_owned();
    }
    match line.rsplit_once(", ") {
        Some((rest, last)) if last == "TIME" || last.ends_with(" s") => rest.to_owned(),
        _ => line.to_owned(),
    }
}

/// What each case under `tests/cli/book` prints, by its command.
fn cases() -> BTreeMap<String, Vec<String>> {
    let folder = apr_tests::root().join("tests/cli/book");
    let mut cases = BTreeMap::new();
    for name in apr_tests::names_in(&folder) {
        let read = |file: &str| std::fs::read_to_string(folder.join(&name).join(file)).unwrap_or_default();
        let command = read("cmd").lines().last().unwrap().to_owned();
        let printed: Vec<_> = (read("stdout") + &read("stderr")).lines().map(steady).collect();
        cases.insert(command, printed);
    }
    cases
}

#[test]
fn every_example_is_a_case_of_the_command_line_tests() {
    let cases = cases();
    let mut documents = vec![("README.md".to_owned(), readme())];
    for path in pages() {
        let text = page(&path);
        documents.push((path, text));
    }
    let mut complaints = Vec::new();
    let mut shown = BTreeSet::new();
    for (path, text) in &documents {
        for block in text.split("```console\n").skip(1) {
            let mut lines = block.split("```").next().unwrap().lines();
            let command = lines.next().unwrap().strip_prefix("$ ").unwrap();
            let printed: Vec<_> = lines.map(steady).collect();
            shown.insert(command);
            if cases.get(command) != Some(&printed) {
                complaints.push(format!("{path}: `{command}`: no case under tests/cli/book prints this"));
            }
        }
    }
    for command in cases.keys().filter(|command| !shown.contains(command.as_str())) {
        complaints.push(format!("`{command}` is a case under tests/cli/book, and shown nowhere"));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
