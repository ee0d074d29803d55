//! An architecture table: TOML text, parsed and checked. `plugins/architectures/README.md` describes the form.

pub(crate) mod base;
pub(crate) mod config_name;
mod copies;
pub(crate) mod dialect;
pub(crate) mod expectations;
pub(crate) mod head;
pub(crate) mod line;
pub(crate) mod rule;
pub(crate) mod section;
pub(crate) mod side;
pub(crate) mod tables;

use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::members::{
    as_table, each, entries, expression, list, only, read_tables, sub_table, truth, words,
};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, TableError, Within};
use apr_sdk::{Error, Result, Tensor, escape};
use base::{Bases, with_base};
use config_name::{names_in, read_config};
use dialect::read_dialect;
use dialect::rename::Rename;
use line::line_of;
use rule::{images, read_rule};
use section::Section;
use std::collections::HashMap;
use toml::{Table as Toml, Value as Item};

pub use config_name::{ConfigName, Kind};
pub use dialect::key::{Key, Source};
pub use dialect::stacked::Stacked;
pub use dialect::{CANONICAL, Dialect};
pub use rule::Rule;
pub use side::{Generator, Precision, Side};

/// How the reason begins for which a dialect has no tensor, and misses nothing: `follows from the rotation`.
const FOLLOWS: &str = "follows from ";

/// A parsed architecture table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The architecture's id.
    pub id: String,
    /// The display name.
    pub name: String,
    /// How rows of Q and K are arranged for rotary embedding at inference: `norm`, `neox` or `none`.
    pub rope: String,
    /// Where facts and names come from.
    pub sources: Vec<String>,
    /// The programs that agree with what it does to the models in `tests/golden`: `converter`, `llama.cpp`, `transformers`.
    pub judges: Vec<String>,
    /// Whether the table is only a base for others.
    pub is_base: bool,
    /// Whether it, or a table that it builds on, is a draft whose guesses nobody has checked.
    pub draft: bool,
    /// The configuration's names, in order.
    pub config: Vec<ConfigName>,
    /// The number at each place of names: `layer`, `expert`.
    pub places: Vec<(String, Expression)>,
    /// The dialects it describes.
    pub dialects: Vec<Dialect>,
    /// The rules for tensors.
    pub rules: Vec<Rule>,
    /// Tensors of a dialect that are dropped.
    pub drops: Vec<Drop>,
    /// What its models compute.
    pub decoder: Option<Section>,
}

/// A tensor that a dialect's files may contain and that is dropped.
#[derive(Clone, Debug)]
pub struct Drop {
    /// The dialect's id.
    pub dialect: String,
    /// The tensor's name.
    pub pattern: Pattern,
    /// In which models, by the configuration.
    pub when: Option<Expression>,
    /// Why it is dropped.
    pub reason: String,
}

impl Table {
    /// Parses a table. `base` returns the text of another table, for this one to build on.
    ///
    /// # Errors
    /// InvalidArgument, with the location; LimitExceeded.
    pub fn parse(text: &str, base: &dyn Fn(&str) -> Result<String>) -> Result<Table> {
        Table::on(text, &Bases::new(base))
    }

    /// Parses a table that may build on one of `bases`.
    ///
    /// # Errors
    /// As [`Table::parse`].
    pub(in crate::architecture) fn on<F: Fn(&str) -> Result<String>>(
        text: &str,
        bases: &Bases<F>,
    ) -> Result<Table> {
        let toml = with_base(text, bases, 0)?;
        read(&toml).map_err(|e| {
            let (error, path) = e.into_parts();
            let id = toml.get("id").and_then(Item::as_str);
            let id = id.map(|id| format!(" `{}`", escape(id, 80))).unwrap_or_default();
            let line = line_of(text, &toml, &path).map(|line| format!(", line {line}")).unwrap_or_default();
            Error::invalid_argument(format!("architecture table{id}{line}: {}", error.message()))
        })
    }

    /// A dialect's view of the configuration.
    pub fn dialect(&self, id: &str) -> Option<&Dialect> {
        self.dialects.iter().find(|d| d.id == id)
    }

    /// Whether a dialect's files may have a tensor with this name, whatever the configuration says.
    pub fn names(&self, dialect: &str, name: &str) -> bool {
        let open =
            self.rules.iter().filter(|rule| rule.when.is_none() && rule.members.iter().any(Pattern::is_open));
        let mut patterns = open.flat_map(|rule| images(rule, dialect).0);
        self.matches(dialect, name, false) || patterns.any(|pattern| pattern.numbers(name).is_some())
    }

    /// Whether a name of the dialect matches, among open or other names.
    fn matches(&self, dialect: &str, name: &str, open: bool) -> bool {
        let images = self.rules.iter().flat_map(|rule| images(rule, dialect).0);
        let drops = self.drops.iter().filter(|drop| drop.dialect == dialect).map(|drop| &drop.pattern);
        images.chain(drops).any(|pattern| pattern.is_open() == open && pattern.numbers(name).is_some())
    }

    /// The table's own name for a tensor that a file calls differently; `None` if the name is the table's
    /// own, or unknown.
    pub fn own_name(&self, dialect: &str, name: &str) -> Option<String> {
        let own =
            self.dialects.iter().find(|own| own.id == dialect || dialect == CANONICAL && own.same_names);
        let renames = own.map_or(&[][..], |own| &own.renames);
        if renames.is_empty() || self.matches(dialect, name, false) {
            return None;
        }
        let others = other_names(renames, name);
        for open in [false, true] {
            if let Some(other) = others.iter().find(|other| self.matches(dialect, other, open)) {
                return Some(other.clone()).filter(|other| other != name);
            }
        }
        None
    }

    /// A tensor of a dialect's file under the table's own name.
    pub(in crate::architecture) fn own_tensor(&self, dialect: &str, tensor: &Tensor) -> Tensor {
        match self.own_name(dialect, &tensor.name) {
            Some(name) => Tensor { name, ..tensor.clone() },
            None => tensor.clone(),
        }
    }

    /// The entry of a configuration name.
    pub(in crate::architecture) fn entry(&self, name: &str) -> Option<&ConfigName> {
        self.config.iter().find(|entry| entry.name == name)
    }

    /// The number at a place of names, if the table states it.
    pub(in crate::architecture) fn count(&self, place: &str) -> Option<&Expression> {
        self.places.iter().find(|(known, _)| known == place).map(|(_, count)| count)
    }

    /// The rule of a tensor, by its canonical name.
    pub(in crate::architecture) fn rule_of(&self, member: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.members.iter().any(|pattern| pattern.text() == member))
    }

    /// Whether a dialect's names are the members', unless a rule says otherwise.
    pub fn is_own(&self, dialect: &str) -> bool {
        dialect == CANONICAL || self.dialect(dialect).is_some_and(|d| d.same_names)
    }

    /// The library's classes that mark its models, as `config.json` names them, sorted.
    pub fn classes(&self) -> Vec<&str> {
        let conditions = self.dialects.iter().flat_map(|dialect| &dialect.detect).flatten();
        let named = conditions.filter(|(key, _)| key == "architectures").flat_map(|(_, values)| values);
        let mut classes: Vec<&str> = named
            .filter_map(|value| match value {
                Scalar::Text(class) => Some(class.as_str()),
                _ => None,
            })
            .collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// What a dialect leaves out of its models: roles and reasons, each once.
    pub fn left_out(&self, dialect: &str) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for rule in &self.rules {
            let reason = rule.side(dialect).and_then(|side| side.dropped.as_deref());
            let Some(reason) = reason.filter(|reason| !reason.starts_with(FOLLOWS)) else { continue };
            let role = rule.role.as_deref().unwrap_or_else(|| rule.members[0].text());
            if !found.contains(&(role, reason)) {
                found.push((role, reason));
            }
        }
        found
    }

    /// Whether the table describes a dialect.
    pub fn knows(&self, dialect: &str) -> bool {
        dialect == CANONICAL || self.dialect(dialect).is_some()
    }
}

/// A file's name for a tensor, then what it may stand for: another start, another end, or both.
fn other_names(renames: &[Rename], name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    for is_end in [false, true] {
        let mut more = Vec::new();
        for name in &names {
            let these = renames.iter().filter(|rename| rename.end.is_some() == is_end);
            more.extend(these.filter_map(|rename| rename.apply(name)));
        }
        names.extend(more);
    }
    names
}

fn read(toml: &Toml) -> Read<Table> {
    let id = words(toml, "id")?.ok_or_else(|| Error::invalid_argument("it has no `id`"))?;
    let known = [
        "id", "name", "rope", "sources", "judges", "is_base", "draft", "config", "places", "dialect",
        "tensor", "drop", "decoder", "copies",
    ];
    only(toml, &known, "a table")?;
    let mut table = Table {
        name: words(toml, "name")?.unwrap_or_else(|| id.clone()),
        id,
        rope: words(toml, "rope")?.unwrap_or_else(|| "none".to_owned()),
        sources: list(toml, "sources")?,
        judges: list(toml, "judges")?,
        is_base: truth(toml, "is_base")?,
        draft: truth(toml, "draft")?,
        ..Table::default()
    };
    table.dialects = entries(toml, "dialect", |id, item| read_dialect(id, as_table(item, "a dialect")?))?;
    table.config = entries(toml, "config", |name, item| read_config(name, item, &table.dialects))?;
    for dialect in &mut table.dialects {
        let names = table.config.iter().flat_map(|entry| names_in(entry, dialect));
        let keys: Vec<String> =
            names.chain(dialect.keys.iter().map(|key| key.key.as_str())).map(str::to_owned).collect();
        dialect.roots.set_of_objects(&dialect.either, keys);
    }
    table.decoder = Section::read(toml, &table.config, &|rows| table.knows(rows))?;
    for (place, _) in sub_table(toml, "places")? {
        let count = expression(sub_table(toml, "places")?, place).within("places")?;
        table.places.extend(count.map(|count| (place.clone(), count)));
    }
    // Rules for different models may share a name; the one whose condition holds applies.
    let mut names: HashMap<String, bool> = HashMap::new();
    table.rules = read_tables(toml, "tensor", |rule| {
        let rule = read_named(rule, &table.dialects)?;
        add_names(&rule, &mut names).within(if rule.members.len() > 1 { "names" } else { "name" })?;
        Ok(rule)
    })?;
    for (entry, rules) in copies::copies(toml)?.iter().enumerate() {
        for rule in rules {
            let rule = read_named(rule, &table.dialects).and_then(|rule| {
                add_names(&rule, &mut names)?;
                Ok(rule)
            });
            // The rule that it copies is sound: the entry makes the difference.
            table.rules.push(rule.map_err(TableError::into_error).within(entry).within("copies")?);
        }
    }
    let drops = read_tables(toml, "drop", |drop| read_drop(drop, &|dialect| table.knows(dialect)))?;
    table.drops = drops.into_iter().flatten().collect();
    Ok(table)
}

/// Reads a rule; an error says whose it is.
fn read_named(rule: &Toml, dialects: &[Dialect]) -> Read<Rule> {
    read_rule(rule, dialects).map_err(|e| match rule.get("name").and_then(Item::as_str) {
        Some(name) => e.about(&format!("tensor `{name}`")),
        None => e,
    })
}

/// Adds a rule's names to those that there are; the value says that all rules of that name have a condition.
fn add_names(rule: &Rule, names: &mut HashMap<String, bool>) -> Result<()> {
    for name in rule.members.iter().map(Pattern::text) {
        let in_some = rule.when.is_some();
        if names.insert(name.to_owned(), in_some).is_some_and(|other| !(other && in_some)) {
            let name = escape(name, 120);
            return Err(Error::invalid_argument(format!(
                "tensor `{name}` is defined more than once, in the table or its base: list it under \
                 `remove` to replace the base's"
            )));
        }
    }
    Ok(())
}

/// Reads a `drop` entry, which may list several tensors.
fn read_drop(drop: &Toml, knows: &dyn Fn(&str) -> bool) -> Read<Vec<Drop>> {
    only(drop, &["dialect", "name", "when", "reason"], "`drop`")?;
    let dialect = words(drop, "dialect")?.unwrap_or_default();
    let reason = words(drop, "reason")?.unwrap_or_default();
    let when = expression(drop, "when")?;
    let names = list(drop, "name")?;
    if let Some(name) = names.first().filter(|_| !knows(&dialect) || reason.is_empty()) {
        let message = format!("the `drop` of `{name}` requires a dialect and a reason");
        return Err(Error::invalid_argument(message).into());
    }
    let patterns = each(drop.get("name"), |name| Ok(Pattern::parse(name.as_str().unwrap_or_default())?));
    let drops = patterns.within("name")?.into_iter().map(|pattern| Drop {
        dialect: dialect.clone(),
        pattern,
        when: when.clone(),
        reason: reason.clone(),
    });
    Ok(drops.collect())
}
