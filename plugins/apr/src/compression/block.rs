//! Blocks: up to 64 KiB of raw data in one frame, or in one frame per plane.

use super::codecs::{Coders, Decoders};
use super::frame::{self, HEAD_LEN, Head};
use super::pool::Pool;
use super::{Method, planes};
use apr_sdk::{Error, Result};

/// Encodes blocks, on any number of threads.
#[derive(Default)]
pub struct Encoder(Pool<(Coders, Vec<u8>)>);

/// Decodes blocks, on any number of threads.
#[derive(Default)]
pub struct Decoder(Pool<(Decoders, Vec<u8>)>);

/// The most bytes that a block of `raw_len` bytes takes up: a frame that does not shrink is stored as it is.
pub fn bound(method: Method, raw_len: u64) -> u64 {
    raw_len + u64::from(method.planes) * HEAD_LEN
}

impl Encoder {
    /// Encodes `raw` at the start of `out`; returns the length.
    ///
    /// # Errors
    /// Plugin if `out` is shorter than [`bound`]; Unsupported where the coder cannot be written.
    pub fn encode(&self, method: Method, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        self.0.with(|(coders, held)| {
            if !method.is_rotated {
                return encode_frame(coders, method, raw, out);
            }
            held.resize(raw.len(), 0);
            planes::split(raw, method.planes, held);
            let plane_len = raw.len() / usize::from(method.planes);
            let mut at = 0;
            for plane in held.chunks_exact(plane_len.max(1)) {
                at += encode_frame(coders, method, plane, &mut out[at..])?;
            }
            Ok(at)
        })
    }
}

fn encode_frame(coders: &mut Coders, method: Method, raw: &[u8], out: &mut [u8]) -> Result<usize> {
    let room = || Error::plugin("the host gave too little room for a block");
    let (head, data) = out.split_first_chunk_mut::<4>().ok_or_else(room)?;
    let encoded = coders.encode(method, raw, data)?;
    if encoded.is_none() {
        data.get_mut(..raw.len()).ok_or_else(room)?.copy_from_slice(raw);
    }
    let len = encoded.unwrap_or(raw.len());
    *head = Head::new(len, encoded.is_none()).ok_or_else(room)?.to_bytes();
    Ok(head.len() + len)
}

impl Decoder {
    /// Decodes the block `stored` into `out`, which must be filled exactly.
    ///
    /// # Errors
    /// Malformed.
    pub fn decode(&self, method: Method, mut stored: &[u8], out: &mut [u8]) -> Result<()> {
        self.0.with(|(decoders, held)| {
            if method.is_rotated {
                held.resize(out.len(), 0);
                let plane_len = out.len() / usize::from(method.planes);
                for plane in held.chunks_exact_mut(plane_len.max(1)) {
                    decode_frame(decoders, method, &mut stored, plane)?;
                }
                planes::join(held, method.planes, out);
            } else {
                decode_frame(decoders, method, &mut stored, out)?;
            }
            if stored.is_empty() {
                return Ok(());
            }
            Err(Error::malformed(format!("{} bytes follow the last frame of a block", stored.len())))
        })
    }
}

fn decode_frame(decoders: &mut Decoders, method: Method, stored: &mut &[u8], out: &mut [u8]) -> Result<()> {
    let (head, data) = frame::next(stored, out.len() as u64)?;
    if head.is_stored {
        out.copy_from_slice(data);
        return Ok(());
    }
    decoders.decode(method.coder, data, out)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a test's numbers are small"
    )]

    use super::super::{BLOCK, Coder, LEVEL};
    use super::*;
    use apr_sdk::DType;

    fn methods() -> Vec<(Method, u64)> {
        let coders = [Coder::Lz4, Coder::Zstd].map(|coder| Method::new(coder, LEVEL));
        let types = [DType::F8_E4M3, DType::BF16, DType::F32, DType::F64];
        let planes = |method: Method| types.map(|dtype| method.in_planes(dtype).unwrap());
        coders
            .into_iter()
            .flat_map(|method| [method].into_iter().chain(planes(method)))
            .map(|method| (method, u64::from(method.planes)))
            .collect()
    }

    /// Bytes that repeat in part, so that some frames shrink and others do not.
    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|n| if n % 2 == 0 { (n * n / 31) as u8 } else { 0x3c }).collect()
    }

    #[test]
    fn every_method_gives_back_blocks_of_any_length() {
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        for (method, width) in methods() {
            for elements in [1, 7, 1000, BLOCK / width] {
                let raw = sample((elements * width) as usize);
                let most = bound(method, raw.len() as u64) as usize;
                let mut stored = vec![0; most];
                let len = encoder.encode(method, &raw, &mut stored).unwrap();
                let mut back = vec![0; raw.len()];
                decoder.decode(method, &stored[..len], &mut back).unwrap();
                assert_eq!(back, raw, "{method:?} {elements}");
            }
        }
    }

    #[test]
    fn a_block_that_is_cut_or_goes_on_is_refused() {
        let (encoder, decoder) = (Encoder::default(), Decoder::default());
        for (method, _) in methods() {
            let raw = sample(4096);
            let mut stored = vec![0; bound(method, 4096) as usize];
            let len = encoder.encode(method, &raw, &mut stored).unwrap();
            stored.truncate(len);
            let mut out = vec![0; raw.len()];
            for cut in 0..len {
                assert!(decoder.decode(method, &stored[..cut], &mut out).is_err(), "{method:?} {cut}");
            }
            stored.push(0);
            assert!(decoder.decode(method, &stored, &mut out).is_err(), "{method:?}");
        }
    }

    #[test]
    fn exponents_of_weights_shrink_in_planes() {
        // Sums of uniform numbers, as good as normally distributed.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0 - 0.5
        };
        let weights = (0..32768).map(|_| (0..12).map(|_| uniform()).sum::<f32>() * 0.02);
        let raw: Vec<u8> = weights.flat_map(|w| half::bf16::from_f32(w).to_le_bytes()).collect();
        let method = Method::new(Coder::Zstd, LEVEL).in_planes(DType::BF16).unwrap();
        let mut stored = vec![0; bound(method, BLOCK) as usize];
        let len = Encoder::default().encode(method, &raw, &mut stored).unwrap();
        assert!(len * 100 <= raw.len() * 67, "{len} of {}", raw.len());
    }
}
