//! A fingerprint of a conversion: tells whether a journal, or the record of a publication, belongs to the
//! same work.

use super::lay_out::LaidOut;
use super::plan::Plan;
use super::select::versions;
use crate::engine::Engine;
use crate::layout::Segment;
use crate::wording::hex;
use apr_sdk::{Error, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;

/// A digest of [`describe`].
///
/// # Errors
/// As [`describe`].
pub fn digest(engine: &Engine, laid_out: &LaidOut<'_>) -> Result<String> {
    Ok(hex(&Sha256::digest(describe(engine, laid_out)?.to_string())))
}

/// Everything a journal must agree with in order to be resumed.
///
/// # Errors
/// Any error from reading the inputs.
pub fn describe(engine: &Engine, laid_out: &LaidOut<'_>) -> Result<serde_json::Value> {
    let LaidOut { source, model, output, layout, plan, hash, .. } = laid_out;
    let mut digest = Digesting(Sha256::new());
    // How paths were typed and how many threads there are makes no difference.
    digest.add(&Plan { input: String::new(), output: String::new(), payload_memory: 0, ..plan.clone() })?;
    for file in &layout.files {
        for (number, placed) in file.segments.iter().enumerate() {
            // Segments whose place is settled during writing would be described differently before and after.
            let is_known = file.floats_from.is_none_or(|first| number < first);
            let (offset, len) = if is_known { (placed.offset, placed.len) } else { (u64::MAX, 0) };
            digest.add_text(format_args!("{offset} {len} "))?;
            match &placed.segment {
                Segment::Inline(bytes) => digest.0.update(bytes),
                Segment::Payload { tensor, encoded: Some(encoded) } => {
                    digest.add_text(format_args!("{tensor} {encoded:?} "))?;
                }
                Segment::Pad { to } if !is_known => digest.add_text(format_args!("{to} "))?,
                _ => {}
            }
        }
    }
    for (file, placed, number) in layout.payloads() {
        let tensor = &model.tensors[number];
        let floats = layout.files[file].floats_from.is_some();
        let (offset, len) = if floats { (u64::MAX, 0) } else { (placed.offset, placed.len) };
        digest.add(&(file, offset, len, &tensor.name, tensor.dtype.name(), &tensor.shape))?;
    }
    digest.add_text(format_args!("{hash}"))?;
    let mut inputs = Vec::new();
    for file in source.files.all().iter().filter(|f| !f.is_folder()) {
        let mut head = vec![0; usize::try_from(file.len.min(1 << 20)).unwrap_or(0)];
        file.read_at(0, &mut head).map_err(|e| source.files.show(e))?;
        inputs.push(serde_json::json!({
            "bytes": file.len, "modified": file.version.modified.to_string(), "head": hex(&Sha256::digest(&head)),
        }));
    }
    Ok(serde_json::json!({
        "program": env!("CARGO_PKG_VERSION"),
        "plan": hex(&digest.0.finalize()),
        "plugins": versions(engine, source, output.format),
        "inputs": inputs,
    }))
}

/// Digests whatever is written to it.
struct Digesting(Sha256);

impl Digesting {
    fn add(&mut self, part: &impl Serialize) -> Result<()> {
        serde_json::to_writer(self, part)
            .map_err(|e| Error::plugin(format!("the plan is not valid JSON: {e}")))
    }

    fn add_text(&mut self, text: fmt::Arguments<'_>) -> Result<()> {
        fmt::write(self, text).map_err(|_| Error::plugin("the plan cannot be serialized"))
    }
}

impl io::Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Digesting {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}
