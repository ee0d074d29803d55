//! The part of a table that identifies its models: finding a model's table parses nothing else of any table.

use crate::architecture::language::members::{as_table, entries, truth};
use crate::architecture::language::table_error::{Read, TableError};
use crate::architecture::table::Dialect;
use crate::architecture::table::base::{Bases, with_base};
use crate::architecture::table::dialect::condition::{is_key, marks, unstated};
use crate::architecture::table::dialect::read_dialect;
use apr_sdk::{Result, Value};
use std::borrow::Cow;
use toml::Table as Toml;

/// A table's conditions on keys.
#[derive(Debug)]
pub struct Head {
    /// Whether the table is only a base for others.
    pub is_base: bool,
    dialects: Vec<Dialect>,
}

impl Head {
    /// Parses the head of a table that may build on one of `bases`, which are heads too.
    ///
    /// # Errors
    /// InvalidArgument for anything but a head; any error from the bases.
    pub fn on<F: Fn(&str) -> Result<String>>(head: &str, bases: &Bases<F>) -> Result<Head> {
        Head::read(&with_base(head, bases, 0)?).map_err(TableError::into_error)
    }

    fn read(toml: &Toml) -> Read<Head> {
        let dialects = entries(toml, "dialect", |id, item| read_dialect(id, as_table(item, "a dialect")?))?;
        Ok(Head { is_base: truth(toml, "is_base")?, dialects })
    }

    /// Whether a model's keys in `dialect` mark the architecture: how many conditions hold, or `None`.
    pub fn marks(&self, dialect: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<usize> {
        self.dialect(dialect).and_then(|dialect| marks(dialect, lookup))
    }

    /// The keys that a model would additionally have to state for its keys in `dialect` to mark the
    /// architecture; `None` if they contradict it.
    pub fn unstated(&self, dialect: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<Vec<&str>> {
        self.dialect(dialect).and_then(|dialect| unstated(dialect, lookup))
    }

    /// The dialect's keys that mark an architecture by themselves. One that only tells models of the same mark apart says nothing
    /// alone.
    pub fn marking_keys(&self, dialect: &str) -> impl Iterator<Item = &str> {
        self.dialect(dialect)
            .into_iter()
            .flat_map(|d| &d.detect)
            .filter(|all| all.len() == 1)
            .flatten()
            .map(|(key, _)| key.trim_start_matches('!'))
            .filter(|key| is_key(key))
    }

    fn dialect(&self, id: &str) -> Option<&Dialect> {
        self.dialects.iter().find(|dialect| dialect.id == id)
    }
}

/// A table's text without the sections that say nothing about its models' keys: a tenth of it. The text is
/// kept whole if any line might be mistaken for a section header.
pub fn cut(text: &str) -> Cow<'_, str> {
    // Such strings may contain any line.
    if text.contains("\"\"\"") || text.contains("'''") {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    let mut keeps = true;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            let Some(path) = section(line) else { return Cow::Borrowed(text) };
            let mut path = path.split('.');
            keeps = path.next() == Some("dialect") && [None, Some("detect")].contains(&path.nth(1));
        }
        if keeps {
            kept.push_str(line);
        }
    }
    Cow::Owned(kept)
}

/// The name in a section header; `None` for a line that might belong to an array: no array contains a bare
/// word of letters other than a constant.
fn section(line: &str) -> Option<&str> {
    let line = line.trim();
    let name = line
        .strip_prefix("[[")
        .map_or_else(|| line.strip_prefix('[')?.strip_suffix(']'), |rest| rest.strip_suffix("]]"))?;
    let first = name.split('.').next()?;
    let is_word = first.starts_with(|c: char| c.is_ascii_alphabetic())
        && !["true", "false", "inf", "nan"].contains(&first);
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    (is_word && is_bare).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;

    #[test]
    fn sections_that_say_nothing_of_keys_are_cut_out() {
        let text = "id = 'a'\nbase = 'b'\n[dialect.x] \ndetect = [\n  { k = '[tensor]' },\n]\n[[dialect.x.key]]\nkey = 1\n\
            [[dialect.x.detect]]\nk = 2\n[config]\nn = 'int'\n  [[tensor]]\nname = 't'\n[dialect.y]\narch = 'y'\n";
        let wanted = "id = 'a'\nbase = 'b'\n[dialect.x] \ndetect = [\n  { k = '[tensor]' },\n]\n\
            [[dialect.x.detect]]\nk = 2\n[dialect.y]\narch = 'y'\n";
        assert_eq!(cut(text), wanted);
    }

    #[test]
    fn a_text_whose_lines_could_mislead_is_left_whole() {
        for doubtful in [
            "a = '''\n[config]\n'''",
            "a = \"\"\"\n[tensor]\n\"\"\"",
            "a = [\n[1],\n]",
            "a = [\n[true]\n]",
            "a = [\n[\"tensor\"]\n]",
            "[\"dialect\".x]",
            "[ dialect . x ]",
            "[config] # more",
            "[[tensor]",
        ] {
            let text = format!("[[tensor]]\n{doubtful}\n");
            assert_eq!(cut(&text), text);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test reads the tables that are checked in")]
    fn the_heads_of_our_tables_say_what_the_whole_tables_say() {
        let mut folder = Vec::new();
        for entry in
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/architectures/tables"))
                .unwrap()
        {
            let path = entry.unwrap().path();
            let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
            folder.push((id, std::fs::read_to_string(path).unwrap()));
        }
        assert!(folder.len() > 20);
        let text = |id: &str| Ok(folder.iter().find(|(known, _)| known == id).unwrap().1.clone());
        let whole = Bases::new(text);
        let heads = Bases::new(|id: &str| text(id).map(|text| cut(&text).into_owned()));
        let all: usize = folder.iter().map(|(_, text)| text.len()).sum();
        let kept: usize = folder.iter().map(|(_, text)| cut(text).len()).sum();
        assert!(kept * 4 < all, "{kept} of {all} bytes");
        let detects = |dialects: &[Dialect]| {
            dialects.iter().map(|d| format!("{}: {:?}", d.id, d.detect)).collect::<Vec<_>>()
        };
        for (id, text) in &folder {
            let table = Table::on(text, &whole).unwrap();
            let head = Head::on(&cut(text), &heads).unwrap();
            assert_eq!(head.is_base, table.is_base, "{id}");
            assert_eq!(detects(&head.dialects), detects(&table.dialects), "{id}");
        }
    }
}
