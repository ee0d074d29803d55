//! Tensors that some files stack: one tensor in place of one for each number of a placeholder, such as an expert.

use crate::architecture::language::members::{list, only, read_tables, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, Result};
use toml::Table as Toml;

/// A tensor that stands for others: along its first axis the items of a placeholder, and along the next axis, in equal
/// parts, the tensors of each item.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// Its name.
    pub name: Pattern,
    /// The table's names of the tensors that it stands for, in the order of the parts.
    pub of: Vec<Pattern>,
    /// The placeholder that its name lacks.
    pub place: String,
}

impl Stacked {
    /// Parses a dialect's `stacked` entries.
    ///
    /// # Errors
    /// InvalidArgument for an entry without `name` or `of`, or whose names differ in anything but one placeholder.
    pub(in crate::architecture) fn read(dialect: &Toml) -> Read<Vec<Stacked>> {
        read_tables(dialect, "stacked", Stacked::entry)
    }

    fn entry(toml: &Toml) -> Read<Stacked> {
        only(toml, &["name", "of"], "a stacked tensor")?;
        let name =
            words(toml, "name")?.ok_or_else(|| Error::invalid_argument("a stacked tensor has no `name`"))?;
        let name = Pattern::parse(&name).within("name")?;
        let of: Vec<Pattern> =
            list(toml, "of")?.iter().map(|name| Pattern::parse(name)).collect::<Result<_>>().within("of")?;
        let wrong = || {
            let text = name.text();
            Error::invalid_argument(format!(
                "the stacked tensor `{text}` requires names in `of` that have one placeholder more than its own"
            ))
        };
        let places = of.first().ok_or_else(wrong).within("of")?.places();
        let mut own = places.iter().filter(|place| !name.places().contains(place));
        let place = own.next().ok_or_else(wrong).within("of")?.clone();
        let are_like = own.next().is_none()
            && of.iter().all(|part| part.places() == places && !part.is_open())
            && name.places().iter().all(|place| places.contains(place));
        match are_like && !name.is_open() {
            true => Ok(Stacked { name, of, place }),
            false => Err(wrong()).within("of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_in_one_placeholder() {
        let entry = |name: &str, of: &str| {
            let text = format!("[[stacked]]\nname = '{name}'\nof = {of}\n");
            Stacked::read(&text.parse::<Toml>().unwrap())
        };
        let read = entry("a.{layer}.all", "['a.{layer}.{expert}.x', 'a.{layer}.{expert}.y']").unwrap();
        assert_eq!(read[0].place, "expert");
        for (name, of) in [
            ("a.{layer}.all", "[]"),
            ("a.{layer}.all", "['a.{layer}.x']"),
            ("a.{layer}.all", "['a.{layer}.{expert}.x', 'a.{layer}.y']"),
            ("a.{layer}.all", "['a.{layer}.{expert}.{part}']"),
            ("a.{other}.all", "['a.{layer}.{expert}.x']"),
            ("a.{layer}.*", "['a.{layer}.{expert}.x']"),
        ] {
            entry(name, of).unwrap_err();
        }
    }
}
