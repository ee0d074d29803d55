//! What prepared weights follow from, as a digest: the key under which they are kept.

use apr_engine::expression::PlannedTensor;
use apr_engine::open::OpenedModel;
use apr_inference::program::{Built, WeightOf};
use apr_sdk::{ImageSpec, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Pieces of each file that are read for its digest, spread evenly.
const PIECES: u64 = 64;
/// Bytes of each piece.
const PIECE: usize = 4096;

/// A digest of the files (their versions and samples of what is in them), of how each weight follows from them,
/// and of the backend with its layouts. A file that is written to has another version, and so has an apr that may
/// compute weights otherwise.
///
/// # Errors
/// Any error from reading.
pub fn key(
    opened: &OpenedModel,
    tensors: &[PlannedTensor],
    built: &Built,
    (backend, images): (&str, &[ImageSpec]),
) -> Result<String> {
    let mut digest = Sha256::new();
    digest.update(format!("{} {backend}\n", env!("CARGO_PKG_VERSION")));
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
                let one = tensors.iter().find(|one| one.tensor.name == *name);
                let one = one.map(|one| (one.tensor.dtype, &one.tensor.shape, &one.expression));
                write!(words, "{name} {one:?}")
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
