//! The backend: NVIDIA's devices, or what another driver gives.

use crate::device::Device;
use crate::driver::Driver;
use crate::layout::Type;
use apr_sdk::{DeviceInfo, DeviceSink, Error, Kernel, OpSpec, Operation, Options, Result, Support};
use std::sync::Arc;

/// Where devices come from.
pub trait Devices: Send + Sync {
    /// All of them, those that cannot be used included.
    fn list(&self) -> Vec<DeviceInfo>;

    /// Opens one. `overlaps` says whether a kernel may be launched before the one before it has ended.
    ///
    /// # Errors
    /// InvalidArgument if there is none of this number; Unsupported if it cannot be used, with the reason.
    fn open(&self, device: u32, overlaps: bool) -> Result<Arc<dyn Driver>>;
}

/// The devices of NVIDIA's driver.
#[cfg(not(target_family = "wasm"))]
pub(crate) struct System;

#[cfg(not(target_family = "wasm"))]
impl Devices for System {
    fn list(&self) -> Vec<DeviceInfo> {
        crate::driver::system::devices()
    }

    fn open(&self, device: u32, overlaps: bool) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(crate::driver::nvidia::Nvidia::open(device, overlaps)?))
    }
}

/// A browser has no such device.
#[cfg(target_family = "wasm")]
pub(crate) struct System;

#[cfg(target_family = "wasm")]
impl Devices for System {
    fn list(&self) -> Vec<DeviceInfo> {
        Vec::new()
    }

    fn open(&self, _: u32, _: bool) -> Result<Arc<dyn Driver>> {
        Err(Error::unsupported("no NVIDIA devices found"))
    }
}

/// The error for a device that is not there, with those that are.
pub(crate) fn no_device(device: u32, listed: &[DeviceInfo]) -> Error {
    let named: Vec<String> =
        listed.iter().enumerate().map(|(number, info)| format!("{number} ({})", info.name)).collect();
    Error::invalid_argument(format!("device {device} does not exist; use {}", named.join(", ")))
}

/// Refuses the one operation of the SDK that has no kernel here.
fn is_known(operation: &Operation) -> Result<()> {
    match operation {
        Operation::Measure(_) => Err(Error::unsupported("`measure` has no kernel on this device")),
        _ => Ok(()),
    }
}

/// The backend over some devices.
pub struct Cuda<D>(pub D);

impl<D: Devices> Kernel for Cuda<D> {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        self.0.list().into_iter().try_for_each(|info| sink.device(info))
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        let listed = self.0.list();
        if usize::try_from(device).map_or(true, |device| device >= listed.len()) {
            return Err(no_device(device, &listed));
        }
        let known = Operation::read(op.code, op.version, op.fields)
            .and_then(|operation| operation.check_kinds().and_then(|()| is_known(&operation)))
            .and_then(|()| op.weights.iter().try_for_each(|dtype| Type::of(*dtype).map(|_| ())));
        Ok(match known {
            Ok(()) => Support::Yes,
            Err(error) => Support::No(error.message().to_owned()),
        })
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn apr_sdk::Device>> {
        let is = |name: &str, default: &str| options.get(name).unwrap_or(default) == "on";
        let driver = self.0.open(device, is("overlap", "on"))?;
        Ok(Box::new(Device::new(driver, is("timings", "off"))))
    }
}
