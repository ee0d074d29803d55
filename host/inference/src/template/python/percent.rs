//! Formats values as the operator `%` of Python's texts does.

use crate::template::python::pay;
use crate::template::python::values::{Number, Type, represented, text, wrong};
use minijinja::value::Value;
use minijinja::{Error, State};
use std::iter::Peekable;
use std::str::Chars;

/// Widths and precisions. 2^20, as of a template.
const WIDEST: usize = 1 << 20;
/// Digits behind a point.
const MOST_DIGITS: usize = 400;

/// `%-05.2f`, without the sign and the name.
#[derive(Default)]
struct Specification {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    other: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

/// `format % given`: a tuple has a value for each mark, a map one for each name, all else is the only value.
///
/// # Errors
/// InvalidOperation for marks and values that do not fit.
pub fn format(state: &State<'_, '_>, format: &str, given: &Value) -> Result<String, Error> {
    let kind = Type::of(given);
    let values: Vec<Value> =
        if kind == Type::Tuple { given.try_iter()?.collect() } else { vec![given.clone()] };
    let mut values = values.into_iter();
    let mut named = false;
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut name = None;
        if rest.next_if_eq(&'(').is_some() {
            let found: String = rest.by_ref().take_while(|c| *c != ')').collect();
            name = Some(found);
        }
        let specification = specification(&mut rest)?;
        if specification.kind == '%' {
            out.push('%');
            continue;
        }
        let value = match name {
            Some(name) if kind == Type::Map => {
                named = true;
                let value = given.get_item(&Value::from(&*name))?;
                if value.is_undefined() {
                    return Err(wrong(format!("there is no value named `{name}`")));
                }
                value
            }
            Some(_) => return Err(wrong("a named placeholder requires a map".to_owned())),
            None => {
                values.next().ok_or_else(|| wrong("a format has more placeholders than values".to_owned()))?
            }
        };
        let shown = shown(&specification, &value)?;
        pay(state, shown.len().max(specification.width))?;
        pad(&mut out, &specification, &shown);
    }
    // A map, and what is no tuple but has items, may be left.
    let may_be_left = named || kind == Type::Map || [Type::List, Type::Range].contains(&kind);
    match values.next() {
        Some(_) if !may_be_left => Err(wrong("a format has fewer placeholders than values".to_owned())),
        _ => Ok(out),
    }
}

fn specification(rest: &mut Peekable<Chars<'_>>) -> Result<Specification, Error> {
    let mut specification = Specification::default();
    while let Some(flag) = rest.next_if(|c| "-0+ #".contains(*c)) {
        match flag {
            '-' => specification.left = true,
            '0' => specification.zero = true,
            '+' => specification.plus = true,
            ' ' => specification.space = true,
            _ => specification.other = true,
        }
    }
    specification.width = width(rest)?;
    if rest.next_if_eq(&'.').is_some() {
        specification.precision = Some(width(rest)?);
    }
    rest.next_if(|c| "hlL".contains(*c));
    specification.kind = rest.next().ok_or_else(|| wrong("a format ends within a placeholder".to_owned()))?;
    Ok(specification)
}

fn width(rest: &mut Peekable<Chars<'_>>) -> Result<usize, Error> {
    let mut width = 0;
    while let Some(digit) = rest.next_if(char::is_ascii_digit).and_then(|c| c.to_digit(10)) {
        width = width * 10 + usize::try_from(digit).unwrap_or(0);
        if width > WIDEST {
            return Err(wrong("a width is too large".to_owned()));
        }
    }
    Ok(width)
}

fn cut(text: String, most: Option<usize>) -> String {
    match most {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    }
}

/// The text of a value, without what pads it.
fn shown(specification: &Specification, value: &Value) -> Result<String, Error> {
    let number = || {
        Number::of(value).ok_or_else(|| {
            wrong(format!("`%{}` requires a number, found {}", specification.kind, value.kind()))
        })
    };
    let digits = specification.precision.unwrap_or(6);
    if specification.precision.is_some_and(|digits| digits > MOST_DIGITS)
        && !"sra".contains(specification.kind)
    {
        return Err(wrong("a precision is too large".to_owned()));
    }
    match specification.kind {
        's' => Ok(cut(text(value)?, specification.precision)),
        'r' => Ok(cut(represented(value, false)?, specification.precision)),
        'c' => match (value.as_str(), Number::of(value)) {
            (Some(text), _) if text.chars().count() == 1 => Ok(text.to_owned()),
            (None, Some(Number::Whole(code))) => {
                let c = u32::try_from(code).ok().and_then(char::from_u32);
                c.map(String::from).ok_or_else(|| wrong(format!("{code} is not a valid character")))
            }
            _ => Err(wrong("`%c` requires a single character".to_owned())),
        },
        'd' | 'i' | 'u' => {
            let whole = match number()? {
                Number::Whole(whole) => whole,
                #[allow(clippy::cast_possible_truncation, reason = "the fraction is what is taken off")]
                Number::Float(float) if float.abs() < 1e38 => float.trunc() as i128,
                Number::Float(_) => return Err(wrong("the number is too large".to_owned())),
            };
            let least = specification.precision.unwrap_or(0);
            Ok(signed(specification, whole < 0, format!("{:0>least$}", whole.unsigned_abs())))
        }
        'x' | 'X' | 'o' => {
            let Number::Whole(whole) = number()? else {
                return Err(wrong(format!("`%{}` requires an integer", specification.kind)));
            };
            let bits = whole.unsigned_abs();
            let (prefix, text) = match specification.kind {
                'x' => ("0x", format!("{bits:x}")),
                'X' => ("0X", format!("{bits:X}")),
                _ => ("0o", format!("{bits:o}")),
            };
            let prefix = if specification.other { prefix } else { "" };
            Ok(signed(specification, whole < 0, format!("{prefix}{text}")))
        }
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let float = number()?.float();
            if !float.is_finite() {
                return Err(wrong("a float that is not finite cannot be formatted".to_owned()));
            }
            let text = match specification.kind.to_ascii_lowercase() {
                'f' => format!("{:.digits$}", float.abs()),
                'e' => scientific(float.abs(), digits),
                _ => general(float.abs(), digits.max(1), specification.other),
            };
            let text = if specification.kind.is_uppercase() { text.to_uppercase() } else { text };
            Ok(signed(specification, float.is_sign_negative(), text))
        }
        other => Err(wrong(format!("`%{}` is not supported", other.escape_default()))),
    }
}

fn signed(specification: &Specification, negative: bool, text: String) -> String {
    match (negative, specification.plus, specification.space) {
        (true, ..) => format!("-{text}"),
        (_, true, _) => format!("+{text}"),
        (_, _, true) => format!(" {text}"),
        _ => text,
    }
}

/// A float with an exponent of two digits at least.
fn scientific(float: f64, digits: usize) -> String {
    let text = format!("{float:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// A float with so many digits, with an exponent if it is far from 1.
fn general(float: f64, digits: usize, keeps_zeros: bool) -> String {
    let text = scientific(float, digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
    let place: i64 = exponent.parse().unwrap_or(0);
    let most = i64::try_from(digits).unwrap_or(i64::MAX);
    if (-4..most).contains(&place) {
        let behind = usize::try_from(most - 1 - place).unwrap_or(0);
        return bare(&format!("{float:.behind$}"), keeps_zeros).to_owned();
    }
    format!("{}e{exponent}", bare(mantissa, keeps_zeros))
}

/// A number in digits without the zeros at its end, unless it keeps them.
fn bare(text: &str, keeps_zeros: bool) -> &str {
    match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

fn pad(out: &mut String, specification: &Specification, shown: &str) {
    let missing = specification.width.saturating_sub(shown.chars().count());
    let is_number = !"sracC".contains(specification.kind);
    if specification.left {
        out.push_str(shown);
        out.push_str(&" ".repeat(missing));
    } else if specification.zero && is_number {
        let head = shown.len() - shown.trim_start_matches(['+', '-', ' ']).len();
        let head = head
            + if shown[head..].starts_with("0x")
                || shown[head..].starts_with("0X")
                || shown[head..].starts_with("0o")
            {
                2
            } else {
                0
            };
        out.push_str(&shown[..head]);
        out.push_str(&"0".repeat(missing));
        out.push_str(&shown[head..]);
    } else {
        out.push_str(&" ".repeat(missing));
        out.push_str(shown);
    }
}
