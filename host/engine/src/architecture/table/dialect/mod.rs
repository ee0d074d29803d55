//! A dialect's view of the configuration, as a table states it.

pub(in crate::architecture) mod condition;
pub(in crate::architecture) mod heads;
pub(in crate::architecture) mod key;
pub(in crate::architecture) mod naming;
pub(in crate::architecture) mod refusal;
pub(in crate::architecture) mod rename;
pub(in crate::architecture) mod roots;
pub(in crate::architecture) mod stacked;
pub(in crate::architecture) mod template;
pub(in crate::architecture) mod warning;

use crate::architecture::language::expression::{Expression, Scalar};
use crate::architecture::language::members::{
    each, expression, list, only, read_tables, scalar, sub_table, truth, words,
};
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, escape};
use heads::Heads;
use key::{Key, read_key};
use naming::Naming;
use refusal::Refusal;
use rename::Rename;
use roots::Roots;
use stacked::Stacked;
use template::Template;
use toml::Table as Toml;
use warning::Warning;

/// The tables' own dialect: the names and rows of the configuration and the members.
pub const CANONICAL: &str = "canonical";

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
    /// Tensors that stand for several of the table's.
    pub stacked: Vec<Stacked>,
    /// What its files may state but the table does not cover.
    pub refused: Vec<Refusal>,
    /// What its readers make of files that state all of the model.
    pub warned: Vec<Warning>,
    /// Keys whose lists have an entry for each layer.
    pub per_layer: Vec<String>,
    /// Objects that state the same, of which a file has one.
    pub either: Vec<String>,
    /// What the library's class makes of other keys where the file is silent: names of the configuration, and expressions.
    pub derived: Vec<(String, Expression)>,
    /// Keys without which its readers do not load a file, as far as the table reads them; with `|` between those of which one is enough.
    pub required: Vec<String>,
    /// Keys of which null says that a model has none of it, where a class assumes some.
    pub null: Vec<String>,
    /// What a model's names for itself say of it.
    pub named: Vec<Naming>,
    /// Chat templates that its readers want beside a model's own.
    pub templates: Vec<Template>,
    /// Which of its classes have a head.
    pub heads: Option<Heads>,
}

impl Dialect {
    /// Whether a key says nothing about the model.
    pub fn ignores(&self, key: &str) -> bool {
        self.reason(key).is_some()
    }

    /// Why a key says nothing about the model.
    pub fn reason(&self, key: &str) -> Option<&str> {
        let own = self.roots.own(key);
        let entry = self.ignored.iter().find(|(ignored, _)| match ignored.strip_prefix('/') {
            // It lies at the file's root alone.
            Some(ignored) => fits(key, ignored),
            None => fits(own, ignored),
        });
        entry.map(|(_, reason)| reason.as_str())
    }
}

/// Whether a key is the one that is ignored, or begins as one that ends in `*`.
fn fits(key: &str, ignored: &str) -> bool {
    match ignored.strip_suffix('*') {
        Some(start) => key.starts_with(start),
        None => key == ignored,
    }
}

/// The dialect whose configuration names are the table's own.
pub fn canonical() -> Dialect {
    Dialect { id: CANONICAL.to_owned(), same_names: true, ..Dialect::default() }
}

pub(in crate::architecture) fn read_dialect(id: &str, toml: &Toml) -> Read<Dialect> {
    let known = [
        "arch",
        "by_name",
        "defaults",
        "derived",
        "detect",
        "either",
        "heads",
        "ignore",
        "key",
        "named",
        "null",
        "per_layer",
        "prefix",
        "refuse",
        "rename",
        "required",
        "roots",
        "same_names",
        "spellings",
        "stacked",
        "template",
        "warn",
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
    dialect.detect = read_tables(toml, "detect", |condition| {
        let values = condition
            .iter()
            .map(|(key, item)| Ok((named(key), each(Some(item), scalar).within(key.as_str())?)));
        values.collect()
    })?;
    dialect.keys = read_tables(toml, "key", |key| {
        let name = words(key, "key")?.ok_or_else(|| Error::invalid_argument("a key has no `key`"))?;
        read_key(named(&name), key, &named).map_err(|e| e.about(&format!("key `{}`", escape(&name, 120))))
    })?;
    dialect.refused = Refusal::read(toml, &named)?;
    dialect.warned = Warning::read(toml, &named)?;
    dialect.named = Naming::read(toml)?;
    dialect.templates = Template::read(toml)?;
    dialect.renames = Rename::read(toml)?;
    dialect.stacked = Stacked::read(toml)?;
    let heads = sub_table(toml, "heads")?;
    dialect.heads = if heads.is_empty() { None } else { Some(Heads::read(heads).within("heads")?) };
    let derived = sub_table(toml, "derived")?;
    for (name, _) in derived {
        let follows = expression(derived, name).within("derived")?;
        dialect.derived.extend(follows.map(|follows| (name.clone(), follows)));
    }
    dialect.required = list(toml, "required")?.iter().map(|key| named(key)).collect();
    dialect.per_layer = list(toml, "per_layer")?.iter().map(|key| named(key)).collect();
    let ignored = read_tables(toml, "ignore", |ignored| {
        only(ignored, &["keys", "reason"], "`ignore`")?;
        let reason = words(ignored, "reason")?.unwrap_or_default();
        if reason.is_empty() {
            return Err(Error::invalid_argument("ignored keys require a reason").into());
        }
        let keys = list(ignored, "keys")?;
        Ok(keys.into_iter().map(|key| (named(&key), reason.clone())).collect::<Vec<_>>())
    })?;
    dialect.ignored = ignored.into_iter().flatten().collect();
    Ok(dialect)
}
