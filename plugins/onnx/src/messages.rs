//! The small messages that are decoded completely: none can contain a payload. Unused fields are left out.

use crate::layout::LONGEST_DECODED;
use crate::scan::{Field, Scan};
use apr_sdk::{Error, Result};
use prost::Message;

/// A key and a value: `metadata_props`, `external_data`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StringStringEntry {
    /// The key, which should be UTF-8.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub key: Option<Vec<u8>>,
    /// The value, which should be UTF-8.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

/// A set of operators and its version.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OperatorSetId {
    /// Its domain; empty for the standard one.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub domain: Option<Vec<u8>>,
    /// The version of the operator set.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// An input or output.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValueInfo {
    /// The name, which should be UTF-8.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub name: Option<Vec<u8>>,
    /// The declared type of the value.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

/// A type, as far as it is a tensor's.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Type {
    /// Set if the value is a tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// A tensor's element type and shape.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TensorType {
    /// A `data_type`.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Its dimensions, if they are known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
}

/// Dimensions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TensorShape {
    /// Outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// A dimension: a number, a name, or unknown.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Dimension {
    /// Its size.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// Its name.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub dim_param: Option<Vec<u8>>,
}

/// Decodes the message that a field holds.
///
/// # Errors
/// LimitExceeded for one of more than 1 MiB; Malformed for one that cannot be decoded; any error from reading.
pub fn decode<M: Message + Default>(scan: &mut Scan<'_>, field: &Field) -> Result<M> {
    if field.len() > LONGEST_DECODED {
        let message = format!(
            "field {} has {} bytes, more than the limit of {LONGEST_DECODED} for this kind of message",
            field.number,
            field.len()
        );
        return Err(scan.place(Error::limit(message), field.at));
    }
    // For as long as it lives, each byte of the message may cost this much and more: a dimension of two is a record of 40.
    let cost = field.len().saturating_mul(8);
    scan.limits().budget.charge(cost).map_err(|e| scan.place(e, field.at))?;
    let bytes = scan.bytes(field)?;
    M::decode(&bytes[..]).map_err(|e| scan.error(field.at, format!("field {}: {e}", field.number)))
}
