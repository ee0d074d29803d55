//! Checks a table: by itself, and on a model's names and shapes.

use crate::architecture::config::generation::follows_from;
use crate::architecture::config::nearest::knows;
use crate::architecture::config::omissions::{Written, lost};
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::description::covered_config;
use crate::architecture::language::expression::Expression;
use crate::architecture::language::operation::Operation;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, Generator, Rule, Source, Table};
use crate::architecture::translate::{Made, Passage, translate};
use apr_sdk::{Error, Model, Result, Tensor, escape};
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
            for (name, _) in key.sets.iter().filter(|(name, _)| table.entry(name).is_none()) {
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
        if table.entry(name).is_none() {
            found.errors.push(format!("`generate` sets `{name}`, which is not a configuration name"));
        }
    }
    found
}

/// Every expression with its location, and the names it may use besides the configuration's.
fn expressions(table: &Table) -> Vec<(String, &Expression, Vec<&str>)> {
    let mut all = Vec::new();
    for (place, count) in &table.places {
        all.push((format!("place `{place}`"), count, Vec::new()));
    }
    for entry in &table.config {
        let when = entry.effect.iter().filter_map(|(_, when)| when.as_ref());
        for expression in entry.default.iter().chain(when) {
            all.push((format!("configuration `{}`", entry.name), expression, Vec::new()));
        }
    }
    for key in table.dialects.iter().flat_map(|dialect| &dialect.keys) {
        let at = format!("key `{}`", key.key);
        if let Source::Expression(value) = &key.value {
            all.push((at.clone(), value, Vec::new()));
        }
        if let Some(when) = &key.when {
            all.push((at.clone(), when, Vec::new()));
        }
        for from in key.sets.iter().filter_map(|(_, from)| from.as_ref()) {
            all.push((at.clone(), from, vec!["it"]));
        }
    }
    for rename in table.dialects.iter().flat_map(|dialect| &dialect.renames) {
        if let Some(written) = &rename.written {
            all.push(("a rename".to_owned(), written, Vec::new()));
        }
    }
    for drop in &table.drops {
        if let Some(when) = &drop.when {
            let places = drop.pattern.places().iter().map(String::as_str).collect();
            all.push((format!("the drop of `{}`", drop.pattern.text()), when, places));
        }
    }
    for refusal in table.dialects.iter().flat_map(|dialect| &dialect.refused) {
        if let Some((when, places)) = refusal.condition() {
            all.push(("a refusal".to_owned(), when, places));
        }
    }
    for warning in table.dialects.iter().flat_map(|dialect| &dialect.warned) {
        all.push(("a warning".to_owned(), warning.condition(), Vec::new()));
    }
    for (at, expression) in table.decoder.iter().flat_map(|section| section.expressions()) {
        all.push((at, expression, vec!["i", "layer"]));
    }
    for rule in &table.rules {
        expressions_of_rule(rule, &mut all);
    }
    all
}

/// Adds the expressions of a rule, which may use the places of its names.
fn expressions_of_rule<'t>(rule: &'t Rule, all: &mut Vec<(String, &'t Expression, Vec<&'t str>)>) {
    let at = format!("tensor `{}`", rule.members[0].text());
    let images = rule.sides.iter().flat_map(|(_, side)| &side.images);
    let places = rule.members.iter().chain(images).flat_map(Pattern::places);
    let places: Vec<&str> = places.map(String::as_str).collect();
    let mut own: Vec<&Expression> = rule.shapes.iter().flatten().chain(&rule.when).collect();
    for (_, side) in &rule.sides {
        if let Some(Generator::Values { values, sets, .. }) = &side.generated {
            all.push((at.clone(), values, places.clone()));
            all.extend(sets.iter().map(|(_, from)| (at.clone(), from, vec!["it"])));
        }
        let operations = side.operations.iter().chain(side.each.iter().flatten());
        own.extend(operations.flat_map(Operation::expressions));
    }
    own.extend(rule.sides.iter().flat_map(|(_, side)| &side.offsets).map(|(_, offset)| offset));
    all.extend(own.into_iter().map(|expression| (at.clone(), expression, places.clone())));
}

/// Finds defaults that follow from one another: a model must state one of them.
fn circles(table: &Table, found: &mut Findings) {
    let mut defaults: HashMap<&str, Vec<String>> = HashMap::new();
    for entry in &table.config {
        let names = entry.default.as_ref().map(Expression::names);
        defaults.insert(&entry.name, names.unwrap_or_default());
    }
    // Names on the way from the first, and how many of the names that each follows from were gone to.
    let mut way: Vec<(&str, usize)> = Vec::new();
    let mut done: HashSet<&str> = HashSet::new();
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
    let mut used: HashSet<String> = HashSet::new();
    for (_, expression, _) in expressions(table) {
        used.extend(expression.names());
    }
    for (_, side) in table.rules.iter().flat_map(|rule| &rule.sides) {
        used.extend(side.generated.iter().flat_map(follows_from).map(str::to_owned));
    }
    let own = table.config.iter().filter(|entry| own.is_some_and(|own| own.contains_key(&entry.name)));
    let unused =
        own.filter(|entry| !used.contains(&entry.name) && entry.covers.is_none() && entry.effect.is_none());
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
            let is_known = name == "none" || table.entry(&name).is_some() || others.contains(&name.as_str());
            if !is_known {
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
                let own = rule.members[0].text();
                let in_some = !rule.is_required() || rule.when.is_some();
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
    let tensors: Vec<Tensor> = model.tensors.iter().map(|tensor| table.own_tensor(dialect, tensor)).collect();
    let dimensions = dimensions(table, dialect, &tensors);
    let config = covered_config(table, dialect, model, &tensors, &dimensions)?;
    let scope = ConfigScope::new(table, &config, &dimensions);
    let others = table.dialects.iter().map(|d| d.id.as_str()).chain([CANONICAL]);
    let mut tried = Vec::new();
    for to in others.filter(|to| *to != dialect) {
        let there = translated(table, &config, &tensors, dialect, to)?;
        if let Some(dialect) = table.dialect(to) {
            let keys = scope.write(dialect)?;
            lost(&scope, &Written { dialect, keys: &keys, computed: &there.computed })?;
        }
        let back = translated(table, &config, &there.tensors, to, dialect)?;
        compare(&tensors, &there, &back, dialect, to)?;
        tried.push(Tried {
            from: dialect.to_owned(),
            to: to.to_owned(),
            tensors: tensors.len(),
            there: there.tensors.len(),
            dropped: there.dropped,
        });
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
    let dimensions = dimensions(table, from, tensors);
    let scope = ConfigScope::new(table, config, &dimensions);
    let passage =
        Passage { table, scope: &scope, tensors, called: tensors, removed: &[], from, to, keep_order: true };
    let translated = translate(&passage)?;
    Ok(Way {
        tensors: translated.tensors.iter().map(Made::declaration).collect(),
        computed: translated.computed(),
        dropped: translated.dropped.into_iter().map(|(name, _)| name).collect(),
    })
}

fn compare(tensors: &[Tensor], there: &Way, back: &Way, from: &str, to: &str) -> Result<()> {
    let returned: HashMap<&str, &Tensor> = back.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
    for tensor in tensors {
        let what = match returned.get(tensor.name.as_str()) {
            None if !there.dropped.contains(&tensor.name) => "is missing",
            Some(other) if other.shape != tensor.shape || other.dtype != tensor.dtype => {
                "has a different shape or type"
            }
            _ => continue,
        };
        let message = format!("after converting from `{from}` to `{to}` and back, it {what}");
        return Err(Error::failed(message).tensor(&tensor.name));
    }
    Ok(())
}

impl Table {
    /// The dialect in which the table recognises most of the names; its own if it recognises none.
    pub fn nearest_dialect(&self, names: &[&str]) -> &str {
        let mut nearest = CANONICAL;
        let mut most = 1;
        for dialect in &self.dialects {
            let known = names.iter().filter(|name| knows(self, &dialect.id, name)).count();
            // Among equals, the last.
            if known >= most {
                nearest = &dialect.id;
                most = known;
            }
        }
        nearest
    }
}
