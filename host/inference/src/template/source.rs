//! Prepares a template's text for the library's parser, where the library and Jinja mean different things.

use super::lexer::{Piece, Tag, pieces, tokens};
use std::borrow::Cow;

/// The filter around what a loop runs over: see [`super::python`].
pub const ITERATED: &str = "apr_iterated";
/// The filter that adds, where a text marked as safe may be among the summands.
pub const PLUS: &str = "apr_plus";
/// The text for the library's parser. Marks around what a model generated (`{% generation %}`) go: transformers records
/// their positions and prints what is between them. What a loop runs over passes a filter that fails for what Python does
/// not iterate. Sums that have a text marked as safe at hand (`'a'|safe + b`) pass one that escapes the others. Lines end in
/// a line feed alone, in strings too, as Jinja rewrites them before it looks for tags.
pub fn prepared(template: &str) -> String {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(template.len() + template.len() / 8);
    for piece in pieces(&template) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Tag(Tag { open, inner, close }) => {
                out.push_str(open);
                match open.starts_with("{%") {
                    true => out.push_str(&rewritten(inner)),
                    false => out.push_str(&summed(inner)),
                }
                out.push_str(close);
            }
        }
    }
    out
}

/// A tag's inner text.
fn rewritten(inner: &str) -> Cow<'_, str> {
    match inner.trim() {
        "generation" => return Cow::Borrowed(" if true "),
        "endgeneration" => return Cow::Borrowed(" endif "),
        _ => {}
    }
    let is_set = tokens(inner).first().is_some_and(|first| first.text == "set");
    if let Some((target, value)) = inner.split_once('=').filter(|_| is_set) {
        return match summed(value) {
            Cow::Owned(sum) => Cow::Owned(format!("{target}={sum}")),
            Cow::Borrowed(_) => Cow::Borrowed(inner),
        };
    }
    match iterated(inner) {
        Some((start, end)) => {
            Cow::Owned(format!("{}({})|{ITERATED}{}", &inner[..start], &inner[start..end], &inner[end..]))
        }
        None => Cow::Borrowed(inner),
    }
}

/// The range of the expression that a loop runs over.
fn iterated(inner: &str) -> Option<(usize, usize)> {
    let all = tokens(inner);
    if all.first()?.text != "for" {
        return None;
    }
    let is = |n: &usize, words: &[&str]| all.get(*n).is_some_and(|t| t.depth == 0 && words.contains(&t.text));
    let open = (1..all.len()).find(|n| is(n, &["in"]))?;
    let close = (open + 1..all.len()).find(|n| is(n, &["if", "recursive"])).unwrap_or(all.len());
    let (first, last) = (all.get(open + 1)?, all.get(close.checked_sub(1)?)?);
    (first.at < last.at + last.text.len() && open + 1 < close)
        .then_some((first.at, last.at + last.text.len()))
}

/// An expression whose outermost operation is a sum of several, one of them marked as safe, as filters.
fn summed(inner: &str) -> Cow<'_, str> {
    let all = tokens(inner);
    let outer = || all.iter().filter(|token| token.depth == 0);
    let is_safe = outer().any(|token| token.text == "safe") && outer().any(|token| token.text == "+");
    let others = ["-", "*", "/", "%", "~", "<", ">", "=", "!", ",", "if", "and", "or", "not", "in", "is"];
    if !is_safe || outer().any(|token| others.contains(&token.text)) {
        return Cow::Borrowed(inner);
    }
    let (mut out, mut start) = (String::new(), 0);
    for plus in outer().filter(|token| token.text == "+") {
        push_summand(&mut out, &inner[start..plus.at]);
        start = plus.at + 1;
    }
    push_summand(&mut out, &inner[start..]);
    out.push(' ');
    Cow::Owned(out)
}

fn push_summand(out: &mut String, summand: &str) {
    match out.is_empty() {
        true => out.push_str(&format!(" ({summand})")),
        false => out.push_str(&format!("|{PLUS}({summand})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_blocks_that_print_what_is_inside() {
        assert_eq!(prepared("a{%- generation -%}b{% endgeneration %}c"), "a{%- if true -%}b{% endif %}c");
        let plain = "{% if add_generation_prompt %}{{ '{%' }}x{% endif %} generation {%";
        assert_eq!(prepared(plain), plain);
        assert_eq!(prepared("{%generation%}"), "{% if true %}");
    }

    #[test]
    fn what_a_loop_runs_over_is_filtered_and_nothing_else() {
        for (template, expected) in [
            ("{% for a in b %}", "{% for a in (b)|apr_iterated %}"),
            (
                "{%- for a, b in f(c if d else 'in')['if'] if a in b recursive -%}",
                "{%- for a, b in (f(c if d else 'in')['if'])|apr_iterated if a in b recursive -%}",
            ),
            ("{%for a in b|list%}", "{%for a in (b|list)|apr_iterated%}"),
            ("{% for a in\n b %}", "{% for a in\n (b)|apr_iterated %}"),
            ("{% if a in b %}{% set for = a in b %}", "{% if a in b %}{% set for = a in b %}"),
            ("{% for %}{% for a in %}{% for a in if b %}", "{% for %}{% for a in %}{% for a in if b %}"),
            ("{% raw %}{% for a in b %}{% endraw %}", "{% raw %}{% for a in b %}{% endraw %}"),
        ] {
            assert_eq!(prepared(template), expected);
        }
    }

    #[test]
    fn sums_with_a_safe_text_are_filters_and_no_others() {
        for (template, expected) in [
            (
                "{{- 'a'|safe + b(c + d) + 'e' -}}",
                "{{- ( 'a'|safe )|apr_plus( b(c + d) )|apr_plus( 'e' ) -}}",
            ),
            ("{% set x = a + b|safe %}", "{% set x = ( a )|apr_plus( b|safe ) %}"),
            ("{{ a + b }}{{ a|safe }}{{ a|safe ~ b + c }}", "{{ a + b }}{{ a|safe }}{{ a|safe ~ b + c }}"),
        ] {
            assert_eq!(prepared(template), expected);
        }
    }
}
