//! Stages 8 and 9: a score for every token, and probabilities that sum to 1.

use super::origins::Origins;
use super::{Finding, Subject};
use crate::tapped::{Rows, Tapped};
use apr_sdk::{Operation, Result, Slice};

/// The most by which probabilities may miss 1 (specification, section 3.2).
const SUM: f64 = 1e-5;

/// Stage 8: as many scores as tokens, and not all alike.
pub(super) fn judge_scores(
    model: &mut Tapped<'_>,
    origins: &Origins,
    logits: &Rows,
    subject: &Subject,
) -> Result<Finding> {
    let mut finding = Finding::default();
    finding.smallest("scores for each token of the text", logits.width as f64, "");
    if logits.width != subject.vocabulary {
        finding.judged = 1;
        finding.faults.push(format!(
            "the head gives {} scores, but the model knows {} tokens",
            logits.width, subject.vocabulary
        ));
        return Ok(finding);
    }
    let input = head_input(model);
    let is_known = input.is_none_or(|input| origins.are_finite(&[input]));
    let input = input.map(|input| model.read(&input)).transpose()?;
    let is_empty = input.is_some_and(|input| input.elements.iter().all(|element| *element == 0.0));
    if !is_known || is_empty {
        finding.unjudged = 1;
        return Ok(finding);
    }
    finding.judged = 1;
    let alike = logits.iter().filter(|row| {
        let mut finite = row.iter().filter(|logit| logit.is_finite());
        let first = finite.next();
        row.len() > 1 && first.is_some() && finite.all(|logit| Some(logit) == first)
    });
    let alike = alike.count();
    if alike > 0 {
        finding.faults.push(format!(
            "all scores are equal behind {alike} of {} tokens, although the hidden state is not zero",
            logits.count()
        ));
    }
    Ok(finding)
}

/// The hidden state that the head reads.
fn head_input(model: &Tapped<'_>) -> Option<Slice> {
    let mut operations = model.built.program.operations.iter().rev();
    operations.find_map(|operation| match operation {
        Operation::Linear(linear) => Some(linear.x),
        _ => None,
    })
}

/// Stage 9: a softmax of the scores sums to 1.
pub(super) fn judge_probabilities(model: &Tapped<'_>, origins: &Origins, logits: &Rows) -> Finding {
    let mut finding = Finding::default();
    if head_input(model).is_some_and(|input| !origins.are_finite(&[input])) {
        finding.unjudged = 1;
        return finding;
    }
    finding.judged = 1;
    let mut broken = 0;
    for row in logits.iter() {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponents: Vec<f32> = row.iter().map(|logit| (logit - top).exp()).collect();
        let whole: f64 = exponents.iter().copied().map(f64::from).sum();
        #[allow(clippy::cast_possible_truncation, reason = "probabilities are F32, as a sampler has them")]
        let sum: f64 = exponents.iter().map(|one| f64::from((f64::from(*one) / whole) as f32)).sum();
        let miss = (sum - 1.0).abs();
        finding.largest("largest error of the sum of probabilities", miss, "");
        broken += usize::from(miss.is_nan() || miss > SUM);
    }
    if broken > 0 {
        finding
            .faults
            .push(format!("the probabilities behind {broken} of {} tokens do not sum to 1", logits.count()));
    }
    finding
}
