//! Where values come from: names followed through scopes, functions and nodes that move elements, to what is stored.

use crate::behind::Followed;
use crate::nodes::{Attribute, Node, Nodes};
use crate::operators;
use crate::walk::Found;
use apr_sdk::{Limits, Result};
use std::collections::HashMap;

/// The most steps from a value to what it comes from.
const MOST_STEPS: usize = 100;

/// How deep functions may call one another.
pub const MOST_CALLS: usize = 16;

/// Movers that keep all elements in their order.
const RESHAPES: [&str; 5] = ["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"];

/// The attributes of a node `Constant`, of which it has one.
const CONSTANTS: [&str; 6] =
    ["value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints"];

/// A scope, and the call that it is computed in if it is of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The scope.
    pub scope: usize,
    /// The number of the call.
    pub call: Option<usize>,
}

/// A call of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) from: Place,
    pub(crate) function: usize,
    depth: usize,
}

/// What a name is in its scope.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A tensor of the model.
    Tensor(usize),
    /// The values of a sparse tensor.
    Sparse(usize),
    /// Which output of which node.
    Output(usize, usize),
    /// An input of its scope, by its place.
    Input(usize),
}

/// What a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin<'a> {
    /// A tensor of the model.
    Stored {
        /// Its number.
        tensor: usize,
        /// The operator that moved its elements, if one did.
        mover: Option<&'a str>,
        /// Whether all are still there, in their order.
        is_whole: bool,
    },
    /// Numbers of an attribute.
    Numbers(Vec<f64>),
    /// The values of a sparse tensor of the model.
    Sparse(usize),
    /// What the body of a loop gets as an input, by the body and its input: another value in each turn.
    Looped(Place, usize),
    /// More nodes lie before it than are followed.
    Far,
    /// What a node computes: the node, which of its outputs, and where.
    Computed(usize, usize, Place),
    /// Something else, by its name and where that is: an input of the model, or what no node computes.
    Elsewhere(Place, &'a str),
    /// The name is empty or missing.
    Nothing,
}

/// The nodes with their names.
pub struct Graphs<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    bound: Vec<HashMap<&'a str, Bound>>,
    readers: HashMap<(usize, &'a str), Vec<usize>>,
    pub(crate) calls: Vec<Call>,
    /// What was followed through nodes of any kind.
    pub(crate) followed: Followed<'a>,
}

impl<'a> Graphs<'a> {
    /// The names of nodes and tensors.
    ///
    /// # Errors
    /// LimitExceeded.
    pub fn new(nodes: &'a Nodes, tensors: &'a [Found], limits: &Limits) -> Result<Graphs<'a>> {
        let mut bound: Vec<HashMap<&str, Bound>> = vec![HashMap::new(); nodes.scopes.len()];
        let mut readers: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
        let ends = nodes.nodes.iter().map(|node| node.inputs.len() + node.outputs.len()).sum::<usize>();
        limits.budget.charge(100 * (ends + tensors.len()) as u64)?;
        for (names, scope) in bound.iter_mut().zip(&nodes.scopes) {
            names.extend(scope.inputs.iter().enumerate().map(|(at, name)| (name.as_str(), Bound::Input(at))));
            let tensor = |number: &usize| (tensors[*number].proto.name.as_str(), Bound::Tensor(*number));
            names.extend(scope.initializers.iter().map(tensor));
            let sparse = |number: &usize| (tensors[*number].proto.name.as_str(), Bound::Sparse(*number));
            names.extend(scope.sparse.iter().map(sparse));
        }
        for (number, node) in nodes.nodes.iter().enumerate() {
            for (at, name) in node.outputs.iter().enumerate() {
                bound[node.scope].insert(name, Bound::Output(number, at));
            }
            for name in &node.inputs {
                readers.entry((node.scope, name)).or_default().push(number);
            }
        }
        Ok(Graphs { nodes, bound, readers, calls: Vec::new(), followed: Followed::default() })
    }

    /// A node by its number.
    pub fn node(&self, number: usize) -> &'a Node {
        &self.nodes.nodes[number]
    }

    /// The function that a node calls.
    pub fn called(&self, node: &Node) -> Option<usize> {
        let key = [&node.domain, &node.operator, &node.overload].map(String::clone);
        self.nodes.functions.get(&key).copied()
    }

    /// The place inside the function that a node calls, and how many calls deep that is.
    pub fn call(&mut self, node: usize, from: Place, function: usize) -> (Place, usize) {
        let depth = from.call.map_or(0, |call| self.calls[call].depth) + 1;
        self.calls.push(Call { node, from, function, depth });
        (Place { scope: function, call: Some(self.calls.len() - 1) }, depth)
    }

    /// What an input of a node comes from.
    pub fn of_input(&self, node: usize, at: usize, place: Place) -> Origin<'a> {
        self.node(node).inputs.get(at).map_or(Origin::Nothing, |name| self.origin(place, name))
    }

    /// What a name comes from.
    pub fn origin(&self, mut place: Place, mut name: &'a str) -> Origin<'a> {
        let (mut mover, mut is_whole) = (None, true);
        for _ in 0..MOST_STEPS {
            if name.is_empty() {
                return Origin::Nothing;
            }
            let Some((scope, bound)) = self.meaning(place.scope, name) else {
                place.scope = self.nodes.outermost(place.scope);
                return Origin::Elsewhere(place, name);
            };
            place.scope = scope;
            match bound {
                Bound::Tensor(tensor) => return Origin::Stored { tensor, mover, is_whole },
                Bound::Sparse(tensor) => return Origin::Sparse(tensor),
                Bound::Input(at) if self.nodes.scopes[scope].parent.is_some() => {
                    return Origin::Looped(place, at);
                }
                Bound::Input(at) => {
                    let Some((node, from)) = self.around(place) else {
                        return Origin::Elsewhere(place, name);
                    };
                    name = self.node(node).inputs.get(at).map_or("", String::as_str);
                    place = from;
                }
                Bound::Output(number, at) => {
                    let node = self.node(number);
                    if operators::is_standard(&node.domain) && node.operator == "Constant" {
                        return match self.constant(number, place) {
                            Some(Attribute::Tensor(tensor)) => {
                                Origin::Stored { tensor: *tensor, mover, is_whole }
                            }
                            Some(Attribute::Sparse(tensor)) => Origin::Sparse(*tensor),
                            Some(Attribute::Numbers(numbers)) => Origin::Numbers(numbers.clone()),
                            #[allow(clippy::cast_precision_loss, reason = "no zero point is beyond 2^53")]
                            Some(Attribute::Int(number)) => Origin::Numbers(vec![*number as f64]),
                            Some(Attribute::OfFunction(_)) | None => Origin::Elsewhere(place, name),
                        };
                    }
                    if at > 0 || !operators::moves(&node.domain, &node.operator) {
                        return Origin::Computed(number, at, place);
                    }
                    if node.operator != "Identity" {
                        mover = Some(node.operator.as_str());
                    }
                    is_whole &= RESHAPES.contains(&node.operator.as_str());
                    name = node.inputs.first().map_or("", String::as_str);
                }
            }
        }
        Origin::Far
    }

    /// What a node `Constant` holds.
    pub(crate) fn constant(&self, node: usize, place: Place) -> Option<&'a Attribute> {
        CONSTANTS.iter().find_map(|name| self.attribute(node, place, name))
    }

    /// The node that a scope is computed for, and where that is: one that owns the scope, or calls the function that it is.
    pub(crate) fn around(&self, place: Place) -> Option<(usize, Place)> {
        let of = &self.nodes.scopes[place.scope];
        match of.parent {
            Some(parent) => of.owner.map(|owner| (owner, Place { scope: parent, ..place })),
            None => place.call.map(|call| (self.calls[call].node, self.calls[call].from)),
        }
    }

    /// What a name is here or in a scope around.
    pub(crate) fn meaning(&self, mut scope: usize, name: &str) -> Option<(usize, Bound)> {
        loop {
            if let Some(bound) = self.bound[scope].get(name) {
                return Some((scope, *bound));
            }
            scope = self.nodes.scopes[scope].parent?;
        }
    }

    /// The nodes of a scope that read a name.
    pub fn readers(&self, scope: usize, name: &'a str) -> &[usize] {
        self.readers.get(&(scope, name)).map_or(&[], Vec::as_slice)
    }

    /// The value of an attribute, which may be one of the function around.
    fn attribute(&self, node: usize, place: Place, name: &str) -> Option<&'a Attribute> {
        let by_name = |all: &'a [(String, Attribute)], name: &str| {
            all.iter().find(|(of, _)| of == name).map(|(_, value)| value)
        };
        let (mut of, mut place) = (self.node(node), place);
        let mut value = by_name(&of.attributes, name)?;
        while let Attribute::OfFunction(name) = value {
            let call = self.calls.get(place.call?)?;
            (of, place) = (self.node(call.node), call.from);
            let default = || by_name(&self.nodes.scopes[call.function].defaults, name);
            value = by_name(&of.attributes, name).or_else(default)?;
        }
        Some(value)
    }

    /// The value of an attribute that is a whole number.
    pub fn whole(&self, node: usize, place: Place, name: &str) -> Option<i64> {
        match self.attribute(node, place, name)? {
            Attribute::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of an attribute that is a float.
    pub fn float(&self, node: usize, place: Place, name: &str) -> Option<f64> {
        match self.attribute(node, place, name)? {
            Attribute::Numbers(values) => values.first().copied(),
            _ => None,
        }
    }
}
