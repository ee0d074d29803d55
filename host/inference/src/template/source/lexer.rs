//! Cuts a template into text and tags.

/// A run of a template.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'s> {
    /// Text, a comment, or a raw block: nothing to rewrite.
    Text(&'s str),
    /// A tag.
    Tag(Tag<'s>),
}

/// A block tag, such as `{%- for a in b %}`, or an expression, such as `{{ a }}`.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag<'s> {
    /// `{%` or `{{`, with a sign if there is one.
    pub open: &'s str,
    /// The text between.
    pub inner: &'s str,
    /// `%}` or `}}`, with a sign if there is one.
    pub close: &'s str,
}

/// The pieces of a template. What is not closed is text: the library's parser says what is wrong with it.
pub fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(brace) = template[at..].find('{') {
        let open = at + brace;
        let rest = &template[open..];
        let end = match rest.get(..2) {
            Some("{#") => rest.find("#}").map(|n| open + n + 2),
            Some("{{") => end_of(rest, "}}").map(|n| open + n),
            Some("{%") => end_of(rest, "%}").map(|n| open + n),
            _ => {
                at = open + 1;
                continue;
            }
        };
        let Some(end) = end else { break };
        at = end;
        if rest.starts_with("{#") {
            continue;
        }
        let tag = tag(&template[open..end]);
        if tag.open.starts_with("{%") && tag.inner.trim() == "raw" {
            // Jinja keeps a line feed behind this tag, which the library takes off as behind any block.
            if tag.close == "%}" && template[end..].starts_with('\n') {
                all.extend([Piece::Text(&template[start..end]), Piece::Text("\n")]);
                start = end;
            }
            at = end_of_raw(template, end);
            continue;
        }
        all.push(Piece::Text(&template[start..open]));
        all.push(Piece::Tag(tag));
        start = end;
    }
    all.push(Piece::Text(&template[start..]));
    all
}

/// The parts of a tag.
fn tag(whole: &str) -> Tag<'_> {
    let inner = &whole[2..whole.len() - 2];
    let opens = usize::from(inner.starts_with(['-', '+']));
    let closes = usize::from(inner.len() > opens && inner.ends_with(['-', '+']));
    let open = 2 + opens;
    let end = whole.len() - 2 - closes;
    Tag { open: &whole[..open], inner: &whole[open..end], close: &whole[end..] }
}

/// The end of a tag, behind `close`; strings in it may contain anything.
fn end_of(text: &str, close: &str) -> Option<usize> {
    let mut at = 2;
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(close) {
            return Some(at + close.len());
        }
        at += next_len(rest)?;
    }
}

/// The offset of the text behind a raw block.
fn end_of_raw(template: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(found) = template[at..].find("{%") {
        let open = at + found;
        let Some(end) = template[open..].find("%}").map(|n| open + n + 2) else { break };
        if tag(&template[open..end]).inner.trim() == "endraw" {
            return end;
        }
        at = open + 2;
    }
    template.len()
}

/// Number of bytes of the first token: a string to its end, a word, or one character.
fn next_len(rest: &str) -> Option<usize> {
    let first = rest.chars().next()?;
    if first == '"' || first == '\'' {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == first => return Some(at + 1),
                _ => {}
            }
        }
        return None;
    }
    let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(word.max(first.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(template: &str) -> Vec<&str> {
        let tags = pieces(template).into_iter().filter_map(|piece| match piece {
            Piece::Tag(tag) => Some(tag.inner),
            Piece::Text(_) => None,
        });
        tags.collect()
    }

    #[test]
    fn tags_are_found_outside_of_strings_comments_and_raw_blocks() {
        let template =
            "a{%- if '%}' -%}b{# {% no %} #}{{ '{% no %}' }}{% raw %}{% no %}{% endraw %}{% endif %}{%";
        assert_eq!(tags(template), [" if '%}' ", " '{% no %}' ", " endif "]);
        assert_eq!(tags("{ { {% a \"\\\"%}\" %}}"), [" a \"\\\"%}\" "]);
        assert_eq!(tags("{%"), Vec::<&str>::new());
        assert_eq!(tags("{%-%}{%--%}"), ["", ""]);
    }
}
