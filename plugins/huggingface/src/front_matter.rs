//! The front matter between `---` lines at the start of a README: YAML, reduced to texts, lists and maps.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value as Json};

/// How deep lists and maps may be nested. 32: model cards have 8 (`model-index`), and recursion must not end the stack.
const DEEPEST: usize = 32;

/// The YAML of a text that begins with it.
pub fn of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return rest.get(..at);
        }
        at += line.len();
    }
    None
}

/// Its map, every scalar as text: `language: no` is Norwegian. `None` for anything else, and for aliases, by which a few
/// lines can stand for any amount of text.
pub fn parse(yaml: &str) -> Option<Map<String, Json>> {
    let mut events = Parser::new_from_str(yaml);
    loop {
        match event(&mut events)? {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
            Event::MappingStart(..) => return map(&mut events, 0),
            _ => return None,
        }
    }
}

fn event<'y>(events: &mut Parser<'y, saphyr_parser::StrInput<'y>>) -> Option<Event<'y>> {
    events.next()?.ok().map(|(event, _)| event)
}

fn map<'y>(events: &mut Parser<'y, saphyr_parser::StrInput<'y>>, depth: usize) -> Option<Map<String, Json>> {
    let mut members = Map::new();
    loop {
        match event(events)? {
            Event::MappingEnd => return Some(members),
            Event::Scalar(key, ..) => {
                let next = event(events)?;
                members.insert(key.into_owned(), value(events, next, depth + 1)?);
            }
            // A key that is no text.
            _ => return None,
        }
    }
}

fn value<'y>(
    events: &mut Parser<'y, saphyr_parser::StrInput<'y>>,
    first: Event<'y>,
    depth: usize,
) -> Option<Json> {
    if depth > DEEPEST {
        return None;
    }
    match first {
        Event::Scalar(text, ScalarStyle::Plain, ..) if matches!(&*text, "" | "~" | "null") => {
            Some(Json::Null)
        }
        Event::Scalar(text, ..) => Some(Json::from(text.into_owned())),
        Event::MappingStart(..) => map(events, depth).map(Json::Object),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match event(events)? {
                    Event::SequenceEnd => return Some(Json::Array(items)),
                    next => items.push(value(events, next, depth + 1)?),
                }
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_stands_between_the_lines() {
        assert_eq!(of("---\na: 1\n---\n# x\n"), Some("a: 1\n"));
        assert_eq!(of("---\na: 1\n"), None);
        assert_eq!(of("# x\n---\n"), None);
    }

    #[test]
    fn scalars_are_texts_and_aliases_are_refused() {
        let map = parse("language: no\nversion: 1.0\ntags: [a, 'b']\nnone:\ndeep:\n- x: {y: ~}\n").unwrap();
        assert_eq!(
            Json::Object(map).to_string(),
            r#"{"language":"no","version":"1.0","tags":["a","b"],"none":null,"deep":[{"x":{"y":null}}]}"#
        );
        assert!(parse("a: &x [1]\nb: [*x, *x]\n").is_none());
        assert!(parse("- a\n").is_none() && parse("a: [\n").is_none() && parse("").is_none());
        assert!(parse(&format!("a: {}", "[".repeat(10_000))).is_none());
    }
}
