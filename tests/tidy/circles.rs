//! No files form a circle: files that use each other directly or through others are one thing in several places. A module and
//! its own submodules are one house, and apart from this rule.

use crate::tree::{SourceFile, files, report};
use std::collections::{BTreeMap, BTreeSet};

/// The crates whose files are looked at.
const CRATES: [&str; 5] =
    ["host/engine/src/", "host/src/", "host/inference/src/", "host/sandbox/src/", "sdk/src/"];

/// The modules of a crate: their code, and the names that each has from elsewhere.
struct Modules<'t> {
    /// By path, such as `a/b`; the crate's root is empty.
    code: BTreeMap<String, String>,
    /// The path that a name of a module stands for.
    imported: BTreeMap<(&'t str, String), Vec<String>>,
}

impl<'t> Modules<'t> {
    /// The code of files, of which each is given with its path in the crate's source folder.
    fn code<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> BTreeMap<String, String> {
        let files = files.into_iter().filter(|(path, _)| *path != "main.rs" && !path.contains("tests/"));
        files.map(|(path, text)| (module_of(path), without_comments_and_tests(text))).collect()
    }

    fn new(code: &'t BTreeMap<String, String>) -> Modules<'t> {
        let mut modules = Modules { code: code.clone(), imported: BTreeMap::new() };
        for (module, text) in code {
            for (path, name) in imports(text) {
                if let Some(path) = modules.absolute(module, &path) {
                    modules.imported.insert((module, name), path);
                }
            }
        }
        modules
    }

    /// A path that is written in a module, from the crate's root; `None` if it leads to another crate.
    fn absolute(&self, module: &str, path: &[String]) -> Option<Vec<String>> {
        let mut whole: Vec<String> =
            module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                whole.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    whole.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let child = if module.is_empty() { first.to_owned() } else { format!("{module}/{first}") };
                self.code.get(&child)?;
            }
        }
        whole.extend(rest.iter().filter(|part| *part != "self" && *part != "*").cloned());
        Some(whole)
    }

    /// The module in which a path from the crate's root ends, through whatever names others have for it.
    fn end_of(&self, path: &[String], renamings: usize) -> String {
        const MOST_RENAMINGS: usize = 10;
        let known =
            (0..=path.len()).rev().find(|n| self.code.contains_key(&path[..*n].join("/"))).unwrap_or(0);
        let module = path[..known].join("/");
        let Some(name) = path.get(known).filter(|_| renamings < MOST_RENAMINGS) else { return module };
        let Some(meant) = self.imported.get(&(module.as_str(), name.clone())) else { return module };
        let further = [&meant[..], &path[known + 1..]].concat();
        if further == path { module } else { self.end_of(&further, renamings + 1) }
    }

    /// The modules that a module uses, other than itself, its ancestors and its descendants.
    fn used_by(&self, module: &str) -> BTreeSet<String> {
        let text = &self.code[module];
        let imported = imports(text).into_iter().map(|(path, _)| path);
        let ends = imported.chain(inline_paths(text)).filter_map(|path| {
            let path = self.absolute(module, &path)?;
            Some(self.end_of(&path, 0))
        });
        ends.filter(|other| !is_within(other, module) && !is_within(module, other)).collect()
    }
}

/// The module that a file is.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { String::new() } else { path.to_owned() }
}

/// Returns whether a module is another or lies in it.
fn is_within(module: &str, other: &str) -> bool {
    other.is_empty()
        || module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_comments_and_tests(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test_module = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        if is_test_module {
            break;
        }
        code.push_str(line.split("//").next().unwrap_or(""));
        code.push('\n');
    }
    code
}

/// The paths that the `use` declarations of a text name, each with the name that it has here.
fn imports(text: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap_or("").trim();
        rest = &rest[at + 4..];
        if !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let end = rest.find(';').unwrap_or(rest.len());
        let tree: String = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        for path in leaves(&tree) {
            let (path, alias) =
                path.split_once(" as ").map_or((path.as_str(), None), |(path, alias)| (path, Some(alias)));
            let path: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
            let own = path.iter().rev().find(|part| *part != "self").cloned().unwrap_or_default();
            found.push((path, alias.map_or(own, str::to_owned)));
        }
    }
    found
}

/// The paths of a `use` tree, whose groups may have groups in them.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((start, group)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let group = group.strip_suffix('}').unwrap_or(group);
    let mut found = Vec::new();
    let mut depth = 0;
    let mut from = 0;
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let inner = leaves(&group[from..at]).into_iter().filter(|leaf| !leaf.is_empty());
                found.extend(inner.map(|leaf| format!("{start}{leaf}")));
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The paths of this crate that are written where they are used.
fn inline_paths(text: &str) -> Vec<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_part(c)).filter(|word| word.contains("::"));
    let paths =
        words.map(|word| word.trim_end_matches(':').split("::").map(str::to_owned).collect::<Vec<_>>());
    paths.filter(|path| ["crate", "super", "self"].contains(&path[0].as_str())).collect()
}

/// The largest sets of modules of which each uses each, directly or through others, sorted.
fn circles(code: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let modules = Modules::new(code);
    let used: BTreeMap<&str, BTreeSet<String>> =
        code.keys().map(|module| (module.as_str(), modules.used_by(module))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        used.keys().map(|module| (*module, reach(&used, module))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (module, from_here) in &reached {
        let back = from_here.iter().filter(|other| reached[*other].contains(module));
        let all: Vec<String> = back.map(|other| (*other).to_owned()).collect();
        if all.len() > 1 && !found.contains(&all) {
            found.push(all);
        }
    }
    found
}

/// All that a module uses, directly or through others; itself only if something that it uses does.
fn reach<'u>(used: &'u BTreeMap<&str, BTreeSet<String>>, module: &str) -> BTreeSet<&'u str> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = used[module].iter().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(used[next].iter().map(String::as_str));
        }
    }
    reached
}

/// The files of a crate, each with its path in the crate's source folder.
fn of_crate<'f>(all: &'f [SourceFile], root: &str) -> Vec<(&'f str, &'f str)> {
    all.iter().filter_map(|file| Some((file.path.strip_prefix(root)?, file.text.as_str()))).collect()
}

#[test]
fn no_files_form_a_circle() {
    let all = files(&["rs"]);
    let mut complaints = Vec::new();
    for root in CRATES {
        let code = Modules::code(of_crate(&all, root));
        assert!(code.len() > 3, "{root} has no files: the scan looks in the wrong place");
        for circle in circles(&code) {
            let names = circle.join(", ");
            complaints.push(format!("{root}: {names}: move what they share into a file below them"));
        }
    }
    report("circles", &complaints);
}

/// The circles among files that are made up.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    circles(&Modules::code(files.iter().copied())).iter().map(|circle| circle.join(" ")).collect()
}

#[test]
fn a_circle_is_seen_whichever_way_it_is_written() {
    let none: [String; 0] = [];
    let lower = ("b.rs", "pub struct B;");
    assert_eq!(circles_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), lower]), none);
    for back in [
        "use crate::a::A;",
        "use super::a;",
        "pub use crate::{a::A, c};",
        "use crate::{\n    c::{C, D},\n    a::{self, A},\n};",
        "fn f(a: &crate::a::A) {}",
        "use crate::A;",
        "use crate::c::Other;",
    ] {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", back),
            ("c.rs", "pub(crate) use super::a::A as Other;"),
        ];
        let found = circles_of(&files);
        assert_eq!(found.len(), 1, "{back}: {found:?}");
        assert!(found[0].starts_with("a b"), "{back}: {found:?}");
    }
    let through_others = [
        ("lib.rs", ""),
        ("a/mod.rs", "mod inner;\npub use inner::Inner;"),
        ("a/inner.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::a::Inner;"),
    ];
    assert_eq!(circles_of(&through_others), ["a/inner b c"]);
}

#[test]
fn families_comments_and_tests_form_no_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod inner;\nuse inner::Inner;\nuse crate::b::B;"),
        ("a/inner.rs", "use super::A;\nuse crate::a::Other;"),
        ("b.rs", "// use crate::a::A;\nstruct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ("b/tests/mod.rs", "use crate::a::A;"),
    ];
    let none: [String; 0] = [];
    assert_eq!(circles_of(&files), none);
}
