//! Open devices: puts a plugin's on the wire, and presents the wire's to the host.

use super::error::result;
use super::image::{
    FromWireImageMemory, FromWireImageSink, FromWirePlainRows, FromWireRowsSink, ToWireImageMemory,
    ToWireImageSink, ToWirePlainRows, ToWireRowsSink, from_matrix, to_matrix,
};
use super::session::{FromWireSession, ToWireSession};
use crate::guard::{Faults, Guarded, plugin_wire};
use crate::wire::pairs::{from_options, to_options};
use crate::wire::{
    DeviceObject, ImageMemoryObject, ImageSinkMut, PlainRowsRef, R, RowsSinkMut, SessionObject, WireDevice,
    WireImage, WireImageSink_TO, WireMatrix, WireMemory, WirePlainRows_TO, WireRowsSink_TO,
    WireSessionLimits,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RSlice, RVec};
use apr_sdk::{
    Device, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Result, Rows, RowsSink, Session,
    SessionLimits, Weight,
};
use std::sync::Arc;

/// Puts a plugin's open device on the wire.
pub(super) struct ToWireDevice(Guarded<dyn Device>);

impl ToWireDevice {
    /// Wraps `device`, guarding its calls and its drop.
    pub(super) fn new(device: Box<dyn Device>) -> ToWireDevice {
        ToWireDevice(Guarded::new(device, "dropping a device", None))
    }
}

impl WireDevice for ToWireDevice {
    fn memory(&self) -> R<WireMemory> {
        plugin_wire("measuring memory", || {
            let memory = self.0.memory()?;
            Ok(WireMemory { total: memory.total, free: memory.free, reserved: [0; 2] })
        })
    }

    fn image(&self, matrix: &WireMatrix) -> R<WireImage> {
        plugin_wire("measuring an image", || {
            let image = self.0.image(&to_matrix(matrix)?)?;
            Ok(WireImage { layout: image.layout.into(), bytes: image.bytes, detail: RVec::new() })
        })
    }

    fn prepare(&self, matrix: &WireMatrix, rows: &PlainRowsRef<'_>, image: &mut ImageSinkMut<'_>) -> R<u64> {
        plugin_wire("preparing a matrix", || {
            let rows = FromWirePlainRows(rows);
            Ok(self.0.prepare(&to_matrix(matrix)?, &rows, &mut FromWireImageSink(image))?.0)
        })
    }

    fn adopt(&self, matrix: &WireMatrix, image: ImageMemoryObject) -> R<u64> {
        plugin_wire("taking over an image", || {
            Ok(self.0.adopt(&to_matrix(matrix)?, Box::new(FromWireImageMemory(image)))?.0)
        })
    }

    fn export(&self, weight: u64, out: &mut RowsSinkMut<'_>) -> R<()> {
        plugin_wire("releasing a matrix", || self.0.export(Weight(weight), &mut FromWireRowsSink(out)))
    }

    fn compile(
        &self,
        program: RSlice<'_, u8>,
        weights: RSlice<'_, u64>,
        limits: &WireSessionLimits<'_>,
    ) -> R<SessionObject> {
        plugin_wire("compiling a program", || {
            let weights: Vec<Weight> = weights.iter().map(|weight| Weight(*weight)).collect();
            let mut plain = SessionLimits::new(limits.rows, limits.sequences, limits.positions);
            plain.options = to_options(limits.options.as_slice())?;
            let session = self.0.compile(program.as_slice(), &weights, &plain)?;
            Ok(SessionObject::from_value(ToWireSession::new(session), TD_Opaque))
        })
    }
}

/// Presents the wire's open device to the host.
pub(super) struct FromWireDevice {
    pub(super) object: DeviceObject,
    pub(super) faults: Arc<Faults>,
}

impl Device for FromWireDevice {
    fn memory(&self) -> Result<Memory> {
        let memory = result(self.object.memory())?;
        Ok(Memory { total: memory.total, free: memory.free })
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        let image = result(self.object.image(&from_matrix(matrix)))?;
        Ok(ImageSpec { bytes: image.bytes, layout: image.layout.into() })
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        let rows = ToWirePlainRows(rows);
        let rows = WirePlainRows_TO::from_ptr(RRef::new(&rows), TD_Opaque);
        let mut image = ToWireImageSink { sink: image, faults: Arc::clone(&self.faults) };
        let mut image = WireImageSink_TO::from_ptr(RMut::new(&mut image), TD_Opaque);
        result(self.object.prepare(&from_matrix(matrix), &rows, &mut image)).map(Weight)
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        let image = ToWireImageMemory::object(image, &self.faults);
        result(self.object.adopt(&from_matrix(matrix), image)).map(Weight)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        let mut out = ToWireRowsSink(out);
        let mut out = WireRowsSink_TO::from_ptr(RMut::new(&mut out), TD_Opaque);
        result(self.object.export(weight.0, &mut out))
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn Session>> {
        let weights: Vec<u64> = weights.iter().map(|weight| weight.0).collect();
        let options = from_options(&limits.options);
        let limits = WireSessionLimits {
            rows: limits.rows,
            sequences: limits.sequences,
            positions: limits.positions,
            padding: 0,
            options: options.as_slice().into(),
            detail: RSlice::EMPTY,
        };
        let object = result(self.object.compile(program.into(), weights.as_slice().into(), &limits))?;
        Ok(Box::new(FromWireSession { object }))
    }
}
