//! Codes that a value is made of, where nodes join, choose or change them before they are scaled: what each of them stands for
//! is not followed, so that they are told as unknown.

use crate::nodes::{Attribute, Node};
use crate::operators;
use crate::origin::{Bound, Graphs, MOST_CALLS, Place};
use std::collections::{HashMap, HashSet};

/// The most names that are looked at in a model. Between codes and the node that scales them there are a few.
const MOST_NAMES: usize = 1 << 20;

/// Operators whose results are floats that they compute, by the types that the standard allows: no codes pass.
const COMPUTE: [&str; 38] = [
    "AveragePool",
    "BatchNormalization",
    "Ceil",
    "Celu",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "GRU",
    "Gelu",
    "GlobalAveragePool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Mish",
    "RMSNormalization",
    "RNN",
    "Reciprocal",
    "Round",
    "Selu",
    "Sigmoid",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
    "DynamicQuantizeLinear",
];

/// Operators whose result is elements of all their inputs.
const JOINS: [&str; 5] =
    ["Concat", "ConcatFromSequence", "SequenceConstruct", "Optional", "OptionalGetElement"];

/// Operators whose results are elements of their first input, and which are not followed to one of several results.
const PARTS: [&str; 3] = ["Split", "SplitToSequence", "SequenceAt"];

/// Operators that give their first input another type.
const CASTS: [&str; 3] = ["Cast", "CastLike", "BitCast"];

/// Operators whose second input says where elements go.
const SCATTERS: [&str; 3] = ["Scatter", "ScatterElements", "ScatterND"];

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Everything.
    All,
    /// What is still as it is stored: of an operator with operands of many kinds, others are mostly no codes.
    AsStored,
}

/// A name where it is looked at, and how it was come by.
type Step<'a> = (Place, &'a str, Way);

/// What was followed so far, in the whole model: nothing is followed twice.
#[derive(Debug, Default)]
pub(crate) struct Followed<'a> {
    seen: HashSet<Step<'a>>,
    /// The inside of each call.
    calls: HashMap<(usize, Place), Place>,
}

impl<'a> Graphs<'a> {
    /// The tensors that a value is made of, up to nodes that compute with codes: what these give is scaled anew. Those that it
    /// has told once are left out. `None` if there is no end to it.
    pub fn behind(&mut self, place: Place, name: &'a str, reach: Reach) -> Option<Vec<(usize, Way)>> {
        let (mut found, mut next) = (Vec::new(), Vec::new());
        next.push((place, name, Way { is_as_stored: true, is_cast: false }));
        while let Some((mut place, name, way)) = next.pop() {
            let Some((scope, bound)) = self.meaning(place.scope, name) else { continue };
            place.scope = scope;
            if reach == Reach::AsStored && !way.is_as_stored {
                continue;
            }
            if name.is_empty() || !self.followed.seen.insert((place, name, way)) {
                continue;
            }
            if self.followed.seen.len() > MOST_NAMES {
                return None;
            }
            match bound {
                Bound::Tensor(tensor) | Bound::Sparse(tensor) => found.push((tensor, way)),
                Bound::Input(at) => self.enter_scope(place, at, way, &mut next)?,
                Bound::Output(number, at) => {
                    self.enter_node((number, at), place, way, &mut found, &mut next)?
                }
            }
        }
        Some(found)
    }

    /// What an input of a scope is: an operand of the call, or of the loop, and then what the turn before left; `None` if that is not known.
    fn enter_scope(&self, place: Place, at: usize, way: Way, next: &mut Vec<Step<'a>>) -> Option<()> {
        let body = &self.nodes.scopes[place.scope];
        let Some((owner, from)) = self.around(place) else { return body.parent.is_none().then_some(()) };
        let node = self.node(owner);
        let mut feed =
            |name: Option<&'a String>, place| next.extend(name.map(|name| (place, name.as_str(), way)));
        match kind(node) {
            _ if body.parent.is_none() => feed(node.inputs.get(at), from),
            // The turn's number and the condition are no codes.
            "Loop" if at < 2 => {}
            "Loop" => {
                feed(node.inputs.get(at), from);
                feed(body.outputs.get(at - 1), place);
            }
            "Scan" => {
                feed(node.inputs.get(at + self.lengths(owner, place.scope)), from);
                if at < self.states(owner, from, place.scope) {
                    feed(body.outputs.get(at), place);
                }
            }
            _ => {
                node.inputs.iter().for_each(|name| feed(Some(name), from));
                body.outputs.iter().for_each(|name| feed(Some(name), place));
            }
        }
        Some(())
    }

    /// What an output of a node is made of; `None` if functions call one another too deep.
    fn enter_node(
        &mut self,
        (number, at): (usize, usize),
        place: Place,
        way: Way,
        found: &mut Vec<(usize, Way)>,
        next: &mut Vec<Step<'a>>,
    ) -> Option<()> {
        let node = self.node(number);
        let is_standard = operators::is_standard(&node.domain);
        let is_one_of = |names: &[&str]| is_standard && names.contains(&node.operator.as_str());
        if operators::find(&node.domain, &node.operator).is_some() || is_one_of(&COMPUTE) {
            return Some(());
        }
        if is_one_of(&["Constant"]) {
            if let Some(Attribute::Tensor(tensor) | Attribute::Sparse(tensor)) = self.constant(number, place)
            {
                found.push((*tensor, way));
            }
            return Some(());
        }
        if let Some(function) = self.called(node) {
            let inside = match self.followed.calls.get(&(number, place)) {
                Some(inside) => *inside,
                None => {
                    let (inside, depth) = self.call(number, place, function);
                    (depth <= MOST_CALLS).then_some(inside)?
                }
            };
            self.followed.calls.insert((number, place), inside);
            let output = self.nodes.scopes[function].outputs.get(at);
            next.extend(output.map(|name| (inside, name.as_str(), way)));
            return Some(());
        }
        let mut feed = |name: Option<&'a String>, place, way| {
            next.extend(name.map(|name| (place, name.as_str(), way)));
        };
        let bodies = self.bodies(number, place);
        if let name @ ("If" | "Loop" | "Scan") = kind(node)
            && !bodies.is_empty()
        {
            for inside in bodies {
                let body = &self.nodes.scopes[inside.scope];
                // The first result of a loop's body is its condition.
                feed(body.outputs.get(at + usize::from(name == "Loop")), inside, way);
                let lengths = self.lengths(number, inside.scope);
                match name {
                    // No turn at all leaves a state as it was.
                    "Loop" => feed(node.inputs.get(at + 2), place, way),
                    "Scan" if at < self.states(number, place, inside.scope) => {
                        feed(node.inputs.get(at + lengths), place, way);
                    }
                    _ => {}
                }
            }
            return Some(());
        }
        if operators::moves(&node.domain, &node.operator) || is_one_of(&PARTS) {
            feed(node.inputs.first(), place, way);
            return Some(());
        }
        if is_one_of(&CASTS) {
            feed(node.inputs.first(), place, Way { is_cast: true, ..way });
            return Some(());
        }
        let way = if is_one_of(&JOINS) { way } else { Way::CHANGED };
        for (_, value) in &node.attributes {
            if let Attribute::Tensor(tensor) | Attribute::Sparse(tensor) = value {
                found.push((*tensor, way));
            }
        }
        let is_scatter = is_one_of(&SCATTERS);
        for (_, name) in node.inputs.iter().enumerate().filter(|(at, _)| *at != 1 || !is_scatter) {
            feed(Some(name), place, way);
        }
        for inside in bodies {
            for name in &self.nodes.scopes[inside.scope].outputs {
                feed(Some(name), inside, way);
            }
        }
        Some(())
    }

    /// The graphs in a node's attributes; those of the call, or of the function's defaults, if its attributes are the function's.
    fn bodies(&self, mut number: usize, mut place: Place) -> Vec<Place> {
        let is_given = |number: usize| {
            let attributes = &self.node(number).attributes;
            attributes.iter().any(|(_, value)| matches!(value, Attribute::OfFunction(_)))
        };
        let mut found = Vec::new();
        loop {
            found.extend(self.node(number).inner.iter().map(|&scope| Place { scope, ..place }));
            let Some(call) = place.call.filter(|_| found.is_empty() && is_given(number)) else {
                return found;
            };
            let call = &self.calls[call];
            let defaults = self.nodes.scopes[call.function].inner.iter();
            let defaults = defaults.filter(|scope| self.nodes.scopes[**scope].owner.is_none());
            let defaults = defaults.map(|&scope| Place { scope, ..place }).collect::<Vec<_>>();
            (number, place) = (call.node, call.from);
            found.extend(self.node(number).inner.iter().map(|&scope| Place { scope, ..place }));
            found.extend(defaults);
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

/// The operator of a node of the standard; empty for another.
fn kind(node: &Node) -> &str {
    if operators::is_standard(&node.domain) { &node.operator } else { "" }
}
