//! Sums of importance matrices, encoded as pairs.

use crate::wire::pairs::{number, push, read, text};
use apr_sdk::{Error, ImportanceSums, Result, TensorSums};

/// Encodes sums as pairs.
pub fn from_sums(sums: &ImportanceSums) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, "dialect", sums.dialect.as_bytes());
    push(&mut out, "chunks", &u64::from(sums.chunks).to_le_bytes());
    push(&mut out, "chunk_size", &u64::from(sums.chunk_size).to_le_bytes());
    for dataset in &sums.datasets {
        push(&mut out, "dataset", dataset.as_bytes());
    }
    for tensor in &sums.tensors {
        let mut record = Vec::new();
        push(&mut record, "name", tensor.name.as_bytes());
        let bytes: Vec<u8> = tensor.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        push(&mut record, "sums", &bytes);
        let bytes: Vec<u8> = tensor.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        push(&mut record, "counts", &bytes);
        push(&mut out, "tensor", &record);
    }
    out
}

/// Decodes sums from pairs.
///
/// # Errors
/// Plugin for bytes that are not sums.
pub fn to_sums(bytes: &[u8]) -> Result<ImportanceSums> {
    let mut sums = ImportanceSums::default();
    for (name, value) in read(bytes)? {
        match name {
            "dialect" => sums.dialect = text(value)?.to_owned(),
            "chunks" => sums.chunks = small(value)?,
            "chunk_size" => sums.chunk_size = small(value)?,
            "dataset" => sums.datasets.push(text(value)?.to_owned()),
            "tensor" => sums.tensors.push(to_tensor(value)?),
            // What only a newer side says: ignore it.
            _ => {}
        }
    }
    Ok(sums)
}

fn small(value: &[u8]) -> Result<u32> {
    u32::try_from(number(value)?).map_err(|_| broken())
}

fn to_tensor(bytes: &[u8]) -> Result<TensorSums> {
    let mut tensor = TensorSums::default();
    for (name, value) in read(bytes)? {
        match name {
            "name" => tensor.name = text(value)?.to_owned(),
            "sums" => {
                for bytes in value.chunks(4) {
                    tensor.sums.push(f32::from_le_bytes(bytes.try_into().map_err(|_| broken())?));
                }
            }
            "counts" => {
                for bytes in value.chunks(8) {
                    tensor.counts.push(number(bytes)?);
                }
            }
            _ => {}
        }
    }
    Ok(tensor)
}

fn broken() -> Error {
    Error::plugin("gave sums of an importance matrix that are none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cross_unchanged() {
        let mut sums = ImportanceSums::default();
        sums.dialect = "d".to_owned();
        sums.datasets = vec!["a".to_owned(), String::new()];
        sums.chunks = 7;
        sums.chunk_size = u32::MAX;
        sums.tensors = vec![
            TensorSums { name: "t".to_owned(), sums: vec![1.5, f32::MIN], counts: vec![1 << 40] },
            TensorSums::default(),
        ];
        assert_eq!(to_sums(&from_sums(&sums)).unwrap(), sums);
    }

    #[test]
    fn rejects_halves_of_numbers() {
        let mut record = Vec::new();
        push(&mut record, "sums", &[0; 5]);
        let mut bytes = Vec::new();
        push(&mut bytes, "tensor", &record);
        assert!(to_sums(&bytes).is_err());
    }
}
