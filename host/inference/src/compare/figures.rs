//! Distance between two devices' logits.

/// Figures over the logits of several tokens; the second device is the reference.
#[derive(Clone, Debug, Default)]
pub struct Logits {
    rows: u32,
    same: u32,
    cosine: Option<f64>,
    divergence: f64,
    worst_divergence: f64,
    /// −ln of the probability of the token that follows, summed for each device; how many there were.
    loss: [f64; 2],
    followed: u32,
}

impl Logits {
    /// Adds the logits after one token; `next` is the one that follows.
    pub(crate) fn add(&mut self, logits: [&[f32]; 2], next: Option<u32>) {
        self.rows += 1;
        let [a, b] = logits.map(most);
        self.same += u32::from(a.is_some() && a == b);
        let cosine = cosine(logits[0], logits[1]);
        self.cosine = Some(self.cosine.map_or(cosine, |worst| -worse(-worst, -cosine)));
        let [a, b] = logits.map(Distribution::of);
        let divergence = b.divergence_from(&a);
        self.divergence += divergence;
        self.worst_divergence = worse(self.worst_divergence, divergence);
        let next = next.and_then(|id| usize::try_from(id).ok()).filter(|id| *id < a.logits.len());
        if let Some(next) = next {
            self.loss[0] -= a.logarithm(next);
            self.loss[1] -= b.logarithm(next);
            self.followed += 1;
        }
    }

    /// Number of tokens.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// For how many tokens both find the same one the most probable to follow.
    pub fn same(&self) -> u32 {
        self.same
    }

    /// The smallest cosine between both logits of a token; 1 if there were none.
    pub fn cosine(&self) -> f64 {
        self.cosine.unwrap_or(1.0)
    }

    /// The mean of the Kullback-Leibler divergence of the device's distribution from the reference's, in nats.
    pub fn divergence(&self) -> f64 {
        if self.rows == 0 { 0.0 } else { self.divergence / f64::from(self.rows) }
    }

    /// The largest divergence of a token.
    pub fn worst_divergence(&self) -> f64 {
        self.worst_divergence
    }

    /// e to the mean of −ln of the probabilities of the tokens that follow, on the device and on the reference; `None` if none
    /// follows.
    pub fn perplexities(&self) -> Option<[f64; 2]> {
        (self.followed > 0).then(|| self.loss.map(|loss| (loss / f64::from(self.followed)).exp()))
    }
}

/// The larger of two; what is no number is larger than all.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

/// The index of the largest; the first of several. `None` if one is no number: then nothing is the most probable.
fn most(logits: &[f32]) -> Option<usize> {
    if logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let mut best = None;
    for (at, logit) in logits.iter().enumerate() {
        if best.is_none_or(|best: usize| logits[best] < *logit) {
            best = Some(at);
        }
    }
    best
}

fn product(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let lengths = (product(a, a) * product(b, b)).sqrt();
    if lengths == 0.0 && a == b { 1.0 } else { product(a, b) / lengths }
}

/// Probabilities, by their logarithms.
struct Distribution<'a> {
    logits: &'a [f32],
    /// ln Σ exp(logit).
    whole: f64,
}

impl<'a> Distribution<'a> {
    fn of(logits: &'a [f32]) -> Distribution<'a> {
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - f64::from(top)).exp()).sum();
        Distribution { logits, whole: f64::from(top) + sum.ln() }
    }

    fn logarithm(&self, token: usize) -> f64 {
        f64::from(self.logits[token]) - self.whole
    }

    /// Σ p ln(p / q), `self` being p. A token that p never gives adds nothing.
    fn divergence_from(&self, other: &Distribution<'_>) -> f64 {
        let mut sum = 0.0;
        for token in 0..self.logits.len().min(other.logits.len()) {
            let own = self.logarithm(token);
            if own != f64::NEG_INFINITY {
                sum += own.exp() * (own - other.logarithm(token));
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of these probabilities, at any height.
    fn logits(probabilities: &[f64]) -> Vec<f32> {
        #[allow(clippy::cast_possible_truncation, reason = "small numbers")]
        probabilities.iter().map(|p| (p.ln() + 3.0) as f32).collect()
    }

    #[test]
    fn figures_of_known_distributions() {
        let a = logits(&[0.5, 0.25, 0.25]);
        let b = logits(&[0.25, 0.5, 0.25]);
        let mut figures = Logits::default();
        figures.add([&a, &b], Some(0));
        figures.add([&b, &b], None);
        assert_eq!((figures.rows(), figures.same()), (2, 1));
        let divergence = 0.25 * 0.5f64.ln() + 0.5 * 2.0f64.ln();
        assert!((figures.worst_divergence() - divergence).abs() < 1e-6, "{figures:?}");
        assert!((figures.divergence() - divergence / 2.0).abs() < 1e-6);
        let [device, reference] = figures.perplexities().unwrap();
        assert!((device - 2.0).abs() < 1e-6 && (reference - 4.0).abs() < 1e-6);
        assert!(figures.cosine() < 0.99 && figures.cosine() > 0.9);
    }

    #[test]
    fn what_is_no_number_is_not_lost() {
        let mut figures = Logits::default();
        figures.add([&[f32::NAN, 1.0], &[0.0, 1.0]], None);
        figures.add([&[0.0, 1.0], &[0.0, 1.0]], None);
        assert!(
            figures.cosine().is_nan() && figures.divergence().is_nan() && figures.worst_divergence().is_nan()
        );
        assert_eq!((figures.perplexities(), figures.same()), (None, 1));
    }

    #[test]
    fn a_token_that_is_never_given_adds_nothing() {
        let mut figures = Logits::default();
        figures.add([&[0.0, 1.0], &[f32::NEG_INFINITY, 1.0]], None);
        assert!(figures.divergence().is_finite() && figures.divergence() > 0.0);
    }
}
