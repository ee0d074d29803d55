//! How far a model's distributions are from those of a base file.

use super::base::{Base, CodedRow, IMPOSSIBLE};
use super::distribution::Distribution;
use super::estimate::float;
use super::{Estimate, Judge, Sums};
use apr_engine::crew::{Crew, map};
use apr_sdk::Result;

/// Compares a model with a base while it is measured.
pub struct Divergence<'a> {
    base: Base<'a>,
    losses: Sums,
    base_losses: Sums,
    /// Σ of the products of both losses of a token.
    products: f64,
    divergences: Sums,
    differences: Sums,
    /// Of the squares of the differences.
    squares: Sums,
    same: u64,
    each_divergence: Vec<f32>,
    each_difference: Vec<f32>,
}

/// One token in both models.
struct Row {
    loss: f64,
    base_loss: f64,
    /// Σ p ln (p / q), p being the base's, in nats.
    divergence: f64,
    /// The probability of the text's token less the base's.
    difference: f64,
    /// True if both find the same token the most probable.
    same: bool,
}

impl Row {
    fn new(logits: &[f32], coded: &CodedRow, token: u32) -> Result<Row> {
        let distribution = Distribution::of(logits)?;
        let base = coded.decode()?;
        let top = f64::from(distribution.most) + distribution.log_sum;
        let mut likeliest = 0;
        let mut highest = f32::NEG_INFINITY;
        let mut divergence = 0.0;
        let mut sum = 0.0;
        for (token, logit) in logits.iter().enumerate() {
            let logarithm = base.logarithm(token);
            if logarithm > highest {
                highest = logarithm;
                likeliest = token;
            }
            if logarithm > IMPOSSIBLE {
                let probability = f64::from(logarithm.exp());
                sum += probability;
                divergence += probability * (f64::from(logarithm) - f64::from(*logit) + top);
            }
        }
        base.check_sum(sum)?;
        let loss = distribution.loss(token)?;
        let base_loss = -f64::from(base.logarithm(usize::try_from(token).unwrap_or(usize::MAX)));
        Ok(Row {
            loss,
            base_loss,
            divergence,
            difference: (-loss).exp() - (-base_loss).exp(),
            same: distribution.likeliest == likeliest,
        })
    }
}

impl<'a> Divergence<'a> {
    /// Compares with a base, from its first row on.
    pub fn new(base: Base<'a>) -> Divergence<'a> {
        Divergence {
            base,
            losses: Sums::default(),
            base_losses: Sums::default(),
            products: 0.0,
            divergences: Sums::default(),
            differences: Sums::default(),
            squares: Sums::default(),
            same: 0,
            each_divergence: Vec::new(),
            each_difference: Vec::new(),
        }
    }

    /// The model's perplexity so far.
    pub fn perplexity(&self) -> Estimate {
        self.losses.estimate().exp()
    }

    /// The figures of all tokens.
    pub fn figures(mut self) -> Figures {
        let loss = self.losses.estimate();
        let base_loss = self.base_losses.estimate();
        let perplexity = loss.exp();
        let base = base_loss.exp();
        let covariance = self.losses.covariance(&self.base_losses, self.products);
        let spread = |a: f64, b: f64, both: f64| (a * a + b * b - 2.0 * both).max(0.0).sqrt();
        let log_ratio = Estimate {
            mean: loss.mean - base_loss.mean,
            error: spread(loss.error, base_loss.error, covariance),
        };
        let difference = Estimate {
            mean: perplexity.mean - base.mean,
            error: spread(perplexity.error, base.error, perplexity.mean * base.mean * covariance),
        };
        let errors = loss.error * base_loss.error;
        let squares = self.squares.estimate();
        let root = squares.mean.sqrt();
        let count = self.losses.count();
        let same = float(self.same) / float(count.max(1));
        let of_rest = float(count.saturating_sub(1).max(1));
        self.each_divergence.sort_by(f32::total_cmp);
        self.each_difference.sort_by(f32::total_cmp);
        Figures {
            count,
            perplexity,
            base,
            correlation: (errors > 0.0).then(|| covariance / errors),
            log_ratio,
            ratio: log_ratio.exp(),
            difference,
            divergence: self.divergences.estimate(),
            divergences: Percentiles(self.each_divergence),
            probability: self.differences.estimate(),
            probabilities: Percentiles(self.each_difference),
            root_mean_square: Estimate {
                mean: root,
                error: if root > 0.0 { 0.5 / root * squares.error } else { 0.0 },
            },
            same_top: Estimate { mean: same, error: (same * (1.0 - same) / of_rest).sqrt() },
        }
    }
}

impl Judge for Divergence<'_> {
    fn rows(&mut self, crew: &dyn Crew, logits: &[f32], next: &[u32]) -> Result<()> {
        let rows: Vec<&[f32]> = logits.chunks_exact(logits.len() / next.len().max(1)).collect();
        let coded = self.base.next_rows(next.len())?;
        for row in map(crew, next.len(), &|_, row| Row::new(rows[row], &coded[row], next[row]))? {
            self.losses.add(row.loss);
            self.base_losses.add(row.base_loss);
            self.products += row.loss * row.base_loss;
            self.divergences.add(row.divergence);
            self.differences.add(row.difference);
            self.squares.add(row.difference * row.difference);
            self.same += u64::from(row.same);
            #[allow(clippy::cast_possible_truncation, reason = "percentiles need few digits")]
            let few = |value: f64| value as f32;
            self.each_divergence.push(few(row.divergence));
            self.each_difference.push(few(row.difference));
        }
        Ok(())
    }
}

/// The figures of a comparison. Each `Estimate` is a mean over the tokens that were judged, with its error.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Number of tokens that were judged.
    pub count: u64,
    /// The model's perplexity.
    pub perplexity: Estimate,
    /// The base's.
    pub base: Estimate,
    /// Correlation of the logarithms of both; `None` where one of them has no spread.
    pub correlation: Option<f64>,
    /// ln of the model's perplexity over the base's.
    pub log_ratio: Estimate,
    /// The model's perplexity over the base's.
    pub ratio: Estimate,
    /// The model's perplexity less the base's.
    pub difference: Estimate,
    /// The Kullback-Leibler divergence of the model from the base, in nats.
    pub divergence: Estimate,
    /// The divergences of single tokens.
    pub divergences: Percentiles,
    /// The probability of the text's token less the base's.
    pub probability: Estimate,
    /// The same of single tokens.
    pub probabilities: Percentiles,
    /// The root of the mean square of that difference.
    pub root_mean_square: Estimate,
    /// Share of the tokens for which both find the same one the most probable.
    pub same_top: Estimate,
}

/// Values in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Percentiles(Vec<f32>);

impl Percentiles {
    /// The value below which a share of them lies, between the two nearest; `None` of none.
    pub fn at(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = share.clamp(0.0, 1.0) * float(last as u64);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last")]
        let below = (place.floor() as usize).min(last);
        let part = place - float(below as u64);
        let [low, high] = [below, (below + 1).min(last)].map(|at| f64::from(self.0[at]));
        Some((1.0 - part) * low + part * high)
    }
}

#[cfg(test)]
mod tests {
    use super::super::base::{Header, code_row};
    use super::*;
    use apr_engine::crew::Alone;
    use apr_sdk::MemorySource;

    /// A base of one window of 4 tokens, which judges one.
    fn figures(base: &[f32], model: &[f32], token: u32) -> Figures {
        let vocabulary = u32::try_from(base.len()).unwrap();
        let header = Header { window: 4, vocabulary, windows: 1 };
        let mut bytes = header.to_bytes(&[0, 0, 0, token]).unwrap();
        bytes.extend(code_row(base, &Distribution::of(base).unwrap()));
        let source = MemorySource::new("base", bytes);
        let mut found = Divergence::new(Base::open(&source).unwrap());
        found.rows(&Alone, model, &[token]).unwrap();
        found.figures()
    }

    #[test]
    fn figures_of_known_distributions() {
        let base = [0.5f32, 0.25, 0.25].map(f32::ln);
        let model = [0.25f32, 0.5, 0.25].map(f32::ln);
        let found = figures(&base, &model, 0);
        let divergence = 0.5 * 2.0f64.ln() + 0.25 * 0.5f64.ln();
        assert!((found.divergence.mean - divergence).abs() < 1e-4, "{found:?}");
        assert!((found.perplexity.mean - 4.0).abs() < 1e-4 && (found.base.mean - 2.0).abs() < 1e-3);
        assert!((found.ratio.mean - 2.0).abs() < 1e-3 && (found.difference.mean - 2.0).abs() < 1e-3);
        assert!((found.probability.mean + 0.25).abs() < 1e-4);
        assert!((found.root_mean_square.mean - 0.25).abs() < 1e-4);
        assert_eq!((found.same_top.mean, found.count, found.correlation), (0.0, 1, None));
        assert_eq!(found.divergences.at(0.5), found.divergences.at(1.0));
    }

    #[test]
    fn a_model_is_close_to_itself() {
        let logits = [3.0f32, -2.0, 0.1, 0.0, -40.0];
        let found = figures(&logits, &logits, 2);
        assert!(found.divergence.mean.abs() < 1e-4 && found.probability.mean.abs() < 1e-4, "{found:?}");
        assert_eq!(found.same_top.mean, 1.0);
    }

    #[test]
    fn rejects_a_row_that_is_no_distribution() {
        let header = Header { window: 4, vocabulary: 2, windows: 1 };
        let mut bytes = header.to_bytes(&[0, 0, 0, 1]).unwrap();
        bytes.extend([0.0f32, -5.0].map(f32::to_le_bytes).concat());
        bytes.extend([0; 4]);
        let source = MemorySource::new("base", bytes);
        let mut found = Divergence::new(Base::open(&source).unwrap());
        let error = found.rows(&Alone, &[0.0, 0.0], &[1]).unwrap_err();
        assert!(error.message().contains("add up to 0.013") && error.offset() == Some(36), "{error:?}");
    }

    #[test]
    fn percentiles_lie_between_values() {
        let found = Percentiles(vec![0.0, 1.0, 2.0, 4.0]);
        assert_eq!([0.0, 0.5, 1.0].map(|share| found.at(share)), [Some(0.0), Some(1.5), Some(4.0)]);
        assert!((found.at(0.9).unwrap() - 3.4).abs() < 1e-6);
        assert_eq!(Percentiles::default().at(0.5), None);
    }
}
