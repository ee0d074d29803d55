//! Inputs and outputs of a step, and the threads that a step runs on.

use super::R;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{ROption, RSlice};
use abi_stable::{StableAbi, sabi_trait};

/// `apr_sdk::Batch`, which checks these lists again on either side.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireBatch<'a> {
    /// The token ids.
    pub ids: RSlice<'a, u32>,
    /// Each row's position in its sequence.
    pub positions: RSlice<'a, u32>,
    /// Each row's sequence.
    pub sequences: RSlice<'a, u32>,
    /// The rows that want output.
    pub outputs: RSlice<'a, u32>,
    /// Embedded rows that replace the embeddings of the ids.
    pub rows: ROption<RSlice<'a, f32>>,
    /// The record of the sampler; empty if logits are wanted.
    pub sampler: RSlice<'a, u8>,
    /// Pairs of key and value for additions of later versions; unknown keys are ignored.
    pub detail: RSlice<'a, u8>,
}

/// `apr_sdk::StateCommand`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WireStateCommand {
    /// The action, as `apr_sdk::StateVerb` numbers it.
    pub verb: u32,
    /// The sequence.
    pub sequence: u32,
    /// The sequence or number that it concerns besides.
    pub target: u32,
    /// The first position to forget.
    pub position: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// `apr_sdk::StepSink`, implemented by the host.
#[sabi_trait]
pub trait WireStepSink {
    /// The logits of a row that wants output.
    fn logits(&mut self, output: u32, logits: RSlice<'_, f32>) -> R<()>;
    /// The token chosen for a row that wants output.
    #[sabi(last_prefix_field)]
    fn token(&mut self, output: u32, id: u32) -> R<()>;
}

/// A borrowed step sink.
pub type StepSinkMut<'a> = WireStepSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::TimingSink`, implemented by the host.
#[sabi_trait]
pub trait WireTimingSink {
    /// The time of an operation.
    #[sabi(last_prefix_field)]
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> R<()>;
}

/// A borrowed timing sink.
pub type TimingSinkMut<'a> = WireTimingSink_TO<'a, RMut<'a, ()>>;

/// `apr_sdk::Workers`, implemented by the host.
#[sabi_trait]
pub trait WireWorkers: Send + Sync {
    /// Number of workers, the caller included.
    fn width(&self) -> u64;
    /// Runs a region once for each worker, all at the same time.
    #[sabi(last_prefix_field)]
    fn run(&self, region: &RegionRef<'_>) -> R<()>;
}

/// Borrowed workers.
pub type WorkersRef<'a> = WireWorkers_TO<'a, RRef<'a, ()>>;

/// The body of a parallel region, implemented by the plugin.
#[sabi_trait]
pub trait WireRegion: Send + Sync {
    /// The part of the worker with this number.
    #[sabi(last_prefix_field)]
    fn run(&self, worker: u64, barrier: &BarrierRef<'_>) -> R<()>;
}

/// A borrowed body.
pub type RegionRef<'a> = WireRegion_TO<'a, RRef<'a, ()>>;

/// `apr_sdk::Barrier`, implemented by the host.
#[sabi_trait]
pub trait WireBarrier: Send + Sync {
    /// Returns when every worker has called it as often.
    #[sabi(last_prefix_field)]
    fn wait(&self) -> R<()>;
}

/// A borrowed barrier.
pub type BarrierRef<'a> = WireBarrier_TO<'a, RRef<'a, ()>>;
