//! The format's numbers: message fields, wire types, element types, from `onnx.proto` of onnx 1.23 and the
//! protobuf encoding.

use apr_sdk::DType;

/// The format's id, in the manifest and in foreign records.
pub const FORMAT: &str = "onnx";

/// The most bytes a protobuf message can have, and so a file: 2 GiB less one.
pub const LONGEST_MESSAGE: u64 = (1 << 31) - 1;

/// Messages may be nested this deep: the limit that protobuf's own parsers have.
pub const DEEPEST: usize = 100;

/// The most bytes of a message that is decoded as a whole.
pub const LONGEST_DECODED: u64 = 1 << 20;

/// Tensors with less data stay in the model when data is put beside it: the `size_threshold` of the package onnx.
pub const SMALLEST_EXTERNAL: u64 = 1024;

/// How a record's value is encoded.
pub mod wire {
    /// Wire type 0: a varint.
    pub const VARINT: u8 = 0;
    /// 8 bytes.
    pub const I64: u8 = 1;
    /// A length and bytes.
    pub const LEN: u8 = 2;
    /// 4 bytes.
    pub const I32: u8 = 5;
}

/// Fields of `ModelProto`.
pub mod model {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const IR_VERSION: u32 = 1;
    pub const PRODUCER_NAME: u32 = 2;
    pub const PRODUCER_VERSION: u32 = 3;
    pub const DOMAIN: u32 = 4;
    pub const MODEL_VERSION: u32 = 5;
    pub const DOC_STRING: u32 = 6;
    pub const GRAPH: u32 = 7;
    pub const OPSET_IMPORT: u32 = 8;
    pub const METADATA_PROPS: u32 = 14;
    pub const TRAINING_INFO: u32 = 20;
    pub const FUNCTIONS: u32 = 25;
    pub const CONFIGURATION: u32 = 26;
}

/// Fields of `GraphProto`.
pub mod graph {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const NODE: u32 = 1;
    pub const NAME: u32 = 2;
    pub const INITIALIZER: u32 = 5;
    pub const DOC_STRING: u32 = 10;
    pub const INPUT: u32 = 11;
    pub const OUTPUT: u32 = 12;
    pub const QUANTIZATION_ANNOTATION: u32 = 14;
    pub const SPARSE_INITIALIZER: u32 = 15;
    pub const METADATA_PROPS: u32 = 16;
}

/// Fields of `NodeProto`.
pub mod node {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const INPUT: u32 = 1;
    pub const OUTPUT: u32 = 2;
    pub const NAME: u32 = 3;
    pub const OP_TYPE: u32 = 4;
    pub const ATTRIBUTE: u32 = 5;
    pub const DOMAIN: u32 = 7;
    pub const OVERLOAD: u32 = 8;
}

/// Fields of `AttributeProto`.
pub mod attribute {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const NAME: u32 = 1;
    pub const F: u32 = 2;
    pub const I: u32 = 3;
    pub const T: u32 = 5;
    pub const G: u32 = 6;
    pub const FLOATS: u32 = 7;
    pub const INTS: u32 = 8;
    pub const TENSORS: u32 = 10;
    pub const GRAPHS: u32 = 11;
    pub const DOC_STRING: u32 = 13;
    pub const TYPE: u32 = 20;
    pub const REF: u32 = 21;
    pub const SPARSE_TENSOR: u32 = 22;
    pub const SPARSE_TENSORS: u32 = 23;
}

/// Fields of `FunctionProto`.
pub mod function {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const NAME: u32 = 1;
    pub const INPUT: u32 = 4;
    pub const OUTPUT: u32 = 5;
    pub const ATTRIBUTE: u32 = 6;
    pub const NODE: u32 = 7;
    pub const OPSET_IMPORT: u32 = 9;
    pub const DOMAIN: u32 = 10;
    pub const ATTRIBUTE_PROTO: u32 = 11;
    pub const OVERLOAD: u32 = 13;
}

/// Fields of `ValueInfoProto`.
pub mod value_info {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const NAME: u32 = 1;
}

/// Fields of `TrainingInfoProto`.
pub mod training {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const INITIALIZATION: u32 = 1;
    pub const ALGORITHM: u32 = 2;
}

/// Fields of `SparseTensorProto`.
pub mod sparse {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const VALUES: u32 = 1;
    pub const INDICES: u32 = 2;
    pub const DIMS: u32 = 3;
}

/// Fields of `TensorProto`.
pub mod tensor {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const DIMS: u32 = 1;
    pub const DATA_TYPE: u32 = 2;
    pub const SEGMENT: u32 = 3;
    pub const FLOAT_DATA: u32 = 4;
    pub const INT32_DATA: u32 = 5;
    pub const STRING_DATA: u32 = 6;
    pub const INT64_DATA: u32 = 7;
    pub const NAME: u32 = 8;
    pub const RAW_DATA: u32 = 9;
    pub const DOUBLE_DATA: u32 = 10;
    pub const UINT64_DATA: u32 = 11;
    pub const EXTERNAL_DATA: u32 = 13;
    pub const DATA_LOCATION: u32 = 14;
}

/// The `data_type` of strings, which are no tensors here.
pub const STRING: u64 = 8;

/// A row of the table of element types.
#[derive(Clone, Copy, Debug)]
pub struct ElementType {
    /// Its `data_type`.
    pub id: u64,
    /// Its name in `TensorProto.DataType`.
    pub name: &'static str,
    /// What it is here.
    pub dtype: DType,
    /// The typed field that holds its values where `raw_data` does not.
    pub field: u32,
    /// The first `ir_version` that has it.
    pub ir_version: i64,
}

const fn row(id: u64, name: &'static str, dtype: DType, field: u32, ir_version: i64) -> ElementType {
    ElementType { id, name, dtype, field, ir_version }
}

use tensor::{DOUBLE_DATA, FLOAT_DATA, INT32_DATA, INT64_DATA, UINT64_DATA};

/// Every element type but [`STRING`].
#[rustfmt::skip] // a table
pub const TYPES: [ElementType; 27] = [
    row(1, "FLOAT", DType::F32, FLOAT_DATA, 1),
    row(2, "UINT8", DType::U8, INT32_DATA, 1),
    row(3, "INT8", DType::I8, INT32_DATA, 1),
    row(4, "UINT16", DType::U16, INT32_DATA, 1),
    row(5, "INT16", DType::I16, INT32_DATA, 1),
    row(6, "INT32", DType::I32, INT32_DATA, 1),
    row(7, "INT64", DType::I64, INT64_DATA, 1),
    row(9, "BOOL", DType::BOOL, INT32_DATA, 1),
    row(10, "FLOAT16", DType::F16, INT32_DATA, 1),
    row(11, "DOUBLE", DType::F64, DOUBLE_DATA, 1),
    row(12, "UINT32", DType::U32, UINT64_DATA, 1),
    row(13, "UINT64", DType::U64, UINT64_DATA, 1),
    row(14, "COMPLEX64", DType::C64, FLOAT_DATA, 1),
    row(15, "COMPLEX128", DType::C128, DOUBLE_DATA, 1),
    row(16, "BFLOAT16", DType::BF16, INT32_DATA, 4),
    row(17, "FLOAT8E4M3FN", DType::F8_E4M3, INT32_DATA, 9),
    row(18, "FLOAT8E4M3FNUZ", DType::F8_E4M3FNUZ, INT32_DATA, 9),
    row(19, "FLOAT8E5M2", DType::F8_E5M2, INT32_DATA, 9),
    row(20, "FLOAT8E5M2FNUZ", DType::F8_E5M2FNUZ, INT32_DATA, 9),
    row(21, "UINT4", DType::U4, INT32_DATA, 10),
    row(22, "INT4", DType::I4, INT32_DATA, 10),
    row(23, "FLOAT4E2M1", DType::F4_E2M1, INT32_DATA, 11),
    row(24, "FLOAT8E8M0", DType::F8_E8M0, INT32_DATA, 12),
    row(25, "UINT2", DType::U2, INT32_DATA, 13),
    row(26, "INT2", DType::I2, INT32_DATA, 13),
    row(27, "FLOAT6E2M3", DType::F6_E2M3, INT32_DATA, 14),
    row(28, "FLOAT6E3M2", DType::F6_E3M2, INT32_DATA, 14),
];

/// The element type of a `data_type`.
pub fn type_of_id(id: u64) -> Option<&'static ElementType> {
    TYPES.iter().find(|row| row.id == id)
}

/// The ONNX element type for a dtype.
pub fn type_of(dtype: DType) -> Option<&'static ElementType> {
    TYPES.iter().find(|row| row.dtype == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_listed_once() {
        for row in &TYPES {
            assert_eq!(type_of_id(row.id).map(|r| r.name), Some(row.name));
            assert_eq!(type_of(row.dtype).map(|r| r.id), Some(row.id));
        }
        assert!(type_of_id(STRING).is_none() && type_of_id(0).is_none() && type_of_id(29).is_none());
        assert!(type_of(DType::Q4_K).is_none());
    }
}
