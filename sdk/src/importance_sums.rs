//! Importance matrices while they are collected: sums that can be added up, before they become means.

/// For each matrix of a model the sums of the squares of what its columns were multiplied with.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ImportanceSums {
    /// The dialect of the tensors' names.
    pub dialect: String,
    /// A matrix each, or a stack of matrices.
    pub tensors: Vec<TensorSums>,
    /// Names of the texts that were run.
    pub datasets: Vec<String>,
    /// Number of chunks that were run.
    pub chunks: u32,
    /// Tokens of a chunk. 0 for a file that does not say it: its sums are means for a token, times the chunks that `counts`
    /// has.
    pub chunk_size: u32,
}

/// The sums of one tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorSums {
    /// Its name.
    pub name: String,
    /// A sum for each column; of a stack, matrix after matrix.
    pub sums: Vec<f32>,
    /// Number of rows that were added: one number, or one for each matrix of a stack.
    pub counts: Vec<u64>,
}
