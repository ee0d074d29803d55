//! Perplexity alone, and the base file that is written meanwhile.

use super::base::code_row;
use super::distribution::Distribution;
use super::{Estimate, Judge, Sums};
use apr_engine::crew::{Crew, map};
use apr_sdk::Result;

/// Tokens whose mean is compared with the others', for spikes.
const SPAN: usize = 32;
/// Mean loss of a span in nats, and times the median of all, above which it is a spike.
const SPIKE: f64 = 6.0;
const SPIKE_RATIO: f64 = 3.0;

/// −ln p of the tokens of a text.
#[derive(Clone, Debug, Default)]
pub struct Likelihood {
    losses: Sums,
    /// Mean losses of spans, in order.
    spans: Vec<f64>,
    /// Sum and number of the losses of the span that is not full.
    open: (f64, usize),
}

/// A part of a text that the model foretells much worse than the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Number of the first token among those that were judged.
    pub first: usize,
    /// Number of tokens.
    pub tokens: usize,
    /// Their mean of −ln p.
    pub loss: f64,
    /// The median of such means over the text.
    pub median: f64,
}

impl Likelihood {
    fn add(&mut self, loss: f64) {
        self.losses.add(loss);
        self.open.0 += loss;
        self.open.1 += 1;
        if self.open.1 == SPAN {
            self.spans.push(self.open.0 / SPAN as f64);
            self.open = (0.0, 0);
        }
    }

    /// The worst spike; `None` if there is none, or fewer than three spans to compare.
    pub fn spike(&self) -> Option<Spike> {
        if self.spans.len() < 3 {
            return None;
        }
        let mut sorted = self.spans.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        let (number, loss) = self.spans.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let is_spike = loss > SPIKE && loss > SPIKE_RATIO * median;
        is_spike.then_some(Spike { first: number * SPAN, tokens: SPAN, loss, median })
    }

    /// Number of tokens that were judged.
    pub fn count(&self) -> u64 {
        self.losses.count()
    }

    /// The mean of −ln p.
    pub fn loss(&self) -> Estimate {
        self.losses.estimate()
    }

    /// The perplexity.
    pub fn perplexity(&self) -> Estimate {
        self.loss().exp()
    }
}

impl Judge for Likelihood {
    fn rows(&mut self, crew: &dyn Crew, logits: &[f32], next: &[u32]) -> Result<()> {
        let rows: Vec<&[f32]> = logits.chunks_exact(logits.len() / next.len().max(1)).collect();
        let losses = map(crew, next.len(), &|_, row| Distribution::of(rows[row])?.loss(next[row]))?;
        losses.into_iter().for_each(|loss| self.add(loss));
        Ok(())
    }
}

/// Writes the rows of a base file while it measures.
pub struct Recorder<'a> {
    /// −ln p of the tokens of the text.
    pub likelihood: Likelihood,
    give: &'a mut dyn FnMut(&[u8]) -> Result<()>,
}

impl<'a> Recorder<'a> {
    /// Writes rows with `give`, which has the header already.
    pub fn new(give: &'a mut dyn FnMut(&[u8]) -> Result<()>) -> Recorder<'a> {
        Recorder { likelihood: Likelihood::default(), give }
    }
}

impl Judge for Recorder<'_> {
    fn rows(&mut self, crew: &dyn Crew, logits: &[f32], next: &[u32]) -> Result<()> {
        let rows: Vec<&[f32]> = logits.chunks_exact(logits.len() / next.len().max(1)).collect();
        let coded = map(crew, next.len(), &|_, row| {
            let distribution = Distribution::of(rows[row])?;
            Ok((distribution.loss(next[row])?, code_row(rows[row], &distribution)))
        })?;
        for (loss, row) in coded {
            self.likelihood.add(loss);
            (self.give)(&row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_engine::crew::Alone;

    #[test]
    fn the_perplexity_of_known_distributions() {
        let mut likelihood = Likelihood::default();
        let logits = [0.5f32, 0.25, 0.25, 0.25, 0.5, 0.25].map(f32::ln);
        likelihood.rows(&Alone, &logits, &[0, 0]).unwrap();
        assert_eq!(likelihood.count(), 2);
        // The geometric mean of 2 and 4.
        assert!((likelihood.perplexity().mean - 8.0f64.sqrt()).abs() < 1e-6);
        // Losses of ln 2 and ln 4: the error of their mean is half of their distance.
        assert!((likelihood.loss().error - 2.0f64.ln() / 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_stretch_that_is_foretold_much_worse_is_a_spike() {
        let mut likelihood = Likelihood::default();
        (0..320).for_each(|_| likelihood.add(2.0));
        assert_eq!(likelihood.spike(), None);
        (0..32).for_each(|_| likelihood.add(7.0));
        assert_eq!(likelihood.spike(), Some(Spike { first: 320, tokens: 32, loss: 7.0, median: 2.0 }));
        // A text that is foretold badly as a whole has none.
        let mut bad = Likelihood::default();
        (0..320).for_each(|n| bad.add(if n < 32 { 9.0 } else { 4.0 }));
        assert_eq!(bad.spike(), None);
    }
}
