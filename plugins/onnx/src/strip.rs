//! The typed form of the graph: the file as a message, without its tensors' data and without the fields that
//! are keys of their own. It holds no payload. It keeps the tensors' types and dimensions in a canonical
//! spelling: its nodes were made for these, and the writer compares them with the model's.

use crate::about::About;
use crate::edit::{self, Edit, Segment};
use crate::fields;
use crate::scan::Scan;
use crate::walk::Index;
use apr_sdk::Result;

/// The typed form of the graph of the file that `scan` reads.
///
/// # Errors
/// LimitExceeded; any error from reading.
pub fn graph(scan: &mut Scan<'_>, index: &Index, about: &About) -> Result<Vec<u8>> {
    let mut edits = Vec::new();
    for tensor in &index.tensors {
        let proto = &tensor.proto;
        edits.push(Edit::put(
            proto.body.0,
            fields::said_head(&proto.dims, proto.data_type),
            Some(tensor.frame),
        ));
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
