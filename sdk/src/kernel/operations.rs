//! The operations of a program, each with its fields. Values and weights are named by number. Where widths are given
//! they are elements per row; a backend checks them once, when it compiles.

use super::fields::Field;
use super::numbers::{
    Activation, BinaryKind, ExpertScore, Mask, NormKind, OpCode, Pooling, RopeStyle, RowIndex, UnaryKind,
};
use crate::{Error, Result, escape};
use std::iter;

macro_rules! operations {
    ($($(#[$doc:meta])* $code:ident $version:literal $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

            impl Field for $name {
                fn put(&self, out: &mut Vec<u8>) {
                    $(self.$field.put(out);)*
                }

                fn take(rest: &mut &[u8]) -> Result<Self> {
                    Ok($name { $($field: Field::take(rest)?,)* })
                }
            }
        )*

        /// One operation of a program.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$doc])* $name($name),)*
        }

        impl Operation {
            /// Its number and version.
            pub fn code(&self) -> (OpCode, u16) {
                match self {
                    $(Operation::$name(_) => (OpCode::$code, $version),)*
                }
            }

            /// Its fields as bytes.
            pub fn fields(&self) -> Vec<u8> {
                let mut out = Vec::new();
                match self {
                    $(Operation::$name(operation) => operation.put(&mut out),)*
                }
                out
            }

            /// Reads an operation's fields.
            ///
            /// # Errors
            /// Unsupported for an unknown number or version; InvalidArgument for fields that are not its own.
            pub fn read(code: OpCode, version: u16, fields: &[u8]) -> Result<Operation> {
                let rest = &mut { fields };
                let operation = match (code, version) {
                    $((OpCode::$code, $version) => Operation::$name(Field::take(rest)?),)*
                    _ => {
                        return Err(Error::unsupported(format!(
                            "unknown version {version} of the operation `{}`",
                            escape(&code.name(), 40)
                        )));
                    }
                };
                if !rest.is_empty() {
                    let left = rest.len();
                    return Err(Error::invalid_argument(format!("`{}` has {left} extra bytes", code.name())));
                }
                Ok(operation)
            }
        }

        $(impl From<$name> for Operation {
            fn from(operation: $name) -> Operation {
                Operation::$name(operation)
            }
        })*
    };
}

/// A part of each row of a value: `width` elements from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The value's number.
    pub value: u32,
    /// The first element.
    pub first: u32,
    /// Number of elements.
    pub width: u32,
}

impl Field for Slice {
    fn put(&self, out: &mut Vec<u8>) {
        [self.value, self.first, self.width].iter().for_each(|field| field.put(out));
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        Ok(Slice { value: Field::take(rest)?, first: Field::take(rest)?, width: Field::take(rest)? })
    }
}

/// Some rows of a weight matrix, applied to an operation's input. The output is as wide as there are rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightPart {
    /// The matrix.
    pub weight: u32,
    /// The first of its rows; for experts, the first in each expert's rows.
    pub first_row: u32,
    /// A vector to add, indexed as the output; for experts, a matrix with a row for each.
    pub bias: Option<u32>,
    /// Destination of the result.
    pub out: Slice,
}

impl Field for WeightPart {
    fn put(&self, out: &mut Vec<u8>) {
        self.weight.put(out);
        self.first_row.put(out);
        self.bias.put(out);
        self.out.put(out);
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        Ok(WeightPart {
            weight: Field::take(rest)?,
            first_row: Field::take(rest)?,
            bias: Field::take(rest)?,
            out: Field::take(rest)?,
        })
    }
}

/// Elements of the result of [`Measure`].
pub const MEASURE_FIGURES: u32 = 6;

operations! {
    /// Row `index + offset` of a table, times a scale, with rows read from the prepared image. Where the batch brings rows of
    /// its own instead of token ids, an embedding by token takes these.
    EMBED 1 Embed {
        /// The table.
        table: u32,
        /// The index into the table.
        index: RowIndex,
        /// Added to the index.
        offset: u32,
        /// Multiplies each element.
        scale: f32,
        /// The result.
        out: Slice,
    }
    /// A normalization over each of `heads` equal parts of a row, times gain, plus bias.
    NORM 1 Norm {
        /// The input.
        x: Slice,
        /// The result; may be the input.
        out: Slice,
        /// The kind.
        kind: NormKind,
        /// A vector as wide as a row (each head has its own) or as a head (all share it).
        gain: Option<u32>,
        /// A vector of the same width.
        bias: Option<u32>,
        /// ε.
        epsilon: f32,
        /// Number of parts that are normalized apart; 1 for the whole row.
        heads: u32,
    }
    /// out = scale · (W x + bias) + residual, for one or several matrices over the same input.
    LINEAR 1 Linear {
        /// The input.
        x: Slice,
        /// The matrices.
        parts: Vec<WeightPart>,
        /// Added at the end; only with a single part. May be the result itself.
        residual: Option<Slice>,
        /// Multiplies the product and its bias.
        scale: f32,
    }
    /// Each head of x times a matrix of its own; the weight has the rows of all heads, one head after the other.
    HEAD_LINEAR 1 HeadLinear {
        /// The input, `heads` equal parts.
        x: Slice,
        /// The result, `heads` equal parts.
        out: Slice,
        /// Number of heads.
        heads: u32,
        /// The matrix.
        weight: u32,
    }
    /// out = f(gate), or f(gate) · up.
    ACTIVATE 1 Activate {
        /// The function.
        kind: Activation,
        /// Its argument.
        gate: Slice,
        /// The other factor.
        up: Option<Slice>,
        /// The result; may be either input.
        out: Slice,
        /// The slope of a clamped SwiGLU.
        alpha: f32,
        /// The bound of a clamped SwiGLU.
        limit: f32,
    }
    /// Rotates, in each of `heads` equal parts, twice as many elements as there are frequencies, and copies the rest.
    ROPE 1 Rope {
        /// The input.
        x: Slice,
        /// The result; may be the input.
        out: Slice,
        /// Number of heads.
        heads: u32,
        /// The first element of a head that rotates.
        first: u32,
        /// The elements that rotate together.
        style: RopeStyle,
        /// The angle for each pair, in radians per position.
        frequencies: Vec<f32>,
        /// Multiplies sine and cosine.
        magnitude: f32,
    }
    /// Stores keys and values of each row under its sequence and position.
    APPEND 1 Append {
        /// A paged state.
        state: u32,
        /// The keys of all key heads.
        key: Slice,
        /// The values of all key heads; without them, values are views of the keys.
        value: Option<Slice>,
    }
    /// Softmax attention of each row's queries over a paged state; consecutive query heads share a key head.
    ATTENTION 1 Attention {
        /// The state.
        state: u32,
        /// The queries of all heads.
        query: Slice,
        /// The result: all heads, each as wide as a value.
        out: Slice,
        /// Number of query heads.
        heads: u32,
        /// Multiplies the scores.
        scale: f32,
        /// The positions that are seen.
        mask: Mask,
        /// The mask's parameter.
        window: u32,
        /// Bounds scores to ± this by tanh, after scaling; 0 for none.
        soft_cap: f32,
        /// A vector with a score for each head that takes part in the softmax and contributes nothing.
        sinks: Option<u32>,
        /// ALiBi's slope for each head, times the distance and subtracted; empty for none.
        slopes: Vec<f32>,
        /// The first element in each key, where values are views of keys.
        value_first: u32,
    }
    /// Chooses experts for each row: out has the numbers of the chosen, then their weights, as floats.
    ROUTE 1 Route {
        /// A score for each expert.
        scores: Slice,
        /// The result, twice as many elements as are chosen.
        out: Slice,
        /// The way scores become weights.
        score: ExpertScore,
        /// True if the weights of the chosen are divided by their sum.
        normalize: bool,
        /// Multiplies the weights.
        scale: f32,
        /// A vector that is added to the scores for choosing, but not to the weights.
        bias: Option<u32>,
        /// Into how many groups the experts fall.
        groups: u32,
        /// Number of groups that the chosen come from; 0 for all.
        groups_used: u32,
    }
    /// The matrices of each row's chosen experts. The result has one part for each chosen expert.
    EXPERT_LINEAR 1 ExpertLinear {
        /// The input: one for all the chosen, or one part for each.
        x: Slice,
        /// The result of [`Route`].
        route: Slice,
        /// Number of experts that the matrices hold.
        experts: u32,
        /// Number of experts that are chosen.
        used: u32,
        /// True if all chosen experts have the same input.
        shared_input: bool,
        /// The matrices.
        parts: Vec<WeightPart>,
    }
    /// out = the sum of x's parts, each times its expert's weight, plus residual.
    COMBINE 1 Combine {
        /// One part for each chosen expert.
        x: Slice,
        /// The result of [`Route`].
        route: Slice,
        /// Number of experts that are chosen.
        used: u32,
        /// The result.
        out: Slice,
        /// Added; may be the result itself.
        residual: Option<Slice>,
    }
    /// Two values, element by element; `b` may be a single element for the whole row.
    BINARY 1 Binary {
        /// The kind.
        kind: BinaryKind,
        /// The first.
        a: Slice,
        /// The second.
        b: Slice,
        /// The result; may be either input.
        out: Slice,
    }
    /// One value, element by element.
    UNARY 1 Unary {
        /// The kind.
        kind: UnaryKind,
        /// The input.
        x: Slice,
        /// The result; may be the input.
        out: Slice,
        /// The first parameter.
        a: f32,
        /// The second.
        b: f32,
    }
    /// Some rows of many, or their means.
    POOL 1 Pool {
        /// The kind.
        kind: Pooling,
        /// The input, a row for each of the batch's.
        x: Slice,
        /// The result, of [`super::RowsOf::OUTPUTS`] rows.
        out: Slice,
        /// True if each result is divided by its Euclidean norm.
        normalize: bool,
    }
    /// Six figures of each row, in this order: the least and the greatest of its finite elements (+∞ and −∞ if there is none),
    /// their sum, the sum of their squares, the number of zeros, and the number of elements that are not finite. What is
    /// measured is not changed.
    MEASURE 1 Measure {
        /// The input.
        x: Slice,
        /// The result, [`MEASURE_FIGURES`] elements.
        out: Slice,
    }
    /// Gives each row of logits to the step's sink, or a token chosen by the batch's sampler.
    SAMPLE 1 Sample {
        /// The logits.
        logits: Slice,
    }
}

impl Operation {
    /// The weights that it names, in the order of its fields.
    pub fn weights(&self) -> Vec<u32> {
        match self {
            Operation::Embed(embed) => vec![embed.table],
            Operation::Norm(norm) => norm.gain.into_iter().chain(norm.bias).collect(),
            Operation::Linear(Linear { parts, .. }) | Operation::ExpertLinear(ExpertLinear { parts, .. }) => {
                parts.iter().flat_map(|part| [Some(part.weight), part.bias]).flatten().collect()
            }
            Operation::HeadLinear(linear) => vec![linear.weight],
            Operation::Attention(attention) => attention.sinks.into_iter().collect(),
            Operation::Route(route) => route.bias.into_iter().collect(),
            Operation::Activate(_)
            | Operation::Rope(_)
            | Operation::Append(_)
            | Operation::Combine(_)
            | Operation::Binary(_)
            | Operation::Unary(_)
            | Operation::Pool(_)
            | Operation::Measure(_)
            | Operation::Sample(_) => Vec::new(),
        }
    }

    /// The slices it reads, but for weights and states, in the order of its fields.
    pub fn reads(&self) -> Vec<Slice> {
        match self {
            Operation::Embed(_) => Vec::new(),
            Operation::Norm(norm) => vec![norm.x],
            Operation::Linear(linear) => iter::once(linear.x).chain(linear.residual).collect(),
            Operation::HeadLinear(linear) => vec![linear.x],
            Operation::Activate(activate) => iter::once(activate.gate).chain(activate.up).collect(),
            Operation::Rope(rope) => vec![rope.x],
            Operation::Append(append) => iter::once(append.key).chain(append.value).collect(),
            Operation::Attention(attention) => vec![attention.query],
            Operation::Route(route) => vec![route.scores],
            Operation::ExpertLinear(linear) => vec![linear.x, linear.route],
            Operation::Combine(combine) => {
                [combine.x, combine.route].into_iter().chain(combine.residual).collect()
            }
            Operation::Binary(binary) => vec![binary.a, binary.b],
            Operation::Unary(unary) => vec![unary.x],
            Operation::Pool(pool) => vec![pool.x],
            Operation::Measure(measure) => vec![measure.x],
            Operation::Sample(sample) => vec![sample.logits],
        }
    }

    /// The slices its results go to, but for states, in the order of its fields.
    pub fn writes(&self) -> Vec<Slice> {
        match self {
            Operation::Embed(embed) => vec![embed.out],
            Operation::Norm(norm) => vec![norm.out],
            Operation::Linear(Linear { parts, .. }) | Operation::ExpertLinear(ExpertLinear { parts, .. }) => {
                parts.iter().map(|part| part.out).collect()
            }
            Operation::HeadLinear(linear) => vec![linear.out],
            Operation::Activate(activate) => vec![activate.out],
            Operation::Rope(rope) => vec![rope.out],
            Operation::Attention(attention) => vec![attention.out],
            Operation::Route(route) => vec![route.out],
            Operation::Combine(combine) => vec![combine.out],
            Operation::Binary(binary) => vec![binary.out],
            Operation::Unary(unary) => vec![unary.out],
            Operation::Pool(pool) => vec![pool.out],
            Operation::Measure(measure) => vec![measure.out],
            Operation::Append(_) | Operation::Sample(_) => Vec::new(),
        }
    }

    /// The state that it writes to or reads from.
    pub fn state(&self) -> Option<u32> {
        match self {
            Operation::Append(append) => Some(append.state),
            Operation::Attention(attention) => Some(attention.state),
            _ => None,
        }
    }
}
