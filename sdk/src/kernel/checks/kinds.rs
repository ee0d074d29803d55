//! The numbers in an operation that name a kind.

use crate::kernel::numbers::{
    Activation, BinaryKind, ExpertScore, Mask, NormKind, Pooling, RopeStyle, RowIndex, UnaryKind,
};
use crate::kernel::operations::Operation;
use crate::{Error, Result};

impl Operation {
    /// Checks the numbers in an operation that name a kind, whatever the program around it.
    ///
    /// # Errors
    /// Unsupported for a kind that is not known here.
    pub fn check_kinds(&self) -> Result<()> {
        match self {
            Operation::Embed(embed) => {
                let all = [RowIndex::TOKEN, RowIndex::POSITION, RowIndex::CONSTANT];
                known(embed.index, &all, &embed.index.name())
            }
            Operation::Norm(norm) => known(norm.kind, &[NormKind::RMS, NormKind::LAYER], &norm.kind.name()),
            Operation::Activate(activate) => {
                let all = [
                    Activation::SILU,
                    Activation::GELU_ERF,
                    Activation::GELU_TANH,
                    Activation::GELU_QUICK,
                    Activation::RELU,
                    Activation::RELU_SQUARED,
                    Activation::SWIGLU_CLAMPED,
                    Activation::SIGMOID,
                    Activation::TANH,
                ];
                known(activate.kind, &all, &activate.kind.name())
            }
            Operation::Rope(rope) => {
                known(rope.style, &[RopeStyle::HALF, RopeStyle::INTERLEAVED], &rope.style.name())
            }
            Operation::Attention(attention) => {
                let all = [Mask::CAUSAL, Mask::FULL, Mask::WINDOW, Mask::CHUNK, Mask::PREFIX];
                known(attention.mask, &all, &attention.mask.name())
            }
            Operation::Route(route) => {
                let all = [ExpertScore::SOFTMAX, ExpertScore::SIGMOID, ExpertScore::SOFTMAX_OF_CHOSEN];
                known(route.score, &all, &route.score.name())
            }
            Operation::Binary(binary) => {
                let all = [BinaryKind::ADD, BinaryKind::MULTIPLY, BinaryKind::SUBTRACT];
                known(binary.kind, &all, &binary.kind.name())
            }
            Operation::Unary(unary) => {
                let all = [UnaryKind::AFFINE, UnaryKind::SOFT_CAP, UnaryKind::CLAMP, UnaryKind::SIGMOID];
                known(unary.kind, &all, &unary.kind.name())
            }
            Operation::Pool(pool) => {
                let all = [Pooling::OUTPUTS, Pooling::MEAN, Pooling::FIRST, Pooling::LAST];
                known(pool.kind, &all, &pool.kind.name())
            }
            Operation::Linear(_)
            | Operation::HeadLinear(_)
            | Operation::Append(_)
            | Operation::ExpertLinear(_)
            | Operation::Combine(_)
            | Operation::Measure(_)
            | Operation::Sample(_) => Ok(()),
        }
    }
}

fn known<T: PartialEq>(number: T, all: &[T], name: &str) -> Result<()> {
    if all.contains(&number) {
        return Ok(());
    }
    Err(Error::unsupported(format!("unknown `{name}`")))
}
