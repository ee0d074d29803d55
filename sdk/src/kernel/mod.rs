//! Compute backends. A model is compiled once into a *program*, which is data ([`Program`]); each step is one
//! call. Checking or timing a single operation is a program of one operation: there is no second way.
//!
//! The order of events: the host lists a [`Kernel`]'s devices and opens one. It asks the [`Device`] how large
//! each matrix's *image* is (the private layout in which the device keeps it), has it prepare the images from
//! plain rows, and compiles a program over the resulting [`Weight`] handles. The [`Session`] then takes steps.
//! A backend starts no threads: it is lent [`Workers`]. It opens no files: the host gives it rows.

mod checked_program;
mod checks;
mod columns;
mod fields;
mod matrix;
mod numbers;
mod operations;
mod program;
mod step;

pub use checked_program::CheckedProgram;
pub use columns::Columns;
pub use matrix::{ImageMemory, ImageSink, ImageSpec, MatrixSpec, Rows, RowsSink, Weight, WeightShape};
pub use numbers::{
    Activation, BinaryKind, ExpertScore, KERNEL_NUMBERS, Mask, NormKind, OpCode, Pooling, RopeStyle,
    RowIndex, RowsOf, SamplerCode, StateCode, StateVerb, UnaryKind,
};
pub use operations::{
    Activate, Append, Attention, Binary, Combine, Embed, ExpertLinear, HeadLinear, Linear, MEASURE_FIGURES,
    Measure, Norm, Operation, Pool, Rope, Route, Sample, Slice, Unary, WeightPart,
};
pub use program::{FixedState, OpSpec, PagedState, Program, State, ValueSpec};
pub use step::{Barrier, Batch, Sampler, SessionLimits, StateCommand, StepSink, TimingSink, Workers};

use crate::{Options, Result};

/// A compute backend: a plugin's way to one kind of device.
pub trait Kernel: Send + Sync {
    /// Lists every device, including those that cannot be used, with the reason.
    ///
    /// # Errors
    /// Any error that prevents an answer. A missing driver is not one: it makes an unusable device.
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()>;

    /// Returns whether a device can run an operation over weights of the given types.
    ///
    /// # Errors
    /// InvalidArgument if there is no such device.
    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support>;

    /// Opens a device. Options are the backend's own, as its manifest declares them.
    ///
    /// # Errors
    /// InvalidArgument if there is no such device or an option's value is not one; Unsupported if the device
    /// cannot be used, with the reason.
    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn Device>>;
}

/// A device's answer whether an operation can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

/// A device as a user sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its name, e.g. the processor's or the card's.
    pub name: String,
    /// Features that the backend makes use of, e.g. instruction sets, in words.
    pub features: String,
    /// Its memory in bytes; 0 if unknown.
    pub memory: u64,
    /// The reason why it cannot be used; `None` if it can. If it says how much memory it has, it is there, and its
    /// owner is told why others compute in its place.
    pub unusable: Option<String>,
}

/// Receives a backend's devices, in the order of their numbers.
pub trait DeviceSink {
    /// Adds the next device.
    ///
    /// # Errors
    /// LimitExceeded if there are too many.
    fn device(&mut self, info: DeviceInfo) -> Result<()>;
}

/// A device's memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// Memory that is free now.
    pub free: u64,
}

/// An open device. Several threads may prepare matrices at once.
pub trait Device: Send + Sync {
    /// Its memory.
    ///
    /// # Errors
    /// Io if the device does not answer.
    fn memory(&self) -> Result<Memory>;

    /// Returns the size of a matrix's image, and the id of its layout. The id changes whenever the layout does, so that
    /// a cached image is never taken for another's. Neither depends on the number of threads.
    ///
    /// # Errors
    /// Unsupported for a type that the device does not know.
    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec>;

    /// Makes a matrix's image from its plain rows.
    ///
    /// # Errors
    /// Any error from `rows` and `image`; Unsupported as [`Device::image`]; Io if the device has no memory left.
    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight>;

    /// Takes over an image that [`Device::prepare`] made before, of the layout that [`Device::image`] names.
    ///
    /// # Errors
    /// InvalidArgument if the image has another length.
    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight>;

    /// Gives back the plain rows of a weight, bit for bit.
    ///
    /// # Errors
    /// InvalidArgument for an unknown weight; any error from `out`.
    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()>;

    /// Compiles a program over weights, which it names by their position in `weights`.
    ///
    /// # Errors
    /// Unsupported for an operation, a version or a combination of types that the device cannot run, naming it;
    /// InvalidArgument for a program whose widths do not fit together; LimitExceeded for larger values or more
    /// sequences than the device supports; Io if there is not enough memory.
    fn compile(&self, program: &[u8], weights: &[Weight], limits: &SessionLimits)
    -> Result<Box<dyn Session>>;
}

/// A compiled program with its states (caches of keys and values).
pub trait Session: Send {
    /// Runs all rows of a batch through the program.
    ///
    /// # Errors
    /// InvalidArgument for a batch that is too large, or positions beyond the states; any error from the sink;
    /// Cancelled if a worker is told to end; LimitExceeded for more workers than the device takes; Failed unless
    /// every worker runs its part exactly once and all of them wait at each barrier.
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()>;

    /// Changes the states of sequences.
    ///
    /// # Errors
    /// InvalidArgument for a sequence that is not there; Unsupported for an unknown command.
    fn state(&mut self, command: &StateCommand) -> Result<()>;

    /// Reads a value as the last step left it: its rows one after the other.
    ///
    /// # Errors
    /// InvalidArgument if there is no such value, or `out` has another length.
    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()>;

    /// Reports how long each operation of the last step took.
    ///
    /// # Errors
    /// Any error from the sink.
    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()>;
}
