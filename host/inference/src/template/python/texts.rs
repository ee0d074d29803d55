//! Methods of Python's texts that the library lacks, or does otherwise.

use crate::template::python::pay;
use crate::template::python::values::{Number, is_printable, wrong};
use minijinja::value::{Value, from_args};
use minijinja::{Error, State};

type Answer = Result<Value, Error>;

/// Letters of two with a form for titles.
const TITLES: [(char, char); 12] = [
    ('Ǆ', 'ǅ'),
    ('ǅ', 'ǅ'),
    ('ǆ', 'ǅ'),
    ('Ǉ', 'ǈ'),
    ('ǈ', 'ǈ'),
    ('ǉ', 'ǈ'),
    ('Ǌ', 'ǋ'),
    ('ǋ', 'ǋ'),
    ('ǌ', 'ǋ'),
    ('Ǳ', 'ǲ'),
    ('ǲ', 'ǲ'),
    ('ǳ', 'ǲ'),
];
/// Widths of a padded text. 2^20, as of a template.
const WIDEST: usize = 1 << 20;

/// Calls a method of a text; `None` for one that is not here.
///
/// # Errors
/// What its arguments are wrong in.
pub fn call(state: &State<'_, '_>, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let is = |all: bool| {
        let () = from_args(args)?;
        Ok(Some(Value::from(all && !text.is_empty())))
    };
    match method {
        "title" => {
            let () = from_args(args)?;
            Ok(Some(Value::from(title(text))))
        }
        "swapcase" => {
            let () = from_args(args)?;
            let swapped = text.chars().flat_map(|c| -> Vec<char> {
                if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            });
            Ok(Some(Value::from(swapped.collect::<String>())))
        }
        // What folds to more than small letters is rare; a text of ASCII does not.
        "casefold" if text.is_ascii() => {
            let () = from_args(args)?;
            Ok(Some(Value::from(text.to_lowercase())))
        }
        "isdecimal" if text.is_ascii() => is(text.bytes().all(|b| b.is_ascii_digit())),
        "istitle" => {
            let () = from_args(args)?;
            let mut before = false;
            let mut any = false;
            for c in text.chars() {
                let upper = c.is_uppercase();
                let lower = c.is_lowercase();
                if upper && before || lower && !before {
                    return Ok(Some(Value::from(false)));
                }
                before = upper || lower;
                any |= before;
            }
            Ok(Some(Value::from(any)))
        }
        "isidentifier" => {
            let digit = text.starts_with(|c: char| c.is_numeric());
            is(!digit && text.chars().all(|c| c.is_alphanumeric() || c == '_'))
        }
        "isprintable" => {
            let () = from_args(args)?;
            Ok(Some(Value::from(text.chars().all(is_printable))))
        }
        "expandtabs" => expanded(state, text, args).map(Some),
        "zfill" | "center" | "ljust" | "rjust" => padded(state, text, method, args).map(Some),
        "startswith" | "endswith" | "find" | "rfind" | "index" | "rindex" | "count" if args.len() > 1 => {
            between(text, method, args).map(Some)
        }
        "join" => {
            let (items,): (Value,) = from_args(args)?;
            match items.try_iter()?.find(|item| item.as_str().is_none()) {
                Some(item) => Err(wrong(format!("only strings can be joined, found {}", item.kind()))),
                None => Ok(None),
            }
        }
        "split" if args.first().and_then(Value::as_str) == Some("") => {
            Err(wrong("the separator is empty".to_owned()))
        }
        _ => Ok(None),
    }
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = false;
    for c in text.chars() {
        if before {
            out.extend(c.to_lowercase());
        } else if let Some((_, titled)) = TITLES.iter().find(|(letter, _)| *letter == c) {
            out.push(*titled);
        } else {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
        }
        before = c.is_uppercase() || c.is_lowercase() || TITLES.iter().any(|(_, titled)| *titled == c);
    }
    out
}

fn padded(state: &State<'_, '_>, text: &str, method: &str, args: &[Value]) -> Answer {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let mut fill = fill.unwrap_or(" ").chars();
    let (Some(mark), None) = (fill.next(), fill.next()) else {
        return Err(wrong("the fill character must be a single character".to_owned()));
    };
    let width = usize::try_from(width).unwrap_or(0);
    if width > WIDEST {
        return Err(wrong(format!("a width of {width} is too large")));
    }
    let len = text.chars().count();
    let missing = width.saturating_sub(len);
    pay(state, text.len() + 4 * missing)?;
    let mark = String::from(mark);
    Ok(Value::from(match method {
        "zfill" => match text.strip_prefix(['+', '-']) {
            Some(rest) => format!("{}{}{rest}", &text[..1], "0".repeat(missing)),
            None => "0".repeat(missing) + text,
        },
        "ljust" => format!("{text}{}", mark.repeat(missing)),
        "rjust" => mark.repeat(missing) + text,
        _ => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", mark.repeat(left), mark.repeat(missing - left))
        }
    }))
}

fn expanded(state: &State<'_, '_>, text: &str, args: &[Value]) -> Answer {
    let (size,): (Option<i64>,) = from_args(args)?;
    let size = usize::try_from(size.unwrap_or(8)).unwrap_or(0);
    if size > 1024 {
        return Err(wrong(format!("tabs of {size} are too large")));
    }
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size == 0 => {}
            '\t' => {
                let missing = size - column % size;
                pay(state, missing)?;
                out.push_str(&" ".repeat(missing));
                column += missing;
            }
            c => {
                out.push(c);
                column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
            }
        }
    }
    Ok(Value::from(out))
}

/// A place in a text of so many characters; those below 0 count from its end.
fn place(given: Option<Value>, len: i64) -> Result<Option<i64>, Error> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    match Number::of(&given) {
        Some(Number::Whole(n)) => {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            Ok(Some(if n < 0 { (n + len).max(0) } else { n }))
        }
        _ => Err(wrong("a string index must be an integer".to_owned())),
    }
}

/// A method that looks for something between two places of the text.
fn between(text: &str, method: &str, args: &[Value]) -> Answer {
    let (wanted, start, end): (Value, Option<Value>, Option<Value>) = from_args(args)?;
    let chars: Vec<char> = text.chars().collect();
    let len = i64::try_from(chars.len()).unwrap_or(i64::MAX);
    let start = place(start, len)?.unwrap_or(0);
    let end = place(end, len)?.unwrap_or(len).min(len);
    let is_inside = start <= end;
    let places = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part: String =
        places.and_then(|(start, end)| chars.get(start..end)).unwrap_or_default().iter().collect();
    let texts: Vec<Value> = if wanted.is_tuple() { wanted.try_iter()?.collect() } else { vec![wanted] };
    let mut all = Vec::new();
    for wanted in &texts {
        all.push(
            wanted.as_str().ok_or_else(|| wrong(format!("expected a string, found {}", wanted.kind())))?,
        );
    }
    let first = all.first().copied().unwrap_or_default();
    let number = |at: Option<usize>| {
        let at = at.filter(|_| is_inside).map(|at| part[..at].chars().count());
        at.and_then(|at| i64::try_from(at).ok()).map(|at| at + start)
    };
    Ok(match method {
        "startswith" => Value::from(is_inside && all.iter().any(|wanted| part.starts_with(wanted))),
        "endswith" => Value::from(is_inside && all.iter().any(|wanted| part.ends_with(wanted))),
        "count" if first.is_empty() => Value::from(if is_inside { part.chars().count() + 1 } else { 0 }),
        "count" => Value::from(part.matches(first).count()),
        "find" => Value::from(number(part.find(first)).unwrap_or(-1)),
        "rfind" => Value::from(number(part.rfind(first)).unwrap_or(-1)),
        _ => {
            let at = if method == "index" { part.find(first) } else { part.rfind(first) };
            number(at).map(Value::from).ok_or_else(|| wrong("substring not found".to_owned()))?
        }
    })
}
