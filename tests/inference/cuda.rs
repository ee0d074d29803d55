//! The kernels for NVIDIA's devices, run on the processor: every case of `apr kernels check`, and the trained model.

#[path = "../../plugins/cuda-kernels/tests/emulated.rs"]
pub mod emulated;

use apr_inference::check::{Blocks, cases, run};
use apr_sdk::half::{from_bf16, from_f16, to_bf16, to_f16};
use apr_sdk::{Barrier, DType, Error, Options, Quantizer, Result, Workers, checked_payload_len};

/// Packs blocks with the quantizers of `plugins/quants`, and floats by themselves.
struct Packing(Box<dyn Quantizer>);

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
        let rows = (values.len() / columns) as u64;
        let mut out = vec![0; checked_payload_len(dtype, &[rows, columns as u64])? as usize];
        self.0.encode(dtype, values, columns as u64, None, &mut out)?;
        Ok(out)
    }

    fn decode(&self, dtype: DType, blocks: &[u8], columns: usize) -> Result<Vec<f32>> {
        let halves = || blocks.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        match dtype {
            DType::F16 => return Ok(halves().map(from_f16).collect()),
            DType::BF16 => return Ok(halves().map(from_bf16).collect()),
            _ => {}
        }
        let row_bytes = checked_payload_len(dtype, &[columns as u64])? as usize;
        let mut out = vec![0.0; blocks.len() / row_bytes * columns];
        self.0.decode(dtype, blocks, columns as u64, &mut out)?;
        Ok(out)
    }
}

/// No thread is lent: the device is one.
struct Nobody;

impl Workers for Nobody {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, _: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        Err(Error::failed("a device of its own asks for threads"))
    }
}

#[test]
fn every_operation_over_every_type_is_right() {
    if emulated::library().is_none() {
        return apr_tests::skipped("the kernels for NVIDIA's devices: there is no C++ compiler");
    }
    let packing = Packing((apr_plugin_quants::PLUGIN.quantizer)().unwrap());
    for has_tensor_cores in [true, false] {
        let device = emulated::kernel(has_tensor_cores).open(0, &Options::new()).unwrap();
        let mut wrong = Vec::new();
        for case in cases(&packing).unwrap() {
            let name = format!("{} {} {}", case.operation, case.dtype, case.form);
            match run(&*device, &Nobody, &case) {
                Ok(verdict) if verdict.worst <= 1.0 => {}
                Ok(verdict) => wrong.push(format!("{name}: {verdict:?}")),
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
        assert!(wrong.is_empty(), "tensor cores {has_tensor_cores}:\n{}", wrong.join("\n"));
    }
}
