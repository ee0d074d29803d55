//! The key under which prepared weights are kept: a digest of all that they follow from.

use apr_engine::expression::PlannedTensor;
use apr_engine::open::OpenedModel;
use apr_engine::registry::Registry;
use apr_inference::program::{Built, WeightOf};
use apr_sdk::{ImageSpec, Manifest, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

/// Pieces of each file that are read for its digest, spread evenly.
const PIECES: u64 = 64;
/// Bytes of each piece.
const PIECE: usize = 4096;

/// A digest of the files (their versions and samples of what is in them), of how each weight follows from them,
/// and of the backend with its layouts. A file that is written to has another version, and so has an apr or a plugin
/// that may compute weights otherwise.
///
/// # Errors
/// Any error from reading.
pub fn key(
    opened: &OpenedModel,
    tensors: &[PlannedTensor],
    built: &Built,
    registry: &Registry,
    backend: &str,
    images: &[ImageSpec],
) -> Result<String> {
    let mut digest = Sha256::new();
    let working = registry.plugins().iter().filter(|plugin| plugin.state.is_ok());
    let working =
        working.filter_map(|plugin| Some((plugin.manifest.as_ref()?, stamp(plugin.path.as_deref()))));
    digest.update(makers(backend, working));
    for (number, file) in (0u32..).zip(opened.files.all()) {
        if file.is_folder() {
            continue;
        }
        digest.update(file.len.to_le_bytes());
        digest.update(format!("{:?}", file.version).as_bytes());
        let mut piece = [0; PIECE];
        let last = file.len.saturating_sub(PIECE as u64);
        for at in 0..PIECES {
            let len = usize::try_from(file.len).unwrap_or(PIECE).min(PIECE);
            opened.files.read_at(number, last / (PIECES - 1) * at, &mut piece[..len])?;
            digest.update(&piece[..len]);
        }
    }
    let mut words = String::new();
    for (weight, image) in built.weights.iter().zip(images) {
        let _ = match weight {
            WeightOf::Tensor(name) => {
                let planned = tensors.iter().find(|planned| planned.tensor.name == *name);
                let facts =
                    planned.map(|planned| (planned.tensor.dtype, &planned.tensor.shape, &planned.expression));
                write!(words, "{name} {facts:?}")
            }
            WeightOf::Literal { values, .. } => {
                values.iter().try_for_each(|value| write!(words, "{:08x}", value.to_bits()))
            }
        };
        let _ = writeln!(words, " {} {}", image.layout, image.bytes);
    }
    digest.update(words.as_bytes());
    let mut text = String::new();
    for byte in digest.finalize().iter().take(16) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// The stamp that tells a plugin's file from one of the same version that was built from other sources.
fn stamp(path: Option<&Path>) -> String {
    let data = path.and_then(|path| std::fs::metadata(path).ok());
    data.map_or_else(String::new, |data| format!("{} {:?}", data.len(), data.modified().ok()))
}

/// The makers of prepared weights: this apr, the backend, and all plugins, any of which may read, translate or quantize them.
fn makers<'m>(backend: &str, plugins: impl Iterator<Item = (&'m Manifest, String)>) -> String {
    let mut lines = Vec::new();
    for (manifest, stamp) in plugins {
        lines.push(format!("{} {} {stamp}\n", manifest.id, manifest.version));
    }
    // They are found in the order in which a system lists folders.
    lines.sort();
    format!("{} {backend}\n{}", env!("CARGO_PKG_VERSION"), lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(id: &str, version: &str) -> Manifest {
        let mut manifest = Manifest::default();
        manifest.id = id.to_owned();
        manifest.version = version.to_owned();
        manifest
    }

    fn of_two(backend: &str, plugins: [(&Manifest, &str); 2]) -> String {
        makers(backend, plugins.into_iter().map(|(manifest, stamp)| (manifest, stamp.to_owned())))
    }

    #[test]
    fn another_backend_or_version_of_a_plugin_makes_other_weights_and_another_order_does_not() {
        let a = plugin("a", "1.0.0");
        let b = plugin("b", "1.0.0");
        let newer = plugin("b", "1.0.1");
        let makers = of_two("cpu", [(&a, "1"), (&b, "2")]);
        assert_eq!(of_two("cpu", [(&b, "2"), (&a, "1")]), makers);
        assert_ne!(of_two("other", [(&a, "1"), (&b, "2")]), makers);
        assert_ne!(of_two("cpu", [(&a, "1"), (&newer, "2")]), makers);
        assert_ne!(of_two("cpu", [(&a, "1"), (&b, "3")]), makers);
    }
}
