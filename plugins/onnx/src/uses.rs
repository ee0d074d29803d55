//! Scales that the graph computes with in other ways too, as with any float: they stay in the model, beside the weights that they
//! scale.

use crate::kinds::Kind;
use crate::origin::{Graphs, Origin, Place, Value};
use std::collections::HashSet;

/// What nodes that do not compute with codes read.
#[derive(Debug, Default)]
pub struct Uses {
    /// Values that were followed, in which call, and whether to a product: many nodes read what has many nodes before it.
    seen: HashSet<(Option<usize>, Value, bool)>,
    read: HashSet<usize>,
    multiplied: HashSet<usize>,
    /// Scales of operands of integers, whose products later nodes multiply by.
    following: HashSet<usize>,
}

impl Uses {
    /// Keeps what a node reads that does not compute with codes.
    pub fn add(&mut self, graphs: &Graphs<'_>, number: usize, place: Place) {
        let kind = graphs.node(number).kind;
        // What is moved counts where it is read.
        if matches!(kind, Kind::Move { .. }) {
            return;
        }
        let is_product = matches!(kind, Kind::Multiply);
        let read = if is_product { &mut self.multiplied } else { &mut self.read };
        for value in graphs.inputs(number) {
            if !graphs.spend(1) {
                return;
            }
            if let Value::Bound(..) = value
                && self.seen.insert((place.call, *value, is_product))
                && graphs.hold(2 * size_of::<(Option<usize>, Value, bool)>())
                && let Origin::Stored { tensor, .. } = graphs.origin(place, *value)
            {
                read.insert(tensor);
            }
        }
    }

    /// Keeps that a tensor is the scale of an operand of integers: that their product is multiplied by it is no other use.
    pub fn follow(&mut self, tensor: usize) {
        self.following.insert(tensor);
    }

    /// Whether a scale is more than that.
    pub fn has(&self, tensor: usize) -> bool {
        self.read.contains(&tensor) || self.multiplied.contains(&tensor) && !self.following.contains(&tensor)
    }
}
