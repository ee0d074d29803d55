//! Codes that a value is made of, where nodes join, choose or change them before they are scaled: what each of them stands for
//! is not followed, so that they are told as unknown.

use crate::kinds::Kind;
use crate::nodes::{Attribute, EMPTY, Name};
use crate::origin::{Bound, Graphs, MOST_CALLS, Place, Value};
use std::collections::{HashMap, HashSet};

/// What nodes have done on the way from a value to what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// None changed an element: a single one may be a code too, and is no operand of theirs.
    pub is_as_stored: bool,
    /// The last gave it another type: it may be stored in any.
    pub is_cast: bool,
}

impl Way {
    /// The way through a node that computes others.
    const CHANGED: Way = Way { is_as_stored: false, is_cast: false };
}

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Everything.
    All,
    /// What is still as it is stored: of an operator with operands of many kinds, others are mostly no codes.
    AsStored,
}

/// Why values are not followed to their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// Functions call one another too deep.
    Calls,
    /// It takes too many steps, or too much memory.
    Work,
}

/// A value where it is looked at, and how it was come by.
type Step = (Place, Value, Way);

/// What was followed so far, in the whole model: nothing is followed twice in the same way.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    seen: HashSet<(Step, Reach)>,
    /// The inside of each call.
    calls: HashMap<(usize, Place), Place>,
}

impl Graphs<'_> {
    /// The tensors that a value is made of, up to nodes that compute with codes: what these give is scaled anew. Those that it
    /// has told once are left out.
    ///
    /// # Errors
    /// If there is no end to it.
    pub fn behind(
        &mut self,
        place: Place,
        value: Value,
        reach: Reach,
    ) -> std::result::Result<Vec<(usize, Way)>, Endless> {
        let (mut found, mut next) = (Vec::new(), Vec::new());
        // What one node is made of is looked at before it waits: else what waits may be far more than there is.
        let mut new = vec![(place, value, Way { is_as_stored: true, is_cast: false })];
        loop {
            for step in new.drain(..) {
                if self.is_new(step, reach)? {
                    next.push(step);
                }
            }
            let Some((mut place, value, way)) = next.pop() else { return Ok(found) };
            let Value::Bound(scope, bound) = value else { continue };
            place.scope = scope;
            match bound {
                Bound::Tensor(tensor) | Bound::Sparse(tensor) => found.push((tensor, way)),
                Bound::Input(at) => self.enter_scope(place, at, way, &mut new),
                Bound::Output(number, at) => {
                    self.enter_node((number, at), place, way, &mut found, &mut new)?;
                }
            }
        }
    }

    /// Whether a value is to be followed, and was not yet.
    fn is_new(&mut self, (mut place, value, way): Step, reach: Reach) -> std::result::Result<bool, Endless> {
        if !self.spend(1) {
            return Err(Endless::Work);
        }
        let Value::Bound(scope, _) = value else { return Ok(false) };
        if reach == Reach::AsStored && !way.is_as_stored {
            return Ok(false);
        }
        // What has a name in a scope around has the same in all within.
        place.scope = scope;
        if !self.followed.seen.insert(((place, value, way), reach)) {
            return Ok(false);
        }
        // In a set that doubles, and once more as what waits.
        if self.hold(3 * size_of::<(Step, Reach)>()) { Ok(true) } else { Err(Endless::Work) }
    }

    /// What an input of a scope is: an operand of the call, or of the loop, and then what the turn before left.
    fn enter_scope(&self, place: Place, at: usize, way: Way, next: &mut Vec<Step>) {
        let body = &self.nodes.scopes[place.scope];
        let Some((owner, from)) = self.around(place) else { return };
        let outputs = self.outputs(place.scope);
        let mut feed = |value: Option<&Value>, place| next.extend(value.map(|value| (place, *value, way)));
        match self.node(owner).kind {
            _ if body.parent.is_none() => feed(self.inputs(owner).get(at), from),
            // The turn's number and the condition are no codes.
            Kind::Loop if at < 2 => {}
            Kind::Loop => {
                feed(self.inputs(owner).get(at), from);
                feed(outputs.get(at - 1), place);
            }
            Kind::Scan => {
                feed(self.inputs(owner).get(at + self.lengths(owner, place.scope)), from);
                if at < self.states(owner, from, place.scope) {
                    feed(outputs.get(at), place);
                }
            }
            _ => {
                self.inputs(owner).iter().for_each(|value| feed(Some(value), from));
                outputs.iter().for_each(|value| feed(Some(value), place));
            }
        }
    }

    /// What an output of a node is made of.
    fn enter_node(
        &mut self,
        (number, at): (usize, usize),
        place: Place,
        way: Way,
        found: &mut Vec<(usize, Way)>,
        next: &mut Vec<Step>,
    ) -> std::result::Result<(), Endless> {
        let node = self.node(number);
        match node.kind {
            Kind::Codes(_) | Kind::Compute => return Ok(()),
            Kind::Constant => {
                let constant = self.constant(number, place);
                if let Some(Attribute::Tensor(tensor) | Attribute::Sparse(tensor)) = constant {
                    found.push((*tensor, way));
                }
                return Ok(());
            }
            _ => {}
        }
        if let Some(function) = self.called(number) {
            let inside = self.inside(number, place, function)?;
            let output = self.outputs(function).get(at);
            next.extend(output.map(|value| (inside, *value, way)));
            return Ok(());
        }
        let bodies = self.bodies(number, place);
        if !self.spend(bodies.len()) {
            return Err(Endless::Work);
        }
        let mut feed = |value: Option<&Value>, place, way| {
            next.extend(value.map(|value| (place, *value, way)));
        };
        let inputs = self.inputs(number);
        match node.kind {
            Kind::If | Kind::Loop | Kind::Scan if !bodies.is_empty() => {
                for inside in bodies {
                    // The first result of a loop's body is its condition.
                    let is_loop = matches!(node.kind, Kind::Loop);
                    feed(self.outputs(inside.scope).get(at + usize::from(is_loop)), inside, way);
                    let lengths = self.lengths(number, inside.scope);
                    match node.kind {
                        // No turn at all leaves a state as it was.
                        Kind::Loop => feed(inputs.get(at + 2), place, way),
                        Kind::Scan if at < self.states(number, place, inside.scope) => {
                            feed(inputs.get(at + lengths), place, way);
                        }
                        _ => {}
                    }
                }
            }
            Kind::Move { .. } | Kind::Part => feed(inputs.first(), place, way),
            Kind::Cast => feed(inputs.first(), place, Way { is_cast: true, ..way }),
            kind => {
                let way = if matches!(kind, Kind::Join) { way } else { Way::CHANGED };
                let choices: &[usize] = match kind {
                    Kind::Other(choices) => choices,
                    Kind::If => &[0],
                    _ => &[],
                };
                for (_, value) in &node.attributes {
                    if let Attribute::Tensor(tensor) | Attribute::Sparse(tensor) = value {
                        found.push((*tensor, way));
                    }
                }
                if !self.spend(node.attributes.len()) {
                    return Err(Endless::Work);
                }
                for (at, value) in inputs.iter().enumerate() {
                    if !choices.contains(&at) {
                        feed(Some(value), place, way);
                    }
                }
                for inside in bodies {
                    self.outputs(inside.scope).iter().for_each(|value| feed(Some(value), inside, way));
                }
            }
        }
        Ok(())
    }

    /// The inside of a call.
    fn inside(
        &mut self,
        number: usize,
        place: Place,
        function: usize,
    ) -> std::result::Result<Place, Endless> {
        if let Some(inside) = self.followed.calls.get(&(number, place)) {
            return Ok(*inside);
        }
        let (inside, depth) = self.call(number, place, function);
        if depth > MOST_CALLS {
            return Err(Endless::Calls);
        }
        if !self.hold(2 * size_of::<((usize, Place), Place)>()) {
            return Err(Endless::Work);
        }
        self.followed.calls.insert((number, place), inside);
        Ok(inside)
    }

    /// The graphs in a node's attributes; for an attribute that is the function's, those of the call, else of the function's defaults.
    fn bodies(&self, number: usize, place: Place) -> Vec<Place> {
        let own = self.node(number).inner.iter().map(|&scope| Place { scope, ..place });
        let mut found: Vec<Place> = own.collect();
        for (_, value) in &self.node(number).attributes {
            if let Attribute::OfFunction(name) = value {
                self.given(*name, place, &mut found);
            }
        }
        found
    }

    /// The graphs that a function's attribute of this name stands for in a call.
    fn given(&self, mut name: Name, mut place: Place, found: &mut Vec<Place>) {
        // One may have no name, as in files that no program writes: then all may be meant.
        let is_named = |scope: &usize, name| [name, EMPTY].contains(&self.nodes.scopes[*scope].attribute);
        while let Some(call) = place.call.map(|call| &self.calls[call]) {
            let (caller, function) = (self.node(call.node), &self.nodes.scopes[call.function]);
            if !self.spend(1 + (caller.inner.len() + function.inner.len() + caller.attributes.len()) / 16) {
                return;
            }
            let of_call = caller.inner.iter().filter(|scope| is_named(scope, name));
            let n_found = found.len();
            found.extend(of_call.map(|&scope| Place { scope, ..call.from }));
            if found.len() > n_found {
                return;
            }
            let passed = caller.attributes.iter().find_map(|(of, value)| match value {
                Attribute::OfFunction(given) if *of == name => Some(*given),
                _ => None,
            });
            let Some(passed) = passed else {
                let defaults = function
                    .inner
                    .iter()
                    .filter(|scope| self.nodes.scopes[**scope].owner.is_none() && is_named(scope, name));
                found.extend(defaults.map(|&scope| Place { scope, ..place }));
                return;
            };
            (name, place) = (passed, call.from);
        }
    }

    /// How many inputs of a Scan come before those of its body: version 8 has the lengths of sequences.
    fn lengths(&self, node: usize, body: usize) -> usize {
        self.node(node).inputs.len().saturating_sub(self.nodes.scopes[body].inputs.len()).min(1)
    }

    /// How many states a Scan hands from turn to turn.
    fn states(&self, node: usize, place: Place, body: usize) -> usize {
        let scanned = self.whole(node, place, "num_scan_inputs").and_then(|n| usize::try_from(n).ok());
        self.nodes.scopes[body].inputs.len().saturating_sub(scanned.unwrap_or(0))
    }
}
