//! Stage 1: the tokens of a text give the text again, and are tokens that the model knows.

use super::{Finding, Subject};
use apr_sdk::escape;

/// The tokenizer on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundTrip {
    /// The tokens of a text, the text that they stand for, and the tokens of that.
    Done {
        /// The tokens of the text.
        ids: Vec<u32>,
        /// The text that the tokens stand for.
        text: String,
        /// The tokens of that text.
        again: Vec<u32>,
    },
    /// The model states a tokenizer that does not work.
    Broken(String),
}

pub(super) fn judge(subject: &Subject) -> Finding {
    let mut finding = Finding { judged: 1, ..Finding::default() };
    let (ids, text, again) = match &subject.round_trip {
        None => {
            finding.absent = Some("the model states no tokenizer".to_owned());
            return finding;
        }
        Some(RoundTrip::Broken(why)) => {
            finding.faults.push(why.clone());
            return finding;
        }
        Some(RoundTrip::Done { ids, text, again }) => (ids, text, again),
    };
    let same = ids.iter().zip(again).take_while(|(id, again)| id == again).count();
    finding.smallest("tokens that give themselves again", same as f64, "");
    if ids != again {
        finding.faults.push(format!(
            "{} tokens give the text `{}`, which has {} tokens: the first that differs is number {}",
            ids.len(),
            escape(text, 60),
            again.len(),
            same + 1
        ));
    }
    let known = subject.vocabulary;
    if let Some(id) = ids.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= known)) {
        finding.faults.push(format!("the text has the token {id}, but the model knows only {known} tokens"));
    }
    if let Some(tokens) = subject.tokens.filter(|tokens| *tokens > known) {
        finding.faults.push(format!("the tokenizer has {tokens} tokens, but the model knows only {known}"));
    }
    finding
}
