//! The line of a table's text where an error lies. Tables are merged with their bases before they are read; the path to an error
//! is that of the merged table, and is followed through the author's own text as far as that has it.

use crate::architecture::language::table_error::Step;
use toml::de::{DeTable, DeValue};
use toml::{Table as Toml, Value as Item};

/// Returns the line to which a path in the merged table leads in the author's text, counted from 1; `None` if it leads to
/// something of the base's.
pub fn line_of(text: &str, merged: &Toml, path: &[Step]) -> Option<usize> {
    let spanned = DeTable::parse(text).ok()?.into_inner();
    let own: Toml = text.parse().ok()?;
    let (first, rest) = path.split_first()?;
    let Step::Key(key) = first else { return None };
    let mut here = Place::entry(&spanned, &own, merged, key)?;
    for step in rest {
        here = here.inside(step)?;
    }
    let before = text.get(..here.start)?;
    Some(before.matches('\n').count() + 1)
}

/// A value of the author's text, and the same of the merged table.
struct Place<'t> {
    /// The offset in the text where its key stands, or the value itself if it is an item of an array.
    start: usize,
    spanned: &'t DeValue<'t>,
    own: &'t Item,
    merged: &'t Item,
}

impl<'t> Place<'t> {
    fn entry(spanned: &'t DeTable<'t>, own: &'t Toml, merged: &'t Toml, key: &str) -> Option<Place<'t>> {
        let (name, value) = spanned.get_key_value(key)?;
        let start = name.span().start;
        Some(Place { start, spanned: value.get_ref(), own: own.get(key)?, merged: merged.get(key)? })
    }

    fn inside(&self, step: &Step) -> Option<Place<'t>> {
        match (step, self.spanned, self.own, self.merged) {
            (Step::Key(key), DeValue::Table(spanned), Item::Table(own), Item::Table(merged)) => {
                Place::entry(spanned, own, merged, key)
            }
            (Step::Item(at), DeValue::Array(spanned), Item::Array(own), Item::Array(merged)) => {
                let item = merged.get(*at)?;
                let at = own_number(own, merged, *at)?;
                let value = spanned.get(at)?;
                Some(Place {
                    start: value.span().start,
                    spanned: value.get_ref(),
                    own: own.get(at)?,
                    merged: item,
                })
            }
            _ => None,
        }
    }
}

/// The number in the author's array of an item of the merged one. Merging moves items but leaves them whole, and puts the author's
/// behind the base's where both are equal.
fn own_number(own: &[Item], merged: &[Item], at: usize) -> Option<usize> {
    let (item, behind) = merged.get(at..)?.split_first()?;
    let equal_behind = behind.iter().filter(|other| *other == item).count();
    let equal = own.iter().enumerate().rev().filter(|(_, other)| *other == item);
    equal.map(|(at, _)| at).nth(equal_behind)
}

#[cfg(test)]
mod tests {
    use crate::architecture::Table;

    const BASE: &str = "id = 'base'\n[config]\nfoo = 'int'\nbar = 'int'\n[dialect.hf]\nsame_names = true\n[dialect.gguf]\n\
                        [[dialect.gguf.key]]\nkey = 'k'\nvalue = 'foo'\n[[tensor]]\nname = 'a'\n[[tensor]]\nname = 'b'\n";

    /// The message for a table that builds on [`BASE`], of which each line after the first two is one of `lines`.
    fn message(lines: &[&str]) -> String {
        let text = format!("id = 'x'\nbase = 'base'\n{}\n", lines.join("\n"));
        let error = Table::parse(&text, &|_| Ok(BASE.to_owned())).unwrap_err();
        error.message().to_owned()
    }

    #[track_caller]
    fn check(line: usize, lines: &[&str]) {
        let message = message(lines);
        assert!(message.starts_with(&format!("architecture table `x`, line {line}: ")), "{message}");
    }

    #[test]
    fn an_error_in_a_section_has_the_line_of_its_key() {
        check(5, &["[config]", "# foo = 'intt'", "foo = 'intt'"]);
        check(5, &["[config]", "food = 'int'", "foo = { type = 'intt' }"]);
        check(6, &["[config.foo]", "type = 'int'", "", "effect_when = 'true'"]);
        check(4, &["[config]", "'foo' = 3"]);
        check(4, &["[config]", "baz = { type = 'int', onnx = 'baz' }"]);
        check(4, &["[dialect.hf]", "written_root = 'a'"]);
        check(3, &["dialect.hf.prefix = 3"]);
        check(5, &["[decoder.norm]", "kind = 'rms'", "kinds = 'rms'"]);
        check(3, &["decoder = 3"]);
        check(4, &["[places]", "layer = '('"]);
        check(3, &["tensors = []"]);
    }

    #[test]
    fn an_error_in_a_list_has_the_line_of_its_item() {
        check(6, &["[dialect.hf]", "roots = [", "  'a',", "  'a',", "]"]);
        check(7, &["[[tensor]]", "name = 'c'", "shape = [", "  'foo',", "  'foo(',", "]"]);
        check(8, &["[[tensor]]", "name = 'c'", "[tensor.gguf]", "name = 'c'", "ops = [", "  'as('", "]"]);
    }

    #[test]
    fn an_error_in_an_entry_has_its_line_wherever_the_entry_is_merged_to() {
        // The first takes the place of the base's, the second stands behind all.
        check(6, &["[[tensor]]", "name = 'b'", "[[tensor]]", "shape = 'foo'", "name = 'c'"]);
        check(
            5,
            &["[[tensor]]", "name = 'b'", "optional = 3", "[[tensor]]", "name = 'c'", "optional = true"],
        );
        check(6, &["[[tensor]]", "name = 'c'", "[[tensor]]", "name = 'c'"]);
        check(6, &["[[tensor]]", "name = 'c'", "[[tensor]]", "name = 'c'", "shape = [3]"]);
        check(5, &["[[dialect.gguf.key]]", "key = 'k'", "type = 'u99'", "value = 'foo'"]);
        check(4, &["[[drop]]", "nam = 'c'"]);
        check(4, &["[[copies]]", "off = 'c'"]);
        // What is left out of an entry has the line where the entry begins.
        check(3, &["[[dialect.hf.ignore]]", "keys = ['a']"]);
        check(5, &["[[tensor]]", "name = 'b'", "[[tensor]]", "shape = ['foo']"]);
    }

    #[test]
    fn a_word_elsewhere_in_the_text_is_not_taken_for_the_cause() {
        check(7, &["[[tensor]]", "name = 'x'", "role = 'size'", "[[tensor]]", "size = 3", "name = 'y'"]);
        check(6, &["[[tensor]]", "name = '`optional`'", "role = '3'", "optional = 3"]);
    }

    #[test]
    fn an_error_of_the_base_has_no_line() {
        // The base's key needs `foo`; what is missing stands nowhere in the text.
        let text = "id = 'x'\nbase = 'base'\n[config]\nbaz = 'int'\n";
        let base = BASE.replace("foo = 'int'", "foo = 'intt'");
        let error = Table::parse(text, &|_| Ok(base.clone())).unwrap_err();
        assert!(error.message().starts_with("architecture table `x`: `foo`"), "{}", error.message());
        let base = format!("{BASE}[[tensor]]\nname = 'c'\noptional = 3\n");
        let text = "id = 'x'\nbase = 'base'\n[[tensor]]\nname = 'd'\noptional = true\n";
        let error = Table::parse(text, &|_| Ok(base.clone())).unwrap_err();
        assert!(error.message().starts_with("architecture table `x`: tensor `c`"), "{}", error.message());
    }
}
