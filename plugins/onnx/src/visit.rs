//! Visits the nodes of a model in the order in which they are computed, those of functions for each call, and tells of the codes that
//! are not followed to their scales.

use crate::behind::{Endless, Reach};
use crate::derived::Describer;
use crate::kinds::Kind;
use crate::operators::Operator;
use crate::origin::{Graphs, MOST_CALLS, Origin, Place};
use apr_sdk::{Result, escape};
use std::collections::{HashMap, HashSet, VecDeque};

/// Why codes are unknown where following them has no end.
pub const TOO_LONG: &str = "its nodes and functions pass values on too often to follow";

/// The functions that compute with codes, themselves or in others that they call.
pub fn functions_that_compute(graphs: &Graphs<'_>) -> HashSet<usize> {
    let nodes = graphs.nodes;
    let mut callers: HashMap<usize, HashSet<usize>> = HashMap::new();
    let (mut found, mut next) = (HashSet::new(), VecDeque::new());
    for (number, node) in nodes.nodes.iter().enumerate() {
        let scope = nodes.outermost(node.scope);
        if matches!(node.kind, Kind::Codes(_) | Kind::Foreign) && found.insert(scope) {
            next.push_back(scope);
        }
        if let Some(function) = graphs.called(number) {
            callers.entry(function).or_default().insert(scope);
        }
    }
    while let Some(scope) = next.pop_front() {
        for caller in callers.get(&scope).into_iter().flatten() {
            if found.insert(*caller) {
                next.push_back(*caller);
            }
        }
    }
    found
}

impl Describer<'_> {
    /// Describes what the nodes of a scope compute, and of those within: as far as there are steps left.
    pub(crate) fn visit(&mut self, place: Place, functions: &HashSet<usize>) -> Result<()> {
        // A scope, and which of its nodes is next.
        let mut next = vec![(place, 0)];
        while let Some((place, at)) = next.pop() {
            if !self.graphs.spend(1) {
                return Ok(());
            }
            let scope = &self.graphs.nodes.scopes[place.scope];
            let Some(&number) = scope.nodes.get(at) else {
                // Those within come when all nodes of a scope are done.
                if !self.graphs.spend(scope.inner.len()) {
                    return Ok(());
                }
                next.extend(scope.inner.iter().rev().map(|&scope| (Place { scope, ..place }, 0)));
                continue;
            };
            next.push((place, at + 1));
            if let Some(inside) = self.visit_node(number, place, functions)? {
                next.push((inside, 0));
            }
        }
        Ok(())
    }

    /// Describes what a node computes; gives the inside of a call that is to be visited.
    fn visit_node(
        &mut self,
        number: usize,
        place: Place,
        functions: &HashSet<usize>,
    ) -> Result<Option<Place>> {
        let node = self.graphs.node(number);
        if let Kind::Codes(operator) = node.kind {
            self.node(number, place, operator)?;
            return Ok(None);
        }
        let Some(function) = self.graphs.called(number) else {
            if let Kind::Foreign = node.kind {
                let why =
                    format!("what it computes in the domain `{}` is not known", escape(&node.domain, 80));
                self.packed(number, place, &node.operator, &why);
            }
            self.uses.add(&self.graphs, number, place);
            return Ok(None);
        };
        // What an uncalled function calls is as uncalled.
        if !functions.contains(&function) || self.is_uncalled(place) {
            self.uses.add(&self.graphs, number, place);
            return Ok(None);
        }
        let (inside, depth) = self.graphs.call(number, place, function);
        if depth > MOST_CALLS {
            self.all_unknown(&format!("the function `{}`", escape(&node.operator, 60)));
            return Ok(None);
        }
        self.visited.insert(function);
        Ok(Some(inside))
    }

    /// Whether a place is in a function that no node calls.
    pub(crate) fn is_uncalled(&self, place: Place) -> bool {
        place.call.is_none() && self.graphs.nodes.outermost(place.scope) != 0
    }

    /// Tells of codes that an operator reads in a way of its own, in any of its inputs.
    pub(crate) fn packed(&mut self, node: usize, place: Place, by: &str, why: &str) {
        for at in 0..self.graphs.inputs(node).len() {
            // A zero point.
            if let Origin::Stored { tensor, .. } = self.graphs.of_input(node, at, place)
                && self.elements(tensor) == 1
            {
                continue;
            }
            match self.graphs.behind(place, self.graphs.input(node, at), Reach::AsStored) {
                Ok(found) => {
                    for (tensor, _) in found {
                        if self.is_codes(tensor) {
                            self.unknown_codes(tensor, by, why);
                        }
                    }
                }
                Err(endless) => return self.endless(endless, by),
            }
        }
    }

    /// Tells of the codes that an operand is made of where its values are not followed.
    pub(crate) fn behind(&mut self, node: usize, at: usize, place: Place, operator: &Operator, why: &str) {
        match self.graphs.behind(place, self.graphs.input(node, at), Reach::All) {
            Ok(found) => {
                for (tensor, way) in found {
                    // Single numbers and whole ones of 64 bits are mostly operands of what changes codes.
                    let is_codes = self.is_codes(tensor) || way.is_cast;
                    if is_codes && (self.elements(tensor) > 1 || way.is_as_stored) {
                        self.unknown_codes(tensor, operator.name, why);
                    }
                }
            }
            Err(endless) => self.endless(endless, operator.name),
        }
    }

    /// Tells what follows from values not being followed to their ends.
    fn endless(&mut self, endless: Endless, by: &str) {
        match endless {
            Endless::Calls => self.all_unknown(by),
            // With no step left, no codes are known: see the end of the description.
            Endless::Work => {}
        }
    }

    /// Tells that nothing is known of any codes, where functions call one another too deep.
    fn all_unknown(&mut self, by: &str) {
        if std::mem::replace(&mut self.is_all_unknown, true) {
            return;
        }
        let why = format!("function calls around it are nested more than {MOST_CALLS} levels deep");
        for tensor in 0..self.tensors.len() {
            if self.is_codes(tensor) {
                self.unknown_codes(tensor, by, &why);
            }
        }
    }
}
