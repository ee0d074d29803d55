//! Compares a checksum stored in a model's files with the one computed over the bytes it covers.

use crate::engine::Engine;
use crate::open::source::CallSource;
use crate::open::{OpenedModel, Origin};
use apr_sdk::{Coding, Error, Extent, Limits, Payload, Result, escape};
use crc32fast::Hasher;

/// CRC-32 of the decoded bytes that checksum `number` covers.
///
/// # Errors
/// Any error from the reader; Cancelled.
pub fn decoded(engine: &Engine, opened: &OpenedModel, number: usize) -> Result<u32> {
    let (origin, own) = opened.origin_of_checksum(number)?;
    let limits = Limits::default();
    let source = CallSource::new(&opened.files, origin.root, &limits.budget, engine.progress.as_ref());
    sum_of(engine, origin, own, &source).map_err(|e| opened.files.show(e))
}

fn sum_of(engine: &Engine, origin: &Origin, own: u64, source: &CallSource<'_>) -> Result<u32> {
    let mut stream = origin.open.covered(own)?;
    let mut all = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        engine.check_cancelled()?;
        let n = stream.read(source, &mut buffer)?;
        if n == 0 {
            return Ok(all.finalize());
        }
        let filled = buffer.get(..n);
        all.update(filled.ok_or_else(|| Error::plugin("a stream returned more bytes than requested"))?);
    }
}

/// Fails for a stored checksum that this program cannot compare: before hours of work, not after.
///
/// # Errors
/// Unsupported, with the file and a hint.
pub fn refuse_uncomputed(opened: &OpenedModel) -> Result<()> {
    for checksum in &opened.model.checksums {
        if let Err(error) = checksum.sum.of_crc32(0) {
            let name = opened.files.get(checksum.covers.file)?.name.clone();
            let hint = "`apr convert --verify off` converts it without checking its checksums";
            return Err(opened.files.show(error.in_file(name).hint(hint)));
        }
    }
    Ok(())
}

/// A stored checksum and the computed one.
pub struct StoredSum {
    covers: Extent,
    file: String,
    computed: u32,
    stored: Option<u32>,
    is_decoded: bool,
}

impl StoredSum {
    /// Pairs the stored checksum `number` with the computed one.
    ///
    /// # Errors
    /// Any error from reading the stored one; Unsupported for anything but CRC-32; Plugin for an unknown
    /// number.
    pub fn new(opened: &OpenedModel, number: usize, computed: u32) -> Result<StoredSum> {
        let checksum = opened.model.checksums.get(number);
        let checksum = checksum.ok_or_else(|| Error::plugin(format!("checksum {number} does not exist")))?;
        let stored = opened.fetch(&checksum.stored)?;
        let stored = checksum.sum.crc32(stored.inline().unwrap_or_default())?;
        let file = opened.files.get(checksum.covers.file)?.name.clone();
        let is_decoded = checksum.coding != Coding::Raw;
        Ok(StoredSum { covers: checksum.covers, file, computed, stored, is_decoded })
    }

    /// Returns whether they are equal.
    pub fn is_right(&self) -> bool {
        self.stored == Some(self.computed)
    }

    /// Describes both, without the file.
    fn found(&self) -> String {
        let start = self.covers.offset;
        let end = self.covers.offset.saturating_add(self.covers.len);
        let of = if self.is_decoded { "the data decoded from bytes" } else { "bytes" };
        let found = format!("CRC-32 of {of} {start} to {end} is {:08x}", self.computed);
        match self.stored {
            Some(stored) if stored == self.computed => format!("{found}, which matches the stored checksum"),
            Some(stored) => format!(
                "{found}, but the stored checksum is {stored:08x}: the file changed after it was written"
            ),
            None => format!(
                "{found}, but the stored checksum is not a number: the file changed after it was written"
            ),
        }
    }

    /// Describes both, as a finding.
    pub fn finding(&self) -> String {
        format!("checksum: {}: {}", escape(&self.file, 200), self.found())
    }

    /// The error for a mismatch.
    pub fn error(&self, opened: &OpenedModel) -> Error {
        let end = self.covers.end();
        let mut covered = opened.model.tensors.iter().filter(|tensor| match &tensor.payload {
            Payload::Extent { extent, .. } => {
                let is_inside = extent.offset >= self.covers.offset && extent.end() <= end;
                extent.len > 0 && extent.file == self.covers.file && is_inside
            }
            // Their place is not known here, so that no other tensor is the only one.
            Payload::Blocks { .. } => true,
            _ => false,
        });
        let error = Error::failed(self.found()).code("E004").in_file(self.file.clone());
        let error = error.hint(
            "get the file again; `apr convert --verify off` converts it as it is, including any corruption",
        );
        let error = match (covered.next(), covered.next()) {
            (Some(only), None) => error.tensor(&only.name),
            _ => error,
        };
        opened.files.show(error)
    }
}
