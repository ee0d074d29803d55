//! A model without a graph: a valid file whose graph has tensors and no nodes. Its outputs are its tensors,
//! because onnxruntime refuses models without outputs, and drops whatever leads to none.

use crate::edit::{Edit, Segment, apply};
use crate::fields;
use crate::layout::{graph, model, tensor, type_of};
use crate::plan::Home;
use apr_sdk::{Result, Tensor};

/// Who wrote it.
const PRODUCER: &str = "apr";

/// The graph's name, which may not be empty.
const NAME: &str = "weights";

/// The lowest `ir_version` that is written: the first with functions, which every program of the last years reads.
const LOWEST_IR: i64 = 8;

/// The first operator set that came with an `ir_version`, from 8 on.
const OPSETS: [u64; 7] = [15, 19, 21, 23, 24, 25, 26];

/// The file that holds `tensors` at their `homes`, and entries of `metadata_props`.
///
/// # Errors
/// Unsupported for a type that the format lacks.
pub fn segments(tensors: &[Tensor], homes: &[Home], props: &[(String, Vec<u8>)]) -> Result<Vec<Segment>> {
    let types = tensors.iter().filter_map(|facts| type_of(facts.dtype));
    let ir_version = types.map(|row| row.ir_version).fold(LOWEST_IR, i64::max).unsigned_abs();
    let mut head = Vec::new();
    fields::number(&mut head, model::IR_VERSION, ir_version);
    fields::bytes(&mut head, model::PRODUCER_NAME, PRODUCER.as_bytes());
    let mut inner = vec![Segment::Bytes(Vec::new())];
    let mut put = |segment: Segment| match (inner.last_mut(), segment) {
        (Some(Segment::Bytes(last)), Segment::Bytes(more)) => last.extend(more),
        (_, segment) => inner.push(segment),
    };
    let mut name = Vec::new();
    fields::bytes(&mut name, graph::NAME, NAME.as_bytes());
    put(Segment::Bytes(name));
    for (number, (facts, home)) in tensors.iter().zip(homes).enumerate() {
        let mut message = fields::tensor_head(facts)?;
        fields::bytes(&mut message, tensor::NAME, facts.name.as_bytes());
        let data = home.data(number, facts.payload_len()?);
        let data_len: u64 = data.iter().map(Segment::len).sum();
        let mut start = Vec::new();
        fields::head(&mut start, graph::INITIALIZER, message.len() as u64 + data_len);
        start.extend(message);
        put(Segment::Bytes(start));
        data.into_iter().for_each(&mut put);
    }
    tensors.iter().try_for_each(|facts| output(facts).map(|record| put(Segment::Bytes(record))))?;
    let len = inner.iter().map(Segment::len).sum();
    fields::head(&mut head, model::GRAPH, len);
    let mut tail = Vec::new();
    let mut opset = Vec::new();
    fields::bytes(&mut opset, 1, b"");
    let place = usize::try_from(ir_version).unwrap_or(0).saturating_sub(8);
    fields::number(&mut opset, 2, OPSETS[place.min(OPSETS.len() - 1)]);
    fields::bytes(&mut tail, model::OPSET_IMPORT, &opset);
    for (key, value) in props {
        fields::entry(&mut tail, model::METADATA_PROPS, key.as_bytes(), value);
    }
    let put = [vec![Segment::Bytes(head)], inner, vec![Segment::Bytes(tail)]].concat();
    apply(&[], 0, vec![Edit { at: 0, cut: 0, put, frame: None }])
}

/// The record of an output that is a tensor of the model.
fn output(facts: &Tensor) -> Result<Vec<u8>> {
    let mut shape = Vec::new();
    for &dim in &facts.shape {
        let mut size = Vec::new();
        fields::number(&mut size, 1, dim);
        fields::bytes(&mut shape, 1, &size);
    }
    let mut kind = Vec::new();
    fields::number(&mut kind, 1, fields::data_type(facts)?);
    fields::bytes(&mut kind, 2, &shape);
    let mut of_tensor = Vec::new();
    fields::bytes(&mut of_tensor, 1, &kind);
    let (mut value, mut record) = (Vec::new(), Vec::new());
    fields::bytes(&mut value, 1, facts.name.as_bytes());
    fields::bytes(&mut value, 2, &of_tensor);
    fields::bytes(&mut record, graph::OUTPUT, &value);
    Ok(record)
}
