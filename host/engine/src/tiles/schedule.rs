//! The order in which units of several outputs of one source are computed, and which of their runs are
//! computed together: those whose tiles come from the same bytes. The bytes are read once and evaluated for
//! one output after another while they are in memory; equal results are computed once.

use super::tile::{Run, Tiles};
use crate::expression::Expression;
use std::collections::HashMap;

/// A run of one of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index of the output.
    pub output: usize,
    /// Index of the run in that output.
    pub run: usize,
    /// True if it gives the same result as the member before it.
    pub repeats: bool,
}

/// The units of all outputs.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The number of units of work.
    pub units: usize,
    /// The runs; those computed together are adjacent.
    members: Vec<Member>,
    /// For each group of runs, the index of its first member, and of its first unit.
    groups: Vec<(usize, usize)>,
}

impl Schedule {
    /// Schedules all units of the tiles of each output; the order within each output is the same as for that
    /// output alone.
    pub fn new(outputs: &[&Tiles]) -> Schedule {
        let mut schedule = Schedule::default();
        let mut together = together(outputs);
        for (output, tiles) in outputs.iter().enumerate() {
            for &run in tiles.by_unit() {
                let units = tiles.runs[run].n_units();
                let alone = Member { output, run, repeats: false };
                let others = match together.as_mut().map(|together| together.take(outputs, alone)) {
                    // It belongs to a group of an earlier output.
                    Some(None) => continue,
                    Some(Some(others)) => others,
                    None => Vec::new(),
                };
                if units > 0 {
                    schedule.groups.push((schedule.members.len(), schedule.units));
                    schedule.members.push(alone);
                    schedule.members.extend(others);
                    schedule.units = schedule.units.saturating_add(units);
                }
            }
        }
        schedule
    }

    /// The runs that unit `number` belongs to, and its index within them.
    pub fn unit(&self, number: usize) -> (&[Member], usize) {
        let group = self.groups.partition_point(|(_, first)| *first <= number) - 1;
        let (begin, first) = self.groups[group];
        let end = self.groups.get(group + 1).map_or(self.members.len(), |(next, _)| *next);
        (&self.members[begin..end], number - first)
    }
}

/// The runs of several outputs by their leaves, and which of them are in a group already.
struct Together<'t> {
    by_leaf: HashMap<&'t Expression, Vec<(usize, usize)>>,
    taken: Vec<Vec<bool>>,
}

/// The runs of `outputs`; `None` if there is only one output.
fn together<'t>(outputs: &[&'t Tiles]) -> Option<Together<'t>> {
    let mut by_leaf: HashMap<&Expression, Vec<_>> = HashMap::new();
    for (output, tiles) in outputs.iter().enumerate().filter(|_| outputs.len() > 1) {
        for (number, run) in tiles.runs.iter().enumerate() {
            by_leaf.entry(run.expression.leaf()).or_default().push((output, number));
        }
    }
    let taken = outputs.iter().map(|tiles| vec![false; tiles.runs.len()]).collect();
    (outputs.len() > 1).then_some(Together { by_leaf, taken })
}

impl Together<'_> {
    /// The runs of later outputs that are computed together with this one, equal ones adjacent; `None` if
    /// this one belongs to an earlier output's group.
    fn take(&mut self, outputs: &[&Tiles], lead: Member) -> Option<Vec<Member>> {
        if std::mem::replace(&mut self.taken[lead.output][lead.run], true) {
            return None;
        }
        let own = &outputs[lead.output].runs[lead.run];
        let mut group = vec![lead];
        for &(output, run) in self.by_leaf.get(own.expression.leaf()).into_iter().flatten() {
            let is_new = group.iter().all(|member| member.output < output) && !self.taken[output][run];
            let other = &outputs[output].runs[run];
            if !is_new || !own.goes_with(other) {
                continue;
            }
            self.taken[output][run] = true;
            let alike = group.iter().rposition(|member| is_alike(outputs, member, output, other));
            let at = alike.map_or(group.len(), |at| at + 1);
            group.insert(at, Member { output, run, repeats: alike.is_some() });
        }
        group.remove(0);
        Some(group)
    }
}

/// Returns whether two runs compute the same result from the same bytes, and so do the runs beside them.
fn is_alike(outputs: &[&Tiles], one: &Member, output: usize, other: &Run) -> bool {
    let own = &outputs[one.output].runs[one.run];
    let beside = own.beside.map(|beside| &outputs[one.output].runs[beside].expression);
    let other_beside = other.beside.map(|beside| &outputs[output].runs[beside].expression);
    own.expression == other.expression && own.tile_len == other.tile_len && beside == other_beside
}
