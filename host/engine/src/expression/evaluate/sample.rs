//! A few bytes of a planned tensor before it is written: what they are like decides how it is stored.

use super::{Buffers, Evaluation};
use crate::engine::Engine;
use crate::expression::source::unit;
use crate::expression::{Expression, Granule};
use crate::open::OpenedModel;
use crate::values::usize_of;
use apr_sdk::{Extent, Result};

/// Bytes of a sample.
const MOST: u64 = 1 << 20;
/// Bytes of the smallest part that can be evaluated, if a sample is to be worth the work.
const MOST_GRANULE: u64 = 8 << 20;

/// Computes at most `len` bytes of the result from byte `start` on, fewer at the end of a part; `None` where values come
/// in order, or where they need much more than they are.
///
/// # Errors
/// Any error from reading, the reader and the quantizers.
pub fn sample(
    engine: &Engine,
    opened: &OpenedModel,
    expression: &Expression,
    start: u64,
    len: u64,
) -> Result<Option<Vec<u8>>> {
    let mut part_start = 0u64;
    for part in expression.parts() {
        let part_len = part.byte_len()?;
        if start < part_start + part_len || part_len == 0 && start == part_start {
            let within = start - part_start;
            return of_part(engine, opened, part, within, len.min(MOST).min(part_len - within));
        }
        part_start += part_len;
    }
    Ok(Some(Vec::new()))
}

fn of_part(
    engine: &Engine,
    opened: &OpenedModel,
    part: &Expression,
    start: u64,
    len: u64,
) -> Result<Option<Vec<u8>>> {
    let [before, after] = match part.is_leaf() {
        true => [u64::from(unit(part.dtype())?.block_bytes); 2],
        false => {
            let granule = Granule::of(part)?;
            [granule.before, granule.after]
        }
    };
    if part.is_spooled() || after == 0 || before.max(after) > MOST_GRANULE {
        return Ok(None);
    }
    let from = start / after * after;
    let to = (start + len).div_ceil(after) * after;
    let mut leaf = vec![0; usize_of((to - from) / after * before)];
    let leaf_start = from / after * before;
    let read = |extent: Extent, out: &mut [u8]| opened.read_at(engine, extent, out);
    let access = part.access()?.at_any_offset(part.leaf().byte_len()?)?;
    if !access.is_random() {
        return Ok(None);
    }
    access.fill(&read, leaf_start, &mut leaf)?;
    let mut out = leaf;
    if !part.is_leaf() {
        let leaf = std::mem::replace(&mut out, vec![0; usize_of(to - from)]);
        let of = Evaluation::new(Granule::of(part)?, &engine.registry, &leaf, from)?;
        part.evaluate(&of, &mut Buffers::default(), &mut out)?;
    }
    out.drain(..usize_of(start - from));
    out.truncate(usize_of(len));
    Ok(Some(out))
}
