//! Bytes of files beside the model that belong to no tensor, or to several: written again, such files are others.

use apr_sdk::{Bytes, Cursor, FileId, Limits, Payload, Result, Source, Tensor, escape};
use std::collections::BTreeMap;

/// The most bytes of a model that are read to see whether they are zeros. 1 MiB: 256 tensors, each at a multiple of 4096.
const MOST_READ: u64 = 1 << 20;

/// Returns what there is to say of the files in which `tensors` lie, other than the model's own.
///
/// # Errors
/// Any error from the source.
pub fn notes(source: &dyn Source, own: FileId, tensors: &[Tensor], limits: &Limits) -> Result<Vec<String>> {
    let mut files: BTreeMap<FileId, Vec<(u64, u64)>> = BTreeMap::new();
    for tensor in tensors {
        if let Payload::Extent { extent, .. } = &tensor.payload
            && extent.file != own
        {
            let end = extent.end().unwrap_or(u64::MAX);
            files.entry(extent.file).or_default().push((extent.offset, end));
        }
    }
    let mut notes = Vec::new();
    let mut left = MOST_READ;
    for (file, mut ranges) in files {
        let name = escape(&source.name(file), 120).to_string();
        let (mut gaps, mut at, mut overlaps) = (Vec::new(), 0, false);
        ranges.sort_unstable();
        ranges.push((source.len(file)?, u64::MAX));
        for (start, end) in ranges {
            overlaps |= start < at && end > start;
            if start > at {
                gaps.push((at, start));
            }
            at = at.max(end);
        }
        if overlaps {
            notes
                .push(format!("tensors share bytes of `{name}`: rewriting the model stores each separately"));
        }
        let total: u64 = gaps.iter().map(|(start, end)| end - start).sum();
        if total > left {
            notes.push(format!(
                "{total} bytes of `{name}` that belong to no tensor were not read: rewriting \
                 the model sets them to zero"
            ));
            continue;
        }
        left -= total;
        if !are_zeros(source, file, &gaps, limits)? {
            notes.push(format!(
                "{total} bytes of `{name}` that belong to no tensor are not all zeros: \
                 rewriting the model sets them to zero"
            ));
        }
    }
    Ok(notes)
}

fn are_zeros(source: &dyn Source, file: FileId, gaps: &[(u64, u64)], limits: &Limits) -> Result<bool> {
    for &(start, end) in gaps {
        let mut at = start;
        while at < end {
            let next = end.min(at + Bytes::INLINE_LIMIT);
            let piece = Cursor::with_end(source, file, at, next, limits)?.bytes(next - at)?;
            if piece.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at = next;
        }
    }
    Ok(true)
}
