//! Weights stored as integers or as floats of 8 bits or fewer. Without scales their values are unknown, so
//! they are translated into another dialect only where that changes nothing.

use crate::architecture::translate::Made;
use crate::expression::merged;
use apr_sdk::{DType, DTypeKind, Error, Result, Tensor};

/// Refuses to translate weights that are codes.
///
/// # Errors
/// Unsupported, with the first such tensor.
pub fn refuse_codes(tensors: &[Made], sources: &[Tensor]) -> Result<()> {
    for tensor in tensors {
        for number in tensor.boxes.iter().filter_map(|part| part.tensor) {
            let Some(source) = sources.get(number).filter(|tensor| is_code(tensor.dtype)) else { continue };
            let is_whole = match &tensor.boxes[..] {
                [only] => only.start == 0 && merged(&only.dims).len() < 2,
                _ => false,
            };
            if tensor.name != source.name || tensor.shape != source.shape || !is_whole {
                let message =
                    format!("it is stored as {}, and the meaning of these codes is unknown", source.dtype);
                let hint = "convert the model together with its scales, or the model it was quantized from";
                return Err(Error::unsupported(message).tensor(&source.name).hint(hint));
            }
        }
    }
    Ok(())
}

/// Whether a dtype of weights holds codes. Positions and expert indices are I64.
fn is_code(dtype: DType) -> bool {
    let Some(info) = dtype.info() else { return false };
    match info.kind {
        DTypeKind::Int | DTypeKind::Uint => ![DType::I64, DType::U64].contains(&dtype),
        DTypeKind::Float => info.block_bytes < 2 || info.block_elements > 1,
        _ => false,
    }
}
