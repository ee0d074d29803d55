//! Compute backends: puts a plugin's on the wire, and presents the wire's to the host.

use super::device::{FromWireDevice, ToWireDevice};
use super::error::result;
use crate::guard::{Faults, Guarded, host_wire, plugin_wire};
use crate::wire::pairs::{from_options, to_options};
use crate::wire::{
    DTypeNumber, DeviceObject, DeviceSinkMut, KernelObject, R, SupportNumber, WireDeviceInfo, WireDeviceSink,
    WireDeviceSink_TO, WireKernel, WireOp, WireSupport,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{ROption, RSlice, RStr, RVec};
use apr_sdk::{DType, Device, DeviceInfo, DeviceSink, Kernel, OpCode, OpSpec, Options, Result, Support};
use std::sync::Arc;

/// Puts a plugin's compute backend on the wire.
pub struct ToWireKernel(Guarded<dyn Kernel>);

impl ToWireKernel {
    /// Wraps `kernel`, guarding its calls and its drop.
    pub fn new(kernel: Box<dyn Kernel>) -> ToWireKernel {
        ToWireKernel(Guarded::new(kernel, "dropping its compute backend", None))
    }
}

impl WireKernel for ToWireKernel {
    fn devices(&self, sink: &mut DeviceSinkMut<'_>) -> R<()> {
        plugin_wire("listing devices", || self.0.devices(&mut FromWireDeviceSink(sink)))
    }

    fn supports(&self, device: u32, op: &WireOp<'_>) -> R<WireSupport> {
        plugin_wire("checking support for an operation", || {
            let code = OpCode(op.code);
            let weights: Vec<DType> = op.weights.iter().map(|dtype| DType(dtype.0)).collect();
            let support = match u16::try_from(op.version) {
                Ok(version) => {
                    let fields = op.fields.as_slice();
                    self.0.supports(device, &OpSpec { code, version, fields, weights: &weights })?
                }
                Err(_) => {
                    Support::No(format!("unknown version {} of the operation `{}`", op.version, code.name()))
                }
            };
            Ok(match support {
                Support::Yes => to_support(SupportNumber::YES, String::new()),
                Support::No(reason) => to_support(SupportNumber::NO, reason),
            })
        })
    }

    fn open(&self, device: u32, options: RSlice<'_, u8>) -> R<DeviceObject> {
        plugin_wire("opening a device", || {
            let device = self.0.open(device, &to_options(options.as_slice())?)?;
            Ok(DeviceObject::from_value(ToWireDevice::new(device), TD_Opaque))
        })
    }
}

fn to_support(answer: SupportNumber, reason: String) -> WireSupport {
    WireSupport { reason: reason.into(), answer, padding: 0, detail: RVec::new() }
}

/// Presents the wire's compute backend to the host.
pub struct FromWireKernel {
    pub(crate) object: KernelObject,
    pub(crate) faults: Arc<Faults>,
}

impl Kernel for FromWireKernel {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        let mut sink = ToWireDeviceSink(sink);
        let mut sink = WireDeviceSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.object.devices(&mut sink))
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        let weights: Vec<DTypeNumber> = op.weights.iter().map(|dtype| DTypeNumber(dtype.0)).collect();
        let op = WireOp {
            fields: op.fields.into(),
            weights: weights.as_slice().into(),
            code: op.code.0,
            version: op.version.into(),
            detail: RSlice::EMPTY,
        };
        let support = result(self.object.supports(device, &op))?;
        Ok(match support.answer {
            SupportNumber::YES => Support::Yes,
            _ => Support::No(support.reason.into()),
        })
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn Device>> {
        let object = result(self.object.open(device, from_options(options).as_slice().into()))?;
        Ok(Box::new(FromWireDevice { object, faults: Arc::clone(&self.faults) }))
    }
}

/// Puts the host's device sink on the wire.
struct ToWireDeviceSink<'a>(&'a mut dyn DeviceSink);

impl WireDeviceSink for ToWireDeviceSink<'_> {
    fn device(&mut self, info: &WireDeviceInfo<'_>) -> R<()> {
        host_wire("taking a device", || {
            let mut device = DeviceInfo::default();
            device.name = info.name.into();
            device.features = info.features.into();
            device.memory = info.memory;
            device.unusable = info.unusable.map(String::from).into_option();
            self.0.device(device)
        })
    }
}

/// Presents the wire's device sink to a plugin.
struct FromWireDeviceSink<'a, 'b>(&'a mut DeviceSinkMut<'b>);

impl DeviceSink for FromWireDeviceSink<'_, '_> {
    fn device(&mut self, info: DeviceInfo) -> Result<()> {
        let unusable: ROption<RStr<'_>> = info.unusable.as_deref().map(RStr::from).into();
        result(self.0.device(&WireDeviceInfo {
            name: info.name.as_str().into(),
            features: info.features.as_str().into(),
            unusable,
            memory: info.memory,
            detail: RSlice::EMPTY,
        }))
    }
}
