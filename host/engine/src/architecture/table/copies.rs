//! Layers that come after the others under names of their own, such as those that predict further tokens: the rules of
//! other layers are copied for them.

use crate::architecture::language::members::{bad, read_tables, tables, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, escape};
use toml::{Table as Toml, Value as Item};

/// A `copies` entry.
struct Copies {
    /// The start of the names that are copied, and the place in it.
    of: (String, String),
    /// The start of the copies' names, and the place in it.
    to: (String, String),
    /// How many of the others come before: the other place's number is this plus the copy's.
    offset: String,
}

impl Copies {
    fn read(toml: &Toml) -> Read<Copies> {
        if let Some(key) = toml.keys().find(|key| !["of", "as", "offset"].contains(&key.as_str())) {
            return Err(wrong()).within(key.as_str());
        }
        let offset = words(toml, "offset")?.ok_or_else(wrong)?;
        let copies = Copies { of: start(toml, "of")?, to: start(toml, "as")?, offset };
        if copies.of.1 == copies.to.1 {
            let place = escape(&copies.of.1, 80);
            let message = format!("`copies` requires a placeholder other than `{place}`");
            return Err(Error::invalid_argument(message)).within("as");
        }
        Ok(copies)
    }

    /// The copy of a rule, if its names begin that way.
    fn of(&self, rule: &Toml) -> Read<Option<Toml>> {
        let (key, names) = match (rule.get("name"), rule.get("names")) {
            (Some(Item::String(name)), None) => ("name", vec![name.as_str()]),
            (None, Some(Item::Array(names))) => ("names", names.iter().filter_map(Item::as_str).collect()),
            _ => return Ok(None),
        };
        if names.is_empty() || !names.iter().all(|name| name.starts_with(&self.of.0)) {
            return Ok(None);
        }
        if rule.values().filter_map(Item::as_table).any(|side| side.contains_key("generate")) {
            return Err(Error::invalid_argument("a rule with `generate` cannot be copied").into());
        }
        let mut copy = Toml::new();
        for (member, item) in rule {
            let value = match (member.as_str(), item) {
                (own, Item::String(name)) if own == key => Item::String(self.renamed(name)),
                (own, Item::Array(names)) if own == key => {
                    let names = names.iter().map(|name| self.renamed(name.as_str().unwrap_or_default()));
                    Item::Array(names.map(Item::String).collect())
                }
                ("role" | "optional" | "expected", other) => other.clone(),
                ("shape" | "shapes" | "when", other) => self.expression(other),
                (_, side) => self.side(side)?,
            };
            copy.insert(member.clone(), value);
        }
        Ok(Some(copy))
    }

    fn renamed(&self, name: &str) -> String {
        name.replacen(&self.of.0, &self.to.0, 1)
    }

    /// The expressions of an item, in which the place's number is counted on.
    fn expression(&self, item: &Item) -> Item {
        match item {
            Item::String(text) => Item::String(self.counted_on(text)),
            Item::Array(items) => Item::Array(items.iter().map(|item| self.expression(item)).collect()),
            Item::Table(inside) => {
                Item::Table(inside.iter().map(|(key, item)| (key.clone(), self.expression(item))).collect())
            }
            other => other.clone(),
        }
    }

    /// A text with the place's name replaced where it stands as a word outside of quotes.
    fn counted_on(&self, text: &str) -> String {
        let number = format!("({} + {})", self.offset, self.to.1);
        let mut out = String::with_capacity(text.len());
        for (at, part) in text.split('"').enumerate() {
            if at > 0 {
                out.push('"');
            }
            match at % 2 {
                0 => replace_word(part, &self.of.1, &number, &mut out),
                _ => out.push_str(part),
            }
        }
        out
    }

    /// A name with the copy's place.
    fn placed(&self, name: &Item) -> Item {
        match name {
            Item::String(name) => {
                Item::String(name.replace(&format!("{{{}}}", self.of.1), &format!("{{{}}}", self.to.1)))
            }
            other => other.clone(),
        }
    }

    /// A dialect's side of the copy: places are replaced in its names, and counted on there.
    fn side(&self, side: &Item) -> Read<Item> {
        let mut toml = match side {
            Item::String(name) => Toml::from_iter([("name".to_owned(), Item::String(name.clone()))]),
            Item::Table(toml) => toml.clone(),
            other => return Err(bad("a dialect entry", other).into()),
        };
        let mut has = false;
        for key in ["name", "names"] {
            if let Some(item) = toml.get_mut(key) {
                let copied = match &*item {
                    Item::Array(names) => Item::Array(names.iter().map(|name| self.placed(name)).collect()),
                    name => self.placed(name),
                };
                has |= copied != *item;
                *item = copied;
            }
        }
        for key in ["ops", "each"] {
            if let Some(item) = toml.get_mut(key) {
                *item = self.expression(item);
            }
        }
        if has {
            let offset = Toml::from_iter([(self.to.1.clone(), Item::String(self.offset.clone()))]);
            toml.insert("offset".to_owned(), Item::Table(offset));
        }
        Ok(Item::Table(toml))
    }
}

fn wrong() -> Error {
    Error::invalid_argument(
        "`copies` requires `of` and `as`, each a name prefix with one placeholder, and an `offset`",
    )
}

/// The start of names that a `copies` entry states, and the place in it.
fn start(toml: &Toml, key: &str) -> Read<(String, String)> {
    let text = words(toml, key)?.ok_or_else(wrong)?;
    match Pattern::parse(&text).within(key)?.places() {
        [place] => Ok((text, place.clone())),
        _ => Err(wrong()).within(key),
    }
}

/// Appends `text` with every `word` in it replaced.
fn replace_word(text: &str, word: &str, by: &str, out: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let end = end.unwrap_or(rest.len());
        match end {
            0 => {
                let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
                out.push_str(&rest[..first]);
                rest = &rest[first..];
            }
            _ => {
                out.push_str(if &rest[..end] == word { by } else { &rest[..end] });
                rest = &rest[end..];
            }
        }
    }
}

/// The copies of a table's rules that each entry of `copies` makes.
///
/// # Errors
/// InvalidArgument for an entry that says something else.
pub fn copies(toml: &Toml) -> Read<Vec<Vec<Toml>>> {
    let rules = tables(toml, "tensor")?;
    read_tables(toml, "copies", |entry| {
        let entry = Copies::read(entry)?;
        let mut made = Vec::new();
        for rule in &rules {
            made.extend(entry.of(rule)?);
        }
        Ok(made)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_layers_are_there_again_under_other_names() {
        let toml: Toml = r#"
            [[copies]]
            of = "model.layers.{layer}."
            as = "mtp.layers.{mtp}."
            offset = "n"
            [[tensor]]
            role = "a"
            name = "model.layers.{layer}.a.{expert}.weight"
            shape = ["sizes[layer]", "2"]
            when = "kinds[layer] == \"layer\""
            gguf = { name = "blk.{layer}.a.weight", ops = ["as(layer, 2)"] }
            [[tensor]]
            name = "model.norm.weight"
            [[tensor]]
            name = "model.layers.{layer}.b"
            gguf = "blk.{layer}.b"
        "#
        .parse()
        .unwrap();
        let made = copies(&toml).unwrap().concat();
        assert_eq!(made.len(), 2);
        let wanted: Toml = r#"
            role = "a"
            name = "mtp.layers.{mtp}.a.{expert}.weight"
            shape = ["sizes[(n + mtp)]", "2"]
            when = "kinds[(n + mtp)] == \"layer\""
            gguf = { name = "blk.{mtp}.a.weight", ops = ["as((n + mtp), 2)"], offset = { mtp = "n" } }
        "#
        .parse()
        .unwrap();
        assert_eq!(made[0], wanted);
        assert_eq!(made[1]["gguf"]["offset"]["mtp"].as_str(), Some("n"));
        for wrong in [
            "of = 'a'\nas = 'b.{n}'\noffset = '1'",
            "of = 'a.{n}'\nas = 'b.{n}'\noffset = '1'",
            "of = 'a.{n}'\nas = 'b.{m}'",
            "x = 1",
        ] {
            copies(&format!("[[copies]]\n{wrong}\n").parse().unwrap()).unwrap_err();
        }
    }
}
