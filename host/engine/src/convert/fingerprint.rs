//! A fingerprint of a conversion: tells whether a journal, or the record of a publication, belongs to the
//! same work.

use super::lay_out::LaidOut;
use super::plan::Plan;
use crate::layout::Segment;
use crate::open::files::ModelFile;
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
pub fn digest(laid_out: &LaidOut<'_>) -> Result<String> {
    Ok(hex(&Sha256::digest(describe(laid_out)?.to_string())))
}

/// Everything a journal must agree with in order to be resumed.
///
/// # Errors
/// Any error from reading the inputs.
pub fn describe(laid_out: &LaidOut<'_>) -> Result<serde_json::Value> {
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
        let sampled = sample(file).map_err(|e| source.files.show(e))?;
        inputs.push(serde_json::json!({
            "bytes": file.len, "modified": file.version.modified.to_string(),
            // Where the time of a change was set back, this one tells.
            "changed": file.version.status.to_string(), "sample": sampled,
        }));
    }
    Ok(serde_json::json!({
        "program": env!("CARGO_PKG_VERSION"),
        "plan": hex(&digest.0.finalize()),
        "plugins": output.request.versions,
        "inputs": inputs,
    }))
}

/// Bytes of a file's beginning that are compared: headers of most models.
const HEAD: u64 = 1 << 20;

/// Number of further blocks, spread evenly up to the file's end, and the bytes of each.
const BLOCKS: u64 = 16;
const BLOCK: u64 = 4 << 10;

/// A digest of a file's beginning and of some blocks behind it, whatever its length.
fn sample(file: &ModelFile) -> Result<String> {
    let mut digest = Sha256::new();
    let mut add = |offset: u64, len: u64| -> Result<()> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_at(offset, &mut bytes)?;
        digest.update(&bytes);
        Ok(())
    };
    let head = file.len.min(HEAD);
    add(0, head)?;
    let rest = file.len - head;
    if rest <= BLOCKS * BLOCK {
        add(head, rest)?;
    } else {
        let last = rest - BLOCK;
        // Not a product: a length may be near the largest number.
        let step = last / (BLOCKS - 1);
        for number in 0..BLOCKS - 1 {
            add(head + number * step, BLOCK)?;
        }
        add(head + last, BLOCK)?;
    }
    Ok(hex(&digest.finalize()))
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
