//! Compares what the inputs say about themselves with what was read of them: the checksums stored in their
//! files, and the CRC-32 of each one's payload for the provenance record.

use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use crate::open::read_record::{ByteSpace, Seen};
use crate::open::stored_sums::{self, StoredSum};
use crate::wording::n_of;
use apr_sdk::{Checksum, Coding, Extent, Payload, Result};
use crc32fast::Hasher;
use std::collections::HashSet;

/// The payload of the source that a conversion needs.
pub struct Witness<'a> {
    engine: &'a Engine,
    source: &'a OpenedModel,
    /// The place of the requested payload, and of what only the rest contains, as runs in file order.
    asked: Vec<Extent>,
    left: Vec<Extent>,
    /// The requested tensors, unless all are.
    selected: Option<HashSet<usize>>,
    nothing: Seen,
}

/// Fails if a model that was opened [witnessed](crate::open::OpenOptions::witnessed), and of which `read`, or all, tensors
/// were read, is not what the checksums stored in its files say. Of a subset only those are compared whose bytes were read.
///
/// # Errors
/// Failed, E004, for the first mismatch; Io if a file changed meanwhile; any error from reading.
pub fn refuse_damaged(engine: &Engine, opened: &OpenedModel, read: Option<&[usize]>) -> Result<()> {
    let compared = Witness::new(engine, opened, read).compare();
    // A mismatch in a file that changed meanwhile does not mean that it was damaged.
    opened.files.refuse_changed()?;
    compared.map(drop)
}

impl<'a> Witness<'a> {
    /// For a source of which `selected` tensors, or all, are requested.
    pub fn new(engine: &'a Engine, source: &'a OpenedModel, selected: Option<&[usize]>) -> Witness<'a> {
        let selected: Option<HashSet<usize>> = selected.map(|selected| selected.iter().copied().collect());
        let mut asked = Vec::new();
        let mut left = Vec::new();
        for (number, tensor) in source.model.tensors.iter().enumerate() {
            if let Payload::Extent { extent, .. } = &tensor.payload {
                let is_asked = selected.as_ref().is_none_or(|selected| selected.contains(&number));
                if is_asked { &mut asked } else { &mut left }.push(*extent);
            }
        }
        let asked = united(asked);
        // Bytes shared by several tensors are requested if any of the tensors is.
        left.retain(|extent| !holds(&asked, extent));
        Witness { engine, source, asked, left: united(left), selected, nothing: Seen::default() }
    }

    /// Returns whether a tensor is requested.
    fn asks(&self, tensor: usize) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(&tensor))
    }

    fn seen(&self) -> &Seen {
        self.source.files.seen().unwrap_or(&self.nothing)
    }

    /// Returns whether a conversion of a subset reads what a checksum covers: some of it was read, and none
    /// of it is payload that is left out.
    fn reads(&self, checksum: &Checksum) -> bool {
        let covers = &checksum.covers;
        match checksum.coding {
            Coding::Raw => {}
            Coding::Streamed(tensor) => {
                return usize::try_from(tensor).is_ok_and(|tensor| self.asks(tensor));
            }
            _ => return false,
        }
        let range = covers.offset..covers.end().unwrap_or(u64::MAX);
        !touches(&self.left, covers) && self.seen().any(ByteSpace::File(covers.file), range)
    }

    /// Returns whether a tensor's stream was followed to its end, where it compares the checksum itself.
    fn has_followed(&self, tensor: u64) -> bool {
        let number = usize::try_from(tensor).unwrap_or(usize::MAX);
        let len = self.source.model.tensors.get(number).and_then(|tensor| tensor.payload_len().ok());
        len.is_some_and(|len| len > 0 && self.seen().has(ByteSpace::Decoded(number), 0..len))
    }

    /// CRC-32 of a range of a file; only reads what was not read in long runs before.
    fn sum(&self, extent: Extent) -> Result<u32> {
        let range = extent.offset..extent.end().unwrap_or(u64::MAX);
        let sum = self.seen().sum(ByteSpace::File(extent.file), range, &mut |at, out| {
            self.engine.check_cancelled()?;
            self.source.files.read_payload(extent.file, at, out)
        });
        sum.map_err(|e| self.source.files.show(e))
    }

    /// Compares the stored checksums of everything the conversion requests, except for kinds that cannot be computed;
    /// returns what was proved, in words, if there are any.
    ///
    /// # Errors
    /// Failed, E004, for the first mismatch; any error from reading.
    pub fn compare(&self) -> Result<Option<String>> {
        let stored = &self.source.model.checksums;
        let mut compared = 0;
        for (number, checksum) in stored.iter().enumerate() {
            let is_known = checksum.sum.of_crc32(0).is_ok();
            if !is_known || (self.selected.is_some() && !self.reads(checksum)) {
                continue;
            }
            compared += 1;
            let computed = match checksum.coding {
                Coding::Raw => self.sum(checksum.covers)?,
                Coding::Streamed(tensor) if self.has_followed(tensor) => continue,
                _ => stored_sums::decoded(self.engine, self.source, number)?,
            };
            let sum = StoredSum::new(self.source, number, computed)?;
            if !sum.is_right() {
                return Err(sum.error(self.source));
            }
        }
        Ok((!stored.is_empty())
            .then(|| format!("{compared} of {} of the input", n_of(stored.len(), "stored checksum"))))
    }

    /// CRC-32 of each input's payload in file order, each byte once; `inputs` are the numbers of the source's
    /// files. Decoded and streamed payload has no place in file order: it counts in decoded form, in tensor
    /// order, after everything that has a place, for the file that its reader was given.
    ///
    /// # Errors
    /// Any error from reading.
    pub fn inputs(&self, inputs: &[u32]) -> Result<Vec<u32>> {
        inputs.iter().map(|&input| self.input(input)).collect()
    }

    fn input(&self, input: u32) -> Result<u32> {
        let mut all = Hasher::new();
        for extent in self.asked.iter().filter(|extent| extent.file == input) {
            all.combine(&Hasher::new_with_initial_len(self.sum(*extent)?, extent.len));
        }
        for (number, tensor) in self.source.model.tensors.iter().enumerate() {
            if matches!(tensor.payload, Payload::Extent { .. }) || !self.asks(number) {
                continue;
            }
            if self.source.origin(number)?.0.root.file == input {
                let len = tensor.payload_len()?;
                all.combine(&Hasher::new_with_initial_len(self.decoded(number, len)?, len));
            }
        }
        Ok(all.finalize())
    }

    /// CRC-32 of decoded or streamed payload.
    fn decoded(&self, tensor: usize, len: u64) -> Result<u32> {
        let mut known = Hasher::new();
        let mut at = 0;
        for (offset, run) in self.seen().within(ByteSpace::Decoded(tensor), 0..len) {
            if offset != at {
                break;
            }
            known.combine(&Hasher::new_with_initial_len(run.crc32, run.len));
            at += run.len;
        }
        if at == len {
            return Ok(known.finalize());
        }
        let mut whole = Hasher::new();
        read::stream(self.engine, self.source, tensor, &mut |bytes| {
            whole.update(bytes);
            Ok(())
        })?;
        Ok(whole.finalize())
    }
}

/// Merges extents into runs in file order, each byte once.
fn united(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.retain(|extent| extent.len > 0);
    extents.sort_unstable();
    let mut out: Vec<Extent> = Vec::new();
    for extent in extents {
        let begin = extent.offset;
        let end = extent.end().unwrap_or(u64::MAX);
        match out.last_mut() {
            Some(last) if last.file == extent.file && begin <= last.offset + last.len => {
                last.len = last.len.max(end - last.offset);
            }
            _ => out.push(extent),
        }
    }
    out
}

/// Returns whether merged extents contain all of `extent`.
fn holds(united: &[Extent], extent: &Extent) -> bool {
    let before = united.partition_point(|run| (run.file, run.offset) <= (extent.file, extent.offset));
    let run = before.checked_sub(1).map(|number| united[number]);
    run.is_some_and(|run| run.file == extent.file && run.end() >= extent.end())
}

/// Returns whether merged extents contain any byte of `extent`.
fn touches(united: &[Extent], extent: &Extent) -> bool {
    let before =
        united.partition_point(|run| (run.file, run.offset + run.len) <= (extent.file, extent.offset));
    let run = united.get(before).filter(|run| run.file == extent.file);
    run.is_some_and(|run| extent.end().is_none_or(|end| run.offset < end)) && extent.len > 0
}
