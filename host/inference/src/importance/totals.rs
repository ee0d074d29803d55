//! Sums of several runs as one.

use apr_sdk::{Error, ImportanceSums, Result, TensorSums};

/// Adds sums to those of the same tensors.
///
/// # Errors
/// InvalidArgument for a tensor of other columns, naming it.
pub fn merge(all: &mut Vec<TensorSums>, more: impl IntoIterator<Item = TensorSums>) -> Result<()> {
    for one in more {
        match all.iter_mut().find(|known| known.name == one.name) {
            None => all.push(one),
            Some(known) => add(known, &one)?,
        }
    }
    Ok(())
}

fn add(known: &mut TensorSums, one: &TensorSums) -> Result<()> {
    let counts = known.counts.len().max(one.counts.len());
    let fits = |counts_of: usize| counts_of == 1 || counts_of == counts;
    if known.sums.len() != one.sums.len() || !fits(known.counts.len()) || !fits(one.counts.len()) {
        let message = format!(
            "it has {} columns of {} matrices in one importance matrix, and {} of {} in another",
            known.sums.len(),
            known.counts.len(),
            one.sums.len(),
            one.counts.len()
        );
        let error = Error::invalid_argument(message).tensor(one.name.as_str());
        return Err(error.hint("merge only importance matrices of the same model"));
    }
    // A form that has one number for all matrices of a stack.
    if known.counts.len() < counts {
        known.counts = vec![known.counts[0]; counts];
    }
    for (sum, more) in known.sums.iter_mut().zip(&one.sums) {
        *sum += more;
    }
    for (at, count) in known.counts.iter_mut().enumerate() {
        *count += one.counts[if one.counts.len() == 1 { 0 } else { at }];
    }
    Ok(())
}

/// Turns the means of a form that does not say how long its chunks are into sums, as llama-imatrix does.
pub fn rescale(sums: &mut ImportanceSums, chunk_size: u32) {
    if sums.chunk_size != 0 {
        return;
    }
    sums.chunk_size = chunk_size;
    #[allow(clippy::cast_precision_loss, reason = "as llama-imatrix computes")]
    let factor = chunk_size as f32;
    for tensor in &mut sums.tensors {
        tensor.sums.iter_mut().for_each(|sum| *sum *= factor);
        tensor.counts.iter_mut().for_each(|count| *count = count.saturating_mul(chunk_size.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, sums: &[f32], counts: &[u64]) -> TensorSums {
        TensorSums { name: name.to_owned(), sums: sums.to_vec(), counts: counts.to_vec() }
    }

    #[test]
    fn sums_and_counts_are_added_by_name() {
        let mut all = vec![tensor("a", &[1.0, 2.0], &[3])];
        merge(&mut all, [tensor("b", &[5.0], &[1]), tensor("a", &[1.0, 1.0], &[2])]).unwrap();
        assert_eq!(all, [tensor("a", &[2.0, 3.0], &[5]), tensor("b", &[5.0], &[1])]);
        // One number stands for every matrix of a stack.
        merge(&mut all, [tensor("a", &[1.0, 1.0], &[1, 0])]).unwrap();
        assert_eq!(all[0], tensor("a", &[3.0, 4.0], &[6, 5]));
    }

    #[test]
    fn rejects_other_columns() {
        let mut all = vec![tensor("a", &[1.0, 2.0], &[3])];
        let error = merge(&mut all, [tensor("a", &[1.0], &[3])]).unwrap_err();
        assert_eq!(error.tensor_name(), Some("a"));
        assert!(error.message().contains("2 columns of 1 matrices"), "{error}");
        all[0].counts = vec![1, 2];
        assert!(merge(&mut all, [tensor("a", &[1.0, 1.0], &[1, 2, 3])]).is_err());
    }

    #[test]
    fn means_become_sums_of_chunks() {
        let mut sums = ImportanceSums::default();
        sums.tensors = vec![tensor("a", &[1.0, 2.0], &[3])];
        rescale(&mut sums, 4);
        assert_eq!((sums.chunk_size, &sums.tensors[0]), (4, &tensor("a", &[4.0, 8.0], &[12])));
        rescale(&mut sums, 9);
        assert_eq!(sums.chunk_size, 4);
    }
}
