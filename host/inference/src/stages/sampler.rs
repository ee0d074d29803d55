//! Stage 10: the most probable tokens are the same each time, and are tokens that the tokenizer has.

use super::{Finding, Subject};
use crate::tapped::Tapped;
use apr_sdk::Result;

/// Number of tokens that are chosen.
const TOKENS: usize = 8;

pub(super) fn judge(model: &mut Tapped<'_>, ids: &[u32], subject: &Subject) -> Result<Finding> {
    let mut finding = Finding::default();
    let Some(first) = answer(model, ids)? else {
        finding.unjudged = 1;
        return Ok(finding);
    };
    let second = answer(model, ids)?.unwrap_or_default();
    finding.judged = 1;
    let same = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
    finding.smallest("tokens that were chosen twice", same as f64, "");
    if first != second {
        finding.faults.push(format!(
            "at temperature 0, the same text is continued in two ways: they part at token {}",
            same + 1
        ));
    }
    let known = subject.tokens.unwrap_or(usize::MAX);
    if let Some(id) = first.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= known)) {
        finding.faults.push(format!(
            "the most probable token is {id}, but the tokenizer has only {known} tokens: it has no text"
        ));
    }
    Ok(finding)
}

/// The tokens that the model continues a text with at temperature 0; `None` if its scores are no numbers.
fn answer(model: &mut Tapped<'_>, ids: &[u32]) -> Result<Option<Vec<u32>>> {
    let logits = model.run(ids)?;
    let mut next = logits.iter().last().and_then(most);
    let room = usize::try_from(model.runner.context()).unwrap_or(usize::MAX).saturating_sub(ids.len());
    let mut chosen = Vec::new();
    while chosen.len() < TOKENS {
        let Some(id) = next else { return Ok(None) };
        chosen.push(id);
        if chosen.len() > room {
            break;
        }
        next = most(model.runner.feed(&[id])?);
    }
    Ok(Some(chosen))
}

/// The first of the largest; `None` if one is no number.
fn most(logits: &[f32]) -> Option<u32> {
    let mut best = 0;
    for (at, logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if *logit > logits[best] {
            best = at;
        }
    }
    u32::try_from(best).ok().filter(|_| !logits.is_empty())
}
