//! The loops of attention.

use crate::level::Level;
use crate::level::versions;
use crate::operations::functions::tanh;
use crate::session::cache::PAGE;

use super::CHUNK;

/// Products of `queries` queries with a page of turned keys. Those of query `q` with the page's 32 positions go to
/// `scores[q · CHUNK..]`.
pub(super) fn scores(
    level: Level,
    keys: &[f32],
    queries: &[f32],
    width: usize,
    count: usize,
    scores: &mut [f32],
) {
    let mut query = 0;
    while query < count {
        let (rows, out) = (&queries[query * width..], &mut scores[query * CHUNK..]);
        // As many at a time as there are registers for their sums.
        if level == Level::Avx512 && count - query >= 4 {
            four(level, keys, &rows[..4 * width], out);
            query += 4;
        } else if count - query >= 2 {
            two(level, keys, &rows[..2 * width], out);
            query += 2;
        } else {
            one(level, keys, &rows[..width], out);
            query += 1;
        }
    }
}

/// The products of some queries. Each is one chain of sums over the elements, whatever the number of queries.
#[inline(always)]
fn products<const QUERIES: usize>(keys: &[f32], queries: &[f32], out: &mut [f32]) {
    let width = queries.len() / QUERIES;
    let mut sums = [[0f32; PAGE]; QUERIES];
    let rows: [&[f32]; QUERIES] = std::array::from_fn(|query| &queries[query * width..][..width]);
    for (element, keys) in keys.chunks_exact(PAGE).take(width).enumerate() {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let factor = row[element];
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum += factor * key;
            }
        }
    }
    for (query, sums) in sums.iter().enumerate() {
        out[query * CHUNK..][..PAGE].copy_from_slice(sums);
    }
}

/// Elements of a value whose sums are kept in registers.
const STRIP: usize = 64;

versions! {
    four(keys: &[f32], queries: &[f32], out: &mut [f32]) -> () {
        products::<4>(keys, queries, out);
    }

    two(keys: &[f32], queries: &[f32], out: &mut [f32]) -> () {
        products::<2>(keys, queries, out);
    }

    one(keys: &[f32], queries: &[f32], out: &mut [f32]) -> () {
        products::<1>(keys, queries, out);
    }

    /// sum += Σ weight · value, over consecutive positions.
    weighted(sum: &mut [f32], values: &[f32], weights: &[f32]) -> () {
        let width = sum.len();
        let mut strips = sum.chunks_exact_mut(STRIP);
        let mut first = 0;
        for strip in &mut strips {
            let mut sums = [0f32; STRIP];
            sums.copy_from_slice(strip);
            for (value, weight) in values.chunks_exact(width).zip(weights) {
                for (sum, x) in sums.iter_mut().zip(&value[first..first + STRIP]) {
                    *sum += *weight * x;
                }
            }
            strip.copy_from_slice(&sums);
            first += STRIP;
        }
        let rest = strips.into_remainder();
        if rest.is_empty() {
            return;
        }
        for (value, weight) in values.chunks_exact(width).zip(weights) {
            for (sum, x) in rest.iter_mut().zip(&value[first..]) {
                *sum += *weight * x;
            }
        }
    }

    /// Scales the scores of consecutive positions, bounds them, and subtracts ALiBi's part, where `distance` is that of
    /// the first.
    adjust(scores: &mut [f32], scale: f32, cap: f32, slope: f32, distance: f32) -> () {
        for score in scores.iter_mut() {
            *score *= scale;
        }
        if cap != 0.0 {
            for score in scores.iter_mut() {
                *score = cap * tanh(*score / cap);
            }
        }
        if slope != 0.0 {
            let mut distance = distance;
            for score in scores.iter_mut() {
                *score -= slope * distance.abs();
                distance -= 1.0;
            }
        }
    }
}
