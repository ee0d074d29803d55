//! Choosing by element type in compute backends: a `match` over dtypes has no `_` arm, so that a new type is never taken
//! for another one (FALSIFY-007 of the tensor layout contract).

use crate::rooms::provides;
use crate::tree::{files, report};

/// A block of code in braces.
struct Block {
    /// Whether it holds the arms of a `match`.
    is_match: bool,
    /// How many parentheses and brackets are open around it.
    nesting: usize,
    /// What stands before the next `=>`, or since it.
    text: String,
    /// Whether an arm's pattern has ended.
    in_body: bool,
    names_dtypes: bool,
    /// The lines of its `_` arms.
    catch_alls: Vec<usize>,
}

/// The code without the contents of its strings and characters, which may hold braces.
fn without_strings(code: &str) -> String {
    let (mut plain, mut chars) = (String::new(), code.chars().peekable());
    while let Some(c) = chars.next() {
        plain.push(c);
        match c {
            '"' => {
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' => drop(chars.next()),
                        '"' => break,
                        '\n' => plain.push('\n'),
                        _ => {}
                    }
                }
                plain.push('"');
            }
            '\'' => {
                // A lifetime has no closing quote.
                let mut ahead = chars.clone();
                let first = ahead.next();
                let second = ahead.next();
                if first == Some('\\') {
                    chars.by_ref().take(2).for_each(drop);
                    for inner in chars.by_ref() {
                        if inner == '\'' {
                            break;
                        }
                    }
                } else if second == Some('\'') {
                    chars.by_ref().take(2).for_each(drop);
                }
            }
            _ => {}
        }
    }
    plain
}

/// Whether an arm's pattern is `_`, guarded or not.
fn catches_all(pattern: &str) -> bool {
    let words: Vec<&str> = pattern.split_whitespace().collect();
    let last = words.last() == Some(&"_");
    last || words.windows(2).any(|pair| pair == ["_", "if"])
}

/// The lines with a `_` arm in a `match` whose arms name dtypes.
fn catch_alls(code: &str) -> Vec<usize> {
    let code: Vec<char> = without_strings(code).chars().collect();
    let (mut blocks, mut found): (Vec<Block>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut line, mut nesting, mut before) = (1, 0, String::new());
    for (at, c) in code.iter().enumerate() {
        let own = blocks.last().is_some_and(|block| block.nesting == nesting);
        match c {
            '{' => {
                let is_match = before.split_whitespace().any(|word| word.ends_with("match"));
                blocks.push(Block {
                    is_match,
                    nesting,
                    text: String::new(),
                    in_body: false,
                    names_dtypes: false,
                    catch_alls: Vec::new(),
                });
                before.clear();
            }
            '}' => {
                if let Some(block) = blocks.pop() {
                    nesting = block.nesting;
                    if block.is_match && block.names_dtypes {
                        found.extend(block.catch_alls);
                    }
                }
                before.clear();
                let rest: String = code[at + 1..].iter().skip_while(|c| c.is_whitespace()).take(4).collect();
                let goes_on = rest == "else" || rest.starts_with(['.', '?', ',', '=', ')']);
                if let Some(outer) = blocks.last_mut().filter(|outer| outer.in_body && !goes_on) {
                    outer.in_body = false;
                    outer.text.clear();
                }
            }
            '(' | '[' => nesting += 1,
            ')' | ']' => nesting = nesting.saturating_sub(1),
            ';' => before.clear(),
            ',' if own => {
                before.clear();
                if let Some(block) = blocks.last_mut() {
                    block.in_body = false;
                    block.text.clear();
                }
            }
            '>' if own && code[..at].ends_with(&['=']) => {
                before.clear();
                if let Some(block) = blocks.last_mut().filter(|block| !block.in_body) {
                    let pattern = block.text.trim_end_matches('=').to_owned();
                    block.names_dtypes |= pattern.contains("DType::");
                    if catches_all(&pattern) {
                        block.catch_alls.push(line);
                    }
                    block.in_body = true;
                    block.text.clear();
                }
            }
            '\n' => line += 1,
            _ => {}
        }
        if !matches!(c, '{' | '}' | ';') {
            before.push(*c);
            // Parts of a pattern in parentheses or braces of its own belong to it.
            for block in blocks.iter_mut().filter(|block| block.is_match && !block.in_body) {
                if !(own && matches!(c, ',' | '>') && block.nesting == nesting) {
                    block.text.push(*c);
                }
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn no_backend_has_a_catch_all_among_dtypes() {
    let mut complaints = Vec::new();
    let mut scanned = 0;
    for file in files(&["rs"]).iter().filter(|f| f.under("plugins/") && !f.is_test()) {
        let plugin = file.path.split('/').nth(1).unwrap();
        if !provides(plugin, "kernels=") {
            continue;
        }
        scanned += 1;
        // Every line keeps its number.
        let mut code = vec![""; file.text.lines().count() + 1];
        file.code().for_each(|(n, text)| code[n - 1] = text);
        for line in catch_alls(&code.join("\n")) {
            complaints.push(format!(
                "{}:{line}: a `_` arm among dtypes: a type that is added would be taken for one of another kind",
                file.path
            ));
        }
    }
    assert!(scanned > 0, "no backend was found: the scan looks in the wrong place");
    report("dispatch over dtypes", &complaints);
}

#[test]
fn the_scan_finds_what_is_planted_and_nothing_else() {
    for (planted, lines) in [
        ("match dtype {\n    DType::F32 => 1,\n    _ => 2,\n}", vec![3]),
        (
            "let n = match dtype {\n    DType::F32 | DType::F16 => {\n        f()\n    }\n    _ => unreachable(),\n};",
            vec![5],
        ),
        (
            "match (a, dtype) {\n    (1, DType::Q4_K) => g(a, b),\n    (_, DType::Q6_K) => h(),\n    _ if a > 2 => i(),\n    other => j(other),\n}",
            vec![4],
        ),
        ("match x {\n    Some(DType::F32) => if a { b } else { c },\n    _ => d,\n}", vec![3]),
        ("match x {\n    A { dtype: DType::F32, .. } => \"}\",\n    _ => '{',\n}", vec![3]),
        (
            "match size {\n    1 => match dtype {\n        DType::F32 => 1,\n        _ => 2,\n    },\n    _ => 3,\n}",
            vec![4],
        ),
        // These are none of it.
        ("match size {\n    1 => DType::F32,\n    _ => DType::F16,\n}", vec![]),
        (
            "match dtype {\n    DType::F32 => match size {\n        1 => 2,\n        _ => 3,\n    },\n    other => 4,\n}",
            vec![],
        ),
        ("match op {\n    Op::A(_) => 1,\n    _ => 2,\n}\nlet a = b == DType::F32;", vec![]),
        (
            "fn f<'a>(x: &'a str) -> bool { dtype == DType::F32 && match x {\n    \"a\" => true,\n    _ => false,\n} }",
            vec![],
        ),
    ] {
        assert_eq!(catch_alls(planted), lines, "{planted}");
    }
}
