//! An architecture table: TOML text, parsed and checked. `plugins/architectures/README.md` describes the form.

pub(crate) mod base;
pub(crate) mod called;
pub(crate) mod copies;
pub(crate) mod expected;
pub(crate) mod head;
mod line;
pub(crate) mod rename;
pub(crate) mod roots;
pub(crate) mod section;
pub(crate) mod side;
pub(crate) mod tables;

use crate::architecture::config::keys::read_key;
use crate::architecture::config::names_in;
use crate::architecture::config::refusal::Refusal;
use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::members::{
    bad, expression, list, only, scalar, sub_table, tables, truth, words,
};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::base::{Bases, with_base};
use crate::architecture::table::expected::Expected;
use crate::architecture::table::line::line_of;
use crate::architecture::table::rename::Rename;
use crate::architecture::table::roots::Roots;
use crate::architecture::table::section::Section;
use crate::architecture::table::side::read_side;
use apr_sdk::{Error, Result, ValueType, escape};
use std::collections::HashMap;
use toml::{Table as Toml, Value as Item};

pub use side::{Generator, Precision, Side};

/// The tables' own dialect: the names and rows of the configuration and the members.
pub const CANONICAL: &str = "canonical";

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

/// A name of the canonical configuration.
#[derive(Clone, Debug)]
pub struct ConfigName {
    /// The canonical name.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// The value if nothing is stated; never written as if it had been.
    pub default: Option<Expression>,
    /// For a name that changes what the model computes: the values that a dialect may leave unstated.
    pub covers: Option<Vec<Scalar>>,
    /// The consequence if a dialect leaves it unstated, and in which case.
    pub effect: Option<(String, Option<Expression>)>,
    /// Its names in dialects that store the configuration by name: (dialect, names, of which the first is
    /// written).
    pub names: Vec<(String, Vec<String>)>,
    /// Whether the first of those that are stated counts, whatever the others say.
    pub first_counts: bool,
}

/// The kind of a configuration value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Int,
    /// A float; an integer is accepted too.
    Float,
    /// A boolean.
    Bool,
    /// A string.
    Text,
    /// A list.
    List,
    /// An integer for all layers, or a list of one per layer.
    IntOrList,
}

/// A dialect's view of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Dialect {
    /// The dialect's id.
    pub id: String,
    /// Conditions on its keys, any of which marks the architecture: keys and their values (`*` for any).
    pub detect: Vec<Vec<(String, Vec<Scalar>)>>,
    /// Whether its keys are the configuration's names.
    pub same_names: bool,
    /// Where its files state the configuration.
    pub roots: Roots,
    /// Whether tensors are written in bytewise order of their canonical names.
    pub by_name: bool,
    /// The prefix of its own keys, all of which must be in the table.
    pub prefix: Option<String>,
    /// Keys, in the order they are written.
    pub keys: Vec<Key>,
    /// Keys that say nothing about the model, and why; a trailing `*` matches any rest.
    pub ignored: Vec<(String, String)>,
    /// Other names that files use.
    pub renames: Vec<Rename>,
    /// What its files may state but the table does not cover.
    pub refused: Vec<Refusal>,
    /// Keys whose lists have an entry for each layer.
    pub per_layer: Vec<String>,
    /// Objects that state the same, of which a file has one.
    pub either: Vec<String>,
    /// What the library's class makes of other keys where the file is silent: names of the configuration, and expressions.
    pub derived: Vec<(String, Expression)>,
    /// Keys of which null says that a model has none of it, where a class assumes some.
    pub null: Vec<String>,
}

impl Dialect {
    /// Whether a key says nothing about the model.
    pub fn ignores(&self, key: &str) -> bool {
        self.reason(key).is_some()
    }

    /// Why a key says nothing about the model.
    pub fn reason(&self, key: &str) -> Option<&str> {
        let own = self.roots.own(key);
        let is_it = |(ignored, _): &&(String, String)| {
            // A key that begins with `/` lies at the file's root alone.
            let (key, ignored) =
                ignored.strip_prefix('/').map_or((own, ignored.as_str()), |ignored| (key, ignored));
            match ignored.strip_suffix('*') {
                Some(start) => key.starts_with(start),
                None => key == ignored,
            }
        };
        self.ignored.iter().find(is_it).map(|(_, reason)| reason.as_str())
    }
}

/// A key of a dialect.
#[derive(Clone, Debug)]
pub struct Key {
    /// The full name of the key.
    pub key: String,
    /// Its type, and whether it is an array; `None` to follow the value.
    pub kind: Option<(ValueType, bool)>,
    /// The type of its items where the value is a list, of a key that may be either.
    pub list_kind: Option<ValueType>,
    /// What is written.
    pub value: Source,
    /// The condition for writing it.
    pub when: Option<Expression>,
    /// The configuration names that reading it states, with expressions over `it`; by default the value's own
    /// name.
    pub sets: Vec<(String, Option<Expression>)>,
    /// Whether other programs that read the format pass over it.
    pub unread: bool,
}

/// Where a key's value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An expression over the configuration.
    Expression(Expression),
    /// A constant.
    Constant(Scalar),
}

/// How canonical tensors (the members) correspond to those of each dialect.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Their role in the architecture.
    pub role: Option<String>,
    /// The canonical names.
    pub members: Vec<Pattern>,
    /// Their shapes, if stated.
    pub shapes: Vec<Vec<Expression>>,
    /// Whether a model may lack them.
    pub optional: bool,
    /// For which numbers of places they exist.
    pub when: Option<Expression>,
    /// The expected ranges of their values.
    pub expected: Option<Expected>,
    /// The dialects in which their names or rows differ: (dialect, side).
    pub sides: Vec<(String, Side)>,
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
        let id = words(&toml, "id")?
            .ok_or_else(|| Error::invalid_argument("an architecture table has no `id`"))?;
        read(&toml, &id).map_err(|e| {
            let line = line_of(text, e.message()).map(|line| format!(", line {line}")).unwrap_or_default();
            let message = format!("architecture table `{}`{line}: {}", escape(&id, 80), e.message());
            Error::invalid_argument(message)
        })
    }

    /// A dialect's view of the configuration.
    pub fn dialect(&self, id: &str) -> Option<&Dialect> {
        self.dialects.iter().find(|d| d.id == id)
    }

    /// Whether a dialect's files may have a tensor with this name, whatever the configuration says.
    pub fn names(&self, dialect: &str, name: &str) -> bool {
        let open = |rule: &&Rule| rule.when.is_none() && rule.members.iter().any(Pattern::is_open);
        let mut open = self.rules.iter().filter(open).flat_map(|rule| match rule.side(dialect) {
            Some(side) => &side.images,
            None => &rule.members,
        });
        self.matches(dialect, name, false) || open.any(|pattern| pattern.numbers(name).is_some())
    }

    /// Whether a name of the dialect matches, among open or other names.
    fn matches(&self, dialect: &str, name: &str, open: bool) -> bool {
        let is = |pattern: &Pattern| pattern.is_open() == open && pattern.numbers(name).is_some();
        let images =
            |rule: &'_ Rule| rule.side(dialect).map_or(&rule.members, |side| &side.images).iter().any(is);
        let dropped = |drop: &Drop| drop.dialect == dialect && is(&drop.pattern);
        self.rules.iter().any(images) || self.drops.iter().any(dropped)
    }

    /// The table's own name for a tensor that a file calls differently; `None` if the name is the table's
    /// own, or unknown.
    pub fn own_name(&self, dialect: &str, name: &str) -> Option<String> {
        let has = |d: &&Dialect| d.id == dialect || dialect == CANONICAL && d.same_names;
        let renames = self.dialects.iter().find(has).map_or(&[][..], |d| &d.renames);
        if renames.is_empty() || self.matches(dialect, name, false) {
            return None;
        }
        // Another start, another end, or both.
        let mut others = vec![name.to_owned()];
        for is_end in [false, true] {
            let these = || renames.iter().filter(move |rename| rename.end.is_some() == is_end);
            let more: Vec<String> =
                others.iter().flat_map(|other| these().filter_map(|rename| rename.apply(other))).collect();
            others.extend(more);
        }
        let found = |open| others.iter().find(|other| self.matches(dialect, other, open));
        found(false).or_else(|| found(true)).filter(|other| *other != name).cloned()
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

impl Rule {
    /// The rule's side in a dialect; `None` if the dialect has the members unchanged.
    pub fn side(&self, dialect: &str) -> Option<&Side> {
        self.sides.iter().find(|(id, _)| id == dialect).map(|(_, side)| side)
    }
}

fn read(toml: &Toml, id: &str) -> Result<Table> {
    let known = [
        "id", "name", "rope", "sources", "judges", "is_base", "draft", "config", "places", "dialect",
        "tensor", "drop", "decoder", "copies",
    ];
    only(toml, &known, "a table")?;
    let mut table = Table {
        id: id.to_owned(),
        name: words(toml, "name")?.unwrap_or_else(|| id.to_owned()),
        rope: words(toml, "rope")?.unwrap_or_else(|| "none".to_owned()),
        sources: list(toml, "sources")?,
        judges: list(toml, "judges")?,
        is_base: truth(toml, "is_base")?,
        draft: truth(toml, "draft")?,
        ..Table::default()
    };
    for (name, item) in sub_table(toml, "dialect")? {
        let inside = item.as_table().ok_or_else(|| bad("a dialect", item))?;
        table.dialects.push(read_dialect(name, inside)?);
    }
    for (name, item) in sub_table(toml, "config")? {
        table.config.push(read_config(name, item, &table.dialects)?);
    }
    for dialect in &mut table.dialects {
        let names = table.config.iter().flat_map(|entry| names_in(entry, dialect));
        let keys: Vec<String> =
            names.chain(dialect.keys.iter().map(|key| key.key.as_str())).map(str::to_owned).collect();
        dialect.roots.set_of_objects(&dialect.either, keys);
    }
    table.decoder = Section::read(toml, &table.config, &|rows| table.knows(rows))?;
    for (place, _) in sub_table(toml, "places")? {
        let count = expression(sub_table(toml, "places")?, place)?;
        table.places.extend(count.map(|count| (place.clone(), count)));
    }
    let copied = copies::copies(toml)?;
    for rule in tables(toml, "tensor")?.into_iter().chain(&copied) {
        let rule =
            read_rule(rule, &table.dialects).map_err(|e| match rule.get("name").and_then(Item::as_str) {
                Some(name) => Error::invalid_argument(format!("tensor `{name}`: {}", e.message())),
                None => e,
            })?;
        table.rules.push(rule);
    }
    // Rules for different models may share a name; the one whose condition holds applies.
    let mut names: HashMap<&str, bool> = HashMap::new();
    for rule in &table.rules {
        for name in rule.members.iter().map(Pattern::text) {
            let in_some = rule.when.is_some();
            if names.insert(name, in_some).is_some_and(|other| !(other && in_some)) {
                let name = escape(name, 120);
                return Err(Error::invalid_argument(format!(
                    "tensor `{name}` occurs twice, in the table or in its base: `remove` takes the base's out"
                )));
            }
        }
    }
    for drop in tables(toml, "drop")? {
        only(drop, &["dialect", "name", "when", "reason"], "`drop`")?;
        for name in list(drop, "name")? {
            let pattern = Pattern::parse(&name)?;
            let dialect = words(drop, "dialect")?.unwrap_or_default();
            let reason = words(drop, "reason")?.unwrap_or_default();
            if !table.knows(&dialect) || reason.is_empty() {
                return Err(Error::invalid_argument(format!(
                    "the drop of `{name}` needs a dialect and a reason"
                )));
            }
            table.drops.push(Drop { dialect, pattern, when: expression(drop, "when")?, reason });
        }
    }
    Ok(table)
}

fn read_config(name: &str, item: &Item, dialects: &[Dialect]) -> Result<ConfigName> {
    const OWN: [&str; 6] = ["type", "default", "covers", "effect", "effect_when", "first_counts"];
    let empty = Toml::new();
    let (kind, inside) = match item {
        Item::String(kind) => (kind.clone(), &empty),
        Item::Table(inside) => (words(inside, "type")?.unwrap_or_default(), inside),
        other => return Err(bad(name, other)),
    };
    let kind = match kind.as_str() {
        "int" => Kind::Int,
        "float" => Kind::Float,
        "bool" => Kind::Bool,
        "text" => Kind::Text,
        "list" => Kind::List,
        "int or list" => Kind::IntOrList,
        other => return Err(Error::invalid_argument(format!("`{name}` has the unknown type `{other}`"))),
    };
    let mut names = Vec::new();
    for key in inside.keys().filter(|key| !OWN.contains(&key.as_str())) {
        if !dialects.iter().any(|d| d.id == *key) {
            return Err(Error::invalid_argument(format!("`{name}` speaks of the unknown dialect `{key}`")));
        }
        names.push((key.clone(), list(inside, key)?));
    }
    let covers = crate::architecture::config::refusal::values(inside, "covers")?;
    let effect = match (words(inside, "effect")?, expression(inside, "effect_when")?) {
        (Some(effect), when) => Some((effect, when)),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Error::invalid_argument(format!("`{name}` has `effect_when` without `effect`")));
        }
    };
    let (default, first_counts) = (expression(inside, "default")?, truth(inside, "first_counts")?);
    Ok(ConfigName { name: name.to_owned(), kind, default, covers, effect, names, first_counts })
}

pub(in crate::architecture) fn read_dialect(id: &str, toml: &Toml) -> Result<Dialect> {
    let known = [
        "arch",
        "by_name",
        "defaults",
        "derived",
        "detect",
        "either",
        "ignore",
        "key",
        "null",
        "per_layer",
        "prefix",
        "refuse",
        "rename",
        "roots",
        "same_names",
        "spellings",
        "written_root",
    ];
    only(toml, &known, "a dialect")?;
    let arch = words(toml, "arch")?.unwrap_or_default();
    let named = |text: &str| text.replace("{arch}", &arch);
    let mut dialect = Dialect {
        id: id.to_owned(),
        same_names: truth(toml, "same_names")?,
        by_name: truth(toml, "by_name")?,
        prefix: words(toml, "prefix")?.map(|prefix| named(&prefix)),
        roots: Roots::read(toml)?,
        either: list(toml, "either")?,
        null: list(toml, "null")?,
        ..Dialect::default()
    };
    for condition in tables(toml, "detect")? {
        let mut all = Vec::new();
        for (key, item) in condition {
            let values = match item {
                Item::Array(items) => items.iter().map(scalar).collect::<Result<_>>()?,
                one => vec![scalar(one)?],
            };
            all.push((named(key), values));
        }
        dialect.detect.push(all);
    }
    for key in tables(toml, "key")? {
        let name = words(key, "key")?.ok_or_else(|| Error::invalid_argument("a key has no `key`"))?;
        dialect.keys.push(read_key(named(&name), key, &named).map_err(|e| {
            Error::invalid_argument(format!("key `{}`: {}", escape(&name, 120), e.message()))
        })?);
    }
    dialect.refused = Refusal::read(toml, &named)?;
    dialect.renames = Rename::read(toml)?;
    let derived = sub_table(toml, "derived")?;
    for (name, _) in derived {
        dialect.derived.extend(expression(derived, name)?.map(|follows| (name.clone(), follows)));
    }
    dialect.per_layer = list(toml, "per_layer")?.iter().map(|key| named(key)).collect();
    for ignored in tables(toml, "ignore")? {
        only(ignored, &["keys", "reason"], "`ignore`")?;
        let reason = words(ignored, "reason")?.unwrap_or_default();
        if reason.is_empty() {
            return Err(Error::invalid_argument("keys are ignored without a reason"));
        }
        dialect.ignored.extend(list(ignored, "keys")?.into_iter().map(|key| (named(&key), reason.clone())));
    }
    Ok(dialect)
}

fn read_rule(toml: &Toml, dialects: &[Dialect]) -> Result<Rule> {
    let names = match toml.contains_key("names") {
        true => list(toml, "names")?,
        false => list(toml, "name")?,
    };
    let members: Vec<Pattern> = names.iter().map(|name| Pattern::parse(name)).collect::<Result<_>>()?;
    if members.is_empty() {
        return Err(Error::invalid_argument("a tensor has no `name`"));
    }
    let shape = |item: &Item| {
        let items = item.as_array().ok_or_else(|| bad("`shape`", item))?;
        let size = |size: &Item| match size {
            Item::Integer(n) => Expression::parse(&n.to_string()),
            Item::String(text) => Expression::parse(text),
            other => Err(bad("a size", other)),
        };
        items.iter().map(size).collect::<Result<Vec<_>>>()
    };
    let shapes = match (toml.get("shape"), toml.get("shapes")) {
        (Some(one), None) => vec![shape(one)?; members.len()],
        (None, Some(Item::Array(items))) => items.iter().map(shape).collect::<Result<_>>()?,
        (None, None) => Vec::new(),
        _ => return Err(Error::invalid_argument("it needs `shape`, or `shapes` as a list")),
    };
    if !shapes.is_empty() && shapes.len() != members.len() {
        return Err(Error::invalid_argument("it has as many shapes as names"));
    }
    let known = ["name", "names", "shape", "shapes", "role", "optional", "when", "expected"];
    let mut sides = Vec::new();
    for (dialect, item) in toml.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        if !dialects.iter().any(|d| d.id == *dialect) {
            return Err(Error::invalid_argument(format!("it speaks of the unknown dialect `{dialect}`")));
        }
        sides.push((dialect.clone(), read_side(item)?));
    }
    let role = words(toml, "role")?;
    if role.as_ref().is_some_and(String::is_empty) {
        return Err(Error::invalid_argument("its `role` is empty: say what it is, or leave it out"));
    }
    Ok(Rule {
        role,
        members,
        shapes,
        optional: truth(toml, "optional")?,
        when: expression(toml, "when")?,
        expected: toml.get("expected").map(Expected::parse).transpose()?,
        sides,
    })
}
