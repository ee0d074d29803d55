//! The program of a model: what its [`Decoder`] says, over its tensors, as operations that any backend runs.
//!
//! Which tensors a model has decides what is optional: a bias, or a norm of queries, is computed if and only if its tensor is
//! there. A tensor that belongs to a layer but is not used by its program is an error, since leaving it out would change what
//! the model says.

mod assembly;
mod block;
mod builder;
mod experts;
mod feed_forward;
pub mod listing;
mod norm;
#[cfg(test)]
mod tests;
pub mod traffic;

pub use assembly::build;

use apr_engine::architecture::Decoder;
use apr_sdk::{DType, Operation, Pooling, Program, Result, Slice};

/// The shape and type of a tensor, known without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorShape {
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
}

/// The output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Logits for the next token, to the step's sink.
    Logits,
    /// Hidden states behind the last norm, to be read from the value [`Built::output`].
    Hidden {
        /// The pooled rows, or their mean.
        pooling: Pooling,
        /// True if each is divided by its Euclidean norm.
        normalize: bool,
    },
}

/// The request for a program.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The model's computation.
    pub decoder: &'a Decoder,
    /// The model's tensors by name, in the decoder's dialect; `None` for one that it does not have.
    pub tensors: &'a dyn Fn(&str) -> Option<TensorShape>,
    /// The elements of a small tensor, in order: factors of a rotation, gains that differ from head to head.
    pub floats: &'a dyn Fn(&str) -> Result<Vec<f32>>,
    /// The type in which keys and values are kept.
    pub cache: DType,
    /// The output wanted.
    pub output: Output,
    /// Number of positions that there is room for. It decides between the long and the short factors of a rotation.
    pub context: u32,
    /// True if every intermediate result keeps a value of its own, with a name in [`Built::taps`].
    pub taps: bool,
}

/// A program with what it needs to know of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// The program.
    pub program: Program,
    /// The matrix for each weight that the program names, by number.
    pub weights: Vec<WeightOf>,
    /// Names of values, such as `layer.3.attention.query`; empty unless they were asked for.
    pub taps: Vec<(String, u32)>,
    /// Names of each operation's results in the order of [`apr_sdk::Operation::writes`], such as `layer.3.attention.query`;
    /// of an operation without results, a name of its own, such as `layer.3.append`.
    pub names: Vec<Vec<String>>,
    /// The value that holds the logits or hidden states.
    pub output: u32,
}

/// The origin of a weight.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightOf {
    /// A tensor of the model as a matrix: its last axis are columns, all others rows. A vector is one row.
    Tensor(String),
    /// A vector that was computed.
    Literal {
        /// Its length.
        columns: u32,
        /// Its elements.
        values: Vec<f32>,
    },
}

/// Number of the layer that a value's name states: 3 in `layer.3.attention.query`.
pub(crate) fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("layer.")?.split('.').next()?.parse().ok()
}

/// The slice that an operation adds its result to.
pub(crate) fn residual(operation: &Operation) -> Option<Slice> {
    match operation {
        Operation::Linear(linear) => linear.residual,
        Operation::Combine(combine) => combine.residual,
        _ => None,
    }
}
