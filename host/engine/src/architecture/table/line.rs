//! The line of a table's text that causes an error. Tables are merged with their bases before they are read, so that what is
//! read has no position; messages name what they are about, in the order from the outside to the inside.

/// The line that a message is about, counted from 1: where the last of the words stands that it quotes and that the text has in
/// this order, those after the first in one section. `None` if the text has not even the first, which then is the base's.
pub fn line_of(text: &str, message: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Option<usize> = None;
    for word in quoted(message) {
        let (start, end) = match found {
            None => (0, lines.len()),
            Some(at) => {
                let rest = lines.iter().skip(at + 1).position(|line| line.trim_start().starts_with('['));
                (at, rest.map_or(lines.len(), |n| at + 1 + n))
            }
        };
        let here = (start..end).find(|n| lines.get(*n).is_some_and(|line| has(line, word)));
        match (here, found) {
            (Some(here), _) => found = Some(here),
            (None, None) => return None,
            (None, Some(_)) => {}
        }
    }
    found.map(|at| at + 1)
}

/// The words between the backquotes of a message.
fn quoted(message: &str) -> impl Iterator<Item = &str> {
    message.split('`').skip(1).step_by(2).filter(|word| !word.is_empty())
}

/// Returns whether a line has a word as a whole, outside of comments.
fn has(line: &str, word: &str) -> bool {
    let line = if line.trim_start().starts_with('#') { "" } else { line };
    let begins = word.starts_with(is_of_word);
    let ends = word.ends_with(is_of_word);
    line.match_indices(word).any(|(at, _)| {
        let is_joined_before = begins && line[..at].ends_with(is_of_word);
        let is_joined_behind = ends && line[at + word.len()..].starts_with(is_of_word);
        !is_joined_before && !is_joined_behind
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "id = \"a\"\n# foo\n[config]\nfood = \"int\"\nfoo = \"intt\"\n\n[[tensor]]\nname = \"x\"\n\n\
                        [[tensor]]\nname = \"y\"\nshape = [\"foo\"]\ngguf = { name = \"z\", ops = [\"foo(\"] }\n";

    #[test]
    fn the_last_word_that_a_message_quotes_is_found() {
        assert_eq!(line_of(TEXT, "`foo` has the unknown type `intt`"), Some(5));
        assert_eq!(line_of(TEXT, "tensor `y`: the operation `foo(` has no closing parenthesis"), Some(13));
        assert_eq!(line_of(TEXT, "tensor `y`: a rule has no `role`"), Some(11));
        assert_eq!(
            line_of(TEXT, "tensor `x`: `foo` is too large"),
            Some(8),
            "the rest of another section is not its own"
        );
        assert_eq!(line_of(TEXT, "tensor `w`: `foo` is the base's"), None);
        assert_eq!(line_of(TEXT, "it needs names"), None);
    }
}
