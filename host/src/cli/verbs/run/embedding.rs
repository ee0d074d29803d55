//! `apr run --embed`: a text as a vector.

use super::question::Question;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::running::loading::Ready;
use crate::cli::verbs::running::signs::explained;
use apr_host::sizes::show_number_of;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;

/// An embedding. JSON: `embedding`, a list of numbers; `tokens`, of the prompt.
#[derive(Debug, Serialize)]
pub struct Embedded {
    embedding: Vec<f32>,
    tokens: usize,
    warnings: Vec<String>,
}

/// Computes the embedding of a text, the way that the model's own files say. `warn` is told of what they say that is not
/// followed, and of what is cut off.
///
/// # Errors
/// What tokenizing and computing raised; Failed for an embedding that is none.
pub fn run(mut loaded: Ready, question: &Question, file: &Path, warn: &dyn Fn(&str)) -> Result<Embedded> {
    let way = loaded.facts.suggested.embedding.clone();
    let mut prompt = question.embedded(&loaded.tokens, &way)?;
    if let Some(most) = way.max_length.filter(|most| prompt.len() > *most) {
        let all = show_number_of(prompt.len(), "token");
        warn(&format!(
            "the text has {all}, but the model's settings allow only {most}: the rest is truncated"
        ));
        cut(&mut prompt, most, &loaded.tokens.facts().behind);
    }
    if !way.not_followed.is_empty() {
        let others: Vec<_> = way.not_followed.iter().map(|one| format!("`{}`", escape(one, 80))).collect();
        warn(&format!(
            "the embedding differs from the one the model's settings specify, since these are not \
             supported: {}",
            others.join(", ")
        ));
    }
    let mut embedding = loaded.runner.embed(&prompt, 1)?.to_vec();
    let odd = embedding.iter().filter(|value| !value.is_finite()).count();
    if odd > 0 {
        let n = embedding.len();
        let error = Error::failed(format!("{odd} of the embedding's {n} values are NaN or infinite"));
        return Err(explained(error, file));
    }
    if let Some(width) = way.dimensions.filter(|width| *width < embedding.len()) {
        embedding.truncate(width);
        normalize(&mut embedding);
    }
    Ok(Embedded { embedding, tokens: prompt.len(), warnings: loaded.facts.warnings })
}

/// Cuts a text's end off, but for the tokens that its tokenizer puts behind every text.
fn cut(prompt: &mut Vec<u32>, most: usize, behind: &[u32]) {
    let kept = if prompt.ends_with(behind) { behind } else { &[] };
    prompt.truncate(most.saturating_sub(kept.len()));
    prompt.extend(kept.iter().take(most));
}

/// Gives a vector the length 1; one of zeros stays.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "vectors are in single precision")]
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}

impl Report for Embedded {
    fn json(&self) -> Result<Json> {
        with_schema("apr.run.embed/1", self)
    }
}

impl fmt::Display for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, value) in self.embedding.iter().enumerate() {
            write!(f, "{}{value}", if n == 0 { "" } else { " " })?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_keeps_its_end() {
        for (most, behind, left) in [
            (4, &[2][..], &[1, 5, 6, 2][..]),
            (4, &[], &[1, 5, 6, 7]),
            (4, &[3], &[1, 5, 6, 7]),
            (1, &[2], &[2]),
        ] {
            let mut prompt = vec![1, 5, 6, 7, 2];
            cut(&mut prompt, most, behind);
            assert_eq!(prompt, left);
        }
    }
}
