//! Payload that cannot be read at any place (compressed blocks, sequential streams) is first written, raw, to a spool
//! file beside the output, and read from there.

use crate::files::io_error;
use crate::host::Host;
use crate::open::OpenedModel;
use crate::payload;
use crate::pipeline::SPOOL;
use apr_sdk::{Extent, Payload, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The spooled payloads: where each tensor lies in the spool file.
pub struct Spool {
    /// The file; it has no name any more.
    pub file: File,
    /// For each tensor of the source model, where its raw payload is; `None` if it was not spooled.
    pub extents: Vec<Option<Extent>>,
}

/// Whether a tensor's payload must be spooled.
pub fn is_needed(payload: &Payload) -> bool {
    !matches!(payload, Payload::Extent { .. })
}

/// Spools what must be; `None` if nothing must.
///
/// # Errors
/// Malformed if a payload does not have the length its shape says; Io; what the reader raises.
pub fn spool(host: &Host, opened: &OpenedModel, beside: &Path) -> Result<Option<Spool>> {
    let tensors = &opened.model.tensors;
    if !tensors.iter().any(|t| is_needed(&t.payload)) {
        return Ok(None);
    }
    let wrong =
        |e: std::io::Error| io_error(&e, "write the spool file").in_file(beside.display().to_string());
    // One that a crash left, between making it and taking its name away.
    let _ = std::fs::remove_file(beside);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(beside).map_err(wrong)?;
    // Without a name it is gone when this process is, however that ends.
    std::fs::remove_file(beside).map_err(wrong)?;
    let mut spool = Spool { file, extents: vec![None; tensors.len()] };
    let mut end = 0;
    for (number, tensor) in tensors.iter().enumerate() {
        if is_needed(&tensor.payload) {
            host.check_cancelled()?;
            let len = tensor.payload_len()?;
            let mut at = end;
            payload::stream(host, opened, number, &mut |bytes| {
                let written = spool.file.write_all_at(bytes, at);
                at += bytes.len() as u64;
                written.map_err(|e| io_error(&e, "write the spool file"))
            })?;
            spool.extents[number] = Some(Extent::new(SPOOL, end, len));
            end += len;
        }
    }
    Ok(Some(spool))
}
