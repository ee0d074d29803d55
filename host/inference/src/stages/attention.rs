//! Stage 5: attention spreads over more than one position.

use super::origins::Origins;
use super::sites::{Sites, result_name};
use super::{Finding, LEAST_TOKENS};
use crate::check::reference::{dot, sees, softmax};
use crate::tapped::{Rows, Tapped};
use apr_sdk::{Append, Attention, Linear, Operation, Result, escape};

/// Mean entropy in nats below which attention looks at one position only. Not the 0.1 of the specification (section 3.2): heads
/// that rest on the first token take a sound layer below that (0.07 in a model that predicts its text well).
const DEGENERATE: f64 = 0.01;

pub(super) fn judge(model: &mut Tapped<'_>, sites: &Sites, origins: &Origins) -> Result<Finding> {
    let built = model.built;
    let mut finding = Finding::default();
    let mut stored: Vec<&Append> = Vec::new();
    for (number, operation) in built.program.operations.iter().enumerate() {
        let attention = match operation {
            Operation::Linear(linear) if sites.at(number).stage == 5 => {
                if origins.are_finite(&[linear.x]) && is_without_effect(model, linear)? {
                    let tensor = linear.parts.first().and_then(|part| model.tensor(part.weight));
                    finding.faults.push(format!(
                        "what `{}` makes is zero, although its input is not",
                        escape(tensor.unwrap_or_else(|| result_name(built, operation)), 120)
                    ));
                }
                continue;
            }
            Operation::Append(append) => {
                stored.push(append);
                continue;
            }
            Operation::Attention(attention) => attention,
            _ => continue,
        };
        let Some(append) = stored.iter().find(|append| append.state == attention.state) else { continue };
        let name = result_name(built, operation);
        let query = model.read(&attention.query)?;
        if query.count() < LEAST_TOKENS {
            finding.absent =
                Some(format!("fewer than {LEAST_TOKENS} tokens: attention has too little to choose from"));
            return Ok(finding);
        }
        if !origins.are_finite(&[attention.query]) || !origins.is_state_finite(attention.state) {
            finding.unjudged += 1;
            continue;
        }
        finding.judged += 1;
        let key = model.read(&append.key)?;
        let sinks = attention.sinks.map(|weight| model.vector(weight)).transpose()?;
        let entropy = mean_entropy(attention, &query, &key, sinks.as_deref());
        finding.smallest("smallest mean entropy of a layer, in nats", entropy, name);
        if entropy < DEGENERATE {
            finding.faults.push(format!(
                "attention in `{}` looks at one position only: its mean entropy is {entropy:.3} nats, less than {DEGENERATE}",
                escape(name, 80)
            ));
        }
    }
    if finding.judged + finding.unjudged == 0 {
        finding.absent = Some("the model has no attention".to_owned());
    }
    Ok(finding)
}

/// True if a product adds nothing to its residual, and its input is not zero.
fn is_without_effect(model: &mut Tapped<'_>, linear: &Linear) -> Result<bool> {
    let Some(part) = linear.parts.first() else { return Ok(false) };
    let out = model.read(&part.out)?;
    let is_zero = match &linear.residual {
        Some(residual) => out == model.read(residual)?,
        None => out.elements.iter().all(|element| *element == 0.0),
    };
    Ok(is_zero && model.read(&linear.x)?.elements.iter().any(|element| *element != 0.0))
}

/// Mean entropy of attention in nats, over all heads of rows that see more than one position. A sink takes its share of the
/// weights, and is no position.
fn mean_entropy(attention: &Attention, query: &Rows, key: &Rows, sinks: Option<&[f32]>) -> f64 {
    let heads = usize::try_from(attention.heads).unwrap_or(1).max(1);
    let width = (query.width / heads).max(1);
    let key_heads = (key.width / width).max(1);
    let shared = (heads / key_heads).max(1);
    let keys: Vec<Vec<f64>> = key.iter().map(wide).collect();
    let mut sum = 0.0;
    let mut rows = 0.0;
    for (place, query) in query.iter().enumerate() {
        let query = wide(query);
        for (head, query) in query.chunks_exact(width).enumerate() {
            let first = head / shared * width;
            let mut scores = Vec::new();
            for (other, key) in keys.iter().enumerate() {
                if !sees(attention.mask, attention.window, number(place), number(other)) {
                    continue;
                }
                let mut score = f64::from(attention.scale) * dot(query, &key[first..first + width]);
                if attention.soft_cap > 0.0 {
                    let cap = f64::from(attention.soft_cap);
                    score = cap * (score / cap).tanh();
                }
                if let Some(slope) = attention.slopes.get(head) {
                    score -= f64::from(*slope) * place.abs_diff(other) as f64;
                }
                scores.push(score);
            }
            if scores.len() < 2 {
                continue;
            }
            let sink = sinks.and_then(|sinks| sinks.get(head)).map(|sink| f64::from(*sink));
            let weights = softmax(&scores, sink);
            let entropy = weights.iter().filter(|weight| **weight > 0.0).map(|weight| -weight * weight.ln());
            sum += entropy.sum::<f64>();
            rows += 1.0;
        }
    }
    // A window of one position leaves nothing to choose from.
    if rows > 0.0 { sum / rows } else { 0.0 }
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().copied().map(f64::from).collect()
}

fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
