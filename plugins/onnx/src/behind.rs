//! Codes that a value is made of, where nodes join, choose or change them before they are scaled: what each of them stands for
//! is not followed, so that they are told as unknown.

use crate::operators;
use crate::origin::{Bound, Graphs, Place};
use apr_sdk::{Error, Result};
use std::collections::{HashMap, HashSet};

/// The most names that are looked at in a model. Between codes and the node that scales them there are a few.
const MOST_NAMES: usize = 1 << 22;

/// Operators whose results are floats that they compute, by the types that the standard allows, or products: no codes pass.
const COMPUTE: [&str; 40] = [
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
    "Gemm",
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
    "MatMul",
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

/// Operators whose second input says where elements go.
const SCATTERS: [&str; 3] = ["Scatter", "ScatterElements", "ScatterND"];

impl<'a> Graphs<'a> {
    /// The tensors that a value is made of, up to nodes that compute with codes: what these give is scaled anew.
    ///
    /// # Errors
    /// LimitExceeded where there is no end to it.
    pub fn behind(&mut self, place: Place, name: &'a str) -> Result<Vec<usize>> {
        let n_calls = self.calls.len();
        let found = self.followed(place, name);
        self.calls.truncate(n_calls);
        found
    }

    fn followed(&mut self, place: Place, name: &'a str) -> Result<Vec<usize>> {
        let (mut found, mut seen, mut next) = (Vec::new(), HashSet::new(), vec![(place, name)]);
        let mut calls: HashMap<(usize, Place), Place> = HashMap::new();
        while let Some((mut place, name)) = next.pop() {
            let Some((scope, bound)) = self.meaning(place.scope, name) else { continue };
            place.scope = scope;
            if name.is_empty() || !seen.insert((place, name)) {
                continue;
            }
            self.n_followed += 1;
            if self.n_followed > MOST_NAMES {
                return Err(Error::limit("its nodes pass codes on too often to be followed"));
            }
            match bound {
                Bound::Tensor(tensor) => found.push(tensor),
                Bound::Input(at) => {
                    if let Some((node, from)) = self.around(place)
                        && let Some(name) = self.node(node).inputs.get(at)
                    {
                        next.push((from, name));
                    }
                }
                Bound::Output(number, _) => {
                    let node = self.node(number);
                    found.extend(node.tensor);
                    let is_standard = operators::is_standard(&node.domain);
                    if operators::find(&node.domain, &node.operator).is_some()
                        || is_standard && COMPUTE.contains(&node.operator.as_str())
                    {
                        continue;
                    }
                    if let Some(function) = self.called(node) {
                        let inside = match calls.get(&(number, place)) {
                            Some(inside) => *inside,
                            None => self.call(number, place, function).0,
                        };
                        calls.insert((number, place), inside);
                        let outputs = &self.nodes.scopes[function].outputs;
                        next.extend(outputs.iter().map(|name| (inside, name.as_str())));
                        continue;
                    }
                    let is_scatter = is_standard && SCATTERS.contains(&node.operator.as_str());
                    let first = if operators::moves(&node.domain, &node.operator) { 1 } else { usize::MAX };
                    let inputs = node.inputs.iter().take(first).enumerate();
                    let inputs = inputs.filter(|(at, _)| *at != 1 || !is_scatter);
                    next.extend(inputs.map(|(_, name)| (place, name.as_str())));
                    for &inner in &self.nodes.scopes[scope].inner {
                        let of = &self.nodes.scopes[inner];
                        if of.owner == Some(number) {
                            let inside = Place { scope: inner, ..place };
                            next.extend(of.outputs.iter().map(|name| (inside, name.as_str())));
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}
