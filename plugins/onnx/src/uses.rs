//! Scales that the graph computes with in other ways too, as with any float: they stay in the model, beside the weights that they
//! scale.

use crate::operators;
use crate::origin::{Graphs, Origin, Place};
use std::collections::HashSet;

/// What nodes that do not compute with codes read.
#[derive(Debug, Default)]
pub struct Uses<'a> {
    /// Names that were followed, and whether to a product: many nodes read what has many nodes before it.
    seen: HashSet<(Place, &'a str, bool)>,
    read: HashSet<usize>,
    multiplied: HashSet<usize>,
    /// Scales of operands of integers, whose products later nodes multiply by.
    following: HashSet<usize>,
}

impl<'a> Uses<'a> {
    /// Keeps what a node reads that does not compute with codes.
    pub fn add(&mut self, graphs: &Graphs<'a>, number: usize, place: Place) {
        let node = graphs.node(number);
        // What is moved counts where it is read.
        if operators::moves(&node.domain, &node.operator) {
            return;
        }
        let is_product = operators::is_standard(&node.domain) && node.operator == "Mul";
        let read = if is_product { &mut self.multiplied } else { &mut self.read };
        for name in &node.inputs {
            if self.seen.insert((place, name, is_product))
                && let Origin::Stored { tensor, .. } = graphs.origin(place, name)
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
