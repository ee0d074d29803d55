//! Perplexity as llama-perplexity measures it: e to the mean of −ln p over the tokens in the second half of each window of a
//! text; and how far the distributions are from those of another model, which a base file holds.
//!
//! A text's tokens are cut into windows of equal size, and what does not fill one is dropped. The first token of each window
//! is replaced by the one that begins every text, if the tokenizer has one. Each window is computed by itself. The token at
//! position `p` is judged by the logits after position `p` − 1, for every `p` above half of the window: 255 of 512.

pub mod base;
mod distribution;
mod divergence;
mod estimate;
mod likelihood;
mod window;

pub use divergence::{Divergence, Figures, Percentiles};
pub use estimate::{Estimate, Sums};
pub use likelihood::{Likelihood, Recorder, Spike};
pub use window::{Windows, scored};

use crate::runner::Runner;
use apr_engine::crew::Crew;
use apr_sdk::{Error, Result};

/// Bytes of logits that are held at a time. 64 MiB: 64 rows of a vocabulary of 262144, more of smaller ones.
const LOGITS: usize = 64 << 20;

/// Judges logits by the tokens that follow.
pub trait Judge {
    /// Takes the logits after some tokens, one row after the other, and the token after each.
    ///
    /// # Errors
    /// Failed for logits that are not finite; any error from what is read or written meanwhile.
    fn rows(&mut self, crew: &dyn Crew, logits: &[f32], next: &[u32]) -> Result<()>;
}

/// Runs one window from the beginning, and has its second half judged.
///
/// # Errors
/// InvalidArgument for a token that the model does not know, or a window in which nothing is judged; any error from the
/// backend and from `judge`.
pub fn score(runner: &mut Runner, crew: &dyn Crew, window: &[u32], judge: &mut dyn Judge) -> Result<()> {
    let width = runner.width().max(1);
    if let Some(id) = window.iter().find(|id| usize::try_from(**id).is_ok_and(|id| id >= width)) {
        let message = format!("the text has token {id}, but the model's vocabulary is {width}");
        return Err(Error::invalid_argument(message).hint("use a text of this model's tokenizer"));
    }
    let judged = scored(window.len());
    if judged == 0 {
        let message = format!("a window of {} tokens is too short to judge any of them", window.len());
        return Err(Error::invalid_argument(message).hint("pass --context 4 or more"));
    }
    runner.clear()?;
    let read = &window[..window.len() - 1];
    let most = LOGITS / size_of::<f32>() / width;
    runner.feed_from(read, read.len() - judged, most, &mut |number, logits| {
        let rows = logits.len() / width;
        judge.rows(crew, logits, &window[number + 1..number + 1 + rows])
    })
}
