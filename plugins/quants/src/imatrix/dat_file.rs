//! Writes the older form, as `llama-imatrix --output-format dat` does: means times calls, in the order of names. What has no
//! data is left out, and experts without any get 1.

use apr_sdk::{Error, ImportanceSums, Result, TensorSums};

/// The file.
///
/// # Errors
/// Unsupported for a number or a length that does not fit.
pub fn write(sums: &ImportanceSums) -> Result<Vec<u8>> {
    let has_data = |tensor: &&TensorSums| tensor.counts.iter().any(|count| *count > 0);
    let mut tensors: Vec<&TensorSums> = sums.tensors.iter().filter(has_data).collect();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    if tensors.is_empty() {
        return Err(Error::unsupported("the importance matrix has no data"));
    }
    let mut out = Vec::new();
    length(&mut out, tensors.len())?;
    for tensor in tensors {
        let calls = tensor.counts.iter().max().unwrap_or(&0).div_ceil(sums.chunk_size.into());
        text(&mut out, &tensor.name)?;
        let calls = i32::try_from(calls).map_err(|_| too_large())?;
        out.extend(calls.to_le_bytes());
        length(&mut out, tensor.sums.len())?;
        let columns = tensor.sums.len() / tensor.counts.len().max(1);
        for (sums, count) in tensor.sums.chunks_exact(columns.max(1)).zip(&tensor.counts) {
            #[allow(clippy::cast_precision_loss, reason = "as llama-imatrix computes")]
            let [count, calls] = [*count as f32, calls as f32];
            for sum in sums {
                let mean = if count > 0.0 { sum / count } else { 1.0 };
                out.extend((mean * calls).to_le_bytes());
            }
        }
    }
    out.extend(i32::try_from(sums.chunks).map_err(|_| too_large())?.to_le_bytes());
    text(&mut out, sums.datasets.last().map_or("", String::as_str))?;
    Ok(out)
}

fn text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    length(out, text.len())?;
    out.extend(text.bytes());
    Ok(())
}

fn length(out: &mut Vec<u8>, len: usize) -> Result<()> {
    out.extend(i32::try_from(len).map_err(|_| too_large())?.to_le_bytes());
    Ok(())
}

fn too_large() -> Error {
    Error::unsupported("a number of the importance matrix exceeds 2^31, which the form dat cannot hold")
        .hint("choose the form gguf")
}
