//! Reading the checkout: the files that are part of the project, and reports of what is wrong with them.

use std::path::{Path, PathBuf};

/// A text file of the project.
pub struct SourceFile {
    /// Its path relative to the root, with `/`.
    pub path: String,
    /// The file's whole text.
    pub text: String,
}

impl SourceFile {
    /// Its lines of code: number and text, without comments, and without the test module at its end.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(n, line)| (n + 1, line));
        let before_tests = lines.take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        before_tests
            .map(|(n, line)| (n, line.split("//").next().unwrap_or("")))
            .filter(|(_, code)| !code.trim().is_empty())
    }

    /// Whether it lies under a folder.
    pub fn under(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Whether it is a test by its place.
    pub fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.contains("/tests/")
    }
}

/// Every file below the root with one of these extensions, sorted; build output and dotfolders left out.
pub fn files(extensions: &[&str]) -> Vec<SourceFile> {
    let root = apr_tests::root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    let mut files: Vec<_> = paths
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)))
        .filter_map(|p| {
            let path = p.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            std::fs::read_to_string(&p).ok().map(|text| SourceFile { path, text })
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 3, "the scan found nothing: it looks in the wrong place");
    files
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "__pycache__" || name == "artifacts" {
            continue;
        }
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// Fails with every complaint at once.
pub fn report(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}

/// Fails for complaints outside the exceptions, and for exceptions without a complaint.
pub fn report_except(rule: &str, complaints: &[(String, String)], exceptions: &[(&str, &str)]) {
    let excused = |path: &str| exceptions.iter().any(|(e, _)| path == *e);
    let mut all: Vec<_> =
        complaints.iter().filter(|(path, _)| !excused(path)).map(|(_, text)| text.clone()).collect();
    for (path, reason) in exceptions {
        if !complaints.iter().any(|(p, _)| p == path) {
            all.push(format!(
                "{path} is excepted ({reason}), but needs no exception: remove it from the list"
            ));
        }
    }
    report(rule, &all);
}
