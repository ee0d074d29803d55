//! Writes the newer form, as `llama-imatrix` does: version 3, tensors by name, each with its sums before its counts.

use super::gguf::MAGIC;
use apr_sdk::{Error, ImportanceSums, Result, TensorSums, ValueType};

const VERSION: u32 = 3;
const ALIGNMENT: usize = 32;
/// The number of F32.
const F32: u32 = 0;
/// Bytes of a name at most: ggml's 64 with the zero that ends it.
const LONGEST_NAME: usize = 63;

/// The file.
///
/// # Errors
/// Unsupported for a name that ggml cannot hold.
pub fn write(sums: &ImportanceSums) -> Result<Vec<u8>> {
    let mut tensors: Vec<&TensorSums> = sums.tensors.iter().collect();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((2 * tensors.len() as u64).to_le_bytes());
    keys(&mut out, sums);
    let mut data = Data::default();
    for tensor in tensors {
        let counts = tensor.counts.len();
        let columns = tensor.sums.len() / counts.max(1);
        data.tensor(&mut out, &format!("{}.in_sum2", tensor.name), [columns, counts], &tensor.sums)?;
        #[allow(clippy::cast_precision_loss, reason = "the file holds F32")]
        let rows: Vec<f32> = tensor.counts.iter().map(|count| *count as f32).collect();
        data.tensor(&mut out, &format!("{}.counts", tensor.name), [1, counts], &rows)?;
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out.extend(data.bytes);
    Ok(out)
}

/// The keys, after their number.
fn keys(out: &mut Vec<u8>, sums: &ImportanceSums) {
    out.extend(4u64.to_le_bytes());
    key(out, "general.type", ValueType::STRING);
    text(out, "imatrix");
    key(out, "imatrix.datasets", ValueType::ARRAY);
    out.extend(ValueType::STRING.0.to_le_bytes());
    out.extend((sums.datasets.len() as u64).to_le_bytes());
    sums.datasets.iter().for_each(|dataset| text(out, dataset));
    key(out, "imatrix.chunk_count", ValueType::U32);
    out.extend(sums.chunks.to_le_bytes());
    key(out, "imatrix.chunk_size", ValueType::U32);
    out.extend(sums.chunk_size.to_le_bytes());
}

fn key(out: &mut Vec<u8>, name: &str, kind: ValueType) {
    text(out, name);
    out.extend(kind.0.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.bytes());
}

/// The data of the tensors so far.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
}

impl Data {
    /// Appends a tensor's record to `out`, and its values here.
    fn tensor(&mut self, out: &mut Vec<u8>, name: &str, shape: [usize; 2], values: &[f32]) -> Result<()> {
        if name.len() > LONGEST_NAME {
            let message =
                format!("the name `{name}` is longer than the {LONGEST_NAME} bytes that ggml can hold");
            return Err(Error::unsupported(message).hint("choose the form dat, whose names may be longer"));
        }
        text(out, name);
        // Dimensions of 1 at the end are not written.
        let dimensions = if shape[1] == 1 { &shape[..1] } else { &shape[..] };
        #[allow(clippy::cast_possible_truncation, reason = "one or two")]
        out.extend((dimensions.len() as u32).to_le_bytes());
        dimensions.iter().for_each(|size| out.extend((*size as u64).to_le_bytes()));
        out.extend(F32.to_le_bytes());
        out.extend((self.bytes.len() as u64).to_le_bytes());
        self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        Ok(())
    }
}
