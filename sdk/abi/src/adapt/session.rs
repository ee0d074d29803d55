//! Sessions: puts a plugin's on the wire, and presents the wire's to the host.

use super::error::result;
use super::workers::{FromWireWorkers, ToWireWorkers};
use crate::guard::{Guarded, host_wire, plugin_wire};
use crate::wire::{
    R, SessionObject, StepSinkMut, TimingSinkMut, WireBatch, WireSession, WireStateCommand, WireStepSink,
    WireStepSink_TO, WireTimingSink, WireTimingSink_TO, WireWorkers_TO, WorkersRef,
};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{ROption, RSlice, RSliceMut};
use apr_sdk::{Batch, Result, Sampler, Session, StateCommand, StateVerb, StepSink, TimingSink, Workers};

/// Puts a plugin's session on the wire.
pub(super) struct ToWireSession(Guarded<dyn Session>);

impl ToWireSession {
    /// Wraps `session`, guarding its calls and its drop.
    pub(super) fn new(session: Box<dyn Session>) -> ToWireSession {
        ToWireSession(Guarded::new(session, "dropping a session", None))
    }
}

/// The batch, checked as if its lists were new.
fn to_batch<'a>(batch: &WireBatch<'a>) -> Result<Batch<'a>> {
    let lists = [batch.ids, batch.positions, batch.sequences, batch.outputs];
    let [ids, positions, sequences, outputs] = lists.map(|list| list.as_slice());
    let mut plain = Batch::new(ids, positions, sequences, outputs)?;
    if let ROption::RSome(rows) = batch.rows {
        plain = plain.with_rows(rows.as_slice());
    }
    if !batch.sampler.is_empty() {
        plain = plain.with_sampler(Sampler::from_bytes(batch.sampler.as_slice())?);
    }
    Ok(plain)
}

impl WireSession for ToWireSession {
    fn step(&mut self, batch: &WireBatch<'_>, workers: &WorkersRef<'_>, out: &mut StepSinkMut<'_>) -> R<()> {
        plugin_wire("computing a step", || {
            let batch = to_batch(batch)?;
            self.0.step(&batch, &FromWireWorkers(workers), &mut FromWireStepSink(out))
        })
    }

    fn state(&mut self, command: &WireStateCommand) -> R<()> {
        plugin_wire("changing a state", || {
            let WireStateCommand { verb, sequence, target, position, .. } = *command;
            self.0.state(&StateCommand { verb: StateVerb(verb), sequence, target, position })
        })
    }

    fn read(&mut self, value: u32, mut out: RSliceMut<'_, f32>) -> R<()> {
        plugin_wire("reading a value", || self.0.read(value, out.as_mut_slice()))
    }

    fn timings(&self, sink: &mut TimingSinkMut<'_>) -> R<()> {
        plugin_wire("reading times", || self.0.timings(&mut FromWireTimingSink(sink)))
    }
}

/// Presents the wire's session to the host.
pub(super) struct FromWireSession {
    pub(super) object: SessionObject,
}

impl Session for FromWireSession {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        let sampler = batch.sampler().map(Sampler::to_bytes).unwrap_or_default();
        let batch = WireBatch {
            ids: batch.ids().into(),
            positions: batch.positions().into(),
            sequences: batch.sequences().into(),
            outputs: batch.outputs().into(),
            rows: batch.rows().map(RSlice::from).into(),
            sampler: sampler.as_slice().into(),
            detail: RSlice::EMPTY,
        };
        let workers = ToWireWorkers(workers);
        let mut out = ToWireStepSink(out);
        let workers = WireWorkers_TO::from_ptr(RRef::new(&workers), TD_Opaque);
        let mut out = WireStepSink_TO::from_ptr(RMut::new(&mut out), TD_Opaque);
        result(self.object.step(&batch, &workers, &mut out))
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        let StateCommand { verb, sequence, target, position } = *command;
        let command = WireStateCommand { verb: verb.0, sequence, target, position, reserved: [0; 2] };
        result(self.object.state(&command))
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        result(self.object.read(value, out.into()))
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        let mut sink = ToWireTimingSink(sink);
        let mut sink = WireTimingSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        result(self.object.timings(&mut sink))
    }
}

/// Puts the host's step sink on the wire.
struct ToWireStepSink<'a>(&'a mut dyn StepSink);

impl WireStepSink for ToWireStepSink<'_> {
    fn logits(&mut self, output: u32, logits: RSlice<'_, f32>) -> R<()> {
        host_wire("taking logits", || self.0.logits(output, logits.as_slice()))
    }

    fn token(&mut self, output: u32, id: u32) -> R<()> {
        host_wire("taking a token", || self.0.token(output, id))
    }
}

/// Presents the wire's step sink to a plugin.
struct FromWireStepSink<'a, 'b>(&'a mut StepSinkMut<'b>);

impl StepSink for FromWireStepSink<'_, '_> {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        result(self.0.logits(output, logits.into()))
    }

    fn token(&mut self, output: u32, id: u32) -> Result<()> {
        result(self.0.token(output, id))
    }
}

/// Puts the host's timing sink on the wire.
struct ToWireTimingSink<'a>(&'a mut dyn TimingSink);

impl WireTimingSink for ToWireTimingSink<'_> {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> R<()> {
        host_wire("taking a time", || self.0.timing(operation, nanoseconds))
    }
}

/// Presents the wire's timing sink to a plugin.
struct FromWireTimingSink<'a, 'b>(&'a mut TimingSinkMut<'b>);

impl TimingSink for FromWireTimingSink<'_, '_> {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> Result<()> {
        result(self.0.timing(operation, nanoseconds))
    }
}
