//! Rules by which transformers leaves unlikely tokens out, where a model's own settings ask for them: each gets the
//! probabilities of what is left, at the temperature, the largest first.

use super::exponential::{exp, ln};

/// The rules; `None` for those that a model does not ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Truncation {
    /// The part of the entropy of the 100 most probable tokens that is kept.
    pub top_h: Option<f64>,
    /// The sum of the probabilities of the tokens that are kept, those first whose information is nearest to the entropy.
    pub typical_p: Option<f64>,
    /// The least probability of a token.
    pub epsilon_cutoff: Option<f64>,
    /// The least probability of a token where the distribution is narrow; less where it is wide.
    pub eta_cutoff: Option<f64>,
}

/// Number of tokens that `top_h` considers.
pub const WIDEST: usize = 100;

impl Truncation {
    /// How many of the most probable tokens `top_h` keeps of these, which are at most `WIDEST`.
    pub fn first(&self, weights: &[f64]) -> Option<usize> {
        let kept = self.top_h?;
        let spread = Spread::of(weights);
        let most = spread.entropy * kept;
        let mut sum = 0.0;
        let mut within = 0;
        for (probability, information) in spread.tokens() {
            sum += probability * information;
            if sum > most {
                break;
            }
            within += 1;
        }
        Some(within.max(1))
    }

    /// Tells for each token if the rules behind that keep it, one after the other.
    pub fn rest(&self, weights: &[f64]) -> Option<Vec<bool>> {
        self.typical_p.or(self.epsilon_cutoff).or(self.eta_cutoff)?;
        let mut kept = vec![true; weights.len()];
        if let Some(mass) = self.typical_p {
            typical(&Spread::of(weights), mass, &mut kept);
        }
        if let Some(least) = self.epsilon_cutoff {
            cut(&mut kept, weights, |_| least);
        }
        if let Some(epsilon) = self.eta_cutoff {
            cut(&mut kept, weights, |entropy| epsilon.min(epsilon.sqrt() * exp(-entropy)));
        }
        Some(kept)
    }
}

/// A distribution.
struct Spread {
    probabilities: Vec<f64>,
    /// The logarithms of the probabilities, with the sign changed.
    information: Vec<f64>,
    entropy: f64,
}

impl Spread {
    fn of(weights: &[f64]) -> Spread {
        let total: f64 = weights.iter().sum();
        let probabilities: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let information: Vec<f64> = probabilities.iter().map(|probability| -ln(*probability)).collect();
        let parts = probabilities.iter().zip(&information).filter(|(probability, _)| **probability > 0.0);
        let entropy = parts.map(|(probability, information)| probability * information).sum();
        Spread { probabilities, information, entropy }
    }

    fn tokens(&self) -> impl Iterator<Item = (f64, f64)> {
        self.probabilities.iter().copied().zip(self.information.iter().copied()).filter(|(one, _)| *one > 0.0)
    }
}

/// Keeps the tokens whose information is nearest to the entropy, until their probabilities reach `mass`.
fn typical(spread: &Spread, mass: f64, kept: &mut [bool]) {
    let far: Vec<f64> =
        spread.information.iter().map(|information| (information - spread.entropy).abs()).collect();
    let mut order: Vec<usize> = (0..far.len()).collect();
    order.sort_by(|one, two| far[*one].total_cmp(&far[*two]));
    let mut sum = 0.0;
    let reached = order.iter().position(|at| {
        sum += spread.probabilities[*at];
        sum >= mass
    });
    let farthest = order.get(reached.unwrap_or(order.len().saturating_sub(1))).map_or(0.0, |at| far[*at]);
    for (kept, far) in kept.iter_mut().zip(&far) {
        *kept = *far <= farthest;
    }
}

/// Leaves out those of the kept that are less probable than a bound, which depends on their entropy; never the largest.
fn cut(kept: &mut [bool], weights: &[f64], bound: impl Fn(f64) -> f64) {
    let left: Vec<f64> =
        kept.iter().zip(weights).map(|(kept, weight)| if *kept { *weight } else { 0.0 }).collect();
    let largest = left.iter().copied().fold(0.0, f64::max);
    let spread = Spread::of(&left);
    let least = bound(spread.entropy);
    for ((kept, weight), probability) in kept.iter_mut().zip(&left).zip(&spread.probabilities) {
        *kept = *kept && (*probability >= least || *weight == largest);
    }
}
