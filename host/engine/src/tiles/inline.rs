//! Bytes of the output that the layout itself holds.

use super::TileSink;
use crate::layout::{Layout, Segment};
use apr_sdk::Result;

/// Writes the bytes that the layout itself holds.
///
/// # Errors
/// Io.
pub fn write_inline(layout: &Layout, sink: &dyn TileSink, resuming: bool) -> Result<()> {
    for (number, file) in layout.files.iter().enumerate() {
        // What follows encoded payload is written once its place is known.
        let known = file.floats_from.unwrap_or(file.segments.len());
        for placed in &file.segments[..known] {
            match &placed.segment {
                Segment::Inline(bytes) => sink.write_at(number, placed.offset, bytes)?,
                // A new file is all zeros; one left by an interrupted run may not be.
                Segment::Pad { .. } if resuming => write_zeros(sink, number, placed.offset, placed.len)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Writes `len` zeros.
///
/// # Errors
/// Any error from the sink.
pub fn write_zeros(sink: &dyn TileSink, file: usize, offset: u64, len: u64) -> Result<()> {
    let zeros = [0; 4096];
    let mut at = 0;
    while at < len {
        let n = usize::try_from((len - at).min(4096)).unwrap_or(0);
        sink.write_at(file, offset + at, &zeros[..n])?;
        at += n as u64;
    }
    Ok(())
}
