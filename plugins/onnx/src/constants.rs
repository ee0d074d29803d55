//! Reads scales and zero points: few numbers, wherever they lie.

use crate::stream::{NumberStream, Numbers};
use apr_sdk::half::{from_bf16, from_f16};
use apr_sdk::{DType, Payload, Result, Source, Stream, Tensor};

/// The most numbers that are read: the channels of a wide layer.
const MOST_NUMBERS: u64 = 4096;

/// The numbers of a tensor, which `list` decodes if they are a list; `None` for too many, and for types whose numbers these are
/// not.
///
/// # Errors
/// Any error from reading.
pub fn read(source: &dyn Source, list: Option<&Numbers>, tensor: &Tensor) -> Result<Option<Vec<f64>>> {
    let n = tensor.shape.iter().product::<u64>();
    if n > MOST_NUMBERS {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(tensor.payload_len()?).unwrap_or(0)];
    match (list, &tensor.payload) {
        (Some(list), _) => {
            let (mut stream, mut at) = (NumberStream::new(list)?, 0);
            loop {
                match stream.read(source, &mut bytes[at..])? {
                    0 => break,
                    n => at += n,
                }
            }
        }
        (None, Payload::Extent { extent, .. }) => source
            .read_at(extent.file, extent.offset, &mut bytes)
            .map_err(|error| error.tensor(&tensor.name).in_file(source.name(extent.file)))?,
        _ => return Ok(None),
    }
    let n = usize::try_from(n).unwrap_or(0);
    let nibble = |at: usize| bytes.get(at / 2).map_or(0, |byte| byte >> (at % 2 * 4) & 15);
    let pairs = || bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    let fours = || bytes.as_chunks::<4>().0.iter();
    Ok(Some(match tensor.dtype {
        DType::I8 => bytes.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
        DType::U8 => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        DType::I16 => pairs().map(|code| f64::from(code.cast_signed())).collect(),
        DType::U16 => pairs().map(f64::from).collect(),
        DType::F16 => pairs().map(|bits| f64::from(from_f16(bits))).collect(),
        DType::BF16 => pairs().map(|bits| f64::from(from_bf16(bits))).collect(),
        DType::I32 => fours().map(|bytes| f64::from(i32::from_le_bytes(*bytes))).collect(),
        DType::F32 => fours().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        DType::U4 => (0..n).map(|at| f64::from(nibble(at))).collect(),
        DType::I4 => (0..n).map(|at| f64::from((nibble(at) << 4).cast_signed() >> 4)).collect(),
        // Floats of a byte have no other zero point.
        _ if bytes.iter().all(|byte| *byte == 0) => vec![0.0; n],
        _ => return Ok(None),
    }))
}
