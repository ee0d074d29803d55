//! The numbers in programs and batches. Numbers are appended only; the golden list of the binary interface pins
//! them. A backend that meets an unknown one answers that it does not support it.

use super::fields::Field;
use crate::Result;

macro_rules! kernel_numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$constant_doc:meta])* $constant:ident = $n:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$constant_doc])* pub const $constant: $name = $name($n);)*
            /// Every constant with its name and number.
            pub const ALL: &'static [(&'static str, u32)] = &[$((stringify!($constant), $n)),*];

            /// The constant's name in lower case, or `number N` if it has none.
            pub fn name(self) -> String {
                let known = Self::ALL.iter().find(|(_, number)| *number == self.0);
                known.map_or_else(|| format!("number {}", self.0), |(name, _)| name.to_lowercase())
            }
        }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(rest: &mut &[u8]) -> Result<Self> {
                u32::take(rest).map($name)
            }
        }
    )*

    /// Every enumeration of programs and batches, with its name and constants.
    pub const KERNEL_NUMBERS: &[(&str, &[(&str, u32)])] = &[$((stringify!($name), $name::ALL)),*];
    };
}

kernel_numbers! {
    /// The kind of a program's record: an operation, or one of the declarations that come first.
    OpCode {
        /// The widths of all values.
        VALUES = 1,
        /// The kinds of all states.
        STATES = 2,
        /// Rows of a table.
        EMBED = 16,
        /// A normalization.
        NORM = 17,
        /// A matrix times each row.
        LINEAR = 18,
        /// A matrix of its own for each head.
        HEAD_LINEAR = 19,
        /// An activation function, gated or not.
        ACTIVATE = 20,
        /// Rotary positions.
        ROPE = 21,
        /// Rows into a cache.
        APPEND = 22,
        /// Attention over a cache.
        ATTENTION = 23,
        /// The choice of experts.
        ROUTE = 24,
        /// The matrices of the chosen experts.
        EXPERT_LINEAR = 25,
        /// The weighted sum over the chosen experts.
        COMBINE = 26,
        /// Two values, element by element.
        BINARY = 27,
        /// One value, element by element.
        UNARY = 28,
        /// Fewer rows out of many.
        POOL = 29,
        /// The end: logits, or a token chosen by them.
        SAMPLE = 30,
        /// Reserved: a short convolution with a state.
        CAUSAL_CONV = 31,
        /// Reserved: a selective state-space scan.
        SCAN = 32,
        /// Reserved: a gated delta rule.
        DELTA_RULE = 33,
        /// Reserved: RWKV's recurrence.
        WKV = 34,
        /// Figures of a value's rows.
        MEASURE = 35,
    }
    /// Number of rows of a value.
    RowsOf {
        /// One for each row of the batch.
        BATCH = 0,
        /// One for each row of the batch that wants output, or for each sequence after pooling.
        OUTPUTS = 1,
    }
    /// The kind of a state.
    StateCode {
        /// Keys and values of past positions.
        PAGED = 0,
        /// A fixed number of elements for each sequence.
        FIXED = 1,
    }
    /// The row of a table that an embedding takes.
    RowIndex {
        /// The token's id.
        TOKEN = 0,
        /// The position.
        POSITION = 1,
        /// Always the row at the offset.
        CONSTANT = 2,
    }
    /// The kind of a normalization.
    NormKind {
        /// x / sqrt(mean(x²) + ε).
        RMS = 0,
        /// (x − mean) / sqrt(variance + ε).
        LAYER = 1,
    }
    /// An activation function f. With `up`, the result is f(gate) · up.
    Activation {
        /// x · sigmoid(x).
        SILU = 0,
        /// x · Φ(x), with the error function.
        GELU_ERF = 1,
        /// The approximation of GELU by tanh.
        GELU_TANH = 2,
        /// x · sigmoid(1.702 x).
        GELU_QUICK = 3,
        /// max(x, 0).
        RELU = 4,
        /// max(x, 0)².
        RELU_SQUARED = 5,
        /// g · sigmoid(alpha · g) · (up + 1), with g at most `limit` and up within ±`limit`.
        SWIGLU_CLAMPED = 6,
        /// sigmoid(x).
        SIGMOID = 7,
        /// tanh(x).
        TANH = 8,
    }
    /// The elements of a head that rotate together.
    RopeStyle {
        /// i and i + n/2.
        HALF = 0,
        /// 2i and 2i + 1.
        INTERLEAVED = 1,
    }
    /// The positions a query sees; never those of other sequences.
    Mask {
        /// Those up to its own.
        CAUSAL = 0,
        /// All.
        FULL = 1,
        /// Those up to its own that are less than `window` away.
        WINDOW = 2,
        /// Those up to its own in its own chunk of `window` positions.
        CHUNK = 3,
        /// All below `window`, and those up to its own.
        PREFIX = 4,
    }
    /// The way the scores of experts become weights.
    ExpertScore {
        /// A softmax over all experts; the largest are chosen.
        SOFTMAX = 0,
        /// A sigmoid of each.
        SIGMOID = 1,
        /// The largest scores are chosen; a softmax over these.
        SOFTMAX_OF_CHOSEN = 2,
    }
    /// Two values, element by element.
    BinaryKind {
        /// a + b.
        ADD = 0,
        /// a · b.
        MULTIPLY = 1,
        /// a − b.
        SUBTRACT = 2,
    }
    /// One value, element by element, with parameters a and b.
    UnaryKind {
        /// a · x + b.
        AFFINE = 0,
        /// a · tanh(x / a).
        SOFT_CAP = 1,
        /// x, but at least a and at most b.
        CLAMP = 2,
        /// sigmoid(x).
        SIGMOID = 3,
    }
    /// The rows that remain.
    Pooling {
        /// Those that want output, in the batch's order.
        OUTPUTS = 0,
        /// The mean of each sequence's rows.
        MEAN = 1,
        /// The first of each sequence's rows.
        FIRST = 2,
        /// The last of each sequence's rows.
        LAST = 3,
    }
    /// The way a token is chosen on the device.
    SamplerCode {
        /// The largest logit; the lowest id of equal ones.
        GREEDY = 0,
    }
    /// An action on the states of a sequence.
    StateVerb {
        /// The target becomes a copy.
        COPY = 0,
        /// Positions from the given one on are forgotten.
        TRIM = 1,
        /// All is forgotten.
        CLEAR = 2,
        /// The states are kept under the target's number.
        SNAPSHOT = 3,
        /// The states kept under the target's number come back.
        RESTORE = 4,
    }
}
