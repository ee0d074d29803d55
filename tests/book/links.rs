//! Links of README, ARCHITECTURE.md and the book lead to files, and every page is in the book's list.

use apr_tests::documents::{book, page, pages};
use apr_tests::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Targets of the relative links of a text, without their fragments.
fn targets(text: &str) -> Vec<&str> {
    let behind = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let relative = behind.map(|(target, _)| target).filter(|target| !target.contains("://"));
    relative.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty()).collect()
}

/// A page's text as the book shows it: with the documents that it includes.
fn shown(path: &Path) -> String {
    let mut text = fs::read_to_string(path).unwrap();
    while let Some((before, rest)) = text.split_once("{{#include ") {
        let (named, after) = rest.split_once("}}").unwrap();
        let (file, anchor) = named.rsplit_once(':').map_or((named, None), |(file, name)| (file, Some(name)));
        let mut included = fs::read_to_string(path.parent().unwrap().join(file)).unwrap();
        if let Some(name) = anchor {
            let (_, from) = included.split_once(&format!("<!-- ANCHOR: {name} -->")).unwrap();
            included = from.split_once(&format!("<!-- ANCHOR_END: {name} -->")).unwrap().0.to_owned();
        }
        text = [before, &included, after].concat();
    }
    text
}

#[test]
fn every_link_leads_to_a_file() {
    let mut documents: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md"].map(|name| root().join(name)).into();
    documents.extend(pages().iter().map(|path| book().join(path)));
    let mut broken = Vec::new();
    for document in documents {
        let text = shown(&document);
        for target in targets(&text) {
            if !document.parent().unwrap().join(target).exists() {
                broken.push(format!("{}: `{target}` is not there", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = page("SUMMARY.md");
    let listed = targets(&summary);
    let missing: Vec<String> =
        pages().into_iter().filter(|path| path != "SUMMARY.md" && !listed.contains(&path.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/src/SUMMARY.md: {missing:?}");
}
