//! Weights that the graph computes from stored codes: what `DequantizeLinear` yields from initializers. Pairs around
//! activations compute nothing from tensors of the model; their scales are told apart.
//!
//! Source: `docs/Operators.md` of onnx 1.23, DequantizeLinear (versions 10 to 25) and QuantizeLinear; version 1 of domain
//! `com.microsoft` has the same inputs.

use crate::about::GRAPH;
use crate::stream::{NumberStream, Numbers};
use apr_sdk::{Derived, DerivedNumbers, DerivedWeight, Result, Source, Stream, Tensor};
use std::collections::{HashMap, HashSet};

/// The operator that makes values of codes.
pub const DEQUANTIZE: &str = "DequantizeLinear";

/// The operator that makes codes of values.
pub const QUANTIZE: &str = "QuantizeLinear";

/// The domains of these operators.
pub const DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

/// The axis of a node that names none.
pub const AXIS: i64 = 1;

/// Ends of the names that onnxruntime gives to codes and scales of a weight.
const ENDS: (&str, &str) = ("_quantized", "_scale");

/// The most numbers of a list that are repeated in the description: the channels of a wide layer.
const MOST_NUMBERS: u64 = 4096;

/// A node with one of these operators.
#[derive(Clone, Debug)]
pub struct Node {
    /// Whether it makes values of codes.
    pub dequantizes: bool,
    /// What it reads: data, scale, zero point; an empty name is nothing.
    pub inputs: Vec<String>,
    /// The axis of its scales.
    pub axis: i64,
    /// Codes that share a scale; 0 if the axis is not divided.
    pub block: i64,
}

/// Describes the weights that nodes compute; `None` if they compute none.
///
/// # Errors
/// Any error from reading.
pub fn describe(
    source: &dyn Source,
    nodes: &[Node],
    tensors: &[Tensor],
    numbers: &HashMap<u64, Numbers>,
) -> Result<Option<Derived>> {
    if nodes.is_empty() {
        return Ok(None);
    }
    let by_name: HashMap<&str, usize> =
        tensors.iter().enumerate().map(|(number, tensor)| (tensor.name.as_str(), number)).collect();
    let mut derived = Derived::default();
    let mut known: HashMap<&str, &Node> = HashMap::new();
    let mut names: HashSet<String> = HashSet::new();
    for node in nodes {
        let beside = node.inputs.iter().skip(1).filter(|name| by_name.contains_key(name.as_str()));
        derived.unused.extend(beside.filter(|name| names.insert((*name).clone())).cloned());
        let Some(codes) = node.inputs.first().filter(|name| by_name.contains_key(name.as_str())) else {
            continue;
        };
        if !node.dequantizes {
            continue;
        }
        // Graphs repeat a node for each reader of its result.
        if let Some(other) = known.insert(codes, node)
            && (&other.inputs, other.axis, other.block) == (&node.inputs, node.axis, node.block)
        {
            continue;
        }
        let mut weight =
            DerivedWeight { by: DEQUANTIZE.to_owned(), codes: codes.clone(), ..DerivedWeight::default() };
        let scale = node.inputs.get(1).map(String::as_str).unwrap_or_default();
        weight.name = name(codes, scale, &by_name);
        let is_single = by_name.get(scale).is_none_or(|at| tensors[*at].shape.iter().all(|size| *size == 1));
        if node.block != 0 {
            weight.axis = Some(node.axis);
            weight.block = Some(u64::try_from(node.block).unwrap_or(0));
        } else if !is_single {
            weight.axis = Some(node.axis);
        }
        let mut side = |name: &str| {
            let at = by_name.get(name).copied();
            let list = at.and_then(|at| numbers.get(&(at as u64)).map(|list| (list, &tensors[at])));
            match list.filter(|(_, tensor)| tensor.shape.iter().product::<u64>() <= MOST_NUMBERS) {
                Some((list, tensor)) => {
                    weight.beside.push(name.to_owned());
                    Ok(match values(source, list, tensor)? {
                        Some(values) => DerivedNumbers::Values(values),
                        None => DerivedNumbers::Tensor(name.to_owned()),
                    })
                }
                None => Ok(DerivedNumbers::Tensor(name.to_owned())),
            }
        };
        let scales = side(scale)?;
        let zeros = node.inputs.get(2).filter(|name| !name.is_empty()).map(|name| side(name)).transpose()?;
        (weight.scales, weight.zeros) = (scales, zeros);
        derived.weights.push(weight);
    }
    if derived.weights.is_empty() {
        return Ok(None);
    }
    // The graph computes from codes what the model then has already.
    derived.keys.push(GRAPH.to_owned());
    Ok(Some(derived))
}

/// A weight is called as its codes are, or as it was before onnxruntime quantized it.
fn name(codes: &str, scale: &str, by_name: &HashMap<&str, usize>) -> String {
    let before = codes.strip_suffix(ENDS.0).filter(|name| !name.is_empty());
    // The scale of a bias is called after its codes.
    let is_its = |name: &str| scale.strip_suffix(ENDS.1).is_some_and(|of| of == name || of == codes);
    let before = before.filter(|name| is_its(name) && !by_name.contains_key(name));
    before.unwrap_or(codes).to_owned()
}

/// Numbers that are stored as a list; `None` for a type that no zero point has.
fn values(source: &dyn Source, list: &Numbers, tensor: &Tensor) -> Result<Option<Vec<f64>>> {
    use apr_sdk::DType;
    use apr_sdk::half::{from_bf16, from_f16};
    let mut bytes = vec![0; usize::try_from(tensor.payload_len()?).unwrap_or(0)];
    let (mut stream, mut at) = (NumberStream::new(list)?, 0);
    loop {
        match stream.read(source, &mut bytes[at..])? {
            0 => break,
            n => at += n,
        }
    }
    let n = usize::try_from(tensor.shape.iter().product::<u64>()).unwrap_or(0);
    let nibble = |at: usize| bytes.get(at / 2).map_or(0, |byte| byte >> (at % 2 * 4) & 15);
    let pairs = || bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    let fours = || bytes.as_chunks::<4>().0.iter();
    Ok(Some(match tensor.dtype {
        DType::I8 => bytes.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
        DType::U8 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        DType::I16 => pairs().map(|code| f64::from(code.cast_signed())).collect(),
        DType::U16 => pairs().map(f64::from).collect(),
        DType::F16 => pairs().map(|bits| f64::from(from_f16(bits))).collect(),
        DType::BF16 => pairs().map(|bits| f64::from(from_bf16(bits))).collect(),
        DType::I32 => fours().map(|bytes| f64::from(i32::from_le_bytes(*bytes))).collect(),
        DType::F32 => fours().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        DType::U4 => (0..n).map(|at| f64::from(nibble(at))).collect(),
        DType::I4 => (0..n).map(|at| f64::from((nibble(at) << 4).cast_signed() >> 4)).collect(),
        // Floats of a byte have no other zero point.
        _ if bytes.iter().all(|byte| *byte == 0) => vec![0.0; n],
        _ => return Ok(None),
    }))
}
