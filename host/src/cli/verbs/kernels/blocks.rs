//! Packs test data: block types by the quantizers that are there, 16-bit floats by the host's own casts.

use apr_engine::registry::Registry;
use apr_inference::check::Blocks;
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{DType, Error, Quantizer, Result, checked_payload_len};
use std::sync::Arc;

/// The quantizers that pack weights.
pub struct Packing(Vec<Arc<dyn Quantizer>>);

impl Packing {
    /// All quantizers of a registry.
    pub fn of(registry: &Registry) -> Packing {
        Packing(registry.quantizers())
    }

    fn quantizer(&self, dtype: DType) -> Result<&Arc<dyn Quantizer>> {
        let has = self.0.iter().find(|one| one.dtypes().is_ok_and(|all| all.contains(&dtype)));
        has.ok_or_else(|| Error::unsupported(format!("no quantizer plugin supports {dtype}")))
    }
}

impl Blocks for Packing {
    fn encode(&self, dtype: DType, values: &[f32], columns: usize) -> Result<Vec<u8>> {
        match dtype {
            DType::F32 => return Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            DType::F16 => return Ok(values.iter().flat_map(|value| to_f16(*value).to_le_bytes()).collect()),
            DType::BF16 => {
                return Ok(values.iter().flat_map(|value| to_bf16(*value).to_le_bytes()).collect());
            }
            _ => {}
        }
        let columns = columns as u64;
        let rows = values.len() as u64 / columns;
        let bytes = checked_payload_len(dtype, &[rows, columns])?;
        let mut out = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.quantizer(dtype)?.encode(dtype, values, columns, None, &mut out)?;
        Ok(out)
    }

    fn decode(&self, dtype: DType, blocks: &[u8], columns: usize) -> Result<Vec<f32>> {
        let halves = blocks.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        match dtype {
            DType::F16 => return Ok(halves.map(from_f16).collect()),
            DType::BF16 => return Ok(halves.map(from_bf16).collect()),
            _ => {}
        }
        let row_bytes = checked_payload_len(dtype, &[columns as u64])?;
        let rows = blocks.len() / usize::try_from(row_bytes).unwrap_or(1).max(1);
        let mut out = vec![0.0; rows * columns];
        self.quantizer(dtype)?.decode(dtype, blocks, columns as u64, &mut out)?;
        Ok(out)
    }
}
