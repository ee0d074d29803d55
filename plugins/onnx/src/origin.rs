//! Where values come from: names followed through scopes, functions and nodes that move elements, to what is stored.

use crate::behind::Followed;
use crate::kinds::Kind;
use crate::nodes::{Attribute, EMPTY, Name, Node, Nodes, Scope};
use crate::operators;
use apr_sdk::{Limits, Result};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

/// The most steps from a value to what it comes from.
const MOST_STEPS: usize = 100;

/// How deep functions may call one another.
pub const MOST_CALLS: usize = 16;

/// Steps that any model may take: names followed, nodes visited in calls. Models with some hundred thousand nodes in all calls
/// take fewer; a few bytes can ask for any number.
const LEAST_WORK: u64 = 1 << 22;

/// Steps for each name that a node reads or computes: few are followed far, and most by one reader.
const WORK_OF_NAME: u64 = 32;

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

/// What a name is where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The name is empty.
    Nothing,
    /// Nothing computes or stores it: an input of the model.
    Unbound(Name),
    /// What it is, in this scope.
    Bound(usize, Bound),
}

/// What a name is in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
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
    Numbers(Cow<'a, [f64]>),
    /// The values of a sparse tensor of the model.
    Sparse(usize),
    /// What the body of a loop gets as an input, by the body and its input: another value in each turn.
    Looped(Place, usize),
    /// More nodes lie before it than are followed.
    Far,
    /// What a node computes: the node, which of its outputs, and where.
    Computed(usize, usize, Place),
    /// Something else, and where that is: an input of the model, or what no node computes.
    Elsewhere(Place, Value),
    /// The name is empty or missing.
    Nothing,
}

/// The nodes with their names.
pub struct Graphs<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    limits: &'a Limits,
    /// The steps that are left.
    work: Cell<u64>,
    /// What each node reads.
    inputs: Vec<Box<[Value]>>,
    /// What the outputs of each scope are.
    outputs: Vec<Box<[Value]>>,
    /// The function that each node calls.
    called: Vec<Option<usize>>,
    /// The nodes of a scope that multiply a value or cast it.
    readers: HashMap<(usize, Value), Vec<usize>>,
    pub(crate) calls: Vec<Call>,
    /// What was followed through nodes of any kind.
    pub(crate) followed: Followed,
}

impl<'a> Graphs<'a> {
    /// Finds what each name is, once.
    ///
    /// # Errors
    /// LimitExceeded.
    pub fn new(nodes: &'a Nodes, limits: &'a Limits) -> Result<Graphs<'a>> {
        let mut names: HashMap<(usize, Name), Bound> = HashMap::new();
        let n_inputs = nodes.nodes.iter().map(|node| node.inputs.len()).sum::<usize>();
        let n_outputs = nodes.nodes.iter().map(|node| node.outputs.len()).sum::<usize>();
        let of_scope = |scope: &Scope| {
            scope.inputs.len() + scope.outputs.len() + scope.initializers.len() + scope.sparse.len()
        };
        let n_ends = n_outputs + nodes.scopes.iter().map(of_scope).sum::<usize>();
        // An entry of a map that doubles; a node without names has its lists too.
        let cost = n_inputs * size_of::<Value>()
            + n_ends * (size_of::<Value>() + 2 * size_of::<((usize, Name), Bound)>())
            + (nodes.nodes.len() + nodes.scopes.len()) * 2 * size_of::<Box<[Value]>>();
        limits.budget.charge(cost as u64)?;
        for (number, scope) in nodes.scopes.iter().enumerate() {
            let mut add = |name: Name, bound| names.insert((number, name), bound);
            scope.inputs.iter().enumerate().for_each(|(at, name)| _ = add(*name, Bound::Input(at)));
            scope.initializers.iter().for_each(|(name, tensor)| _ = add(*name, Bound::Tensor(*tensor)));
            scope.sparse.iter().for_each(|(name, tensor)| _ = add(*name, Bound::Sparse(*tensor)));
        }
        for (number, node) in nodes.nodes.iter().enumerate() {
            for (at, name) in node.outputs.iter().enumerate() {
                names.insert((node.scope, *name), Bound::Output(number, at));
            }
        }
        let value = |mut scope: usize, name: &Name| {
            if *name == EMPTY {
                return Value::Nothing;
            }
            loop {
                if let Some(bound) = names.get(&(scope, *name)) {
                    return Value::Bound(scope, *bound);
                }
                match nodes.scopes[scope].parent {
                    Some(parent) => scope = parent,
                    None => return Value::Unbound(*name),
                }
            }
        };
        let all = |scope, names: &[Name]| names.iter().map(|name| value(scope, name)).collect::<Box<[_]>>();
        let inputs: Vec<_> = nodes.nodes.iter().map(|node| all(node.scope, &node.inputs)).collect();
        let outputs = nodes.scopes.iter().enumerate().map(|(number, scope)| all(number, &scope.outputs));
        let outputs = outputs.collect();
        let mut readers: HashMap<(usize, Value), Vec<usize>> = HashMap::new();
        for (number, node) in nodes.nodes.iter().enumerate() {
            if operators::is_standard(&node.domain) && ["Cast", "Mul"].contains(&node.operator.as_str()) {
                limits.budget.charge(200 * node.inputs.len() as u64)?;
                for value in &inputs[number] {
                    readers.entry((node.scope, *value)).or_default().push(number);
                }
            }
        }
        let called = nodes.nodes.iter().map(|node| {
            let key = [&node.domain, &node.operator, &node.overload].map(String::clone);
            nodes.functions.get(&key).copied()
        });
        let called = called.collect();
        let work = LEAST_WORK + WORK_OF_NAME * (n_inputs + n_ends) as u64;
        let (work, calls, followed) = (Cell::new(work), Vec::new(), Followed::default());
        Ok(Graphs { nodes, limits, work, inputs, outputs, called, readers, calls, followed })
    }

    /// Takes so many steps; false if not so many are left, after which none is.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.work.get().checked_sub(steps as u64);
        self.work.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Takes so much memory; false if there is not so much, and then no step is left either.
    pub fn hold(&self, bytes: usize) -> bool {
        let may = self.limits.budget.charge(bytes as u64).is_ok();
        if !may {
            self.work.set(0);
        }
        may
    }

    /// Whether no step is left: what is found from then on is not all.
    pub fn is_at_end(&self) -> bool {
        self.work.get() == 0
    }

    /// A node by its number.
    pub fn node(&self, number: usize) -> &'a Node {
        &self.nodes.nodes[number]
    }

    /// The function that a node calls.
    pub fn called(&self, node: usize) -> Option<usize> {
        self.called[node]
    }

    /// What a node reads.
    pub fn inputs(&self, node: usize) -> &[Value] {
        &self.inputs[node]
    }

    /// An input of a node.
    pub fn input(&self, node: usize, at: usize) -> Value {
        self.inputs[node].get(at).copied().unwrap_or(Value::Nothing)
    }

    /// What a node computes.
    pub fn output(&self, node: usize, at: usize) -> Value {
        Value::Bound(self.node(node).scope, Bound::Output(node, at))
    }

    /// What the outputs of a scope are.
    pub fn outputs(&self, scope: usize) -> &[Value] {
        &self.outputs[scope]
    }

    /// The place inside the function that a node calls, and how many calls deep that is.
    pub fn call(&mut self, node: usize, from: Place, function: usize) -> (Place, usize) {
        let depth = from.call.map_or(0, |call| self.calls[call].depth) + 1;
        self.hold(2 * size_of::<Call>());
        self.calls.push(Call { node, from, function, depth });
        (Place { scope: function, call: Some(self.calls.len() - 1) }, depth)
    }

    /// What an input of a node comes from.
    pub fn of_input(&self, node: usize, at: usize, place: Place) -> Origin<'a> {
        self.origin(place, self.input(node, at))
    }

    /// What a value comes from.
    pub fn origin(&self, mut place: Place, mut value: Value) -> Origin<'a> {
        let (mut mover, mut is_whole) = (None, true);
        for _ in 0..MOST_STEPS {
            if !self.spend(1) {
                return Origin::Far;
            }
            let bound = match value {
                Value::Nothing => return Origin::Nothing,
                Value::Unbound(_) => {
                    place.scope = self.nodes.outermost(place.scope);
                    return Origin::Elsewhere(place, value);
                }
                Value::Bound(scope, bound) => {
                    place.scope = scope;
                    bound
                }
            };
            match bound {
                Bound::Tensor(tensor) => return Origin::Stored { tensor, mover, is_whole },
                Bound::Sparse(tensor) => return Origin::Sparse(tensor),
                Bound::Input(at) if self.nodes.scopes[place.scope].parent.is_some() => {
                    return Origin::Looped(place, at);
                }
                Bound::Input(at) => {
                    let Some((node, from)) = self.around(place) else {
                        return Origin::Elsewhere(place, value);
                    };
                    value = self.input(node, at);
                    place = from;
                }
                Bound::Output(number, at) => {
                    let node = self.node(number);
                    match node.kind {
                        Kind::Constant => {
                            return match self.constant(number, place) {
                                Some(Attribute::Tensor(tensor)) => {
                                    Origin::Stored { tensor: *tensor, mover, is_whole }
                                }
                                Some(Attribute::Sparse(tensor)) => Origin::Sparse(*tensor),
                                // They may be compared.
                                Some(Attribute::Numbers(numbers)) if self.spend(numbers.len() / 64) => {
                                    Origin::Numbers(Cow::from(numbers))
                                }
                                Some(Attribute::Numbers(_)) => Origin::Far,
                                #[allow(clippy::cast_precision_loss, reason = "no zero point is beyond 2^53")]
                                Some(Attribute::Int(number)) => Origin::Numbers(vec![*number as f64].into()),
                                Some(Attribute::OfFunction(_)) | None => Origin::Elsewhere(place, value),
                            };
                        }
                        Kind::Move { is_identity } if at == 0 => {
                            if !is_identity {
                                mover = Some(node.operator.as_str());
                            }
                        }
                        _ => return Origin::Computed(number, at, place),
                    }
                    is_whole &= RESHAPES.contains(&node.operator.as_str());
                    value = self.input(number, 0);
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

    /// The nodes of a scope that multiply a value or cast it.
    pub fn readers(&self, scope: usize, value: Value) -> &[usize] {
        self.readers.get(&(scope, value)).map_or(&[], Vec::as_slice)
    }

    /// The value of an attribute, which may be one of the function around.
    fn attribute(&self, node: usize, place: Place, name: &str) -> Option<&'a Attribute> {
        let mut name = *self.nodes.names.get(name)?;
        let by_name = |all: &'a [(Name, Attribute)], name: Name| {
            // Comparing a few of them is no more than a step.
            let is_allowed = self.spend(1 + all.len() / 16);
            all.iter().find(|(of, _)| is_allowed && *of == name).map(|(_, value)| value)
        };
        let (mut of, mut place) = (self.node(node), place);
        let mut value = by_name(&of.attributes, name)?;
        while let Attribute::OfFunction(given) = value {
            name = *given;
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
