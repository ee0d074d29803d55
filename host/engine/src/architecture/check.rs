//! Checks a table: by itself, and on a model's names and shapes.

use crate::architecture::config::dimension;
use crate::architecture::config::generation::follows_from;
use crate::architecture::config::nearest::knows;
use crate::architecture::config::omissions::{Written, lost};
use crate::architecture::config::refusal::refuse;
use crate::architecture::config::statement::Stated;
use crate::architecture::config::{Config, ConfigScope};
use crate::architecture::description::{stated, stated_keys};
use crate::architecture::language::expression::Expression;
use crate::architecture::table::dialect::canonical;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, ConfigName, Generator, Source, Table};
use crate::architecture::translate::{Passage, translate};
use apr_sdk::{Error, Model, Payload, Result, Tensor, escape};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Problems of a table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Problems that make it fail on some model.
    pub errors: Vec<String>,
    /// Omissions and possible surprises.
    pub warnings: Vec<String>,
}

/// Checks a table by itself: every name in its expressions, every place, every tensor name.
pub fn check(table: &Table) -> Findings {
    let mut found = Findings::default();
    if table.sources.is_empty() {
        found.warnings.push("`sources` does not cite any source for the table".to_owned());
    }
    for dialect in &table.dialects {
        if dialect.detect.is_empty() && !table.is_base {
            let id = &dialect.id;
            found.warnings.push(format!(
                "dialect `{id}` has no `detect`: models in it are only found with --arch {}",
                table.id
            ));
        }
    }
    names_of_expressions(table, &mut found);
    circles(table, &mut found);
    names_of_tensors(table, &mut found);
    for dialect in &table.dialects {
        let mut seen = HashSet::new();
        for key in &dialect.keys {
            let unknown = |(name, _): &&(String, Option<Expression>)| {
                !table.config.iter().any(|entry| entry.name == *name)
            };
            for (name, _) in key.sets.iter().filter(unknown) {
                found
                    .errors
                    .push(format!("key `{}` sets `{name}`, which is not a configuration name", key.key));
            }
            if key.when.is_none() && !seen.insert(&key.key) {
                found.errors.push(format!("key `{}` is written more than once", key.key));
            }
        }
    }
    let generators =
        table.rules.iter().flat_map(|rule| &rule.sides).filter_map(|(_, side)| side.generated.as_ref());
    for (name, _) in generators.flat_map(Generator::sets) {
        if !table.config.iter().any(|entry| entry.name == *name) {
            found.errors.push(format!("`generate` sets `{name}`, which is not a configuration name"));
        }
    }
    found
}

/// Every expression with its location, and the names it may use besides the configuration's.
fn expressions(table: &Table) -> Vec<(String, &Expression, Vec<&str>)> {
    let mut all: Vec<(String, &Expression, Vec<&str>)> = Vec::new();
    all.extend(table.places.iter().map(|(place, count)| (format!("place `{place}`"), count, Vec::new())));
    for entry in &table.config {
        let when = entry.effect.iter().filter_map(|(_, when)| when.as_ref());
        let own = entry.default.iter().chain(when);
        all.extend(own.map(|e| (format!("configuration `{}`", entry.name), e, Vec::new())));
    }
    for key in table.dialects.iter().flat_map(|dialect| &dialect.keys) {
        let at = || format!("key `{}`", key.key);
        if let Source::Expression(value) = &key.value {
            all.push((at(), value, Vec::new()));
        }
        all.extend(key.when.iter().map(|e| (at(), e, Vec::new())));
        let from = key.sets.iter().filter_map(|(_, from)| from.as_ref());
        all.extend(from.map(|e| (at(), e, vec!["it"])));
    }
    let renames = table.dialects.iter().flat_map(|dialect| &dialect.renames);
    all.extend(renames.filter_map(|r| r.written.as_ref()).map(|e| ("a rename".to_owned(), e, Vec::new())));
    for drop in &table.drops {
        let places = || drop.pattern.places().iter().map(String::as_str).collect();
        let at = || format!("the drop of `{}`", drop.pattern.text());
        all.extend(drop.when.iter().map(|e| (at(), e, places())));
    }
    for refusal in table.dialects.iter().flat_map(|dialect| &dialect.refused) {
        all.extend(refusal.condition().map(|(e, places)| ("a refusal".to_owned(), e, places)));
    }
    let warned = table.dialects.iter().flat_map(|dialect| &dialect.warned);
    all.extend(warned.map(|warning| ("a warning".to_owned(), warning.condition(), Vec::new())));
    let decoder = table.decoder.iter().flat_map(|section| section.expressions());
    all.extend(decoder.map(|(at, e)| (at, e, vec!["i", "layer"])));
    for rule in &table.rules {
        let at = || format!("tensor `{}`", rule.members[0].text());
        let sides = rule.sides.iter().flat_map(|(_, side)| &side.images);
        let places: Vec<&str> = (rule.members.iter().chain(sides))
            .flat_map(|pattern| pattern.places())
            .map(String::as_str)
            .collect();
        let of_sides = rule.sides.iter().flat_map(|(_, side)| {
            let each = side.each.iter().flatten();
            side.operations.iter().chain(each).flat_map(|operation| operation.expressions())
        });
        let offsets = rule.sides.iter().flat_map(|(_, side)| &side.offsets).map(|(_, offset)| offset);
        for generator in rule.sides.iter().filter_map(|(_, side)| side.generated.as_ref()) {
            if let Generator::Values { values, sets, .. } = generator {
                all.push((at(), values, places.clone()));
                all.extend(sets.iter().map(|(_, from)| (at(), from, vec!["it"])));
            }
        }
        let own = rule.shapes.iter().flatten().chain(&rule.when).chain(of_sides).chain(offsets);
        all.extend(own.map(|e| (at(), e, places.clone())));
    }
    all
}

/// Finds defaults that follow from one another: a model must state one of them.
fn circles(table: &Table, found: &mut Findings) {
    let names = |entry: &ConfigName| entry.default.as_ref().map(Expression::names).unwrap_or_default();
    let defaults: HashMap<&str, Vec<String>> =
        table.config.iter().map(|entry| (entry.name.as_str(), names(entry))).collect();
    // Names on the way from the first, and how many of the names that each follows from were gone to.
    let (mut way, mut done): (Vec<(&str, usize)>, HashSet<&str>) = (Vec::new(), HashSet::new());
    for entry in &table.config {
        way.push((&entry.name, 0));
        while let Some((name, gone)) = way.last_mut() {
            let next = defaults.get(name).and_then(|names| names.get(*gone)).map(String::as_str);
            let (name, next) = match next {
                Some(next) if !done.contains(*name) => (*name, next),
                _ => {
                    done.insert(name);
                    way.pop();
                    continue;
                }
            };
            *gone += 1;
            if next == name {
                found.errors.push(format!("the default of `{name}` depends on itself"));
            } else if done.contains(next) || !defaults.contains_key(next) {
                continue;
            } else if way.iter().any(|(on_way, _)| *on_way == next) {
                found.warnings.push(format!(
                    "the defaults of `{next}` and `{name}` depend on each other: a model that states \
                     neither is refused"
                ));
            } else {
                way.push((next, 0));
            }
        }
    }
}

/// The names that a table's own text reads from models without using them: another dialect could not tell two such models
/// apart.
///
/// # Errors
/// InvalidArgument for text that is not TOML.
pub fn unused(table: &Table, text: &str) -> Result<Vec<String>> {
    let toml: toml::Table = text
        .parse()
        .map_err(|e| Error::invalid_argument(format!("the architecture table is not valid TOML: {e}")))?;
    let own = toml.get("config").and_then(toml::Value::as_table);
    let sides = table.rules.iter().flat_map(|rule| &rule.sides);
    let computed = sides.filter_map(|(_, side)| side.generated.as_ref()).flat_map(follows_from);
    let used: HashSet<String> = expressions(table)
        .iter()
        .flat_map(|(_, expression, _)| expression.names())
        .chain(computed.map(str::to_owned))
        .collect();
    let is_own = |entry: &&ConfigName| own.is_some_and(|own| own.contains_key(&entry.name));
    let is_unused =
        |entry: &&ConfigName| !used.contains(&entry.name) && entry.covers.is_none() && entry.effect.is_none();
    let unused = table.config.iter().filter(is_own).filter(is_unused);
    Ok(unused
        .map(|entry| {
            format!(
                "configuration name `{}` is never used: describe it with `covers` or `effect`, or list it \
                 under `ignore`",
                entry.name
            )
        })
        .collect())
}

fn names_of_expressions(table: &Table, found: &mut Findings) {
    for (at, expression, others) in expressions(table) {
        for name in expression.names() {
            // `none` is the name that never has a value.
            let known = name == "none"
                || table.config.iter().any(|entry| entry.name == name)
                || others.contains(&name.as_str());
            if !known {
                found.errors.push(format!(
                    "{at}: `{expression}` refers to `{}`, which is not a configuration name",
                    escape(&name, 80)
                ));
            }
        }
    }
}

fn names_of_tensors(table: &Table, found: &mut Findings) {
    let dialects = table.dialects.iter().map(|d| d.id.as_str()).chain([CANONICAL]);
    for dialect in dialects {
        // Rules for alternative tensors may share a name.
        let mut seen: HashMap<&str, (&str, bool)> = HashMap::new();
        for rule in &table.rules {
            for pattern in images(rule, dialect).0 {
                let (own, in_some) = (rule.members[0].text(), rule.optional || rule.when.is_some());
                if let Some((other, _)) =
                    seen.insert(pattern.text(), (own, in_some)).filter(|(_, other)| !(*other && in_some))
                {
                    let name = pattern.text();
                    found
                        .errors
                        .push(format!("in dialect `{dialect}`, `{name}` names both `{other}` and `{own}`"));
                }
            }
        }
    }
    for rule in &table.rules {
        let name = rule.members[0].text();
        if rule.role.is_none() {
            found.warnings.push(format!("tensor `{name}` has no role"));
        }
        let others = table.dialects.iter().filter(|dialect| !dialect.same_names);
        for dialect in others.filter(|dialect| rule.side(&dialect.id).is_none()) {
            found.warnings.push(format!("tensor `{name}` keeps its name in `{}`", dialect.id));
        }
        if rule.shapes.is_empty() {
            found.warnings.push(format!("tensor `{name}` has no `shape`, so its shape is not checked"));
        }
        for place in rule.members.iter().flat_map(|pattern| pattern.places()) {
            let said = format!("`[places]` gives no count for `{place}`: any number is accepted");
            if !table.places.iter().any(|(p, _)| p == place) && !found.warnings.contains(&said) {
                found.warnings.push(said);
            }
        }
    }
}

/// The result of trying a table on a model.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The dialect of the model.
    pub from: String,
    /// The other dialect.
    pub to: String,
    /// Number of tensors in the model.
    pub tensors: usize,
    /// Number of corresponding tensors in the other dialect.
    pub there: usize,
    /// Names of tensors that are dropped on the way.
    pub dropped: Vec<String>,
}

/// Translates a model's names and shapes from its dialect to every other in the table, and back.
///
/// # Errors
/// Any error from the translation; Failed if the way back does not restore the model.
pub fn try_on(table: &Table, model: &Model, dialect: &str) -> Result<Vec<Tried>> {
    let canonical = canonical();
    let from = table.dialect(dialect).unwrap_or(&canonical);
    let mut tensors = model.tensors.clone();
    for tensor in &mut tensors {
        if let Some(own) = table.own_name(dialect, &tensor.name) {
            tensor.name = own;
        }
    }
    let tensors = &tensors[..];
    let first = |name: &str, axis: usize| dimension(table, dialect, tensors, name, axis);
    let lookup = |key: &str| stated(model, key);
    let (config, used) = Config::read(table, from, &lookup, &first)?;
    let (scope, keys) = (ConfigScope::new(table, &config, &first), stated_keys(model));
    let stated = Stated {
        dialect: from,
        lookup: &lookup,
        keys: &keys,
        used: &used,
        scope: &scope,
        tensors,
        names: &[],
    };
    refuse(table, &stated)?;
    let others = table.dialects.iter().map(|d| d.id.as_str()).chain([CANONICAL]);
    let mut tried = Vec::new();
    for to in others.filter(|to| *to != dialect) {
        let there = translated(table, &config, tensors, dialect, to)?;
        if let Some(dialect) = table.dialect(to) {
            let keys = config.write(table, dialect, &first)?;
            lost(table, &config, &Written { dialect, keys: &keys, computed: &there.computed }, &first)?;
        }
        let back = translated(table, &config, &there.tensors, to, dialect)?;
        compare(tensors, &there, &back, (dialect, to))?;
        let (from, to) = (dialect.to_owned(), to.to_owned());
        let (tensors, made) = (tensors.len(), there.tensors.len());
        tried.push(Tried { from, to, tensors, there: made, dropped: there.dropped });
    }
    Ok(tried)
}

/// Names and shapes in another dialect.
struct Way {
    tensors: Vec<Tensor>,
    /// Names and bytes of computed tensors.
    computed: Vec<(String, Vec<u8>)>,
    dropped: Vec<String>,
}

fn translated(table: &Table, config: &Config, tensors: &[Tensor], from: &str, to: &str) -> Result<Way> {
    let dimensions = |name: &str, axis: usize| dimension(table, from, tensors, name, axis);
    let scope = ConfigScope::new(table, config, &dimensions);
    let passage =
        Passage { table, scope: &scope, tensors, called: tensors, removed: &[], from, to, keep_order: true };
    let translated = translate(&passage)?;
    let plain = |made: crate::architecture::translate::Made| Tensor {
        name: made.name,
        dtype: made.dtype,
        shape: made.shape,
        payload: Payload::Sequential,
    };
    let computed = translated.tensors.iter().filter_map(|t| Some((t.name.clone(), t.bytes.clone()?)));
    Ok(Way {
        computed: computed.collect(),
        tensors: translated.tensors.into_iter().map(plain).collect(),
        dropped: translated.dropped.into_iter().map(|(name, _)| name).collect(),
    })
}

fn compare(tensors: &[Tensor], there: &Way, back: &Way, (from, to): (&str, &str)) -> Result<()> {
    let fail = |what: &str, name: &str| {
        Err(Error::failed(format!("after converting from `{from}` to `{to}` and back, it {what}"))
            .tensor(name))
    };
    let returned: HashMap<&str, &Tensor> = back.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
    for tensor in tensors {
        match returned.get(tensor.name.as_str()) {
            None if there.dropped.contains(&tensor.name) => {}
            None => return fail("is missing", &tensor.name),
            Some(other) if other.shape != tensor.shape || other.dtype != tensor.dtype => {
                return fail("has a different shape or type", &tensor.name);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl Table {
    /// The dialect in which the table recognises most of the names; its own if it recognises none.
    pub fn nearest_dialect(&self, names: &[&str]) -> &str {
        let known = |id: &str| names.iter().filter(|name| knows(self, id, name)).count();
        let dialects = self.dialects.iter().map(|d| (known(&d.id), d.id.as_str()));
        let best = dialects.filter(|(n, _)| *n > 0).max_by_key(|(n, _)| *n);
        best.map_or(CANONICAL, |(_, id)| id)
    }
}
