//! Reads back what was committed in order: each unit must have the bytes that were written, the reader must
//! find every block of encoded payload where it was put, and decode it to what was encoded.

use super::output_checksums::Summer;
use super::{damaged, failed, not_as_planned, sample};
use crate::engine::Engine;
use crate::layout::Segment;
use crate::open::OpenedModel;
use crate::open::blocks::{BlockList, Decoder};
use crate::planned::request::VerifyMode;
use crate::tiles::commit::commit_places::{CommittedFile, Unit};
use crate::wording::n_of;
use apr_sdk::{Error, Extent, Model, Payload, Result};
use std::collections::HashMap;

/// Compares encoded payload; returns a description of what was verified, if there is any.
///
/// # Errors
/// Failed, with the tensor, for blocks in the wrong place, or that decode to other bytes; any error from
/// reading.
pub fn compare(
    engine: &Engine,
    planned: &Model,
    written: &OpenedModel,
    summer: &Summer<'_>,
    places: &[Option<usize>],
    mode: VerifyMode,
) -> Result<Option<String>> {
    if summer.committed.files.iter().all(Option::is_none) {
        return Ok(None);
    }
    let numbers: HashMap<&str, usize> = written
        .model
        .tensors
        .iter()
        .enumerate()
        .map(|(number, tensor)| (tensor.name.as_str(), number))
        .collect();
    let mut n_seen = 0;
    let mut n_units = 0;
    let mut n_decoded = 0;
    let mut n_encoded = 0;
    let mut buffer = Vec::new();
    for file in 0..summer.layout.files.len() {
        let Some(committed) = summer.committed(file) else { continue };
        n_units += committed.units.len();
        let chosen = chosen(summer, file, committed, mode);
        n_seen += chosen.len();
        for &number in &chosen {
            let unit = &committed.units[number];
            buffer.resize(usize::try_from(unit.len).unwrap_or(0), 0);
            summer.read_back(file, unit.offset, &mut buffer)?;
            if crc32fast::hash(&buffer) != unit.stored {
                return Err(damaged(summer, file, unit.offset));
            }
        }
        for (segment, placed) in summer.layout.files[file].segments.iter().enumerate() {
            let Segment::Payload { tensor, encoded: Some(encoded) } = &placed.segment else { continue };
            let Some((units, unit_len)) = committed.of_segment(segment) else { continue };
            let name = &planned.tensors[*tensor].name;
            let tensor = numbers.get(name.as_str()).copied().filter(|_| encoded.raw_len > 0);
            let Some(tensor) = tensor else { continue };
            let first = committed.cuts[segment - committed.first].1;
            let payload = Encoded { engine, written, tensor, raw_len: encoded.raw_len, unit_len };
            n_encoded += units.len();
            let own =
                chosen.iter().filter_map(|number| number.checked_sub(first).filter(|n| *n < units.len()));
            let compared = payload.compare(file, places, encoded.block_size, units, own);
            n_decoded += compared.map_err(|e| e.tensor(name))?;
        }
    }
    if n_units == 0 {
        return Ok(None);
    }
    let behind = match n_units - n_encoded {
        0 => String::new(),
        n => format!(", {} of {n} after them re-read", n_seen - n_decoded),
    };
    Ok(Some(format!("{n_decoded} of {} decoded{behind}", n_of(n_encoded, "encoded unit"))))
}

/// The units to read back: three encoded ones and three after them that are not, or all.
fn chosen(summer: &Summer<'_>, file: usize, committed: &CommittedFile, mode: VerifyMode) -> Vec<usize> {
    let all = committed.units.len();
    if mode == VerifyMode::Full {
        return (0..all).collect();
    }
    let mut encoded = Vec::new();
    let mut raw = Vec::new();
    for (segment, placed) in summer.layout.files[file].segments.iter().enumerate().skip(committed.first) {
        let Some((units, _)) = committed.of_segment(segment) else { continue };
        let first = committed.cuts[segment - committed.first].1;
        let is_encoded = matches!(placed.segment, Segment::Payload { encoded: Some(_), .. });
        if is_encoded { &mut encoded } else { &mut raw }.extend(first..first + units.len());
    }
    let mut numbers = [sampled(committed, &encoded), sampled(committed, &raw)].concat();
    numbers.sort_unstable();
    numbers
}

fn sampled(committed: &CommittedFile, units: &[usize]) -> Vec<usize> {
    let numbers = sample(0..units.len(), |at| committed.units[units[at]].stored);
    numbers.into_iter().map(|at| units[at]).collect()
}

fn unreadable(error: Error) -> Error {
    failed("the encoded data cannot be read back", error)
}

/// An encoded payload of the output.
struct Encoded<'a> {
    engine: &'a Engine,
    written: &'a OpenedModel,
    /// Index of the tensor in the re-opened model.
    tensor: usize,
    raw_len: u64,
    unit_len: u64,
}

impl Encoded<'_> {
    /// Compares the places of its blocks, and what these units decode to; returns how many blocks that are.
    fn compare(
        &self,
        file: usize,
        places: &[Option<usize>],
        block_size: u64,
        units: &[Unit],
        numbers: impl Iterator<Item = usize>,
    ) -> Result<usize> {
        let list = BlockList::read(self.engine, self.written, self.tensor).map_err(unreadable)?;
        let mut at = units.first().map_or(0, |unit| unit.offset);
        let mut raw_at = 0;
        let mut blocks = list.blocks();
        for len in units.iter().flat_map(|unit| unit.blocks.iter().map(|len| u64::from(*len))) {
            let raw_len = block_size.min(self.raw_len - raw_at);
            let is_there = blocks.next().is_some_and(|(extent, raw)| {
                let Extent { file: own, offset, len: stored } = extent;
                let place = places.get(own as usize).copied().flatten();
                (place, offset, stored, raw) == (Some(file), at, len, raw_len)
            });
            if !is_there {
                let message = format!(
                    "a block was written at {at} ({len} bytes, {raw_len} uncompressed), but the reader \
                     found it elsewhere"
                );
                return Err(not_as_planned(message));
            }
            at += len;
            raw_at += raw_len;
        }
        if blocks.next().is_some() {
            return Err(not_as_planned("the reader found more blocks than were written".to_owned()));
        }
        let Payload::Blocks { codec } = &self.written.model.tensors[self.tensor].payload else {
            return Ok(0);
        };
        let mut decoder = Decoder::default();
        let mut raw = Vec::new();
        let mut count = 0;
        for number in numbers {
            self.engine.check_cancelled()?;
            let begin = number as u64 * self.unit_len;
            raw.resize(usize::try_from(self.unit_len.min(self.raw_len - begin)).unwrap_or(0), 0);
            let decoded = decoder.fill(self.written, self.tensor, codec, &list, begin, &mut raw);
            decoded.map_err(unreadable)?;
            if crc32fast::hash(&raw) != units[number].raw {
                let error =
                    not_as_planned("the encoded data does not decode to the original bytes".to_owned());
                return Err(error.at(units[number].offset).code("ROSETTA-CRC-001"));
            }
            count += 1;
        }
        Ok(count)
    }
}
