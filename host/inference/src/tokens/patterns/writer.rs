//! Writes an expression's tree in the words that mean the same to the engine that is used.

use super::parser::{Node, Refusal, Times};
use super::sets;
use regex_syntax::hir::ClassUnicode;

/// Bytes of what is written. 4 MiB: a set of letters has some 8 KiB.
const MOST: usize = 4 << 20;

/// The expression of a tree.
///
/// # Errors
/// What it has that cannot be followed.
pub fn write(node: &Node) -> Result<String, Refusal> {
    let mut out = String::new();
    put(node, &mut out)?;
    Ok(out)
}

fn put(node: &Node, out: &mut String) -> Result<(), Refusal> {
    if out.len() > MOST {
        return Err("too many character sets".into());
    }
    match node {
        Node::Text { chars, folds } => put_text(chars, *folds, out)?,
        Node::Set(set) => put_set(set, out),
        Node::Place(place) => out.push_str(place),
        Node::Boundary { is_one } => put_boundary(*is_one, out),
        Node::Back(number) => out.push_str(&format!("(?:\\{number})")),
        Node::Sequence(nodes) => {
            let mut joined = Vec::new();
            join(nodes, &mut joined);
            for node in &joined {
                match node {
                    Node::Choice(_) => put_grouped("(?:", node, out)?,
                    node => put(node, out)?,
                }
            }
        }
        Node::Choice(nodes) => {
            for (n, node) in nodes.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { "|" });
                put(node, out)?;
            }
        }
        Node::Group { open, inner } => put_grouped(open, inner, out)?,
        Node::Repeat(inner, times) => put_repeated(inner, *times, out)?,
    }
    Ok(())
}

/// Adds the members of sequences inside one another, and makes one text of those side by side, as Oniguruma does.
fn join(nodes: &[Node], joined: &mut Vec<Node>) {
    for node in nodes {
        match (node, joined.last_mut()) {
            (Node::Sequence(inner), _) => join(inner, joined),
            (Node::Text { chars, folds }, Some(Node::Text { chars: before, folds: other }))
                if folds == other =>
            {
                before.extend(chars);
            }
            _ => joined.push(node.clone()),
        }
    }
}

fn put_grouped(open: &str, inner: &Node, out: &mut String) -> Result<(), Refusal> {
    out.push_str(open);
    put(inner, out)?;
    out.push(')');
    Ok(())
}

fn put_repeated(inner: &Node, times: Times, out: &mut String) -> Result<(), Refusal> {
    out.push_str(if times.keeps { "(?>" } else { "" });
    match inner {
        Node::Set(_) | Node::Group { .. } => put(inner, out)?,
        inner => put_grouped("(?:", inner, out)?,
    }
    match (times.least, times.most) {
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (0, Some(1)) => out.push('?'),
        (least, None) => out.push_str(&format!("{{{least},}}")),
        (least, Some(most)) => out.push_str(&format!("{{{least},{most}}}")),
    }
    out.push_str(if times.is_lazy { "?" } else { "" });
    out.push_str(if times.keeps { ")" } else { "" });
    Ok(())
}

fn put_text(chars: &[char], folds: bool, out: &mut String) -> Result<(), Refusal> {
    if folds && let Some(several) = sets::several_in(chars) {
        return Err(format!("case-insensitive `{several}`, whose length differs between cases"));
    }
    for c in chars {
        match folds {
            true => put_set(&sets::folded(*c), out),
            false => put_char(*c, out),
        }
    }
    Ok(())
}

fn put_char(c: char, out: &mut String) {
    match c.is_alphanumeric() {
        true => out.push(c),
        false => out.push_str(&format!("\\x{{{:X}}}", u32::from(c))),
    }
}

fn put_set(set: &ClassUnicode, out: &mut String) {
    if set.ranges().is_empty() {
        // Nothing is in it.
        out.push_str("[a&&b]");
        return;
    }
    if let [one] = set.ranges()
        && one.start() == one.end()
    {
        put_char(one.start(), out);
        return;
    }
    out.push('[');
    for range in set.iter() {
        put_char(range.start(), out);
        if range.start() != range.end() {
            out.push('-');
            put_char(range.end(), out);
        }
    }
    out.push(']');
}

fn put_boundary(is_one: bool, out: &mut String) {
    let mut word = String::new();
    put_set(&sets::word_alone(), &mut word);
    // Inside a word, or outside of any, is the other.
    let (inner, outer) = if is_one { ('!', '=') } else { ('=', '!') };
    out.push_str(&format!("(?:(?<={word})(?{inner}{word})|(?<!{word})(?{outer}{word}))"));
}
