//! Filters that bring a text to a length, or a number of bytes into words: `truncate`, `wordwrap` and `filesizeformat`, as of Jinja 3.1
//! and of Python's `textwrap`.

use crate::template::python::methods::lines;
use crate::template::python::values::{Number, text, wrong};
use crate::template::python::{float_of, is_space, pay};
use minijinja::value::{Kwargs, Rest, Value, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, State};
use std::collections::VecDeque;

/// Characters that a text may be longer than asked for without being cut.
const LEEWAY: i64 = 5;

/// Beyond it, a float is not the whole number of 128 bits.
const MOST: f64 = 1e38;

/// Adds them to an environment.
pub fn add(environment: &mut Environment<'_>) {
    environment.add_filter("truncate", truncate);
    environment.add_filter("wordwrap", wordwrap);
    environment.add_filter("filesizeformat", filesizeformat);
}

/// Arguments, by their places and by their names.
struct Arguments {
    by_place: VecDeque<Value>,
    named: Kwargs,
}

impl Arguments {
    fn of(rest: Rest<ValueOrKwargs>) -> Result<Arguments, Error> {
        let all: Vec<Value> = rest.0.into_iter().map(ValueOrKwargs::into_value).collect();
        let (by_place, named): (&[Value], Kwargs) = from_args(&all)?;
        Ok(Arguments { by_place: by_place.iter().cloned().collect(), named })
    }

    /// The next parameter, which has this name.
    fn next(&mut self, name: &str) -> Result<Option<Value>, Error> {
        let by_name: Option<Value> = if self.named.has(name) { Some(self.named.get(name)?) } else { None };
        match (self.by_place.pop_front(), by_name) {
            (Some(_), Some(_)) => Err(wrong(format!("`{name}` is given more than once"))),
            (one, other) => Ok(one.or(other)),
        }
    }

    fn end(self) -> Result<(), Error> {
        if !self.by_place.is_empty() {
            return Err(wrong("too many arguments".to_owned()));
        }
        self.named.assert_all_used()
    }
}

fn whole(value: Option<Value>, usual: i64) -> Result<i64, Error> {
    match value.as_ref().map(Number::of) {
        None => Ok(usual),
        Some(Some(Number::Whole(n))) => {
            Ok(i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX }))
        }
        Some(_) => Err(wrong("a length must be an integer".to_owned())),
    }
}

fn truncate(value: Value, rest: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut given = Arguments::of(rest)?;
    let length = whole(given.next("length")?, 255)?;
    let cuts_words = given.next("killwords")?.is_some_and(|value| value.is_true());
    let end = given.next("end")?.unwrap_or_else(|| Value::from("..."));
    let leeway = whole(given.next("leeway")?.filter(|leeway| !leeway.is_none()), LEEWAY)?;
    given.end()?;
    let end =
        end.as_str().ok_or_else(|| wrong("the end of a truncated string must be a string".to_owned()))?;
    let of_end = i64::try_from(end.chars().count()).unwrap_or(i64::MAX);
    if length < of_end || leeway < 0 {
        return Err(wrong(format!(
            "a length of {length} has no room for the end, or the leeway is negative"
        )));
    }
    if value.is_undefined() {
        return Ok(value);
    }
    let len = value.as_str().map(|text| text.chars().count()).or_else(|| value.len());
    if len.and_then(|len| i64::try_from(len).ok()).is_some_and(|len| len <= length.saturating_add(leeway)) {
        return Ok(value);
    }
    let text = value.as_str().ok_or_else(|| wrong(format!("{} is not a string", value.kind())))?;
    let kept = usize::try_from(length - of_end).unwrap_or(0);
    let kept: String = text.chars().take(kept).collect();
    let kept = match kept.rfind(' ') {
        Some(at) if !cuts_words => &kept[..at],
        _ => &kept,
    };
    Ok(Value::from(format!("{kept}{end}")))
}

fn filesizeformat(value: &Value, rest: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let mut given = Arguments::of(rest)?;
    let is_binary = given.next("binary")?.is_some_and(|value| value.is_true());
    given.end()?;
    let bytes = match (Number::of(value), value.as_str()) {
        (Some(number), _) => Some(number.float()),
        (None, Some(text)) => float_of(text),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| wrong("a size must be a number".to_owned()))?;
    let (base, mark, kilo) = if is_binary { (1024u128, "i", "K") } else { (1000, "", "k") };
    #[allow(clippy::cast_precision_loss, reason = "Python rounds as well")]
    let float = |whole: u128| whole as f64;
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < float(base) {
        if bytes < -MOST {
            return Err(wrong("the size is out of range".to_owned()));
        }
        #[allow(clippy::cast_possible_truncation, reason = "the fraction is what is taken off")]
        return Ok(format!("{} Bytes", bytes.trunc() as i128));
    }
    // Compared as a whole number: the float of a unit may be that of a size below it. Infinity is above all of them, and no number
    // is as good as that.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, and is above 0"
    )]
    let floor = if bytes.is_nan() { u128::MAX } else { bytes.floor() as u128 };
    let (mut unit, mut shown) = (base, String::new());
    for prefix in [kilo, "M", "G", "T", "P", "E", "Z", "Y"] {
        unit *= base;
        let number = float(base) * bytes / float(unit);
        let number =
            if number.is_finite() { format!("{number:.1}") } else { number.to_string().to_lowercase() };
        shown = format!("{number} {prefix}{mark}B");
        if floor < unit {
            break;
        }
    }
    Ok(shown)
}

fn wordwrap(state: &State<'_, '_>, value: &Value, rest: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let mut given = Arguments::of(rest)?;
    let is_true = |value: Option<Value>| value.is_none_or(|value| value.is_true());
    let width = whole(given.next("width")?, 79)?;
    let breaks_words = is_true(given.next("break_long_words")?);
    let between = given.next("wrapstring")?.filter(|between| !between.is_none());
    let between = between.as_ref().map_or(Ok("\n".to_owned()), text)?;
    let breaks_hyphens = is_true(given.next("break_on_hyphens")?);
    given.end()?;
    let source = value.as_str().ok_or_else(|| wrong(format!("{} is not a string", value.kind())))?;
    let wrapped = Wrapping { width: usize::try_from(width).unwrap_or(0), breaks_words, breaks_hyphens };
    let mut paragraphs = Vec::new();
    for line in lines(source, false) {
        if wrapped.width == 0 {
            return Err(wrong(format!("the width is {width}, expected a number greater than 0")));
        }
        let lines = wrapped.lines(line);
        pay(state, line.len() + (lines.len() + 1).saturating_mul(between.len() + size_of::<String>()))?;
        paragraphs.push(lines.join(&between));
    }
    Ok(paragraphs.join(&between))
}

/// The wrapping of Python's `textwrap`, with white space left as it is.
struct Wrapping {
    width: usize,
    breaks_words: bool,
    breaks_hyphens: bool,
}

impl Wrapping {
    fn lines(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        // The next one last.
        let mut chunks: Vec<&[char]> = chunks(&chars, self.breaks_hyphens);
        chunks.reverse();
        let is_blank = |chunk: &[char]| chunk.iter().all(|&c| is_space(c));
        let mut lines = Vec::new();
        while let Some(&next) = chunks.last() {
            if is_blank(next) && !lines.is_empty() {
                chunks.pop();
            }
            let mut line: Vec<&[char]> = Vec::new();
            let mut len = 0;
            while let Some(&next) = chunks.last().filter(|next| len + next.len() <= self.width) {
                line.push(next);
                len += next.len();
                chunks.pop();
            }
            if let Some(&long) = chunks.last().filter(|next| next.len() > self.width) {
                self.take_of_long(long, &mut chunks, &mut line, self.width - len);
            }
            if line.last().is_some_and(|last| is_blank(last)) {
                line.pop();
            }
            if !line.is_empty() {
                lines.push(line.concat().into_iter().collect());
            }
        }
        lines
    }

    /// Puts what fits of a word that is longer than a line into the line.
    fn take_of_long<'c>(
        &self,
        long: &'c [char],
        chunks: &mut Vec<&'c [char]>,
        line: &mut Vec<&'c [char]>,
        left: usize,
    ) {
        if !self.breaks_words {
            if line.is_empty() {
                line.push(long);
                chunks.pop();
            }
            return;
        }
        let hyphen =
            long[..left].iter().rposition(|&c| c == '-').filter(|&at| long[..at].iter().any(|&c| c != '-'));
        let end = hyphen.filter(|_| self.breaks_hyphens).map_or(left, |at| at + 1);
        line.push(&long[..end]);
        if let Some(last) = chunks.last_mut() {
            *last = &long[end..];
        }
    }
}

/// White space that `textwrap` knows: that of ASCII.
fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

/// What regular expressions of Python call a word's character.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_letter(c: char) -> bool {
    is_of_word(c) && !c.is_numeric()
}

fn may_end(c: char) -> bool {
    is_of_word(c) || "!\"'&.,?".contains(c)
}

/// The parts of a text between which a line may end: white space and words, and of words those behind hyphens and around dashes.
fn chunks(chars: &[char], at_hyphens: bool) -> Vec<&[char]> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let end = end_of_chunk(chars, start, at_hyphens);
        found.push(&chars[start..end]);
        start = end;
    }
    found
}

fn end_of_chunk(chars: &[char], start: usize, at_hyphens: bool) -> usize {
    let run = |from: usize, is: &dyn Fn(char) -> bool| {
        from + chars[from..].iter().position(|&c| !is(c)).unwrap_or(chars.len() - from)
    };
    if is_blank(chars[start]) {
        return run(start, &is_blank);
    }
    if !at_hyphens {
        return run(start, &|c| !is_blank(c));
    }
    let at = |place: Option<usize>, is: &dyn Fn(char) -> bool| {
        place.and_then(|place| chars.get(place)).is_some_and(|&c| is(c))
    };
    let hyphen = |c: char| c == '-';
    // Two hyphens or more between words.
    let dash = |from: usize| {
        if !(at(Some(from), &hyphen) && at(from.checked_sub(1), &may_end)) {
            return None;
        }
        let end = run(from, &hyphen);
        (end >= from + 2 && at(Some(end), &is_of_word)).then_some(end)
    };
    if let Some(end) = dash(start) {
        return end;
    }
    let mut place = start + 1;
    while place < chars.len() && !is_blank(chars[place]) {
        if dash(place).is_some() {
            return place;
        }
        let before = |n: usize, is: &dyn Fn(char) -> bool| at(place.checked_sub(n), is);
        let after = |n: usize, is: &dyn Fn(char) -> bool| at(Some(place + n), is);
        let is_behind = before(1, &is_letter) && before(2, &is_letter)
            || before(1, &may_end) && before(2, &hyphen) && before(3, &is_letter);
        let is_ahead =
            after(1, &is_letter) && (after(2, &is_letter) || after(2, &hyphen) && after(3, &is_letter));
        if chars[place] == '-' && is_behind && is_ahead {
            return place + 1;
        }
        place += 1;
    }
    place
}
