//! Perplexity alone, and the base file that is written meanwhile.

use super::base::code_row;
use super::distribution::Distribution;
use super::{Estimate, Judge, Sums};
use apr_engine::crew::{Crew, map};
use apr_sdk::Result;

/// −ln p of the tokens of a text.
#[derive(Clone, Debug, Default)]
pub struct Likelihood {
    losses: Sums,
}

impl Likelihood {
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
        losses.into_iter().for_each(|loss| self.losses.add(loss));
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
            self.likelihood.losses.add(loss);
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
}
