//! The operators whose operands are codes of weights, and which of their inputs hold scales and zero points.
//!
//! Sources: `docs/Operators.md` of onnx 1.23 (domain `ai.onnx`, also written as no name); `docs/ContribOperators.md` of
//! onnxruntime 1.32 (domain `com.microsoft`). Inputs are numbered as they are listed there.

use Axis::{Columns, Directions, Fixed, OfNode, One};
use Scale::{Beside, Follows, Product};

/// The standard domain, under either of its names.
const STANDARD: u8 = 1;

/// Domain `com.microsoft`.
const MICROSOFT: u8 = 2;

/// An operator that computes with codes.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// Its name.
    pub name: &'static str,
    /// The domains that have it.
    domains: u8,
    /// Its operands.
    pub operands: &'static [Operand],
    /// Inputs that are scales and zero points of what is computed.
    pub beside: &'static [usize],
    /// How it packs its weight into bytes, if it does.
    pub packing: Packing,
}

/// An input that holds codes, if it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The input of the codes.
    pub codes: usize,
    /// Their scales.
    pub scale: Scale,
    /// The input of their zero points.
    pub zero: Option<usize>,
    /// The axis of the codes that scales and zero points run along.
    pub axis: Axis,
}

/// Where scales are.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// In an input.
    Beside(usize),
    /// In two inputs, whose product they are, with the attribute `alpha` if there is one.
    Product(usize, usize),
    /// In a product that later nodes multiply the result by, with the scale of this other input.
    Follows(usize),
}

/// The axis of scales.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// The one that the node's attribute `axis` says.
    OfNode,
    /// This one, negative from the end.
    Fixed(i64),
    /// The columns of a matrix that the attribute `transB` may have transposed.
    Columns,
    /// Directions, the first, if there is a scale for each; else directions and channels, the last.
    Directions,
    /// None: there is one scale only.
    One,
}

/// How a weight is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// In blocks of rows, `[N, blocks, bytes of a block]`, as MatMulNBits has it.
    Matrix,
    /// In rows if it is bytes, as GatherBlockQuantized has it; in blocks along an axis in any case.
    Table,
    /// In a way that is not known here.
    Unknown,
}

const fn of(codes: usize, scale: Scale, zero: usize, axis: Axis) -> Operand {
    Operand { codes, scale, zero: Some(zero), axis }
}

const fn unscaled(codes: usize, scale: Scale, axis: Axis) -> Operand {
    Operand { codes, scale, zero: None, axis }
}

const fn row(
    name: &'static str,
    domains: u8,
    operands: &'static [Operand],
    beside: &'static [usize],
) -> Operator {
    Operator { name, domains, operands, beside, packing: Packing::None }
}

const fn packed(name: &'static str, operands: &'static [Operand], packing: Packing) -> Operator {
    Operator { name, domains: MICROSOFT, operands, beside: &[], packing }
}

/// All of them.
#[rustfmt::skip] // a table
static OPERATORS: &[Operator] = &[
    row("DequantizeLinear", STANDARD | MICROSOFT, &[of(0, Beside(1), 2, OfNode)], &[]),
    row("QuantizeLinear", STANDARD | MICROSOFT, &[], &[1, 2]),
    row("QLinearMatMul", STANDARD, &[of(0, Beside(1), 2, Fixed(-2)), of(3, Beside(4), 5, Fixed(-1))], &[6, 7]),
    row("QLinearConv", STANDARD | MICROSOFT, &[of(0, Beside(1), 2, One), of(3, Beside(4), 5, Fixed(0)),
        unscaled(8, Product(1, 4), Fixed(0))], &[6, 7]),
    row("MatMulInteger", STANDARD, &[of(0, Follows(1), 2, Fixed(-2)), of(1, Follows(0), 3, Fixed(-1))], &[]),
    row("ConvInteger", STANDARD, &[of(1, Follows(0), 3, Fixed(0))], &[]),
    row("MatMulInteger16", MICROSOFT, &[unscaled(0, Follows(1), Fixed(-2)), unscaled(1, Follows(0), Fixed(-1))], &[]),
    row("MatMulIntegerToFloat", MICROSOFT, &[of(0, Beside(2), 4, Fixed(-2)), of(1, Beside(3), 5, Fixed(-1))], &[]),
    row("DynamicQuantizeMatMul", MICROSOFT, &[of(1, Beside(2), 3, Fixed(-1))], &[]),
    row("QGemm", MICROSOFT, &[of(0, Beside(1), 2, One), of(3, Beside(4), 5, Columns),
        unscaled(6, Product(1, 4), Fixed(-1))], &[7, 8]),
    row("QAttention", MICROSOFT, &[of(1, Beside(4), 7, Fixed(-1))], &[3, 6]),
    row("DynamicQuantizeLSTM", MICROSOFT, &[of(1, Beside(8), 9, Directions), of(2, Beside(10), 11, Directions)], &[]),
    row("QEmbedLayerNormalization", MICROSOFT, &[of(2, Beside(8), 13, One), of(3, Beside(9), 14, One),
        of(4, Beside(10), 15, One), of(5, Beside(11), 16, One), of(6, Beside(12), 17, One)], &[]),
    row("QLinearAdd", MICROSOFT, &[of(0, Beside(1), 2, One), of(3, Beside(4), 5, One)], &[6, 7]),
    row("QLinearMul", MICROSOFT, &[of(0, Beside(1), 2, One), of(3, Beside(4), 5, One)], &[6, 7]),
    row("QLinearWhere", MICROSOFT, &[of(1, Beside(2), 3, One), of(4, Beside(5), 6, One)], &[7, 8]),
    row("QLinearLeakyRelu", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row("QLinearSigmoid", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row("QLinearSoftmax", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row("QLinearAveragePool", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row("QLinearGlobalAveragePool", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row("QLinearReduceMean", MICROSOFT, &[of(0, Beside(1), 2, One)], &[3, 4]),
    row(CONCAT, MICROSOFT, &[], &[0, 1]),
    packed("MatMulNBits", &[of(1, Beside(2), 3, Fixed(-1))], Packing::Matrix),
    packed("GatherBlockQuantized", &[of(0, Beside(2), 3, OfNode)], Packing::Table),
    packed("MatMulNBitsMlp", &[], Packing::Unknown),
    packed("MatMulNBitsQkv", &[], Packing::Unknown),
    packed("MatMulBnb4", &[], Packing::Unknown),
    packed("MatMulFpQ4", &[], Packing::Unknown),
    packed("MatMulBlockQuantizedFp4Weight", &[], Packing::Unknown),
    packed("MatMulBlockQuantizedFp8Weight", &[], Packing::Unknown),
    packed("GemmFloat8", &[], Packing::Unknown),
    packed("MulInteger", &[], Packing::Unknown),
    packed("QMoE", &[], Packing::Unknown),
    packed("QOrderedMatMul", &[], Packing::Unknown),
    packed("QOrderedAttention", &[], Packing::Unknown),
    packed("QOrderedLongformerAttention", &[], Packing::Unknown),
    packed("DequantizeBFP", &[], Packing::Unknown),
    packed("DequantizeWithOrder", &[], Packing::Unknown),
];

/// The operator with any number of operands: data, scale and zero point of each follow those of the result.
const CONCAT: &str = "QLinearConcat";

/// Operators that move elements of their first input and change none, so that what has one scale keeps it.
const MOVERS: [&str; 13] = [
    "Identity",
    "Transpose",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Slice",
    "Expand",
    "Tile",
    "DepthToSpace",
];

/// Whether a domain is the standard one.
pub fn is_standard(domain: &str) -> bool {
    ["", "ai.onnx"].contains(&domain)
}

/// The operator of this name in this domain, if it computes with codes.
pub fn find(domain: &str, name: &str) -> Option<&'static Operator> {
    let bit = match domain {
        domain if is_standard(domain) => STANDARD,
        "com.microsoft" => MICROSOFT,
        _ => return None,
    };
    OPERATORS.iter().find(|operator| operator.domains & bit != 0 && operator.name == name)
}

/// Whether an operator of this name, in some domain, computes with codes, or its name says so.
pub fn has(name: &str) -> bool {
    OPERATORS.iter().any(|operator| operator.name == name) || name.to_ascii_lowercase().contains("dequantize")
}

/// Whether an operator of a domain that is not known here says by its name that it computes with codes:
/// `trt::TRT_FP8DequantizeLinear`, `com.ms.internal.nhwc::QLinearConv`.
pub fn is_foreign(domain: &str, name: &str) -> bool {
    find(domain, name).is_none() && has(name)
}

/// Whether a node moves elements and changes none.
pub fn moves(domain: &str, name: &str) -> bool {
    is_standard(domain) && MOVERS.contains(&name)
}

impl Operator {
    /// The operands of a node with so many inputs.
    pub fn operands(&self, inputs: usize) -> Vec<Operand> {
        if self.name != CONCAT {
            return self.operands.to_vec();
        }
        (2..inputs).step_by(3).map(|at| of(at, Beside(at + 1), at + 2, One)).collect()
    }
}
