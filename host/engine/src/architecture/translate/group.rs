//! Translates one group of tensors, such as a layer's experts: from the source's names and rows to the
//! canonical ones, and on to the target's.

use crate::architecture::config::ConfigScope;
use crate::architecture::language::array::Array;
use crate::architecture::language::operation::{Operation, View, backwards, forwards};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, Rule, Side};
use crate::architecture::translate::counts::count_of;
use crate::architecture::translate::passage::{Made, Passage, Translated, is_kept, whole};
use crate::architecture::translate::places::Group;
use crate::architecture::translate::removal::incomplete;
use crate::hints::shape_mismatch;
use crate::values::rule_codes::shape_rule;
use apr_sdk::{DType, Error, Packing, Result, Tensor};
use std::collections::HashSet;

/// What the steps on one group share.
pub(super) struct GroupWork<'a> {
    /// The passage as a whole.
    pub passage: &'a Passage<'a>,
    /// The rule that the group belongs to.
    pub rule: &'a Rule,
    /// The configuration, with the numbers of the places.
    pub scope: &'a ConfigScope<'a>,
    /// The numbers of the outer places.
    pub numbers: &'a [(String, u64)],
    /// Indices of the group's tensors in the source.
    pub sources: &'a [usize],
}

/// An intermediate member: its index, its inner numbers, its array.
struct Member {
    pattern: usize,
    inner: Vec<u64>,
    item: Array,
}

impl GroupWork<'_> {
    /// The result's tensors for the group.
    ///
    /// # Errors
    /// Any error from the operations; Malformed for a tensor that is missing or has another shape.
    pub fn make(&self, group: &Group, translated: &mut Translated) -> Result<Vec<Made>> {
        let dtype = self.passage.tensors[self.sources[0]].dtype;
        let from = self.rule.side(self.passage.from);
        let to = self.rule.side(self.passage.to);
        let operations: Vec<&Operation> = [from, to]
            .into_iter()
            .flatten()
            .flat_map(|s| s.operations.iter().chain(s.each.iter().flatten()))
            .collect();
        if operations.is_empty() {
            return self.renamed(group);
        }
        if let Some(&other) = self.sources.iter().find(|&&n| self.passage.tensors[n].dtype != dtype) {
            let tensor = &self.passage.tensors[other];
            let message = format!("its type is {}, but related tensors are {dtype}", tensor.dtype);
            return Err(Error::unsupported(message)
                .tensor(&tensor.name)
                .hint("convert them to one type first: --dequantize f32"));
        }
        let info = dtype.require()?;
        let block = u64::from(info.block_elements);
        if info.packing == Packing::Flat && block > 1 {
            return Err(Error::unsupported(format!("rows of {dtype} cannot be rearranged")));
        }
        let view = View { scope: self.scope, block };
        let members = self.members(group, view)?;
        let words: Vec<&'static str> = operations.iter().map(|operation| operation.word()).collect();
        let mut out = Vec::new();
        let (items, patterns): (Vec<Array>, Vec<String>) = match to {
            Some(side) => {
                let items = members.iter().map(|member| member.item.clone()).collect();
                let (items, _) = forwards(&side.operations, items, view)?;
                let items = self.each(items, side, view)?;
                let names = side
                    .images
                    .iter()
                    .map(|image| side.name(image, self.scope, |place| self.number(place, &[], &[])));
                (items, names.collect::<Result<_>>()?)
            }
            None => {
                let names = members.iter().map(|member| self.member_name(member)).collect();
                (members.iter().map(|member| member.item.clone()).collect(), names)
            }
        };
        if items.len() != patterns.len() {
            let message = format!("the table has {} names for {} tensors", patterns.len(), items.len());
            return Err(Error::invalid_argument(message));
        }
        let canonical = members.iter().map(|m| self.member_name(m)).max().unwrap_or_default();
        for (item, name) in items.into_iter().zip(patterns) {
            let mut shape = item.shape();
            if let Some(last) = shape.last_mut() {
                *last = last.saturating_mul(block);
            }
            let boxes = item.boxes()?;
            if boxes.iter().any(|b| b.tensor.is_none()) {
                translated.padded.push(name.clone());
            }
            let made = self.made(name, &canonical, dtype, shape);
            out.push(Made { boxes, words: words.clone(), ..made });
        }
        Ok(out)
    }

    /// Tensors that are at most renamed.
    fn renamed(&self, group: &Group) -> Result<Vec<Made>> {
        let mut out = Vec::new();
        for ((image, inner), &number) in &group.found {
            let tensor = &self.passage.tensors[number];
            let from = &images(self.rule, self.passage.from).0[*image];
            let (to, side) = images(self.rule, self.passage.to);
            let to = to.get(*image).ok_or_else(|| Error::invalid_argument("the table has no name for it"))?;
            let places = self.inner_places(from);
            let name = match side {
                _ if is_kept(self.passage, self.rule) => self.passage.called[number].name.clone(),
                Some(side) => side.name(to, self.scope, |place| self.number(place, &places, inner))?,
                None => to.name(|place| self.number(place, &places, inner)),
            };
            let member = &self.rule.members[(*image).min(self.rule.members.len() - 1)];
            let canonical = member.name(|place| self.number(place, &places, inner));
            let shape = self.shape(*image, inner, &places, tensor)?;
            let boxes = vec![whole(number, tensor)?];
            out.push(Made { boxes, ..self.made(name, &canonical, tensor.dtype, shape) });
        }
        Ok(out)
    }

    /// The canonical tensors of the group, from the source's.
    fn members(&self, group: &Group, view: View<'_>) -> Result<Vec<Member>> {
        let (patterns, side) = images(self.rule, self.passage.from);
        let Some(side) = side.filter(|s| !s.operations.is_empty() || !s.each.is_empty()) else {
            let mut members = Vec::new();
            for ((pattern, inner), &number) in &group.found {
                let places = self.inner_places(&patterns[*pattern]);
                let tensor = &self.passage.tensors[number];
                let shape = self.shape(*pattern, inner, &places, tensor)?;
                let item = Array::whole(number, &view.units(&shape)?);
                members.push(Member { pattern: *pattern, inner: inner.clone(), item });
            }
            self.check_whole(&members, patterns)?;
            return Ok(members);
        };
        let mut items = Vec::new();
        for (n, pattern) in patterns.iter().enumerate() {
            // A place that the members lack is that of the only one there is.
            let inner = vec![0; self.inner_places(pattern).len()];
            let Some(&number) = group.found.get(&(n, inner)) else {
                let name = side.name(pattern, self.scope, |place| self.number(place, &[], &[]))?;
                return Err(incomplete(self.passage, name));
            };
            items.push(Array::whole(number, &view.units(&self.passage.tensors[number].shape)?));
        }
        self.undo(side, items, view)
    }

    /// Undoes a side's operations.
    fn undo(&self, side: &Side, items: Vec<Array>, view: View<'_>) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for (pattern, place) in self.rule.members.iter().enumerate().map(|(n, p)| (n, self.inner_places(p))) {
            match place[..] {
                [] => members.push((pattern, Vec::new())),
                [inner] => {
                    let stacked = items.first().and_then(|item| item.shape().first().copied());
                    let count = count_of(self.passage, inner)?.or(stacked).unwrap_or(0);
                    members.extend((0..count).map(|n| (pattern, vec![n])));
                }
                _ => return Err(Error::invalid_argument("the table stacks along more than one placeholder")),
            }
        }
        let mut shapes = Vec::new();
        for (pattern, inner) in &members {
            let shape = match self.rule.shapes.get(*pattern) {
                Some(shape) => {
                    let places = self.inner_places(&self.rule.members[*pattern]);
                    let numbers = self.with_inner(&places, inner);
                    let scope = self.passage.scope.at(&numbers);
                    let sizes: Result<Vec<u64>> = shape.iter().map(|size| size.size(&scope)).collect();
                    view.units(&sizes?)?
                }
                None => items.first().map(|item| item.shape()).unwrap_or_default(),
            };
            shapes.push(shape);
        }
        // Run forwards with empty arrays, to learn the shapes along the way.
        let blank = shapes.iter().enumerate().map(|(n, shape)| Array::whole(n, shape)).collect();
        let (blank, met) = forwards(&side.operations, blank, view)?;
        let mut undone = Vec::new();
        for (n, item) in items.into_iter().enumerate() {
            let operations = side.each.get(n).map_or(&[][..], Vec::as_slice);
            let blank = blank
                .get(n)
                .cloned()
                .ok_or_else(|| Error::invalid_argument("the table has more names than tensors"))?;
            let (made, met) = forwards(operations, vec![blank], view)?;
            let want = made[0].shape();
            let have = item.shape();
            if want != have {
                return Err(Error::malformed(format!(
                    "its shape is {have:?}, but the configuration implies {want:?} (in units of its type)"
                ))
                .code(shape_rule(self.rule.role.as_deref(), want.len())));
            }
            undone.extend(backwards(operations, vec![item], &met, view)?);
        }
        let undone = backwards(&side.operations, undone, &met, view)?;
        if undone.len() != members.len() {
            return Err(Error::invalid_argument(format!(
                "expected {} tensors after inverting the operations, found {}",
                members.len(),
                undone.len()
            )));
        }
        let whole = members.into_iter().zip(undone);
        Ok(whole.map(|((pattern, inner), item)| Member { pattern, inner, item }).collect())
    }

    fn each(&self, items: Vec<Array>, side: &Side, view: View<'_>) -> Result<Vec<Array>> {
        let mut out = Vec::new();
        for (n, item) in items.into_iter().enumerate() {
            match side.each.get(n) {
                Some(operations) => out.extend(forwards(operations, vec![item], view)?.0),
                None => out.push(item),
            }
        }
        Ok(out)
    }

    /// Checks that every member is there, with inner numbers that run from 0.
    fn check_whole(&self, members: &[Member], patterns: &[Pattern]) -> Result<()> {
        for (n, pattern) in patterns.iter().enumerate() {
            let places = self.inner_places(pattern);
            let have: HashSet<&[u64]> =
                members.iter().filter(|m| m.pattern == n).map(|m| &m.inner[..]).collect();
            let count = match places.first() {
                Some(place) => count_of(self.passage, place)?.unwrap_or(have.len() as u64),
                None => 1,
            };
            for want in 0..count {
                let inner: Vec<u64> = places.iter().map(|_| want).collect();
                if !have.contains(&inner[..]) {
                    let name = pattern.name(|place| self.number(place, &places, &inner));
                    return Err(incomplete(self.passage, name));
                }
            }
            if have.len() as u64 > count {
                let message = format!(
                    "found {} tensors with this name, but the configuration implies {count}",
                    have.len()
                );
                return Err(Error::malformed(message));
            }
        }
        Ok(())
    }

    /// The shape that the table gives a member, which its tensor must have.
    fn shape(&self, pattern: usize, inner: &[u64], places: &[&str], tensor: &Tensor) -> Result<Vec<u64>> {
        let Some(shape) = self.rule.shapes.get(pattern) else { return Ok(tensor.shape.clone()) };
        let numbers = self.with_inner(places, inner);
        let scope = self.passage.scope.at(&numbers);
        let mut want = Vec::new();
        for size in shape {
            // A size that the configuration does not state cannot be compared.
            if size.value(&scope)?.is_none() {
                return Ok(tensor.shape.clone());
            }
            want.push(size.size(&scope)?);
        }
        // Files whose names are not the table's own come of other converters, some of which leave ones out.
        let is_own = self.passage.table.is_own(self.passage.from);
        if want == tensor.shape || !is_own && are_same_rows(&want, &tensor.shape) {
            return Ok(want);
        }
        let message = shape_mismatch(self.rule.role.as_deref(), &tensor.shape, &want);
        Err(Error::malformed(message)
            .tensor(&tensor.name)
            .code(shape_rule(self.rule.role.as_deref(), tensor.shape.len())))
    }

    /// The places of a name that do not distinguish groups.
    fn inner_places<'p>(&self, pattern: &'p Pattern) -> Vec<&'p str> {
        let places = pattern.places().iter().map(String::as_str);
        places.filter(|place| !self.numbers.iter().any(|(outer, _)| outer == place)).collect()
    }

    fn with_inner(&self, places: &[&str], inner: &[u64]) -> Vec<(String, u64)> {
        let inner = places.iter().map(|place| (*place).to_owned()).zip(inner.iter().copied());
        self.numbers.iter().cloned().chain(inner).collect()
    }

    fn number(&self, place: &str, inner: &[&str], numbers: &[u64]) -> u64 {
        if let Some((_, number)) = self.numbers.iter().find(|(outer, _)| outer == place) {
            return *number;
        }
        let at = inner.iter().position(|inner| *inner == place);
        at.and_then(|at| numbers.get(at).copied()).unwrap_or(0)
    }

    fn member_name(&self, member: &Member) -> String {
        let pattern = &self.rule.members[member.pattern];
        pattern.name(|place| self.number(place, &self.inner_places(pattern), &member.inner))
    }

    /// A tensor of the group without content, with its names in both dialects.
    fn made(&self, name: String, canonical: &str, dtype: DType, shape: Vec<u64>) -> Made {
        let mut made = Made::new(name, dtype, shape, self.rule);
        made.facts.names.push((CANONICAL.to_owned(), canonical.to_owned()));
        if self.passage.to != CANONICAL {
            made.facts.names.push((self.passage.to.to_owned(), made.name.clone()));
        }
        made
    }
}

/// Whether two shapes have the same rows, of the same length, in the same order: they differ in dimensions of one alone.
fn are_same_rows(one: &[u64], other: &[u64]) -> bool {
    let one_rows = one.iter().filter(|size| **size != 1);
    let other_rows = other.iter().filter(|size| **size != 1);
    one.last() == other.last() && one_rows.eq(other_rows)
}
