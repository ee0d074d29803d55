//! Checks a table: by itself, and on a model's names and shapes.

use crate::architecture::config::generation::follows_from;
use crate::architecture::config::nearest::knows;
use crate::architecture::config::omissions::{Written, lost};
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::description::covered_config;
use crate::architecture::language::expression::Expression;
use crate::architecture::language::table_error::Step;
use crate::architecture::table::base::{Bases, with_base};
use crate::architecture::table::line::line_of;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, Generator, Table};
use crate::architecture::translate::{Made, Passage, translate};
use crate::architecture::uses::{Use, uses};
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

/// Problems of a table, each with the path to its cause.
#[derive(Default)]
struct Problems {
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

struct Problem {
    path: Vec<Step>,
    message: String,
}

impl Problem {
    fn new(path: Vec<Step>, message: String) -> Problem {
        Problem { path, message }
    }
}

impl Problems {
    /// The problems in words, each with its line if `line_of` knows one.
    fn in_words(self, line_of: &dyn Fn(&[Step]) -> Option<usize>) -> Findings {
        let told = |problems: Vec<Problem>| {
            let told = problems.into_iter().map(|Problem { path, message }| match line_of(&path) {
                Some(line) => format!("line {line}: {message}"),
                None => message,
            });
            told.collect()
        };
        Findings { errors: told(self.errors), warnings: told(self.warnings) }
    }
}

/// Checks a table by itself: every name in its expressions, every place, every tensor name.
pub fn check(table: &Table) -> Findings {
    problems(table).in_words(&|_| None)
}

/// The same for the table of a text, with the lines of what the text says itself. `base` returns the text of another table.
///
/// # Errors
/// As [`Table::parse`].
pub fn check_text(table: &Table, text: &str, base: &dyn Fn(&str) -> Result<String>) -> Result<Findings> {
    let merged = with_base(text, &Bases::new(base), 0)?;
    Ok(problems(table).in_words(&|path| line_of(text, &merged, path)))
}

fn problems(table: &Table) -> Problems {
    let mut found = Problems::default();
    if table.sources.is_empty() {
        let message = "`sources` does not cite any source for the table".to_owned();
        found.warnings.push(Problem::new(vec!["sources".into()], message));
    }
    for dialect in &table.dialects {
        if dialect.detect.is_empty() && !table.is_base {
            let id = &dialect.id;
            let message = format!(
                "dialect `{id}` has no `detect`: models in it are only found with --arch {}",
                table.id
            );
            found.warnings.push(Problem::new(vec!["dialect".into(), id.as_str().into()], message));
        }
    }
    names_of_expressions(table, &mut found);
    circles(table, &mut found);
    names_of_tensors(table, &mut found);
    for dialect in &table.dialects {
        let mut seen = HashSet::new();
        for (at, key) in dialect.keys.iter().enumerate() {
            let path = vec!["dialect".into(), dialect.id.as_str().into(), "key".into(), at.into()];
            for (name, _) in key.sets.iter().filter(|(name, _)| table.entry(name).is_none()) {
                let message = format!("key `{}` sets `{name}`, which is not a configuration name", key.key);
                found.errors.push(Problem::new(path.clone(), message));
            }
            if key.when.is_none() && !seen.insert(&key.key) {
                let message = format!("key `{}` is written more than once", key.key);
                found.errors.push(Problem::new(path, message));
            }
        }
    }
    for (at, rule) in table.rules.iter().enumerate() {
        let generators = rule.sides.iter().filter_map(|(_, side)| side.generated.as_ref());
        for (name, _) in generators.flat_map(Generator::sets) {
            if table.entry(name).is_none() {
                let message = format!("`generate` sets `{name}`, which is not a configuration name");
                found.errors.push(Problem::new(vec!["tensor".into(), at.into()], message));
            }
        }
    }
    found
}

/// Finds defaults that follow from one another: a model must state one of them.
fn circles(table: &Table, found: &mut Problems) {
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
                let message = format!("the default of `{name}` depends on itself");
                found.errors.push(Problem::new(vec!["config".into(), name.into()], message));
            } else if done.contains(next) || !defaults.contains_key(next) {
                continue;
            } else if way.iter().any(|(on_way, _)| *on_way == next) {
                let message = format!(
                    "the defaults of `{next}` and `{name}` depend on each other: a model that states \
                     neither is refused"
                );
                found.warnings.push(Problem::new(vec!["config".into(), next.into()], message));
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
    for one in uses(table) {
        used.extend(one.expression.names());
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

fn names_of_expressions(table: &Table, found: &mut Problems) {
    for Use { about, path, expression, others } in uses(table) {
        for name in expression.names() {
            // `none` is the name that never has a value.
            let is_known = name == "none" || table.entry(&name).is_some() || others.contains(&name.as_str());
            if !is_known {
                let message = format!(
                    "{about}: `{expression}` refers to `{}`, which is not a configuration name",
                    escape(&name, 80)
                );
                found.errors.push(Problem::new(path.clone(), message));
            }
        }
    }
}

fn names_of_tensors(table: &Table, found: &mut Problems) {
    let dialects = table.dialects.iter().map(|d| d.id.as_str()).chain([CANONICAL]);
    for dialect in dialects {
        // Rules for alternative tensors may share a name.
        let mut seen: HashMap<&str, (&str, bool)> = HashMap::new();
        for (at, rule) in table.rules.iter().enumerate() {
            for pattern in images(rule, dialect).0 {
                let own = rule.members[0].text();
                let in_some = !rule.is_required() || rule.when.is_some();
                if let Some((other, _)) =
                    seen.insert(pattern.text(), (own, in_some)).filter(|(_, other)| !(*other && in_some))
                {
                    let name = pattern.text();
                    let message =
                        format!("in dialect `{dialect}`, `{name}` names both `{other}` and `{own}`");
                    found.errors.push(Problem::new(vec!["tensor".into(), at.into()], message));
                }
            }
        }
    }
    let mut uncounted = HashSet::new();
    for (at, rule) in table.rules.iter().enumerate() {
        let path = vec![Step::from("tensor"), at.into()];
        let name = rule.members[0].text();
        if rule.role.is_none() {
            found.warnings.push(Problem::new(path.clone(), format!("tensor `{name}` has no role")));
        }
        let others = table.dialects.iter().filter(|dialect| !dialect.same_names);
        for dialect in others.filter(|dialect| rule.side(&dialect.id).is_none()) {
            let message = format!("tensor `{name}` keeps its name in `{}`", dialect.id);
            found.warnings.push(Problem::new(path.clone(), message));
        }
        if rule.shapes.is_empty() {
            let message = format!("tensor `{name}` has no `shape`, so its shape is not checked");
            found.warnings.push(Problem::new(path.clone(), message));
        }
        for place in rule.members.iter().flat_map(|pattern| pattern.places()) {
            if !table.places.iter().any(|(p, _)| p == place) && uncounted.insert(place) {
                let message = format!("`[places]` gives no count for `{place}`: any number is accepted");
                found.warnings.push(Problem::new(path.clone(), message));
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
    let passage = Passage {
        table,
        scope: &scope,
        tensors,
        called: tensors,
        removed: &[],
        from,
        to,
        // There is no tokenizer: any row will do.
        tokens: &|_| Ok(Some(0)),
        keep_order: true,
    };
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
