//! Scales that are factors: those of a bias, which are products, and those that MatMulInteger and ConvInteger leave to later
//! nodes, as onnxruntime writes them:
//!
//! ```text
//! DynamicQuantizeLinear(x)       -> codes, scale, zero point
//! MatMulInteger(codes, weight)   -> Cast -> Mul by (scale * scale of the weight)
//! ```
//!
//! The product of integers is true to scale if it is multiplied by both scales. That of the other operand is known from the
//! node that quantized it; what is left must be one constant, or it is not certain that it is the weight's.

use crate::derived::Describer;
use crate::kinds::Kind;
use crate::operators::{self, Axis};
use crate::origin::{Origin, Place, Value};
use std::collections::HashSet;

/// The most nodes between a product of integers and its scale.
const MOST_NODES: usize = 8;

/// The products of two lists of scales, of which one may be a single number, each rounded to F32 as onnxruntime does; `None` if
/// they do not fit together.
pub fn of(alpha: Option<f64>, a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    #[allow(clippy::cast_possible_truncation, reason = "scales are F32")]
    let times = |a: f64, b: f64| f64::from(a as f32 * b as f32);
    let alpha = alpha.unwrap_or(1.0);
    match (a, b) {
        (&[a], b) | (b, &[a]) => Some(b.iter().map(|b| times(times(alpha, a), *b)).collect()),
        (a, b) if a.len() == b.len() => {
            Some(a.iter().zip(b).map(|(a, b)| times(times(alpha, *a), *b)).collect())
        }
        _ => None,
    }
}

/// An operand whose scale is multiplied by later.
pub struct Factor {
    /// The node.
    pub node: usize,
    /// Where it is.
    pub place: Place,
    /// The input of the other operand.
    pub other: usize,
    /// The tensor of the codes.
    pub codes: usize,
    /// The axis that scales may run along.
    pub axis: Axis,
}

/// The tensor that is the scale of an operand, if that is certain, and that of the other operand, if it is one.
pub fn follows(of: &Describer<'_>, factor: &Factor) -> Option<(usize, Option<usize>)> {
    let graphs = &of.graphs;
    // The scale of the other operand.
    let (number, place) = match graphs.of_input(factor.node, factor.other, factor.place) {
        Origin::Computed(node, 0, place) => (node, place),
        _ => return None,
    };
    let quantizer = graphs.node(number);
    if !operators::is_standard(&quantizer.domain) {
        return None;
    }
    let own = match quantizer.operator.as_str() {
        "DynamicQuantizeLinear" => graphs.output(number, 1),
        "QuantizeLinear" => graphs.input(number, 1),
        _ => return None,
    };
    let own = graphs.origin(place, own);
    // Two values that are not followed to their ends look alike.
    if let Origin::Far | Origin::Nothing = own {
        return None;
    }
    let mut factors: Vec<Origin<'_>> = Vec::new();
    let mut value = graphs.output(factor.node, 0);
    for _ in 0..MOST_NODES {
        // One product that is scaled in two ways has no scale.
        let &[number] = graphs.readers(factor.place.scope, value) else { return None };
        if matches!(graphs.node(number).kind, Kind::Multiply) {
            let other = graphs.inputs(number).iter().position(|other| *other != value)?;
            collect(of, graphs.of_input(number, other, factor.place), &mut factors, MOST_NODES);
            let left: Vec<_> = without(&factors, &own);
            if left.len() < factors.len() && !left.is_empty() {
                let [Origin::Stored { tensor, mover: None, .. }] = left[..] else { return None };
                // With another constant after it, either may be the scale.
                if is_scaled_again(of, factor.place, graphs.output(number, 0)) {
                    return None;
                }
                let other = match own {
                    Origin::Stored { tensor, .. } => Some(tensor),
                    _ => None,
                };
                return fits(of, factor, *tensor).then_some((*tensor, other));
            }
        }
        value = graphs.output(number, 0);
    }
    None
}

/// Whether later nodes multiply a value by a constant, at once or after casts.
fn is_scaled_again(of: &Describer<'_>, place: Place, value: Value) -> bool {
    let graphs = &of.graphs;
    let is_constant =
        |node, at| matches!(graphs.of_input(node, at, place), Origin::Stored { .. } | Origin::Numbers(_));
    // Casts may be many, and be read by many.
    let (mut next, mut seen) = (vec![value], HashSet::from([value]));
    while let Some(value) = next.pop() {
        for &number in graphs.readers(place.scope, value) {
            // What is not looked at may be a constant.
            if !graphs.spend(1) {
                return true;
            }
            if matches!(graphs.node(number).kind, Kind::Multiply) {
                if is_constant(number, 0) || is_constant(number, 1) {
                    return true;
                }
            } else if seen.insert(graphs.output(number, 0)) {
                next.push(graphs.output(number, 0));
            }
        }
    }
    false
}

/// The factors of a value: those of a product of others.
fn collect<'a>(of: &Describer<'a>, value: Origin<'a>, factors: &mut Vec<Origin<'a>>, depth: usize) {
    if let Origin::Computed(number, 0, place) = value
        && let Kind::Multiply = of.graphs.node(number).kind
        && depth > 0
    {
        for at in 0..2 {
            collect(of, of.graphs.of_input(number, at, place), factors, depth - 1);
        }
        return;
    }
    factors.push(value);
}

/// The factors but for one that is `own`.
fn without<'f, 'a>(factors: &'f [Origin<'a>], own: &Origin<'a>) -> Vec<&'f Origin<'a>> {
    let at = factors.iter().position(|factor| factor == own);
    factors.iter().enumerate().filter(|(number, _)| Some(*number) != at).map(|(_, factor)| factor).collect()
}

/// Whether a scale has the shape that goes with the operand's axis in the result: one number, or so many along that axis.
fn fits(of: &Describer<'_>, factor: &Factor, scale: usize) -> bool {
    let (scale, codes) = (&of.tensors[scale].shape, &of.tensors[factor.codes].shape);
    if scale.iter().all(|size| *size == 1) {
        return true;
    }
    // The rows of a kernel are the second dimension of what it computes, which has as many.
    let (axis, from_end) = match factor.axis {
        Axis::Fixed(0) => (codes.first(), codes.len().saturating_sub(1)),
        Axis::Fixed(-1) => (codes.last(), 1),
        Axis::Fixed(-2) => (codes.len().checked_sub(2).and_then(|at| codes.get(at)), 2),
        _ => return false,
    };
    let Some(place) = scale.len().checked_sub(from_end) else { return false };
    let is_right = |(at, size): (usize, &u64)| if at == place { Some(size) == axis } else { *size == 1 };
    scale.iter().enumerate().all(is_right)
}
