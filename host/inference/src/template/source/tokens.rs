//! The tokens of an expression of Jinja, and the texts that those in quotes stand for.

use std::iter::Peekable;
use std::str::Chars;

/// A token: its text, and whether it is a name, a number or a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'s> {
    /// The token itself; a text with its quotes.
    pub text: &'s str,
    /// What it is.
    pub kind: Kind,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a word.
    Name,
    /// A number.
    Number,
    /// A text in quotes.
    Text,
    /// A sign of one character or two.
    Sign,
}

/// The tokens of an expression; `None` for a text without an end.
pub fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(all) };
        let (len, kind) = match first {
            '"' | '\'' => (end_of_text(rest, first)?, Kind::Text),
            c if c.is_ascii_digit() => {
                // Behind a point, digits are an index.
                let whole = all.last().is_some_and(|last: &Token<'_>| last.text == ".");
                (end_of_number(rest, whole), Kind::Number)
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                (end, Kind::Name)
            }
            c => {
                let two = ["==", "!=", "<=", ">=", "//", "**"].iter().any(|sign| rest.starts_with(sign));
                (if two { 2 } else { c.len_utf8() }, Kind::Sign)
            }
        };
        all.push(Token { text: &rest[..len], kind });
        rest = &rest[len..];
    }
}

fn end_of_text(rest: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn end_of_number(rest: &str, whole: bool) -> usize {
    let bytes = rest.as_bytes();
    if bytes.len() > 1 && bytes[0] == b'0' && b"xXoObB".contains(&bytes[1]) {
        return 2 + bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit() || **b == b'_').count();
    }
    let mut at = end_of_digits(bytes, 0);
    if whole {
        return at;
    }
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at = end_of_digits(bytes, at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            at = end_of_digits(bytes, at + 1 + sign);
        }
    }
    at
}

fn end_of_digits(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count()
}

/// The text that a token in quotes stands for, by the escapes of Python; `None` for one that has no such text or names a character.
pub fn meant(token: &str) -> Option<String> {
    let mut out = String::with_capacity(token.len());
    let mut rest = token.get(1..token.len() - 1)?.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            '\n' => {}
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\x0b'),
            'x' => out.push(char::from_u32(number(&mut rest, 2, 16, None)?)?),
            'u' => out.push(char::from_u32(number(&mut rest, 4, 16, None)?)?),
            'U' => out.push(char::from_u32(number(&mut rest, 8, 16, None)?)?),
            'N' => return None,
            digit @ '0'..='7' => out.push(char::from_u32(number(&mut rest, 3, 8, Some(digit))?)?),
            c @ ('\\' | '\'' | '"') => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    Some(out)
}

/// The number of an escape: so many digits of base 16, or up to so many of base 8.
fn number(rest: &mut Peekable<Chars<'_>>, digits: usize, radix: u32, first: Option<char>) -> Option<u32> {
    let mut text: String = first.into_iter().collect();
    while text.len() < digits {
        let Some(digit) = rest.next_if(|c| c.is_digit(radix)) else { break };
        text.push(digit);
    }
    if radix != 8 && text.len() < digits {
        return None;
    }
    u32::from_str_radix(&text, radix).ok()
}

/// A text in quotes, for the library.
pub fn spelled(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}
