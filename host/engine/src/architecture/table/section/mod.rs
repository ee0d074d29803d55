//! A table's `[decoder]`: parsed and checked, not yet applied to a model.

pub(in crate::architecture) mod keys;

use crate::architecture::language::expression::Expression;
use crate::architecture::language::members::{bad, expression, only, read_tables, words};
use crate::architecture::language::table_error::{Read, Step, Within};
use crate::architecture::table::ConfigName;
use crate::wording::nearest;
use apr_sdk::{Error, escape};
use keys::{KEYS, Key, Kind};
use std::collections::BTreeSet;
use std::fmt;
use toml::{Table as Toml, Value as Item};

/// The computation of the architecture, in expressions.
#[derive(Clone, Debug)]
pub struct Section {
    /// The dialect over whose names and rows it speaks.
    pub(in crate::architecture) rows: String,
    /// The reason why models of this architecture cannot be run, although its base says how.
    pub(in crate::architecture) refused: Option<String>,
    /// Conditions on which a model cannot be run, each with the reason.
    pub(in crate::architecture) refusals: Vec<(Expression, String)>,
    /// A value for each of [`KEYS`].
    pub(in crate::architecture) values: Vec<Stated>,
}

/// The value of a key.
#[derive(Clone, Debug)]
pub(in crate::architecture) enum Stated {
    /// One of the words that the key allows.
    Word(String),
    /// An expression over the configuration, and over `i`, the number of the layer.
    Expression(Expression),
}

impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stated::Word(word) => f.write_str(word),
            Stated::Expression(expression) => expression.fmt(f),
        }
    }
}

/// What `[decoder]` has besides keys and sections.
const OTHERS: [&str; 3] = ["rows", "refused", "refuse"];

/// The sections within `[decoder]`.
fn sections() -> impl Iterator<Item = &'static str> {
    let firsts = KEYS.iter().enumerate().filter(|(at, key)| *at == 0 || KEYS[at - 1].section != key.section);
    firsts.map(|(_, key)| key.section).filter(|section| !section.is_empty())
}

fn called(section: &str) -> String {
    if section.is_empty() { "[decoder]".to_owned() } else { format!("[decoder.{section}]") }
}

fn names(section: &str) -> Vec<&'static str> {
    KEYS.iter().filter(|key| key.section == section).map(|key| key.name).collect()
}

/// The error for a name that is not there, with the one that may be meant.
fn unknown(of: &str, name: &str, known: Vec<&str>) -> Error {
    let meant = nearest(name, known.iter().copied());
    let meant = meant
        .map_or_else(|| format!("expected one of {}", known.join(", ")), |m| format!("did you mean `{m}`?"));
    Error::invalid_argument(format!("{of} has no `{}`: {meant}", escape(name, 80)))
}

impl Section {
    /// Reads `[decoder]` of a table with this configuration; `None` if there is none.
    ///
    /// # Errors
    /// InvalidArgument for unknown keys, sections and words, and for values of another kind, naming the key.
    pub(in crate::architecture) fn read(
        table: &Toml,
        config: &[ConfigName],
        knows: &dyn Fn(&str) -> bool,
    ) -> Read<Option<Section>> {
        match table.get("decoder") {
            None => Ok(None),
            Some(Item::Table(toml)) => Section::of(toml, config, knows).within("decoder").map(Some),
            Some(other) => Err(bad("`[decoder]`", other)).within("decoder"),
        }
    }

    fn of(toml: &Toml, config: &[ConfigName], knows: &dyn Fn(&str) -> bool) -> Read<Section> {
        for (name, item) in toml {
            match item {
                Item::Table(inside) if sections().any(|section| section == name) => {
                    let known = names(name);
                    if let Some(key) = inside.keys().find(|key| !known.contains(&key.as_str())) {
                        let error = unknown(&called(name), key, known);
                        return Err(error).within(key.as_str()).within(name.as_str());
                    }
                }
                _ if OTHERS.contains(&name.as_str()) || names("").contains(&name.as_str()) => {}
                _ if sections().any(|section| section == name) => {
                    return Err(bad(&format!("`[decoder.{name}]`"), item)).within(name.as_str());
                }
                _ => {
                    let known = OTHERS.into_iter().chain(names("")).chain(sections()).collect();
                    return Err(unknown("[decoder]", name, known)).within(name.as_str());
                }
            }
        }
        let refused = words(toml, "refused")?.filter(|reason| !reason.is_empty());
        let rows = words(toml, "rows")?.unwrap_or_default();
        if !knows(&rows) {
            let rows = escape(&rows, 80);
            let message = format!("[decoder]: `rows` is `{rows}`, which is not a dialect of the table");
            return Err(Error::invalid_argument(message)).within("rows");
        }
        let values = KEYS.iter().map(|key| {
            let default = Toml::from_iter([(key.name.to_owned(), Item::String(key.default.to_owned()))]);
            let value = stated(key, stating(toml, key).unwrap_or(&default), config);
            let value = value.map_err(|e| e.about(&format!("{}: `{}`", called(key.section), key.name)));
            if key.section.is_empty() { value } else { value.within(key.section) }
        });
        let values = values.collect::<Read<_>>()?;
        let refusals = read_tables(toml, "refuse", refusal)?;
        Ok(Section { rows, refused, refusals, values })
    }

    /// The parts of the computation that `own`, the text of one table, leaves to its base: each as `[decoder.norm] kind = rms, ...`.
    pub(in crate::architecture) fn parts_without(&self, own: Option<&Toml>) -> Vec<String> {
        let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
        for (key, value) in KEYS.iter().zip(&self.values).filter(|(key, _)| !self.is_unused(key)) {
            if own.is_some_and(|own| stating(own, key).is_some()) {
                continue;
            }
            let stated = format!("{} = {value}", key.name);
            match parts.last_mut().filter(|(section, _)| *section == key.section) {
                Some((_, all)) => all.push(stated),
                None => parts.push((key.section, vec![stated])),
            }
        }
        parts.into_iter().map(|(section, all)| format!("{} {}", called(section), all.join(", "))).collect()
    }

    /// Returns whether a key says nothing, because there are no experts.
    fn is_unused(&self, key: &Key) -> bool {
        let count =
            KEYS.iter().zip(&self.values).find(|(key, _)| (key.section, key.name) == ("experts", "count"));
        key.section == "experts" && count.is_some_and(|(_, count)| count.to_string() == "0")
    }

    /// The names of the configuration that decide what its models compute.
    pub(in crate::architecture) fn names(&self) -> BTreeSet<String> {
        let used = KEYS.iter().zip(&self.values).filter(|(key, _)| !self.is_unused(key));
        let expressions = used.filter_map(|(_, value)| match value {
            Stated::Expression(expression) => Some(expression),
            Stated::Word(_) => None,
        });
        let refusals = self.refusals.iter().map(|(when, _)| when);
        expressions.chain(refusals).flat_map(Expression::names).collect()
    }

    /// Its own expressions, with their keys in words and as paths. Defaults may ask for names that a table does not have.
    pub(in crate::architecture) fn expressions(
        &self,
    ) -> impl Iterator<Item = (String, Vec<Step>, &Expression)> {
        let values = KEYS.iter().zip(&self.values).filter_map(|(key, value)| match value {
            Stated::Expression(expression) if expression.to_string() != key.default => {
                Some((format!("{} `{}`", called(key.section), key.name), path_to(key), expression))
            }
            _ => None,
        });
        let refusals = self.refusals.iter().enumerate().map(|(at, (when, _))| {
            ("[[decoder.refuse]]".to_owned(), vec!["decoder".into(), "refuse".into(), at.into()], when)
        });
        values.chain(refusals)
    }
}

/// The path to a key in a table's TOML.
fn path_to(key: &Key) -> Vec<Step> {
    let section = Some(key.section).filter(|section| !section.is_empty());
    ["decoder"].into_iter().chain(section).chain([key.name]).map(Step::from).collect()
}

/// A condition on which a model cannot be run, and the reason.
fn refusal(toml: &Toml) -> Read<(Expression, String)> {
    only(toml, &["when", "reason"], "[[decoder.refuse]]")?;
    match (expression(toml, "when")?, words(toml, "reason")?) {
        (Some(when), Some(reason)) => Ok((when, reason)),
        _ => Err(Error::invalid_argument("[[decoder.refuse]] needs `when` and a `reason`").into()),
    }
}

/// The table of a `[decoder]` that states a key; `None` if it leaves the key out.
fn stating<'t>(decoder: &'t Toml, key: &Key) -> Option<&'t Toml> {
    let inside = if key.section.is_empty() { decoder } else { decoder.get(key.section)?.as_table()? };
    inside.contains_key(key.name).then_some(inside)
}

fn stated(key: &Key, toml: &Toml, config: &[ConfigName]) -> Read<Stated> {
    if let (Kind::Word(known), Some(Item::String(word))) = (key.kind, toml.get(key.name)) {
        if known.contains(&word.as_str()) {
            return Ok(Stated::Word(word.clone()));
        }
        let is_name = config.iter().any(|entry| entry.name == *word);
        let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // A default speaks of names that a table need not have.
        if is_word && !is_name && word != key.default {
            return Err(unknown("it", word, known.to_vec())).within(key.name);
        }
    }
    if matches!(key.kind, Kind::Word(_)) && !toml.get(key.name).is_some_and(Item::is_str) {
        return Err(Error::invalid_argument("expected a word or an expression in quotes")).within(key.name);
    }
    let value = expression(toml, key.name)?;
    Ok(value.map(Stated::Expression).ok_or_else(|| Error::invalid_argument("it has no value"))?)
}
