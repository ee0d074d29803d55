//! Sharded models: which tensors go into which file, and the file names that formats agree on.

use crate::{ForeignFile, LayoutRequest, Model, Result, Tensor};

/// Returns whether a file with so many tensors can take another, by their number.
pub fn takes_another(request: &LayoutRequest, tensors: usize) -> bool {
    request.max_shard_tensors.is_none_or(|most| (tensors as u64) < most)
}

/// Splits the model's tensors, by index, into runs of at most as many payload bytes and tensors as the request says; a
/// larger tensor gets a run of its own. `len` returns a tensor's payload bytes. A model without tensors is one empty run.
///
/// # Errors
/// Any error from `len`.
pub fn split(
    model: &Model,
    request: &LayoutRequest,
    len: impl Fn(&Tensor) -> Result<u64>,
) -> Result<Vec<Vec<usize>>> {
    let most = request.max_shard_size.unwrap_or(u64::MAX);
    let mut runs = Vec::new();
    let mut run = Vec::new();
    let mut size = 0u64;
    for (n, tensor) in model.tensors.iter().enumerate() {
        let len = len(tensor)?;
        let is_full =
            size.checked_add(len).is_none_or(|sum| sum > most) || !takes_another(request, run.len());
        if !run.is_empty() && is_full {
            runs.push(std::mem::take(&mut run));
            size = 0;
        }
        run.push(n);
        size = size.saturating_add(len);
    }
    runs.push(run);
    Ok(runs)
}

/// The tensors of each original source file, by index; `None` unless the records' counts add up to
/// `n_tensors`.
pub fn as_before(files: &[&ForeignFile], n_tensors: usize) -> Option<Vec<Vec<usize>>> {
    let mut runs = Vec::with_capacity(files.len());
    let mut first = 0usize;
    for file in files {
        let end = first.checked_add(usize::try_from(file.n_tensors).ok()?).filter(|&end| end <= n_tensors)?;
        runs.push((first..end).collect());
        first = end;
    }
    (first == n_tensors).then_some(runs)
}

/// The name of file `n` (from 1) of `count`, in Hugging Face style: `STEM-00001-of-00003.EXTENSION`.
pub fn name(stem: &str, n: usize, count: usize, extension: &str) -> String {
    format!("{stem}-{n:05}-of-{count:05}.{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Extent, Limits, ModelBuilder, ModelSink, TensorDecl};

    fn model(lens: &[u64]) -> Model {
        let limits = Limits::default();
        let mut builder = ModelBuilder::new("kit", &limits, &|_| Ok(u64::MAX));
        for (n, &len) in (0..).zip(lens) {
            let shape = [len];
            let decl = TensorDecl::plain("", DType::U8, &shape, Extent::new(0, n << 32, len));
            builder.tensor(TensorDecl { name: &format!("t{n}"), ..decl }).unwrap();
        }
        builder.finish()
    }

    fn runs(lens: &[u64]) -> Vec<Vec<usize>> {
        split(&model(lens), &request(None), Tensor::payload_len).unwrap()
    }

    fn request(tensors: Option<u64>) -> LayoutRequest {
        let mut request = LayoutRequest::folder("m");
        request.max_shard_size = Some(4);
        request.max_shard_tensors = tensors;
        request
    }

    #[test]
    fn runs_are_as_long_as_they_may_be() {
        assert_eq!(runs(&[]), [[0usize; 0]]);
        assert_eq!(runs(&[2, 2, 2]), [vec![0, 1], vec![2]]);
        assert_eq!(runs(&[9, 1, 9]), [[0], [1], [2]]);
        assert_eq!(runs(&[0, 4, 0, 1]), [vec![0, 1, 2], vec![3]]);
        assert_eq!(name("m", 2, 10, "x"), "m-00002-of-00010.x");
    }

    #[test]
    fn runs_have_no_more_tensors_than_they_may() {
        let runs =
            |lens: &[u64], most| split(&model(lens), &request(Some(most)), Tensor::payload_len).unwrap();
        assert_eq!(runs(&[1, 1, 1, 1, 1], 2), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(runs(&[3, 3, 1], 2), [vec![0], vec![1, 2]]);
        assert_eq!(runs(&[1, 1], 1), [[0], [1]]);
    }

    #[test]
    fn counts_that_do_not_make_up_the_model_are_no_files_of_it() {
        let files = [2, 0, 1].map(|n_tensors| ForeignFile { n_tensors, ..ForeignFile::default() });
        let files: Vec<&ForeignFile> = files.iter().collect();
        assert_eq!(as_before(&files, 3), Some(vec![vec![0, 1], vec![], vec![2]]));
        assert_eq!((as_before(&files, 2), as_before(&files, 4)), (None, None));
        let lying = ForeignFile { n_tensors: u64::MAX, ..ForeignFile::default() };
        assert_eq!(as_before(&[&lying, &lying], 3), None);
    }
}
