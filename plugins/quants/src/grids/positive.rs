//! The scale that the tries of IQ2_XXS start from, in lanes.

use crate::simd::{Floats, Ints, Lanes, Mask};

/// The highest level.
const TOP: f32 = 4.0;

/// In each lane the scale with which whole levels from 0 to 4 fit the values best, as `search::positive` finds it.
#[inline(always)]
#[allow(clippy::cast_precision_loss, reason = "small integers")]
pub fn first_scale<V: Lanes>(lanes: V, values: &[V::Floats], weights: &[V::Floats]) -> V::Floats {
    let (zero, one, top) = (lanes.floats(0.0), lanes.floats(1.0), lanes.floats(TOP));
    let (top_int, byte) = (top.truncated(), lanes.ints(255));
    let pairs = || values.iter().copied().zip(weights.iter().copied());
    let max = values.iter().fold(zero, |max, value| max.max(*value));
    let none = max.less(lanes.floats(1e-15));
    let mut inverse = top / max;
    let first = one / inverse;
    let mut least = zero;
    for (value, weight) in pairs() {
        let difference = value - first * ((inverse * value).nearest_int() & byte).to_floats();
        least = least + weight * difference * difference;
    }
    for attempt in (-4..=4).filter(|attempt| *attempt != 0) {
        let tried = lanes.floats(0.1 * attempt as f32 + TOP) / max;
        let scale = one / tried;
        let mut error = zero;
        for (value, weight) in pairs() {
            let difference = value - scale * (tried * value).nearest_int().min(top_int).to_floats();
            error = error + weight * difference * difference;
        }
        let better = error.less(least);
        least = better.pick(error, least);
        inverse = better.pick(tried, inverse);
    }
    let mut levels = [zero; 32];
    let (mut products, mut squares) = (zero, zero);
    for (level, (value, weight)) in levels.iter_mut().zip(pairs()) {
        let nearest = (inverse * value).nearest_int().min(top_int);
        *level = (nearest & byte).to_floats();
        let q = nearest.to_floats();
        products = products + weight * value * q;
        squares = squares + weight * q * q;
    }
    for _ in 0..5 {
        // A lane in which nothing moves will not move later: its sums stay.
        let mut moved = lanes.mask(false);
        for (level, (value, weight)) in levels.iter_mut().zip(pairs()) {
            let product = products - weight * value * *level;
            let square = squares - weight * *level * *level;
            let next = (value * square / product).nearest_int().min(top_int);
            let q = next.to_floats();
            let (more_product, more_square) = (product + weight * value * q, square + weight * q * q);
            let moves = product.more(zero)
                & square.more(zero)
                & !q.equals(*level)
                & (more_product * more_product * squares).more(products * products * more_square);
            *level = moves.pick((next & byte).to_floats(), *level);
            products = moves.pick(more_product, products);
            squares = moves.pick(more_square, squares);
            moved = moved | moves;
        }
        if !moved.any() {
            break;
        }
    }
    none.pick(zero, squares.more(zero).pick(products / squares, zero))
}
