//! Encodes fields for the writer.

use crate::external::Reference;
use crate::layout::{tensor, type_of, wire};
use apr_sdk::{Error, Result, Tensor};

/// Appends a varint.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Encodes a varint.
pub fn varint_bytes(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, value);
    out
}

/// Appends a record that is a varint.
pub fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3 | u64::from(wire::VARINT));
    varint(out, value);
}

/// Appends tag and length of a record whose `len` bytes follow.
pub fn head(out: &mut Vec<u8>, field: u32, len: u64) {
    varint(out, u64::from(field) << 3 | u64::from(wire::LEN));
    varint(out, len);
}

/// Appends a record of bytes.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    head(out, field, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a key and a value as one message.
pub fn entry(out: &mut Vec<u8>, field: u32, key: &[u8], value: &[u8]) {
    let mut message = Vec::new();
    bytes(&mut message, 1, key);
    bytes(&mut message, 2, value);
    bytes(out, field, &message);
}

/// The `data_type` of a tensor.
///
/// # Errors
/// Unsupported for a type that the format lacks.
pub fn data_type(facts: &Tensor) -> Result<u64> {
    let missing =
        || Error::unsupported(format!("the format has no type {}", facts.dtype)).tensor(&facts.name);
    type_of(facts.dtype).map(|row| row.id).ok_or_else(missing)
}

/// Dimensions and `data_type` of a tensor.
///
/// # Errors
/// Unsupported for a type that the format lacks, or a dimension above its largest.
pub fn tensor_head(facts: &Tensor) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for &dim in &facts.shape {
        if i64::try_from(dim).is_err() {
            return Err(Error::unsupported(format!("the dimension {dim} exceeds 2^63")).tensor(&facts.name));
        }
        number(&mut out, tensor::DIMS, dim);
    }
    number(&mut out, tensor::DATA_TYPE, data_type(facts)?);
    Ok(out)
}

/// Dimensions and `data_type` as a message says them, in the order of the fields' numbers.
pub fn said_head(dims: &[u64], data_type: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    dims.iter().for_each(|&dim| number(&mut out, tensor::DIMS, dim));
    data_type.iter().for_each(|&id| number(&mut out, tensor::DATA_TYPE, id));
    out
}

/// Where a tensor's data lies in another file.
pub fn reference(to: &Reference, len: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in
        [("location", to.location.clone()), ("offset", to.offset.to_string()), ("length", len.to_string())]
    {
        entry(&mut out, tensor::EXTERNAL_DATA, key.as_bytes(), value.as_bytes());
    }
    number(&mut out, tensor::DATA_LOCATION, 1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_the_encoding() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        bytes(&mut out, 2, b"ab");
        entry(&mut out, 16, b"k", b"");
        assert_eq!(out, [8, 0x96, 1, 0x12, 2, b'a', b'b', 0x82, 1, 5, 10, 1, b'k', 0x12, 0]);
        assert_eq!(varint_bytes(u64::MAX).len(), 10);
    }
}
