//! The size of a model, in words: `get_total_parameter_count` and `size_label` of gguf-py.

use apr_sdk::Tensor;

/// Numbers of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parameters {
    /// All weights.
    pub total: u64,
    /// Weights outside of experts.
    pub shared: u64,
    /// Weights of one expert.
    pub expert: u64,
    /// Number of experts.
    pub n_experts: u64,
}

impl Parameters {
    /// Counts the weights of `tensors`, which must have GGUF names.
    pub fn count(tensors: &[Tensor]) -> Parameters {
        let (mut count, mut experts, mut n_tensors) = (Parameters::default(), 0u64, 0u64);
        for tensor in tensors {
            // Cannot overflow for a model with a computable size.
            let size = tensor.shape.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
            count.total = count.total.saturating_add(size);
            let from_end = if tensor.name.contains(".bias") { 2 } else { 3 };
            let here = tensor.shape.len().checked_sub(from_end).map(|at| tensor.shape[at]);
            match here.filter(|n| *n > 0 && tensor.shape.len() > 2 && tensor.name.contains("_exps.")) {
                Some(n) => {
                    count.expert = count.expert.saturating_add(size / n);
                    experts = experts.saturating_add(n);
                    n_tensors += 1;
                }
                None => count.shared = count.shared.saturating_add(size),
            }
        }
        count.n_experts = experts.checked_div(n_tensors).unwrap_or(0);
        count
    }

    /// `7B`, `8x7B`; `None` for no weights.
    pub fn label(&self) -> Option<String> {
        match self {
            Parameters { total: 0, .. } => None,
            Parameters { n_experts: 0, total, .. } => Some(rounded(*total)),
            _ => Some(format!("{}x{}", self.n_experts, rounded(self.shared.saturating_add(self.expert)))),
        }
    }
}

/// At least two digits, and a letter.
#[allow(clippy::cast_precision_loss, reason = "a label of two digits")]
fn rounded(count: u64) -> String {
    let count = count as f64;
    let (scaled, letter) = match count {
        n if n > 1e12 => (n * 1e-12, 'T'),
        n if n > 1e9 => (n * 1e-9, 'B'),
        n if n > 1e6 => (n * 1e-6, 'M'),
        n => (n * 1e-3, 'K'),
    };
    let whole = scaled.round_ties_even().to_string();
    let digits = 2usize.saturating_sub(whole.trim_start_matches('0').len());
    format!("{scaled:.digits$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{DType, Payload};

    #[test]
    fn labels_are_those_of_gguf_py() {
        // model_weight_count_rounded_notation of gguf-py 0.19.
        for (count, label) in [
            (0, "0.00K"),
            (499, "0.50K"),
            (1000, "1.0K"),
            (12_345, "12K"),
            (1_000_000, "1000K"),
            (1_000_001, "1.0M"),
            (22_713_216, "23M"),
            (6_738_415_616, "6.7B"),
            (46_702_792_704, "47B"),
            (1_000_000_000_000, "1000B"),
            (1_500_000_000_000, "1.5T"),
        ] {
            assert_eq!(rounded(count), label, "{count}");
        }
    }

    #[test]
    fn one_expert_counts() {
        let tensor = |name: &str, shape: &[u64]| Tensor {
            name: name.to_owned(),
            dtype: DType::F16,
            shape: shape.to_vec(),
            payload: Payload::Sequential,
        };
        let tensors =
            [tensor("token_embd.weight", &[100, 64]), tensor("blk.0.ffn_up_exps.weight", &[8, 32, 64])];
        let count = Parameters::count(&tensors);
        assert_eq!(count, Parameters { total: 22784, shared: 6400, expert: 2048, n_experts: 8 });
        assert_eq!(count.label().as_deref(), Some("8x8.4K"));
        assert_eq!(Parameters::count(&[]).label(), None);
    }
}
