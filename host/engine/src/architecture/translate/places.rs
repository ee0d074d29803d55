//! Places of the source's names in a table: the rule that each follows, and the group of tensors that it belongs to there.

use super::counts::count_of;
use super::passage::Passage;
use crate::architecture::language::expression::Scope;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::rule::images;
use crate::architecture::table::{Drop, Rule, Side};
use apr_sdk::Result;
use std::collections::BTreeMap;

/// Tensors of one rule that belong together, such as those of one layer.
#[derive(Default)]
pub(super) struct Group {
    /// Indices of tensors in the source, by image and inner numbers.
    pub found: BTreeMap<(usize, Vec<u64>), usize>,
    /// Tensors that are unchanged or dropped: open names, and duplicates under another name.
    pub others: Vec<usize>,
}

/// Numbers of the outer places, in the order of [`outer_places`].
pub(super) type Outer = Vec<u64>;

/// The places that distinguish groups of a rule: those in every name of it, in both dialects.
pub(super) fn outer_places<'a>(passage: &Passage<'_>, rule: &'a Rule) -> Vec<&'a str> {
    let sides = [rule.side(passage.from), rule.side(passage.to)].into_iter().flatten();
    let images = sides.filter(|side| side.dropped.is_none()).flat_map(|side| &side.images);
    let all: Vec<&Pattern> = rule.members.iter().chain(images).collect();
    let first = rule.members[0].places();
    let shared = first.iter().filter(|place| all.iter().all(|pattern| pattern.places().contains(place)));
    shared.map(String::as_str).collect()
}

/// The place of a name in the table.
pub(super) struct Place<'a> {
    pub(super) rule: usize,
    pub(super) image: usize,
    pub(super) pattern: &'a Pattern,
    pub(super) numbers: Vec<u64>,
}

impl Place<'_> {
    /// The number at a place of the name; 0 if the name does not have it.
    pub(super) fn number(&self, place: &str) -> u64 {
        let at = self.pattern.places().iter().position(|p| p == place);
        at.and_then(|at| self.numbers.get(at).copied()).unwrap_or(0)
    }
}

/// The group of its rule that a name belongs to.
pub(super) fn outer_key(found: &Place<'_>, outer: &[&str]) -> Outer {
    outer.iter().map(|place| found.number(place)).collect()
}

/// The entry that leaves a tensor of the source out, if there is one.
pub(super) fn find_drop<'a>(passage: &Passage<'a>, name: &str) -> Result<Option<&'a Drop>> {
    for drop in passage.table.drops.iter().filter(|drop| drop.dialect == passage.from) {
        let Some(numbers) = drop.pattern.places_in(name) else { continue };
        if drop.when.as_ref().map_or(Ok(true), |when| when.holds(&passage.scope.at(&numbers)))? {
            return Ok(Some(drop));
        }
    }
    Ok(None)
}

/// The rule for a name whose condition holds: an open one, otherwise the first that counts so many.
pub(super) fn find_rule<'a>(passage: &Passage<'a>, name: &str) -> Result<Option<Place<'a>>> {
    let mut first = None;
    let mut beyond = None;
    for (rule, entry) in passage.table.rules.iter().enumerate() {
        let (patterns, side) = images(entry, passage.from);
        for (image, pattern) in patterns.iter().enumerate() {
            let wanted = pattern.is_open() || first.is_none();
            let Some(mut numbers) = wanted.then(|| pattern.numbers(name)).flatten() else { continue };
            if let Some(side) = side
                && !side.offsets.is_empty()
                && !taken_back(side, pattern, passage.scope, &mut numbers)?
            {
                continue;
            }
            if !exists(passage, entry, pattern, &numbers)? {
                break;
            }
            let place = Place { rule, image, pattern, numbers };
            if pattern.is_open() {
                return Ok(Some(place));
            }
            // Layers of another kind may be counted behind these, under the same names.
            if number_beyond(passage, &place)?.is_some() {
                beyond.get_or_insert(place);
            } else {
                first = Some(place);
            }
        }
    }
    Ok(first.or(beyond))
}

/// Takes a side's offsets from the numbers in one of its names; false if one is smaller.
fn taken_back(side: &Side, pattern: &Pattern, scope: &dyn Scope, numbers: &mut [u64]) -> Result<bool> {
    for (place, number) in pattern.places().iter().zip(numbers) {
        match number.checked_sub(side.offset(place, scope)?) {
            Some(less) => *number = less,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The first number in a name that is not below the count of its place, with the place.
pub(super) fn number_beyond<'p>(passage: &Passage<'_>, found: &Place<'p>) -> Result<Option<(&'p str, u64)>> {
    for (place, number) in found.pattern.places().iter().zip(&found.numbers) {
        if count_of(passage, place)?.is_some_and(|count| *number >= count) {
            return Ok(Some((place, *number)));
        }
    }
    Ok(None)
}

/// Returns whether a model has a rule's tensors with these numbers: two rules may share a name.
fn exists(passage: &Passage<'_>, rule: &Rule, pattern: &Pattern, numbers: &[u64]) -> Result<bool> {
    let numbers: Vec<(String, u64)> = pattern.places().iter().cloned().zip(numbers.iter().copied()).collect();
    rule.applies(&passage.scope.at(&numbers))
}
