//! The backend: one device, which runs on the caller's thread.

use crate::device::Plain;
use crate::session;
use apr_sdk::{DType, Device, DeviceInfo, DeviceSink, Error, Kernel, OpSpec, Operation, Options, Result, Support};

/// The backend. It has no state.
pub struct Backend;

impl Kernel for Backend {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut info = DeviceInfo::default();
        info.name = "{{name}}".to_owned();
        sink.device(info)
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        exists(device)?;
        // Fields that are not the operation's own are an error here, and so is a version that this SDK does not know.
        let known = Operation::read(op.code, op.version, op.fields).and_then(|operation| session::check(&operation));
        let unknown_type = op.weights.iter().find(|dtype| **dtype != DType::F32);
        Ok(match (known, unknown_type) {
            (Err(why), _) => Support::No(why.message().to_owned()),
            (_, Some(dtype)) => Support::No(format!("matrices of {dtype} are not supported, only F32")),
            (Ok(()), None) => Support::Yes,
        })
    }

    fn open(&self, device: u32, _: &Options) -> Result<Box<dyn Device>> {
        exists(device)?;
        Ok(Box::new(Plain::default()))
    }
}

fn exists(device: u32) -> Result<()> {
    if device == 0 { Ok(()) } else { Err(Error::invalid_argument(format!("there is no device {device}"))) }
}
