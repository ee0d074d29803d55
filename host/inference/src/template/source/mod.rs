//! Prepares a template's text for the library's parser, where the library and Jinja mean different things.

pub mod lexer;
mod rewriting;
mod tokens;

use crate::template::source::lexer::{Piece, Tag, pieces};
use crate::template::source::rewriting::Beyond;

/// The filter around what a loop runs over: see [`crate::template::python`].
pub const ITERATED: &str = "apr_iterated";

/// The text for the library's parser. Marks around what a model generated (`{% generation %}`) go: transformers records
/// their positions and prints what is between them. What a loop runs over passes a filter that fails for what Python does
/// not iterate, and expressions are those of [`rewriting`]. Lines end in a line feed alone, in strings too, as Jinja rewrites
/// them before it looks for tags.
pub fn prepared(template: &str) -> String {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(template.len() + template.len() / 8);
    let pieces = pieces(&template);
    for (piece, beyond) in pieces.iter().zip(beyond(&pieces)) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Tag(Tag { open, inner, close }) => {
                out.push_str(open);
                out.push_str(&rewritten(open, inner, beyond));
                out.push_str(close);
            }
        }
    }
    out
}

/// What the macros and called blocks among the pieces take beyond their parameters: they do if something in them asks for it.
fn beyond(pieces: &[Piece<'_>]) -> Vec<Beyond> {
    let mut found = vec![Beyond::default(); pieces.len()];
    let mut open: Vec<usize> = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let Piece::Tag(tag) = piece else { continue };
        let asked = Beyond::asked_in(tag.inner);
        let word = tag.inner.split_whitespace().next().unwrap_or_default();
        let word = word.split('(').next().filter(|_| tag.open.starts_with("{%")).unwrap_or_default();
        match word {
            "macro" | "call" => open.push(number),
            "endmacro" | "endcall" => {
                let inner = open.pop().map(|number| found[number]).unwrap_or_default();
                open.last().into_iter().for_each(|&around| found[around].add(inner));
            }
            _ => {}
        }
        open.last().into_iter().for_each(|&around| found[around].add(asked));
    }
    found
}

/// A tag's inner text, of as many lines.
fn rewritten(open: &str, inner: &str, beyond: Beyond) -> String {
    match inner.trim() {
        "generation" => return " if true ".to_owned(),
        "endgeneration" => return " endif ".to_owned(),
        _ => {}
    }
    let rewritten = match open.starts_with("{%") {
        true => rewriting::block(inner, ITERATED, beyond),
        false => rewriting::expression(inner).map(|expression| format!(" {expression} ")),
    };
    let Some(rewritten) = rewritten else { return inner.to_owned() };
    // Errors name the line of the template.
    let [lines, kept] = [inner, &rewritten].map(|text| text.matches('\n').count());
    rewritten + &"\n".repeat(lines.saturating_sub(kept))
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
    fn lines_stay_lines() {
        assert_eq!(prepared("{{ a\n.b\r\n}}\n"), "{{ apr_get('.', a, 'b') \n\n}}\n");
        assert_eq!(prepared("{% raw %}{{ a.b }}{% endraw %}"), "{% raw %}{{ a.b }}{% endraw %}");
    }
}
