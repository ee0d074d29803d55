//! The expressions of a table, each with its place and the names that it may use.

use crate::architecture::language::expression::Expression;
use crate::architecture::language::operation::Operation;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::Step;
use crate::architecture::table::{Generator, Rule, Source, Table};

/// An expression of a table.
pub struct Use<'t> {
    /// What it belongs to, in words.
    pub about: String,
    /// The path to that in the table's TOML.
    pub path: Vec<Step>,
    /// The expression.
    pub expression: &'t Expression,
    /// The names that it may use besides the configuration's.
    pub others: Vec<&'t str>,
}

/// The expressions of a table.
#[derive(Default)]
struct Uses<'t>(Vec<Use<'t>>);

impl<'t> Uses<'t> {
    fn add(&mut self, about: &str, path: &[Step], expression: &'t Expression, others: &[&'t str]) {
        let (about, path, others) = (about.to_owned(), path.to_vec(), others.to_vec());
        self.0.push(Use { about, path, expression, others });
    }
}

/// Returns every expression of a table.
pub fn uses(table: &Table) -> Vec<Use<'_>> {
    let mut all = Uses::default();
    for (place, count) in &table.places {
        all.add(&format!("place `{place}`"), &["places".into(), place.as_str().into()], count, &[]);
    }
    for entry in &table.config {
        let path = ["config".into(), entry.name.as_str().into()];
        let when = entry.effect.iter().filter_map(|(_, when)| when.as_ref());
        for expression in entry.default.iter().chain(when) {
            all.add(&format!("configuration `{}`", entry.name), &path, expression, &[]);
        }
    }
    for dialect in &table.dialects {
        let path = |list: &str, at: usize| {
            [Step::from("dialect"), dialect.id.as_str().into(), list.into(), at.into()]
        };
        for (at, key) in dialect.keys.iter().enumerate() {
            let (about, path) = (format!("key `{}`", key.key), path("key", at));
            if let Source::Expression(value) = &key.value {
                all.add(&about, &path, value, &[]);
            }
            if let Some(when) = &key.when {
                all.add(&about, &path, when, &[]);
            }
            for from in key.sets.iter().filter_map(|(_, from)| from.as_ref()) {
                all.add(&about, &path, from, &["it"]);
            }
        }
        for (at, rename) in dialect.renames.iter().enumerate() {
            if let Some(written) = &rename.written {
                all.add("a rename", &path("rename", at), written, &[]);
            }
        }
        for (at, refusal) in dialect.refused.iter().enumerate() {
            if let Some((when, places)) = refusal.condition() {
                all.add("a refusal", &path("refuse", at), when, &places);
            }
        }
        for (at, template) in dialect.templates.iter().enumerate() {
            if let Some(when) = template.condition() {
                all.add("a template", &path("template", at), when, &[]);
            }
        }
        for (at, warning) in dialect.warned.iter().enumerate() {
            all.add("a warning", &path("warn", at), warning.condition(), &[]);
        }
    }
    for drop in &table.drops {
        if let Some(when) = &drop.when {
            let places: Vec<&str> = drop.pattern.places().iter().map(String::as_str).collect();
            all.add(&format!("the drop of `{}`", drop.pattern.text()), &[], when, &places);
        }
    }
    for (about, path, expression) in table.decoder.iter().flat_map(|section| section.expressions()) {
        all.add(&about, &path, expression, &["i", "layer"]);
    }
    for (at, rule) in table.rules.iter().enumerate() {
        of_rule(rule, &["tensor".into(), at.into()], &mut all);
    }
    all.0
}

/// Adds the expressions of a rule, which may use the places of its names.
fn of_rule<'t>(rule: &'t Rule, path: &[Step], all: &mut Uses<'t>) {
    let about = format!("tensor `{}`", rule.members[0].text());
    let images = rule.sides.iter().flat_map(|(_, side)| &side.images);
    let places = rule.members.iter().chain(images).flat_map(Pattern::places);
    let places: Vec<&str> = places.map(String::as_str).collect();
    for (_, side) in &rule.sides {
        if let Some(Generator::Values { values, sets, .. }) = &side.generated {
            all.add(&about, path, values, &places);
            sets.iter().for_each(|(_, from)| all.add(&about, path, from, &["it"]));
        }
        let operations = side.operations.iter().chain(side.each.iter().flatten());
        operations.flat_map(Operation::expressions).for_each(|own| all.add(&about, path, own, &places));
        side.offsets.iter().for_each(|(_, offset)| all.add(&about, path, offset, &places));
    }
    let own = rule.shapes.iter().flatten().chain(&rule.when);
    own.for_each(|own| all.add(&about, path, own, &places));
}
