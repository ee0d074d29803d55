//! Messages by hand, for files that no program writes.

/// Encodes a varint.
pub fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// A record that is a number.
pub fn number(field: u64, n: u64) -> Vec<u8> {
    [varint(field << 3), varint(n)].concat()
}

/// A record of bytes.
pub fn bytes(field: u64, body: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(body.len() as u64), body.to_vec()].concat()
}

/// A record that says it has `len` bytes.
pub fn lying(field: u64, len: u64, body: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(len), body.to_vec()].concat()
}

/// Encodes a `StringStringEntryProto`.
pub fn entry(field: u64, key: &str, value: &str) -> Vec<u8> {
    bytes(field, &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat())
}

/// A tensor `w` of this type and these dimensions, with further records.
pub fn tensor(kind: u64, dims: &[u64], rest: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    [dims, number(2, kind), bytes(8, b"w"), rest.to_vec()].concat()
}

/// A model whose graph has these records.
pub fn model(graph: &[u8]) -> Vec<u8> {
    let graph = [bytes(2, b"g"), graph.to_vec()].concat();
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 15))].concat()
}

/// A model with one initialiser.
pub fn with_tensor(kind: u64, dims: &[u64], rest: &[u8]) -> Vec<u8> {
    model(&bytes(5, &tensor(kind, dims, rest)))
}

/// `data_location` and entries of `external_data`.
pub fn external(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(key, value)| entry(13, key, value)).collect();
    [entries, number(14, 1)].concat()
}
