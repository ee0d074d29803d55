//! Importance matrices as sums, which quantizer plugins read and write.

use crate::engine::Engine;
use crate::open::files::Files;
use crate::open::source::{CallSource, Root};
use apr_sdk::{Error, ErrorKind, ImportanceSums, Limits, Result};
use std::path::Path;
use std::sync::Arc;

/// Reads a file as sums, with the first plugin that recognises it.
///
/// # Errors
/// NotFound and the like; any error from the plugins.
pub fn read_sums(engine: &Engine, path: &Path) -> Result<ImportanceSums> {
    let files = Files::new(&engine.places.locate(path)?, Arc::clone(&engine.cancel));
    let limits = Limits::default();
    let source = CallSource::new(&files, Root::WHOLE, &limits.budget, engine.progress.as_ref());
    let mut unknown = None;
    for quantizer in engine.registry.quantizers() {
        match quantizer.importance_sums(&source) {
            Ok(sums) => return checked(sums).map_err(|error| files.show(error)),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                // One that says what to do instead knows such files.
                if unknown.as_ref().is_none_or(|known: &Error| known.hint_text().is_none()) {
                    unknown = Some(error);
                }
            }
            Err(error) => return Err(files.show(error)),
        }
    }
    Err(files.show(unknown.unwrap_or_else(|| none(engine, "reads"))))
}

/// Refuses what a plugin should never give.
fn checked(sums: ImportanceSums) -> Result<ImportanceSums> {
    for tensor in &sums.tensors {
        if tensor.counts.is_empty() || tensor.sums.is_empty() || tensor.sums.len() % tensor.counts.len() != 0
        {
            let message = format!("gave {} sums for {} counts", tensor.sums.len(), tensor.counts.len());
            return Err(Error::plugin(message).tensor(tensor.name.as_str()));
        }
    }
    Ok(sums)
}

/// The bytes of a file called `file` with these sums, by the first plugin that writes it; `form` names a form other than that of
/// the file's extension.
///
/// # Errors
/// Unsupported if no plugin writes it; any error from the plugins.
pub fn sums_file(engine: &Engine, sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
    let mut refused = None;
    for quantizer in engine.registry.quantizers() {
        match quantizer.importance_file(sums, file, form) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Unsupported => refused = refused.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or_else(|| none(engine, "writes")))
}

fn none(engine: &Engine, does: &str) -> Error {
    let hint = engine.registry.quantizer_hint("run `apr plugins list` to see what is available");
    Error::unsupported(format!("no plugin {does} importance matrices")).hint(hint)
}
