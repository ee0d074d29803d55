//! Resemblances between a weight and the reference's: each undoes one mistake, and is kept if that makes both equal.

use super::digits::short;
use super::distance::{distance, size};
use super::order::{self, Order};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};

/// A weight of both models, as rows of F32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a> {
    /// The suspect's elements.
    pub(super) suspect: &'a [f32],
    /// The reference's elements.
    pub(super) reference: &'a [f32],
    /// Elements in a row.
    pub(super) columns: usize,
    /// Rows that belong to one head, if rows are those of heads.
    pub(super) head_rows: Option<usize>,
    /// Columns that belong to one head, if columns are those of heads.
    pub(super) head_columns: Option<usize>,
}

/// A resemblance that was found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resemblance {
    /// The resemblance in words, of which the weight is the subject.
    pub(super) words: String,
    /// Share of the difference that it leaves unexplained.
    pub(super) left: f64,
}

/// Share of the difference below which it is explained.
const EXPLAINED: f64 = 0.05;
/// Elements that differ in damaged weights, of a million.
const FEW: f64 = 1e-3;

impl Weights<'_> {
    /// Share of the difference that a distance from the suspect leaves. Against elements that are all tiny, even nothing at all
    /// is near, so that the suspect's own size counts too.
    fn share(&self, left: f64) -> f64 {
        let whole = distance(self.suspect, self.reference).min(size(self.suspect));
        if whole.is_finite() && whole > 0.0 { left / whole } else { f64::INFINITY }
    }

    /// Number of rows.
    fn rows(&self) -> usize {
        self.suspect.len() / self.columns.max(1)
    }
}

/// The best resemblance; `None` if none explains most of the difference.
pub(super) fn resemblance(weights: &Weights<'_>) -> Option<Resemblance> {
    let mut best: Option<Resemblance> = None;
    // Bits that are read in another way may be NaN: that comes first.
    for hypothesis in [
        read_as_other_floats,
        byte_order,
        broken,
        zero,
        constant,
        zeroed,
        damaged,
        offset,
        scaled,
        shifted,
        halves,
        rows,
        columns,
        transposed,
    ] {
        let Some((words, left)) = hypothesis(weights) else { continue };
        if left <= EXPLAINED {
            return Some(Resemblance { words, left });
        }
        if left <= 0.5 && best.as_ref().is_none_or(|best| left < best.left) {
            best = Some(Resemblance { words, left });
        }
    }
    noise(weights).or(best)
}

/// Words, and the share of the difference that they leave.
type Hypothesis = Option<(String, f64)>;

fn broken(weights: &Weights<'_>) -> Hypothesis {
    let count = |elements: &[f32]| elements.iter().filter(|element| !element.is_finite()).count();
    let broken = count(weights.suspect);
    let all = weights.suspect.len();
    (broken > count(weights.reference))
        .then(|| (format!("has {broken} of {all} elements that are NaN or infinite"), 0.0))
}

fn zero(weights: &Weights<'_>) -> Hypothesis {
    weights.suspect.iter().all(|element| *element == 0.0).then(|| ("has only zeros".to_owned(), 0.0))
}

fn constant(weights: &Weights<'_>) -> Hypothesis {
    let first = *weights.suspect.first()?;
    let is_constant = weights.suspect.len() > 1 && weights.suspect.iter().all(|element| *element == first);
    is_constant.then(|| (format!("has the same value everywhere, {}", short(first)), 0.0))
}

/// Some elements are zero, and all others as they were.
fn zeroed(weights: &Weights<'_>) -> Hypothesis {
    let pairs = || weights.suspect.iter().zip(weights.reference);
    let count = pairs().filter(|(a, b)| **a == 0.0 && **b != 0.0).count();
    if count < 2 {
        return None;
    }
    let left: f64 =
        pairs().filter(|(a, _)| **a != 0.0).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    let all = weights.suspect.len();
    let at = pairs().position(|(a, b)| *a == 0.0 && *b != 0.0)?;
    let (row, column) = (at / weights.columns.max(1), at % weights.columns.max(1));
    let words = format!("has {count} of {all} elements set to zero, the first in row {row}, column {column}");
    Some((words, weights.share(left.sqrt())))
}

fn damaged(weights: &Weights<'_>) -> Hypothesis {
    let pairs = || weights.suspect.iter().zip(weights.reference).enumerate();
    let differs = |(_, (a, b)): &(usize, (&f32, &f32))| a != b && !(a.is_nan() && b.is_nan());
    let count = pairs().filter(differs).count();
    let (first, _) = pairs().find(differs)?;
    let all = weights.suspect.len();
    if all < 64 || count as f64 > (all as f64 * FEW).max(1.0) {
        return None;
    }
    let (row, column) = (first / weights.columns.max(1), first % weights.columns.max(1));
    let words =
        format!("is damaged: {count} of {all} elements differ, the first in row {row}, column {column}");
    Some((words, 0.0))
}

fn offset(weights: &Weights<'_>) -> Hypothesis {
    let pairs = || weights.suspect.iter().zip(weights.reference);
    let sum: f64 = pairs().map(|(a, b)| f64::from(*a) - f64::from(*b)).sum();
    let mean = sum / weights.suspect.len().max(1) as f64;
    let square: f64 = pairs().map(|(a, b)| (f64::from(*a) - mean - f64::from(*b)).powi(2)).sum();
    let words = if (mean + 1.0).abs() < 1e-2 {
        "lacks the 1 that is added to every element".to_owned()
    } else if (mean - 1.0).abs() < 1e-2 {
        "has 1 added to every element once too often".to_owned()
    } else {
        #[allow(clippy::cast_possible_truncation, reason = "a number for people")]
        let mean = mean as f32;
        format!("has {} added to every element", short(mean))
    };
    Some((words, weights.share(square.sqrt())))
}

fn scaled(weights: &Weights<'_>) -> Hypothesis {
    let (mut product, mut square) = (0.0, 0.0);
    for (a, b) in weights.suspect.iter().zip(weights.reference) {
        product += f64::from(*a) * f64::from(*b);
        square += f64::from(*b).powi(2);
    }
    let factor = product / square;
    if !factor.is_finite() || factor == 0.0 {
        return None;
    }
    let pairs = weights.suspect.iter().zip(weights.reference);
    let left: f64 = pairs.map(|(a, b)| (f64::from(*a) - factor * f64::from(*b)).powi(2)).sum();
    let words = if (factor + 1.0).abs() < 1e-3 {
        "has the opposite sign".to_owned()
    } else {
        #[allow(clippy::cast_possible_truncation, reason = "a number for people")]
        let factor = factor as f32;
        format!("is {} times the reference's", short(factor))
    };
    Some((words, weights.share(left.sqrt())))
}

/// Each row is its neighbour: the vocabulary, or whatever numbers the rows, is off by one.
fn shifted(weights: &Weights<'_>) -> Hypothesis {
    let count = weights.suspect.len().checked_sub(weights.columns).filter(|_| weights.rows() > 2)?;
    let behind = distance(&weights.suspect[..count], &weights.reference[weights.columns..]);
    let before = distance(&weights.suspect[weights.columns..], &weights.reference[..count]);
    let (words, left) = match behind <= before {
        true => ("has its rows shifted by one: each is the reference's next", behind),
        false => ("has its rows shifted by one: each is the reference's one before", before),
    };
    Some((words.to_owned(), weights.share(left)))
}

fn rows(weights: &Weights<'_>) -> Hypothesis {
    let order = Order::find(weights.suspect, weights.reference, weights.columns)?;
    Some((order.words("rows", weights.head_rows), weights.share(order.distance)))
}

fn columns(weights: &Weights<'_>) -> Hypothesis {
    let count = weights.rows();
    if count < 2 {
        return None;
    }
    let suspect = order::transposed(weights.suspect, weights.columns);
    let reference = order::transposed(weights.reference, weights.columns);
    let order = Order::find(&suspect, &reference, count)?;
    Some((order.words("columns", weights.head_columns), weights.share(order.distance)))
}

fn transposed(weights: &Weights<'_>) -> Hypothesis {
    let count = weights.rows();
    if count < 2 || weights.columns < 2 {
        return None;
    }
    let turned = order::transposed(weights.reference, weights.columns);
    let words = match count == weights.columns {
        true => "is transposed",
        false => "is transposed and then cut into rows of the old length",
    };
    Some((words.to_owned(), weights.share(distance(weights.suspect, &turned))))
}

fn read_as_other_floats(weights: &Weights<'_>) -> Hypothesis {
    let as_f16: Vec<f32> = weights.reference.iter().map(|element| from_f16(to_bf16(*element))).collect();
    let as_bf16: Vec<f32> = weights.reference.iter().map(|element| from_bf16(to_f16(*element))).collect();
    // Both are apart by orders of magnitude, so that logarithms tell them, and not the largest element.
    let (f16, bf16) = (near_share(weights.suspect, &as_f16), near_share(weights.suspect, &as_bf16));
    if f16 >= bf16 {
        return Some(("holds the bits of BF16 read as F16".to_owned(), 1.0 - f16));
    }
    Some(("holds the bits of F16 read as BF16".to_owned(), 1.0 - bf16))
}

/// Share of the elements that are as good as equal.
fn near_share(suspect: &[f32], reference: &[f32]) -> f64 {
    let pairs = suspect.iter().zip(reference);
    let near = pairs.filter(|(a, b)| {
        a == b || (a.is_nan() && b.is_nan()) || (*a - *b).abs() <= 0.01 * a.abs().max(b.abs())
    });
    near.count() as f64 / suspect.len().max(1) as f64
}

fn byte_order(weights: &Weights<'_>) -> Hypothesis {
    let whole: Vec<f32> =
        weights.reference.iter().map(|element| f32::from_bits(element.to_bits().swap_bytes())).collect();
    let halves: Vec<f32> =
        weights.reference.iter().map(|element| from_bf16(to_bf16(*element).swap_bytes())).collect();
    let f16: Vec<f32> =
        weights.reference.iter().map(|element| from_f16(to_f16(*element).swap_bytes())).collect();
    let shares = [whole, halves, f16].map(|swapped| near_share(weights.suspect, &swapped));
    let best = shares.into_iter().fold(0.0, f64::max);
    Some(("has its bytes in the other order".to_owned(), 1.0 - best))
}

/// Codes of 4 bits lie two in a byte: one half of a block's elements in the low bits, the other in the high ones.
fn halves(weights: &Weights<'_>) -> Hypothesis {
    let mut best = (0, f64::INFINITY);
    for block in [32, 64] {
        if !weights.columns.is_multiple_of(block) {
            continue;
        }
        let mut swapped = weights.reference.to_vec();
        for block in swapped.chunks_exact_mut(block) {
            let (low, high) = block.split_at_mut(block.len() / 2);
            low.swap_with_slice(high);
        }
        let distance = distance(weights.suspect, &swapped);
        if distance < best.1 {
            best = (block, distance);
        }
    }
    let (block, distance) = best;
    let words =
        format!("has the halves of its blocks of {block} exchanged: the nibbles of each byte are swapped");
    Some((words, weights.share(distance)))
}

/// Rounding: small, and as large in every row.
fn noise(weights: &Weights<'_>) -> Option<Resemblance> {
    let whole = distance(weights.suspect, weights.reference) / size(weights.reference);
    if whole.is_nan() || whole > 0.5 {
        return None;
    }
    let columns = weights.columns.max(1);
    let pairs = weights.suspect.chunks_exact(columns).zip(weights.reference.chunks_exact(columns));
    let mut distances: Vec<f64> = pairs.map(|(a, b)| distance(a, b) / size(b)).collect();
    distances.retain(|distance| distance.is_finite());
    distances.sort_by(f64::total_cmp);
    let low = distances.get(distances.len() / 10).copied()?;
    let high = distances.get(distances.len() * 9 / 10).copied()?;
    if low == 0.0 || high > 6.0 * low {
        return None;
    }
    // A step of 2^-n of the largest element of a block leaves about 2^-n of the RMS.
    let bits = -whole.log2();
    let words = format!(
        "is rounded: a relative error of {whole:.1e} in every row and no structure, as quantization to about \
         {bits:.0} bits leaves"
    );
    Some(Resemblance { words, left: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::random::Random;

    const COLUMNS: usize = 64;

    fn reference() -> Vec<f32> {
        let mut random = Random::new(7);
        #[allow(clippy::cast_possible_truncation, reason = "test data")]
        (0..16 * COLUMNS)
            .map(|_| (random.unit() + random.unit() + random.unit() - 1.5) as f32 * 0.1)
            .collect()
    }

    fn words_of(suspect: &[f32]) -> String {
        let reference = reference();
        let weights = Weights {
            suspect,
            reference: &reference,
            columns: COLUMNS,
            head_rows: Some(8),
            head_columns: Some(16),
        };
        resemblance(&weights).map_or_else(String::new, |found| found.words)
    }

    #[test]
    fn each_mistake_has_its_words() {
        let b = reference();
        let mapped =
            |change: &dyn Fn(f32) -> f32| b.iter().map(|element| change(*element)).collect::<Vec<f32>>();
        assert!(words_of(&mapped(&|x| x * 1.25)).contains("is 1.25 times"));
        assert!(words_of(&mapped(&|x| -x)).contains("opposite sign"));
        assert!(words_of(&mapped(&|x| x - 1.0)).contains("lacks the 1"));
        assert!(words_of(&mapped(&|x| x + 1.0)).contains("once too often"));
        assert!(words_of(&mapped(&|_| 0.0)).contains("only zeros"));
        assert!(words_of(&mapped(&|x| from_f16(to_bf16(x)))).contains("BF16 read as F16"));
        assert!(words_of(&mapped(&|x| from_bf16(to_f16(x)))).contains("F16 read as BF16"));
        assert!(words_of(&mapped(&|x| f32::from_bits(x.to_bits().swap_bytes()))).contains("other order"));
        assert!(words_of(&mapped(&|x| (x * 64.0).round() / 64.0)).contains("is rounded"));
        assert!(words_of(&mapped(&|_| 0.5)).contains("the same value everywhere, 0.5"));
        let mut zeroed = b.clone();
        zeroed.chunks_exact_mut(COLUMNS).for_each(|row| row[..8].fill(0.0));
        assert!(words_of(&zeroed).contains("128 of 1024 elements set to zero"));
        let mut broken = b.clone();
        broken[100] = f32::NAN;
        assert!(words_of(&broken).contains("NaN"));
        broken[100] = 3.0;
        assert!(
            words_of(&broken)
                .contains("is damaged: 1 of 1024 elements differ, the first in row 1, column 36")
        );
    }

    #[test]
    fn orders_and_shapes_have_their_words() {
        let b = reference();
        assert!(words_of(&order::transposed(&b, COLUMNS)).contains("cut into rows"));
        let mut halves = b.clone();
        for block in halves.chunks_exact_mut(32) {
            block.rotate_left(16);
        }
        assert!(words_of(&halves).contains("nibbles"));
        let mut shifted = b.clone();
        shifted.rotate_left(COLUMNS);
        assert!(words_of(&shifted).contains("shifted by one"));
        let mut heads = b.clone();
        heads.rotate_left(8 * COLUMNS);
        assert!(words_of(&heads).contains("heads"), "{}", words_of(&heads));
    }

    #[test]
    fn weights_that_resemble_nothing_have_no_words() {
        let mut random = Random::new(9);
        #[allow(clippy::cast_possible_truncation, reason = "test data")]
        let other: Vec<f32> = (0..16 * COLUMNS).map(|_| random.unit() as f32 - 0.5).collect();
        assert_eq!(words_of(&other), "");
    }
}
