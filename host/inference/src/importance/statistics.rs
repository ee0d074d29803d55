//! Statistics of an importance matrix, as `llama-imatrix --show-statistics` has them.

use apr_sdk::TensorSums;

/// Mean squares that are at most this do not count as active.
const INACTIVE: f64 = 1e-5;

/// Statistics of one tensor, over the mean squares of its columns; matrices without data are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Its name.
    pub name: String,
    /// Columns of a matrix.
    pub columns: usize,
    /// Number of matrices, and of those that have data.
    pub matrices: usize,
    /// See `matrices`.
    pub with_data: usize,
    /// Rows that were added to the matrix that has most.
    pub count: u64,
    /// Sum of the mean squares.
    pub total: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Share of the columns that are active.
    pub active: f64,
    /// Entropy of their shares of the sum, in bits.
    pub entropy: f64,
    /// The same as a share of what equal columns would have.
    pub entropy_share: f64,
    /// Share of the columns that are more than a standard deviation above the mean (ZD score).
    pub outliers: f64,
    /// Cosine with the same tensor of the layer before, if there is one.
    pub similarity: Option<f64>,
}

/// The layer in a tensor's name, and the name without it: `3` and `attn_q` of `blk.3.attn_q.weight`.
pub fn layer_of(name: &str) -> (Option<u64>, &str) {
    let bare = name.strip_suffix(".weight").unwrap_or(name);
    match number_in(bare) {
        Some((start, end)) => {
            let rest = bare.get(end + 1..).filter(|rest| !rest.is_empty()).unwrap_or(bare);
            (bare[start..end].parse().ok(), rest)
        }
        None => (None, bare),
    }
}

/// Where the first part of a name between dots that is a number begins and ends.
fn number_in(name: &str) -> Option<(usize, usize)> {
    let mut start = 0;
    for part in name.split('.') {
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some((start, start + part.len()));
        }
        start += part.len() + 1;
    }
    None
}

/// The name of the same tensor in the layer before.
fn before(name: &str) -> Option<String> {
    let (start, end) = number_in(name)?;
    let layer = name[start..end].parse::<u64>().ok()?.checked_sub(1)?;
    Some(format!("{}{layer}{}", &name[..start], &name[end..]))
}

/// The statistics of every tensor that has data: by name without the layer, then by the sum, largest first.
pub fn statistics(tensors: &[TensorSums]) -> Vec<Statistics> {
    let mut all: Vec<Statistics> = tensors.iter().filter_map(|one| of_tensor(one, tensors)).collect();
    all.sort_by(|a, b| {
        layer_of(&a.name)
            .1
            .cmp(layer_of(&b.name).1)
            .then(b.total.total_cmp(&a.total))
            .then(a.name.cmp(&b.name))
    });
    all
}

fn of_tensor(tensor: &TensorSums, all: &[TensorSums]) -> Option<Statistics> {
    let matrices = tensor.counts.len();
    let columns = tensor.sums.len() / matrices.max(1);
    let mut squares: Vec<f64> = Vec::new();
    for (sums, count) in tensor.sums.chunks_exact(columns.max(1)).zip(&tensor.counts) {
        if *count > 0 {
            squares.extend(sums.iter().map(|sum| f64::from(*sum) / float(*count)));
        }
    }
    if squares.is_empty() {
        return None;
    }
    let elements = float(squares.len() as u64);
    let total: f64 = squares.iter().sum();
    let mean = total / elements;
    let variance = squares.iter().map(|square| (square - mean).powi(2)).sum::<f64>() / elements;
    let deviation = variance.sqrt();
    let entropy: f64 = squares
        .iter()
        .map(|square| square / total)
        .filter(|share| *share > 0.0)
        .fold(0.0, |entropy, share| entropy - share * share.log2());
    let count_of = |wanted: &dyn Fn(f64) -> bool| {
        float(squares.iter().filter(|square| wanted(**square)).count() as u64) / elements
    };
    let previous = before(&tensor.name).and_then(|name| all.iter().find(|one| one.name == name));
    Some(Statistics {
        name: tensor.name.clone(),
        columns,
        matrices,
        with_data: tensor.counts.iter().filter(|count| **count > 0).count(),
        count: tensor.counts.iter().copied().max().unwrap_or(0),
        total,
        min: squares.iter().copied().fold(f64::INFINITY, f64::min),
        max: squares.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mean,
        deviation,
        active: count_of(&|square| square > INACTIVE),
        entropy,
        entropy_share: if elements > 1.0 { entropy / elements.log2() } else { 0.0 },
        outliers: count_of(&|square| deviation > 0.0 && (square - mean) / deviation > 1.0),
        similarity: previous.and_then(|previous| cosine(&tensor.sums, &previous.sums)),
    })
}

fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let product =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    (a.len() == b.len() && lengths > 0.0).then(|| product(a, b) / lengths)
}

/// A count as a float; counts of tokens are far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, sums: &[f32], counts: &[u64]) -> TensorSums {
        TensorSums { name: name.to_owned(), sums: sums.to_vec(), counts: counts.to_vec() }
    }

    #[test]
    fn names_have_layers() {
        assert_eq!(layer_of("blk.12.attn_q.weight"), (Some(12), "attn_q"));
        assert_eq!(layer_of("model.layers.3.mlp.up_proj.weight"), (Some(3), "mlp.up_proj"));
        assert_eq!(layer_of("output.weight"), (None, "output"));
        assert_eq!(layer_of("a.7.weight"), (Some(7), "a.7"));
        assert_eq!(before("blk.10.q").as_deref(), Some("blk.9.q"));
        assert_eq!((before("blk.0.q"), before("output")), (None, None));
    }

    #[test]
    fn statistics_of_known_sums() {
        let all = [
            tensor("blk.0.q.weight", &[2.0, 2.0, 2.0, 2.0], &[2]),
            tensor("blk.1.q.weight", &[0.0, 0.0, 0.0, 8.0], &[2]),
        ];
        let found = statistics(&all);
        // The same sum: by name.
        let [even, odd] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (&even.name[..], even.total, even.mean, even.deviation),
            ("blk.0.q.weight", 4.0, 1.0, 0.0)
        );
        assert_eq!((even.entropy, even.entropy_share, even.active, even.outliers), (2.0, 1.0, 1.0, 0.0));
        assert_eq!((odd.min, odd.max, odd.mean, odd.deviation), (0.0, 4.0, 1.0, 3.0f64.sqrt()));
        assert_eq!((odd.entropy, odd.active, odd.outliers), (0.0, 0.25, 0.25));
        assert_eq!((even.similarity, odd.similarity), (None, Some(0.5)));
    }

    #[test]
    fn matrices_without_data_are_left_out() {
        let found = statistics(&[tensor("e", &[4.0, 4.0, 0.0, 0.0], &[2, 0]), tensor("f", &[0.0], &[0])]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].matrices, found[0].with_data, found[0].mean, found[0].count), (2, 1, 2.0, 2));
    }
}
