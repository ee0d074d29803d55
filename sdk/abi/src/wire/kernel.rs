//! The compute backend's roles: kernel, device, session.

use super::{
    DTypeNumber, ImageMemoryObject, ImageSinkMut, PlainRowsRef, R, RowsSinkMut, StepSinkMut, SupportNumber,
    TimingSinkMut, WireBatch, WireImage, WireMatrix, WireStateCommand, WorkersRef,
};
use abi_stable::sabi_types::RMut;
use abi_stable::std_types::{RBox, ROption, RSlice, RSliceMut, RStr, RString, RVec};
use abi_stable::{StableAbi, sabi_trait};

/// `apr_sdk::OpSpec`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireOp<'a> {
    /// The operation's fields, as in a program.
    pub fields: RSlice<'a, u8>,
    /// The types of the matrices that it names.
    pub weights: RSlice<'a, DTypeNumber>,
    /// The operation's number.
    pub code: u32,
    /// The version of its fields; below 65536.
    pub version: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Support`.
#[repr(C)]
#[derive(StableAbi)]
pub struct WireSupport {
    /// The reason why not; empty if it can.
    pub reason: RString,
    /// The answer.
    pub answer: SupportNumber,
    /// Zero.
    pub padding: u32,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RVec<u8>,
}

/// `apr_sdk::DeviceInfo`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireDeviceInfo<'a> {
    /// Its name.
    pub name: RStr<'a>,
    /// Features that the backend makes use of.
    pub features: RStr<'a>,
    /// The reason why it cannot be used, if so.
    pub unusable: ROption<RStr<'a>>,
    /// Its memory in bytes; 0 if unknown.
    pub memory: u64,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Memory`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireMemory {
    /// All of it, in bytes.
    pub total: u64,
    /// Free memory, in bytes.
    pub free: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::SessionLimits`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireSessionLimits<'a> {
    /// Rows in a step.
    pub rows: u32,
    /// Sequences at the same time.
    pub sequences: u32,
    /// Positions of each sequence.
    pub positions: u32,
    /// Zero.
    pub padding: u32,
    /// The backend's own options, as pairs.
    pub options: RSlice<'a, u8>,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::Kernel`.
#[sabi_trait]
pub trait WireKernel: Send + Sync {
    /// Lists every device.
    fn devices(&self, sink: &mut DeviceSinkMut<'_>) -> R<()>;
    /// Returns whether a device can run an operation.
    fn supports(&self, device: u32, op: &WireOp<'_>) -> R<WireSupport>;
    /// Opens a device; `options` are pairs.
    #[sabi(last_prefix_field)]
    fn open(&self, device: u32, options: RSlice<'_, u8>) -> R<DeviceObject>;
}

/// A plugin's compute backend.
pub type KernelObject = WireKernel_TO<'static, RBox<()>>;

/// `apr_sdk::DeviceSink`, implemented by the host.
#[sabi_trait]
pub trait WireDeviceSink {
    /// Adds the next device.
    #[sabi(last_prefix_field)]
    fn device(&mut self, info: &WireDeviceInfo<'_>) -> R<()>;
}

/// A borrowed device sink.
pub type DeviceSinkMut<'a> = WireDeviceSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::Device`. A weight is the number that the device gave it.
#[sabi_trait]
pub trait WireDevice: Send + Sync {
    /// Its memory.
    fn memory(&self) -> R<WireMemory>;
    /// Returns the size of a matrix's image, and the id of its layout.
    fn image(&self, matrix: &WireMatrix) -> R<WireImage>;
    /// Makes a matrix's image from its plain rows.
    fn prepare(&self, matrix: &WireMatrix, rows: &PlainRowsRef<'_>, image: &mut ImageSinkMut<'_>) -> R<u64>;
    /// Takes over an image that was prepared before.
    fn adopt(&self, matrix: &WireMatrix, image: ImageMemoryObject) -> R<u64>;
    /// Gives back the plain rows of a weight.
    fn export(&self, weight: u64, out: &mut RowsSinkMut<'_>) -> R<()>;
    /// Compiles a program over weights.
    #[sabi(last_prefix_field)]
    fn compile(
        &self,
        program: RSlice<'_, u8>,
        weights: RSlice<'_, u64>,
        limits: &WireSessionLimits<'_>,
    ) -> R<SessionObject>;
}

/// An open device of a plugin.
pub type DeviceObject = WireDevice_TO<'static, RBox<()>>;

/// `apr_sdk::Session`.
#[sabi_trait]
pub trait WireSession: Send {
    /// Runs all rows of a batch through the program.
    fn step(&mut self, batch: &WireBatch<'_>, workers: &WorkersRef<'_>, out: &mut StepSinkMut<'_>) -> R<()>;
    /// Changes the states of sequences.
    fn state(&mut self, command: &WireStateCommand) -> R<()>;
    /// Reads a value as the last step left it.
    fn read(&mut self, value: u32, out: RSliceMut<'_, f32>) -> R<()>;
    /// Reports how long each operation of the last step took.
    #[sabi(last_prefix_field)]
    fn timings(&self, sink: &mut TimingSinkMut<'_>) -> R<()>;
}

/// A compiled program of a plugin, with its states.
pub type SessionObject = WireSession_TO<'static, RBox<()>>;
