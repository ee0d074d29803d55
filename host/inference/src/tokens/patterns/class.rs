//! What stands between brackets, and what a backslash makes of a character inside and outside of them.

use super::parser::{Parser, Refusal, Value};
use super::sets::{self, Named};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// What came last between brackets.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    /// A character, which may begin a range.
    Char(char),
    Set,
    Range,
}

impl Parser {
    /// The set that begins behind a bracket.
    ///
    /// # Errors
    /// What of it cannot be followed.
    pub fn class(&mut self) -> Result<ClassUnicode, Refusal> {
        let (mut set, is_negated) = self.members()?;
        if self.options.folds {
            if !is_negated && let Some(c) = sets::of_several(&set) {
                return Err(format!(
                    "`{c}` in a case-insensitive set, which becomes several characters in another case"
                ));
            }
            set.case_fold_simple();
        }
        Ok(if is_negated { sets::negated(set) } else { set })
    }

    /// The members, and whether those are meant that are none.
    fn members(&mut self) -> Result<(ClassUnicode, bool), Refusal> {
        self.enter()?;
        let is_negated = self.take("^");
        let mut whole = None;
        let mut set = ClassUnicode::empty();
        let mut last = Last::Nothing;
        if self.peek() == Some(']') {
            if !self.closes_later() {
                return Err("an empty set `[]`".into());
            }
            self.at += 1;
            last = Last::Char(']');
        }
        loop {
            let c = self.next().ok_or("an unclosed `[`")?;
            let item = match c {
                ']' => break,
                '&' if self.take("&") => {
                    add(&mut set, last);
                    let operand = std::mem::replace(&mut set, ClassUnicode::empty());
                    whole = Some(sets::both(whole, operand));
                    last = Last::Nothing;
                    continue;
                }
                '-' => {
                    let ends = self.peek() == Some(']') || self.chars[self.at..].starts_with(&['&', '&']);
                    match last {
                        Last::Char(from) if !ends => {
                            set.push(ClassUnicodeRange::new(from, self.end_of_range(from)?));
                            last = Last::Range;
                            continue;
                        }
                        Last::Set if !ends => {
                            return Err("a range in brackets that starts with a set".into());
                        }
                        _ => Value::Char('-'),
                    }
                }
                '[' => Value::Set(self.inside()?),
                '\\' => self.escaped_inside()?,
                c => Value::Char(c),
            };
            add(&mut set, last);
            last = match item {
                Value::Char(c) => Last::Char(c),
                Value::Set(more) => {
                    set.union(&more);
                    Last::Set
                }
            };
            // Behind brackets inside, a hyphen is one.
            if c == '[' {
                last = Last::Range;
            }
        }
        add(&mut set, last);
        self.depth -= 1;
        Ok((if whole.is_some() { sets::both(whole, set) } else { set }, is_negated))
    }

    fn closes_later(&self) -> bool {
        let mut rest = self.chars[self.at + 1..].iter();
        while let Some(c) = rest.next() {
            match c {
                ']' => return true,
                '\\' => drop(rest.next()),
                _ => {}
            }
        }
        false
    }

    fn end_of_range(&mut self, from: char) -> Result<char, Refusal> {
        let to = match self.next().ok_or("an unclosed `[`")? {
            '[' => return Err("a range in brackets that ends with a set".into()),
            '\\' => match self.escaped_inside()? {
                Value::Char(c) => c,
                Value::Set(_) => return Err("a range in brackets that ends with a set".into()),
            },
            c => c,
        };
        if from > to { Err(format!("the empty range `{from}-{to}`")) } else { Ok(to) }
    }

    /// A named set, or brackets inside brackets.
    fn inside(&mut self) -> Result<ClassUnicode, Refusal> {
        let start = self.at;
        if self.take(":") {
            let is_negated = self.take("^");
            let from = self.at;
            while self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
                self.at += 1;
            }
            let name: String = self.chars[from..self.at].iter().collect();
            if self.take(":]") {
                let set = sets::of_brackets(&name).ok_or_else(|| format!("the set `[:{name}:]`"))?;
                return Ok(if is_negated { sets::negated(set) } else { set });
            }
            self.at = start;
        }
        let (set, is_negated) = self.members()?;
        Ok(if is_negated { sets::negated(set) } else { set })
    }

    fn escaped_inside(&mut self) -> Result<Value, Refusal> {
        let c = self.next().ok_or("a trailing backslash")?;
        match c {
            'w' => Ok(Value::Set(sets::word())),
            'W' => Ok(Value::Set(sets::negated(sets::word()))),
            'p' | 'P' if self.peek() == Some('{') => {
                Ok(Value::Set(self.property(c == 'P', Named::InBrackets)?))
            }
            'b' => Ok(Value::Char('\u{8}')),
            c => self.value(c),
        }
    }

    /// A set by its name in braces.
    ///
    /// # Errors
    /// The name, if none is known by it.
    pub fn property(&mut self, is_negated: bool, place: Named) -> Result<ClassUnicode, Refusal> {
        self.at += 1;
        let is_negated = is_negated != self.take("^");
        let start = self.at;
        while self.next().ok_or("an unterminated name")? != '}' {}
        let name: String = self.chars[start..self.at - 1].iter().collect();
        let set = sets::of_name(&name, place).ok_or_else(|| format!("the property `{name}`"))?;
        Ok(if is_negated { sets::negated(set) } else { set })
    }

    /// What `c` stands for behind a backslash, wherever it is.
    ///
    /// # Errors
    /// What cannot be followed.
    pub fn value(&mut self, c: char) -> Result<Value, Refusal> {
        Ok(match c {
            'd' => Value::Set(sets::digits()),
            'D' => Value::Set(sets::negated(sets::digits())),
            's' => Value::Set(sets::spaces()),
            'S' => Value::Set(sets::negated(sets::spaces())),
            'h' => Value::Set(sets::hex_digits()),
            'H' => Value::Set(sets::negated(sets::hex_digits())),
            'n' => Value::Char('\n'),
            't' => Value::Char('\t'),
            'r' => Value::Char('\r'),
            'f' => Value::Char('\u{c}'),
            'v' => Value::Char('\u{b}'),
            'a' => Value::Char('\u{7}'),
            'e' => Value::Char('\u{1b}'),
            'x' => Value::Char(self.hexadecimal()?),
            'u' => {
                let (code, n) = self.digits(16, 4);
                if n < 4 {
                    return Err("`\\u` with fewer than 4 digits".into());
                }
                Value::Char(character(code)?)
            }
            'o' if self.take("{") => Value::Char(self.braced(8)?),
            '0'..='7' => {
                self.at -= 1;
                let (code, _) = self.digits(8, 3);
                if code >= 0x80 {
                    return Err(format!("the single byte {code}"));
                }
                Value::Char(character(code)?)
            }
            'c' => Value::Char(self.control()?),
            'C' => {
                if !self.take("-") {
                    return Err("`\\C` without a hyphen".into());
                }
                Value::Char(self.control()?)
            }
            'M' => return Err("a byte with the high bit set (`\\M`)".into()),
            c => Value::Char(c),
        })
    }

    fn control(&mut self) -> Result<char, Refusal> {
        match self.next() {
            Some('?') => Ok('\u{7f}'),
            Some(c) if c.is_ascii() && c != '\\' => character(u32::from(c) & 0x9f),
            _ => Err("an unsupported control character (`\\c`)".into()),
        }
    }

    /// Up to `most` digits: their value, and how many there are.
    fn digits(&mut self, base: u32, most: usize) -> (u32, usize) {
        let mut code = 0u32;
        let mut n = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(base)).filter(|_| n < most) {
            code = code.saturating_mul(base).saturating_add(digit);
            n += 1;
            self.at += 1;
        }
        (code, n)
    }

    fn braced(&mut self, base: u32) -> Result<char, Refusal> {
        let (code, _) = self.digits(base, 11);
        if !self.take("}") {
            return Err("several character codes in one pair of braces".into());
        }
        character(code)
    }

    /// A character by number, or byte by byte.
    fn hexadecimal(&mut self) -> Result<char, Refusal> {
        if self.peek() == Some('{') && self.chars.get(self.at + 1).is_some_and(char::is_ascii_hexdigit) {
            self.at += 1;
            return self.braced(16);
        }
        let mut bytes = Vec::new();
        loop {
            bytes.push(u8::try_from(self.digits(16, 2).0).unwrap_or(u8::MAX));
            if let Ok(text) = std::str::from_utf8(&bytes) {
                return text.chars().next().ok_or_else(|| "nothing".into());
            }
            if bytes.len() == 4 || self.peek() != Some('\\') || self.chars.get(self.at + 1) != Some(&'x') {
                return Err(format!("the bytes {bytes:?}, which are not a valid character"));
            }
            self.at += 2;
        }
    }
}

/// Adds a character that has begun no range.
fn add(set: &mut ClassUnicode, last: Last) {
    if let Last::Char(c) = last {
        set.push(ClassUnicodeRange::new(c, c));
    }
}

fn character(code: u32) -> Result<char, Refusal> {
    char::from_u32(code).ok_or_else(|| format!("the code {code:#x}, which is not a valid character"))
}
