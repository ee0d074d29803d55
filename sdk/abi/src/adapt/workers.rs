//! The host's workers, lent to a plugin for a step; the body of its region, lent to them; and the barrier, lent to
//! that. Crossing the barrier is one call through a table and allocates nothing, unless it fails.

use super::error::result;
use crate::guard::{guard, host_wire, plugin_wire};
use crate::wire::{
    BarrierRef, R, RegionRef, WireBarrier, WireBarrier_TO, WireRegion, WireRegion_TO, WireWorkers, WorkersRef,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::RRef;
use apr_sdk::{Barrier, Error, Result, Workers};

/// The work of each worker in a region.
type Body<'a> = dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync + 'a;

/// Puts the host's workers on the wire.
pub(super) struct ToWireWorkers<'a>(pub(super) &'a dyn Workers);

impl WireWorkers for ToWireWorkers<'_> {
    fn width(&self) -> u64 {
        guard(|| self.0.width()).unwrap_or(1) as u64
    }

    fn run(&self, region: &RegionRef<'_>) -> R<()> {
        host_wire("running workers", || {
            self.0.run(&|worker, barrier| {
                let barrier = ToWireBarrier(barrier);
                let barrier = WireBarrier_TO::from_ptr(RRef::new(&barrier), TD_Opaque);
                result(region.run(worker as u64, &barrier))
            })
        })
    }
}

/// Presents the wire's workers to a plugin.
pub(super) struct FromWireWorkers<'a, 'b>(pub(super) &'a WorkersRef<'b>);

impl Workers for FromWireWorkers<'_, '_> {
    fn width(&self) -> usize {
        usize::try_from(self.0.width()).unwrap_or(usize::MAX)
    }

    fn run(&self, body: &Body<'_>) -> Result<()> {
        let region = ToWireRegion(body);
        result(self.0.run(&WireRegion_TO::from_ptr(RRef::new(&region), TD_Opaque)))
    }
}

/// Puts the body of a plugin's region on the wire. It runs on threads of the host, so each call is guarded.
struct ToWireRegion<'a>(&'a Body<'a>);

impl WireRegion for ToWireRegion<'_> {
    fn run(&self, worker: u64, barrier: &BarrierRef<'_>) -> R<()> {
        plugin_wire("computing a step", || {
            let worker = usize::try_from(worker)
                .map_err(|_| Error::invalid_argument(format!("worker {worker} does not exist")))?;
            (self.0)(worker, &FromWireBarrier(barrier))
        })
    }
}

/// Puts the host's barrier on the wire.
struct ToWireBarrier<'a>(&'a dyn Barrier);

impl WireBarrier for ToWireBarrier<'_> {
    fn wait(&self) -> R<()> {
        host_wire("waiting for workers", || self.0.wait())
    }
}

/// Presents the wire's barrier to a plugin.
struct FromWireBarrier<'a, 'b>(&'a BarrierRef<'b>);

impl Barrier for FromWireBarrier<'_, '_> {
    fn wait(&self) -> Result<()> {
        result(self.0.wait())
    }
}
