//! The choice of experts.

use super::functions::{exp, sigmoid};
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, Error, ExpertScore, Result};
use std::cmp::Ordering;
use std::sync::Arc;

struct Route {
    scores: Columns,
    out: Columns,
    score: ExpertScore,
    normalize: bool,
    scale: f32,
    bias: Option<Arc<[f32]>>,
    groups: usize,
    groups_used: usize,
}

/// The most experts, whose numbers must be exact as floats.
const MOST: usize = 1 << 16;

pub(super) fn compile(operation: &apr_sdk::Route, compiler: &mut Compiler<'_>) -> Result<()> {
    let (scores, out) = (compiler.columns(&operation.scores), compiler.columns(&operation.out));
    if scores.width > MOST {
        let experts = scores.width;
        return Err(Error::unsupported(format!("{experts} experts, more than the limit of {MOST}")));
    }
    let (groups, groups_used) = (index(operation.groups), index(operation.groups_used));
    let bias = operation.bias.map(|bias| compiler.floats(bias));
    compiler.written(&out);
    compiler.push(Route {
        scores,
        out,
        score: operation.score,
        normalize: operation.normalize,
        scale: operation.scale,
        bias,
        groups,
        groups_used: if groups_used == groups { 0 } else { groups_used },
    });
    Ok(())
}

/// Larger before smaller, NaN last; the lower number first among equal ones.
fn by_score(scores: &[f32], a: usize, b: usize) -> Ordering {
    let key = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
    key(scores[b]).total_cmp(&key(scores[a])).then(a.cmp(&b))
}

/// Replaces scores by their softmax.
fn softmax(scores: &mut [f32]) {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most });
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - most);
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

impl Route {
    /// Leaves only the experts of the best groups in `order`.
    fn best_groups(&self, by: &[f32], order: &mut Vec<usize>) {
        let size = by.len() / self.groups;
        // A group is as good as its best expert; where experts are scored apart, as its two best together.
        let counted = if self.score == ExpertScore::SIGMOID { 2 } else { 1 };
        let quality: Vec<f32> = by
            .chunks_exact(size)
            .map(|group| {
                let mut best: Vec<usize> = (0..size).collect();
                best.sort_by(|a, b| by_score(group, *a, *b));
                best.iter().take(counted).map(|expert| group[*expert]).sum()
            })
            .collect();
        let mut groups: Vec<usize> = (0..self.groups).collect();
        groups.sort_by(|a, b| by_score(&quality, *a, *b));
        let mut taken = vec![false; self.groups];
        groups.iter().take(self.groups_used).for_each(|group| taken[*group] = true);
        order.retain(|expert| taken[expert / size]);
    }

    fn choose(&self, scores: &[f32], out: &mut [f32]) {
        let mut weights = scores.to_vec();
        if self.score == ExpertScore::SOFTMAX {
            softmax(&mut weights);
        } else if self.score == ExpertScore::SIGMOID {
            weights.iter_mut().for_each(|weight| *weight = sigmoid(*weight));
        }
        let mut by = weights.clone();
        if let Some(bias) = &self.bias {
            by.iter_mut().zip(bias.iter()).for_each(|(by, bias)| *by += bias);
        }
        let mut order: Vec<usize> = (0..by.len()).collect();
        if self.groups_used > 0 {
            self.best_groups(&by, &mut order);
        }
        order.sort_by(|a, b| by_score(&by, *a, *b));
        let (numbers, chosen) = out.split_at_mut(out.len() / 2);
        for ((number, chosen), expert) in numbers.iter_mut().zip(chosen.iter_mut()).zip(order) {
            // `compile` saw to it that numbers are exact as floats.
            *number = u16::try_from(expert).map_or(f32::NAN, f32::from);
            *chosen = weights[expert];
        }
        if self.score == ExpertScore::SOFTMAX_OF_CHOSEN {
            softmax(chosen);
        }
        if self.normalize {
            // The small addend, for the case that all are zero, is that of the models' own code.
            let sum =
                chosen.iter().sum::<f32>() + if self.score == ExpertScore::SIGMOID { 1e-20 } else { 0.0 };
            chosen.iter_mut().for_each(|weight| *weight /= sum);
        }
        chosen.iter_mut().for_each(|weight| *weight *= self.scale);
    }
}

impl Task for Route {
    fn division(&self) -> Division {
        Division::Rows(self.scores.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(self.scores.rows, worker) {
            // SAFETY: this worker has its rows to itself, and the two have no element in common.
            let (scores, out) =
                unsafe { (step.values.read(&self.scores, row), step.values.write(&self.out, row)) };
            self.choose(scores, out);
        }
        Ok(())
    }
}

/// The expert that a route's element names.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
pub(super) fn expert(number: f32, experts: usize) -> usize {
    (number as usize).min(experts - 1)
}
