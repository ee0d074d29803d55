//! JSON in the spelling of Python's `json.dumps(value, indent=2)` plus a line feed: what `save_pretrained`
//! writes.

use crate::json::not_json;
use serde_json::{Map, Number, Value as Json};

/// The key of tokenizers whose value "no limit" is a whole number that no 64 bits hold: 1000000000000000019884624838656.
const NO_LIMIT: &str = "model_max_length";

/// The text of a file that holds something else than an object.
pub fn any(json: &Json) -> String {
    let mut out = String::new();
    push(&mut out, json, 1);
    out.push('\n');
    out
}

/// The text of a file.
pub fn file(object: &Map<String, Json>) -> String {
    let mut out = String::new();
    members(&mut out, object, 1);
    out.push('\n');
    out
}

fn push(out: &mut String, json: &Json, depth: usize) {
    match json {
        Json::Object(map) => members(out, map, depth),
        Json::Array(items) if items.is_empty() => out.push_str("[]"),
        Json::Array(items) => {
            let mut before = '[';
            for item in items {
                out.push(before);
                line(out, depth);
                push(out, item, depth + 1);
                before = ',';
            }
            line(out, depth - 1);
            out.push(']');
        }
        Json::Number(number) => out.push_str(&spelled(number)),
        Json::String(text) => match not_json(text) {
            Some(_) => out.push_str(text.trim_start_matches('\0')),
            None => out.push_str(&json.to_string()),
        },
        Json::Null | Json::Bool(_) => out.push_str(&json.to_string()),
    }
}

fn members(out: &mut String, map: &Map<String, Json>, depth: usize) {
    if map.is_empty() {
        return out.push_str("{}");
    }
    let mut before = '{';
    for (key, value) in map {
        out.push(before);
        line(out, depth);
        out.push_str(&Json::from(key.as_str()).to_string());
        out.push_str(": ");
        match value.as_f64().filter(|limit| key == NO_LIMIT && value.is_f64() && *limit >= 2f64.powi(64)) {
            Some(limit) => out.push_str(&format!("{limit:.0}")),
            None => push(out, value, depth + 1),
        }
        before = ',';
    }
    line(out, depth - 1);
    out.push('}');
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// A number as Python's `repr` has it: the shortest digits, an exponent of two digits below 1e-4 and from 1e16.
fn spelled(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_as_python_does() {
        // What `json.dumps(json.loads(text), indent=2)` of CPython 3.12 gives.
        let text = r#"{
  "a": [
    1,
    -2.5,
    1e-05,
    0.0001,
    1e+16,
    1000000000000000.0,
    1.5e-07,
    1e+300,
    0.0
  ],
  "empty": {},
  "none": [],
  "nested": {
    "x": null,
    "é\n": true
  },
  "limit": [
    Infinity,
    -Infinity,
    NaN
  ],
  "time_step_limit": [
    0.0,
    1e+30
  ],
  "model_max_length": 1000000000000000019884624838656
}
"#;
        assert_eq!(file(&crate::json::parse_object(text).unwrap()), text);
    }
}
