//! The ONNX format: a protobuf message with a graph and the tensors that its nodes use.
//!
//! ```text
//! ModelProto     08 IR_VERSION | 12 producer ... | 3a LEN graph | 42 LEN opset ... | 72 LEN metadata_props ... | ...
//! └ GraphProto   0a LEN node ... | 12 LEN name | 2a LEN initializer ... | 5a LEN input ... | 62 LEN output ... | ...
//!   ├ NodeProto  ... | 2a LEN attribute: t, tensors, sparse_tensor, or a whole graph g, graphs
//!   └ TensorProto  08 dim ... | 10 data_type | 42 LEN name | 4a LEN raw_data | doc_string, external_data, ...
//!                                                                 ^^^^^^^^ the payload: an Extent, never read
//! ```
//! A field is a tag (number · 8 + wire type) and a varint, 4 or 8 bytes, or LEN and that many bytes. There is
//! no magic, and fields may be in any order. Numbers in payloads are little-endian. Data may be in other
//! files of the model's folder.

#![forbid(unsafe_code)]

mod about;
mod behind;
mod constants;
mod derived;
mod edit;
mod external;
mod fields;
mod gaps;
mod kinds;
mod layout;
mod listing;
mod messages;
mod names;
mod nodes;
mod operators;
mod origin;
mod outside;
mod packings;
mod plan;
mod probe;
mod product;
mod reader;
mod scan;
mod skeleton;
mod sparse_check;
mod stream;
mod strip;
mod tensor;
mod uses;
mod visit;
mod walk;
mod weights;
mod writer;

apr_sdk::export_plugin! {
    id: onnx,
    manifest: "
        formats=onnx
        onnx.name=ONNX
        onnx.roles=read write
        onnx.extensions=onnx
        onnx.dialect=any
        onnx.dtypes=F64 F32 F16 BF16 F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F8_E8M0 F6_E2M3 F6_E3M2 F4_E2M1 I2 I4 I8 I16 I32 I64 U2 U4 U8 U16 U32 U64 BOOL C64 C128
        onnx.max_dims=8
        onnx.graph=yes
        onnx.metadata=str i64 arr
        onnx.foreign=lost
        onnx.computation=onnx.graph graph
        onnx.report.graph=List operator sets, inputs, outputs and nodes
        onnx.report.check=Check that sparse tensors' indices are sorted and inside their shapes
        onnx.option.external-data=write flag - Write tensor data to a separate file next to the model
        onnx.option.external-align=write integer 4096 Align external data to this power of two
        onnx.option.single-file=write flag - Fail above 2 GiB instead of writing external data
    ",
    reader: |_| Some(Box::new(reader::Onnx)),
    writer: |_| Some(Box::new(writer::Onnx)),
}
