//! Matrices and their images: the host lends rows and gives away memory, which the plugin drops when it is done.

use super::error::result;
use crate::guard::{Faults, Guarded, guard, host_wire};
use crate::wire::{
    DTypeNumber, ImageMemoryObject, ImageSinkMut, PlainRowsRef, R, RowsSinkMut, WireImageMemory,
    WireImageSink, WireMatrix, WirePlainRows, WireRowsSink,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::std_types::{RSlice, RSliceMut};
use apr_sdk::{DType, ImageMemory, ImageSink, MatrixSpec, Result, Rows, RowsSink};
use std::sync::Arc;

/// A matrix as it crosses.
pub(super) fn from_matrix(matrix: &MatrixSpec) -> WireMatrix {
    WireMatrix {
        rows: matrix.rows(),
        columns: matrix.columns(),
        dtype: DTypeNumber(matrix.dtype().0),
        padding: 0,
        reserved: [0; 2],
    }
}

/// The matrix, checked as if its numbers were new: a plugin never sees one that no kernel can take.
pub(super) fn to_matrix(matrix: &WireMatrix) -> Result<MatrixSpec> {
    MatrixSpec::new(DType(matrix.dtype.0), matrix.rows, matrix.columns)
}

/// Puts the host's plain rows on the wire.
pub(super) struct ToWirePlainRows<'a>(pub(super) &'a dyn Rows);

impl WirePlainRows for ToWirePlainRows<'_> {
    fn read(&self, first: u64, mut out: RSliceMut<'_, u8>) -> R<()> {
        host_wire("reading rows", || self.0.read(first, out.as_mut_slice()))
    }
}

/// Presents the wire's plain rows to a plugin.
pub(super) struct FromWirePlainRows<'a, 'b>(pub(super) &'a PlainRowsRef<'b>);

impl Rows for FromWirePlainRows<'_, '_> {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        result(self.0.read(first, out.into()))
    }
}

/// Puts the host's sink of plain rows on the wire.
pub(super) struct ToWireRowsSink<'a>(pub(super) &'a mut dyn RowsSink);

impl WireRowsSink for ToWireRowsSink<'_> {
    fn rows(&mut self, bytes: RSlice<'_, u8>) -> R<()> {
        host_wire("taking rows", || self.0.rows(bytes.as_slice()))
    }
}

/// Presents the wire's sink of plain rows to a plugin.
pub(super) struct FromWireRowsSink<'a, 'b>(pub(super) &'a mut RowsSinkMut<'b>);

impl RowsSink for FromWireRowsSink<'_, '_> {
    fn rows(&mut self, bytes: &[u8]) -> Result<()> {
        result(self.0.rows(bytes.into()))
    }
}

/// Puts the host's memory for an image on the wire. The plugin owns the object, and drops it.
pub(super) struct ToWireImageMemory(Guarded<dyn ImageMemory>);

impl ToWireImageMemory {
    /// The object to give away. A panic in its drop, which no call reports, is recorded in `faults`.
    pub(super) fn object(memory: Box<dyn ImageMemory>, faults: &Arc<Faults>) -> ImageMemoryObject {
        let memory = Guarded::new(memory, "releasing an image's memory", Some(Arc::clone(faults)));
        ImageMemoryObject::from_value(ToWireImageMemory(memory), TD_Opaque)
    }
}

impl WireImageMemory for ToWireImageMemory {
    fn bytes(&self) -> RSlice<'_, u8> {
        guard(|| self.0.bytes()).unwrap_or_default().into()
    }

    fn bytes_mut(&mut self) -> R<RSliceMut<'_, u8>> {
        host_wire("providing an image's memory", || Ok(self.0.bytes_mut()?.into()))
    }
}

/// Presents the wire's memory for an image to a plugin.
pub(super) struct FromWireImageMemory(pub(super) ImageMemoryObject);

impl ImageMemory for FromWireImageMemory {
    fn bytes(&self) -> &[u8] {
        self.0.bytes().as_slice()
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        result(self.0.bytes_mut()).map(RSliceMut::into_mut_slice)
    }
}

/// Puts the host's image sink on the wire.
pub(super) struct ToWireImageSink<'a> {
    pub(super) sink: &'a mut dyn ImageSink,
    pub(super) faults: Arc<Faults>,
}

impl WireImageSink for ToWireImageSink<'_> {
    fn memory(&mut self, bytes: u64) -> R<ImageMemoryObject> {
        host_wire("allocating memory for an image", || {
            Ok(ToWireImageMemory::object(self.sink.memory(bytes)?, &self.faults))
        })
    }
}

/// Presents the wire's image sink to a plugin.
pub(super) struct FromWireImageSink<'a, 'b>(pub(super) &'a mut ImageSinkMut<'b>);

impl ImageSink for FromWireImageSink<'_, '_> {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        Ok(Box::new(FromWireImageMemory(result(self.0.memory(bytes))?)))
    }
}
