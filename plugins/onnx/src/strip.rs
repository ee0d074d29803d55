//! The typed form of the graph: the file as a message without what the model says itself, that is without its tensors'
//! dimensions, types and data, and without the records that are keys of their own. So it is the same before and after
//! payloads, types or sizes changed, and holds no payload.

use crate::about::About;
use crate::edit::{self, Edit, Segment};
use crate::scan::Scan;
use crate::walk::Index;
use apr_sdk::Result;

/// The typed form of the graph of the file that `scan` reads.
///
/// # Errors
/// LimitExceeded; whatever reading raised.
pub fn graph(scan: &mut Scan<'_>, index: &Index, about: &About) -> Result<Vec<u8>> {
    let mut edits = Vec::new();
    for tensor in &index.tensors {
        edits.extend(tensor.proto.facts.iter().map(|&range| Edit::cut(range, Some(tensor.frame))));
    }
    edits.extend(about.records().map(|range| Edit::cut(range, None)));
    scan.limits().budget.charge((edits.len() * 2 * size_of::<Edit>()) as u64)?;
    let mut out = Vec::new();
    for segment in edit::apply(&index.frames, scan.file_len(), edits)? {
        match segment {
            Segment::Keep((start, end)) => scan.append(start, end, &mut out)?,
            Segment::Bytes(bytes) => out.extend(bytes),
            Segment::Payload { .. } => {}
        }
    }
    Ok(out)
}
