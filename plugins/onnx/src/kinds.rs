//! What operators do with the elements of their inputs: what is decided once for a node, as it is read.

use crate::operators::{self, Operator};

/// Operators whose results are floats that they compute, by the types that the standard allows: no codes pass.
const COMPUTE: [&str; 38] = [
    "AveragePool",
    "BatchNormalization",
    "Ceil",
    "Celu",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "GRU",
    "Gelu",
    "GlobalAveragePool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Mish",
    "RMSNormalization",
    "RNN",
    "Reciprocal",
    "Round",
    "Selu",
    "Sigmoid",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tanh",
    "DynamicQuantizeLinear",
];

/// Operators whose result is elements of all their inputs.
const JOINS: [&str; 5] =
    ["Concat", "ConcatFromSequence", "SequenceConstruct", "Optional", "OptionalGetElement"];

/// Operators whose results are elements of their first input, and which are not followed to one of several results.
const PARTS: [&str; 3] = ["Split", "SplitToSequence", "SequenceAt"];

/// Operators that give their first input another type.
const CASTS: [&str; 3] = ["Cast", "CastLike", "BitCast"];

/// Inputs that say which elements a result has, or where they go, or how many there are, and are none of them, by `docs/Operators.md` of
/// onnx 1.23.
const CHOICES: [(&str, &[usize]); 23] = [
    ("CenterCropPad", &[1]),
    ("Compress", &[1]),
    ("CumSum", &[1]),
    ("If", &[0]),
    ("OneHot", &[0, 1]),
    ("Pad", &[1, 3]),
    ("ReduceMax", &[1]),
    ("ReduceMean", &[1]),
    ("ReduceMin", &[1]),
    ("ReduceProd", &[1]),
    ("ReduceSum", &[1]),
    ("Resize", &[1, 2, 3]),
    ("ReverseSequence", &[1]),
    ("Scatter", &[1]),
    ("ScatterElements", &[1]),
    ("ScatterND", &[1]),
    ("SequenceErase", &[1]),
    ("SequenceInsert", &[2]),
    ("TensorScatter", &[2]),
    ("TopK", &[1]),
    ("Trilu", &[1]),
    ("Upsample", &[1]),
    ("Where", &[0]),
];

/// What a node does.
#[derive(Clone, Copy, Debug, Default)]
pub enum Kind {
    /// It computes with codes.
    Codes(&'static Operator),
    /// Its name says that it does, in a domain that is not known here.
    Foreign,
    /// It is a constant.
    Constant,
    /// It computes one of several graphs.
    If,
    /// It computes a graph again and again.
    Loop,
    /// Likewise, for each element of an axis.
    Scan,
    /// It moves elements of its first input.
    Move {
        /// It is `Identity`.
        is_identity: bool,
    },
    /// Its results are parts of its first input.
    Part,
    /// It gives its first input another type.
    Cast,
    /// Its result is elements of all its inputs.
    Join,
    /// Its results are floats that no codes pass to.
    Compute,
    /// It multiplies two inputs.
    Multiply,
    /// Anything else, by the inputs that no element of a result is from.
    Other(&'static [usize]),
    /// Not known yet.
    #[default]
    Unread,
}

impl Kind {
    /// What a node of this operator does.
    pub fn of(domain: &str, name: &str) -> Kind {
        if let Some(operator) = operators::find(domain, name) {
            return Kind::Codes(operator);
        }
        if operators::is_foreign(domain, name) {
            return Kind::Foreign;
        }
        if !operators::is_standard(domain) {
            return Kind::Other(&[]);
        }
        match name {
            "Constant" => Kind::Constant,
            "If" => Kind::If,
            "Loop" => Kind::Loop,
            "Scan" => Kind::Scan,
            "Mul" => Kind::Multiply,
            _ if operators::moves(domain, name) => Kind::Move { is_identity: name == "Identity" },
            _ if PARTS.contains(&name) => Kind::Part,
            _ if CASTS.contains(&name) => Kind::Cast,
            _ if JOINS.contains(&name) => Kind::Join,
            _ if COMPUTE.contains(&name) => Kind::Compute,
            _ => Kind::Other(choices(name)),
        }
    }
}

/// The inputs of an operator of the standard that no element of its results is from.
fn choices(name: &str) -> &'static [usize] {
    CHOICES.iter().find(|(of, _)| *of == name).map_or(&[], |(_, inputs)| inputs)
}
