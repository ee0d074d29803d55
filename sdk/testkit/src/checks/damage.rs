//! Damaged files: cut off, and with flipped bits. An error or a model whose payload can be read; never a panic.

use crate::subject::about;
use crate::{Fixture, Subject, Verdict};
use apr_sdk::{Reader, Result};

/// The most damaged openings of one fixture. 24,000: a header of 8,000 bytes under three masks; of longer headers every
/// second or third byte is tried.
const MOST: usize = 24_000;

/// The bits that are flipped: the lowest, the highest, all.
const MASKS: [u8; 3] = [0x01, 0x80, 0xff];

pub(super) fn truncation(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    let mut cuts = 0;
    let mut refused = 0;
    for fixture in &models {
        for (file, (name, bytes)) in fixture.files.iter().enumerate() {
            let near_end = (1..8).filter_map(|n| bytes.len().checked_sub(n));
            for cut in (0..64).map(|n| bytes.len() * n / 64).chain(near_end) {
                let damaged = fixture.with_file(file, bytes[..cut].to_vec());
                refused += attempt(subject, reader, &damaged, || format!("{name} truncated to {cut} bytes"))?;
                cuts += 1;
            }
        }
    }
    Verdict::passed(format!("{cuts} truncations, {refused} refused"))
}

pub(super) fn flips(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    let mut flips = 0;
    let mut refused = 0;
    for fixture in &models {
        let source = fixture.source();
        let opened = about(fixture, || "opening".into(), subject.open(reader, &source))?;
        let payload = opened.stored(&source)?;
        let places = header_bytes(fixture, &payload);
        let step = (places.len() * MASKS.len()).div_ceil(MOST).max(1);
        for (file, at) in places.into_iter().step_by(step) {
            for mask in MASKS {
                let (name, bytes) = &fixture.files[file];
                let mut bytes = bytes.clone();
                bytes[at] ^= mask;
                let damaged = fixture.with_file(file, bytes);
                refused += attempt(subject, reader, &damaged, || {
                    format!("{name}: byte {at} flipped with {mask:#04x}")
                })?;
                flips += 1;
            }
        }
    }
    Verdict::passed(format!("{flips} flips, {refused} refused"))
}

/// Opens a damaged fixture; 1 if it was refused.
fn attempt(
    subject: &Subject<'_>,
    reader: &dyn Reader,
    damaged: &Fixture,
    what: impl FnOnce() -> String,
) -> Result<u64> {
    let outcome = about(damaged, what, subject.attempt(reader, &damaged.source()))?;
    Ok(u64::from(outcome.is_err()))
}

/// Every byte that is not payload, as file and offset.
fn header_bytes(fixture: &Fixture, payload: &[(u32, u64, u64)]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for (file, (_, bytes)) in fixture.files.iter().enumerate() {
        let mut inside = vec![false; bytes.len()];
        for &(_, start, end) in payload.iter().filter(|range| range.0 as usize == file) {
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            if let Some(run) = range.and_then(|(start, end)| inside.get_mut(start..end)) {
                run.fill(true);
            }
        }
        places.extend((0..bytes.len()).filter(|&at| !inside[at]).map(|at| (file, at)));
    }
    places
}
