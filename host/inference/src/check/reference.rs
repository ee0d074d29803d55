//! Every operation in plain F64 arithmetic, one row at a time, as the operations' documentation defines them.

use apr_sdk::{Activation, ExpertScore, Mask, NormKind, RopeStyle};

/// A sum of products.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A matrix of rows times a vector.
pub fn product(rows: &[f64], x: &[f64]) -> Vec<f64> {
    rows.chunks_exact(x.len()).map(|row| dot(row, x)).collect()
}

/// Normalizes a row, without gain and bias.
pub fn normalized(kind: NormKind, x: &[f64], epsilon: f64) -> Vec<f64> {
    let n = f64_of(x.len());
    let mean = if kind == NormKind::LAYER { x.iter().sum::<f64>() / n } else { 0.0 };
    let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    x.iter().map(|x| (x - mean) / (square + epsilon).sqrt()).collect()
}

/// The parameters of a clamped SwiGLU.
#[derive(Clone, Copy, Debug)]
pub struct Clamp {
    /// Its slope.
    pub alpha: f64,
    /// Its bound.
    pub limit: f64,
}

/// An activation function; with `up`, its product.
pub fn activated(kind: Activation, gate: f64, up: Option<f64>, clamp: Clamp) -> f64 {
    if kind == Activation::SWIGLU_CLAMPED {
        let gate = gate.min(clamp.limit);
        let up = up.unwrap_or(0.0).clamp(-clamp.limit, clamp.limit);
        return gate * sigmoid(clamp.alpha * gate) * (up + 1.0);
    }
    let value = match kind {
        Activation::SILU => gate * sigmoid(gate),
        Activation::GELU_ERF => gate * 0.5 * (1.0 + error_function(gate / std::f64::consts::SQRT_2)),
        Activation::GELU_TANH => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
            gate * 0.5 * (1.0 + inner.tanh())
        }
        Activation::GELU_QUICK => gate * sigmoid(1.702 * gate),
        Activation::RELU => gate.max(0.0),
        Activation::RELU_SQUARED => gate.max(0.0).powi(2),
        Activation::SIGMOID => sigmoid(gate),
        Activation::TANH => gate.tanh(),
        _ => f64::NAN,
    };
    value * up.unwrap_or(1.0)
}

/// 1 / (1 + e^−x).
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function, by its series: below 4 to 1e-13, beyond that it is 1.
fn error_function(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    // erf(x) = 2/√π · e^(−x²) · Σ 2^n x^(2n+1) / (2n+1)!!, all of whose terms have one sign.
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Rotates the first elements of a head from `first` on.
pub fn rotated(
    style: RopeStyle,
    head: &[f64],
    first: usize,
    frequencies: &[f64],
    position: u32,
    magnitude: f64,
) -> Vec<f64> {
    let mut out = head.to_vec();
    let pairs = frequencies.len();
    for (n, frequency) in frequencies.iter().enumerate() {
        let (one, two) = match style {
            RopeStyle::INTERLEAVED => (first + 2 * n, first + 2 * n + 1),
            _ => (first + n, first + n + pairs),
        };
        let angle = f64::from(position) * frequency;
        let (sin, cos) = angle.sin_cos();
        out[one] = magnitude * (head[one] * cos - head[two] * sin);
        out[two] = magnitude * (head[one] * sin + head[two] * cos);
    }
    out
}

/// Returns whether a query at one position sees another.
pub fn sees(mask: Mask, window: u32, query: u32, key: u32) -> bool {
    match mask {
        Mask::FULL => true,
        Mask::WINDOW => key <= query && query - key < window,
        Mask::CHUNK => key <= query && key / window == query / window,
        Mask::PREFIX => key <= query || key < window,
        _ => key <= query,
    }
}

/// A softmax; `sink` is a score that takes part and is left out.
pub fn softmax(scores: &[f64], sink: Option<f64>) -> Vec<f64> {
    let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - largest).exp());
    weights.iter().map(|weight| weight / total).collect()
}

/// The chosen experts with their weights, best first.
pub fn routed(
    kind: ExpertScore,
    scores: &[f64],
    used: usize,
    normalize: bool,
    scale: f64,
) -> Vec<(usize, f64)> {
    let values = match kind {
        ExpertScore::SIGMOID => scores.iter().map(|score| sigmoid(*score)).collect(),
        ExpertScore::SOFTMAX_OF_CHOSEN => scores.to_vec(),
        _ => softmax(scores, None),
    };
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    order.truncate(used);
    let mut weights: Vec<f64> = order.iter().map(|expert| values[*expert]).collect();
    if kind == ExpertScore::SOFTMAX_OF_CHOSEN {
        weights = softmax(&weights, None);
    }
    let total: f64 = if normalize { weights.iter().sum() } else { 1.0 };
    order.into_iter().zip(weights.into_iter().map(|weight| scale * weight / total)).collect()
}

/// A length as F64.
pub fn f64_of(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }

    #[test]
    fn functions_have_their_known_values() {
        let clamp = Clamp { alpha: 1.702, limit: 7.0 };
        near(error_function(1.0), 0.842_700_792_949_714_9);
        near(error_function(-2.5), -0.999_593_047_982_555);
        near(activated(Activation::SILU, 1.0, None, clamp), 0.731_058_578_630_004_9);
        near(activated(Activation::GELU_ERF, 1.0, None, clamp), 0.841_344_746_068_542_9);
        near(activated(Activation::GELU_TANH, 1.0, None, clamp), 0.841_191_990_608_276_4);
        near(activated(Activation::RELU_SQUARED, -3.0, None, clamp), 0.0);
        near(activated(Activation::SILU, 1.0, Some(2.0), clamp), 1.462_117_157_260_009_8);
    }

    #[test]
    fn rotations_keep_lengths_and_agree_on_the_first_pair() {
        let head = [1.0, 2.0, 3.0, 4.0];
        let half = rotated(RopeStyle::HALF, &head, 0, &[0.5, 0.25], 3, 1.0);
        near(dot(&half, &half), dot(&head, &head));
        near(half[0], 1.5f64.cos() - 3.0 * 1.5f64.sin());
        let pairs = rotated(RopeStyle::INTERLEAVED, &head, 2, &[0.5], 3, 2.0);
        assert_eq!(pairs[..2], [1.0, 2.0]);
        near(pairs[2], 2.0 * (3.0 * 1.5f64.cos() - 4.0 * 1.5f64.sin()));
    }

    fn seen(mask: Mask, window: u32) -> Vec<u32> {
        (0..6).filter(|key| sees(mask, window, 4, *key)).collect()
    }

    #[test]
    fn masks_and_experts_are_chosen() {
        assert_eq!(seen(Mask::CAUSAL, 0), [0, 1, 2, 3, 4]);
        assert_eq!(seen(Mask::FULL, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(seen(Mask::WINDOW, 2), [3, 4]);
        assert_eq!(seen(Mask::CHUNK, 3), [3, 4]);
        assert_eq!(seen(Mask::PREFIX, 6), [0, 1, 2, 3, 4, 5]);
        let chosen = routed(ExpertScore::SOFTMAX_OF_CHOSEN, &[0.0, 2.0, 2.0, 1.0], 2, false, 1.0);
        assert_eq!(chosen, [(1, 0.5), (2, 0.5)]);
        let half = softmax(&[0.0], Some(0.0));
        near(half[0], 0.5);
    }
}
