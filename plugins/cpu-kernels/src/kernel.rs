//! The backend: one device, the processor.

use crate::device::Device;
use crate::level::Level;
use crate::matrix::Matrix;
use apr_sdk::{
    DType, DeviceInfo, DeviceSink, Error, Kernel, MatrixSpec, OpSpec, Operation, Options, Result, Support,
};

/// The processor as a compute backend.
pub(crate) struct Cpu;

impl Kernel for Cpu {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        info.name = processor();
        info.features = match Level::best() {
            Level::Scalar => "no vector instructions that the kernels use",
            Level::Avx2 => "AVX2, FMA, F16C",
            Level::Avx512 => "AVX-512 with VNNI",
        }
        .to_owned();
        sink.device(info)
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        exists(device)?;
        let known = Operation::read(op.code, op.version, op.fields)
            .and_then(|operation| operation.check_kinds())
            .and_then(|()| op.weights.iter().try_for_each(|dtype| matrix_type(*dtype)));
        Ok(match known {
            Ok(()) => Support::Yes,
            Err(error) => Support::No(error.message().to_owned()),
        })
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn apr_sdk::Device>> {
        exists(device)?;
        let level = match options.get("level") {
            None | Some("auto") => Level::best(),
            Some(name) => Level::named(name)?,
        };
        Ok(Box::new(Device::new(level)))
    }
}

fn exists(device: u32) -> Result<()> {
    if device == 0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("device {device} does not exist: the processor is device 0")))
}

/// Checks that matrices may have a type.
fn matrix_type(dtype: DType) -> Result<()> {
    let block = dtype.require()?.block_elements;
    Matrix::image(&MatrixSpec::new(dtype, 1, u64::from(block))?).map(|_| ())
}

/// What the processor calls itself.
fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const BRAND: u32 = 0x8000_0002;
        // Every 64-bit x86 processor has this instruction, and says first how far its answers go.
        if __cpuid(0x8000_0000).eax >= BRAND + 2 {
            let words = (BRAND..BRAND + 3).map(__cpuid);
            let bytes: Vec<u8> = words
                .flat_map(|words| [words.eax, words.ebx, words.ecx, words.edx])
                .flat_map(u32::to_le_bytes)
                .filter(|byte| byte.is_ascii_graphic() || *byte == b' ')
                .collect();
            let name = String::from_utf8_lossy(&bytes).trim().to_owned();
            if !name.is_empty() {
                return name;
            }
        }
    }
    format!("{} processor", std::env::consts::ARCH)
}
