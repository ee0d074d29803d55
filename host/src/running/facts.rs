//! Facts about a loaded model: sizes, types, what one token reads.

use super::backend::Chosen;
use super::suggestions::Suggested;
use apr_engine::architecture::Decoder;
use apr_engine::hints;
use apr_inference::program::Built;
use apr_inference::program::traffic::of_weights;
use apr_sdk::{DType, MatrixSpec, Program, RowsOf, State};

/// Facts about a loaded model.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The architecture's id.
    pub architecture: String,
    /// Number of parameters: the elements of all weights.
    pub parameters: u64,
    /// Bytes of all weights as plain rows.
    pub bytes: u64,
    /// Bytes of all weights as the backend keeps them.
    pub image_bytes: u64,
    /// Bytes of weights that every token reads: the embedding's are one row.
    pub bytes_per_token: u64,
    /// Bytes of keys and values for the whole context.
    pub cache_bytes: u64,
    /// The type that most bytes of weights have.
    pub dtype: DType,
    /// True if any weight lies in blocks, so that devices may round activations.
    pub has_blocks: bool,
    /// Positions that it was trained for.
    pub trained_context: Option<u32>,
    /// Number of tokens it knows.
    pub vocabulary: u32,
    /// The backend's id.
    pub backend: String,
    /// The device's name.
    pub device: String,
    /// True if the device has memory of its own, whose speed the host does not measure.
    pub own_memory: bool,
    /// Number of threads that compute.
    pub threads: usize,
    /// True if prepared weights were found.
    pub images_were_kept: bool,
    /// The model's suggestions for choosing tokens.
    pub suggested: Suggested,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Notes on what was done besides, for those who ask.
    pub notes: Vec<String>,
}

/// Facts that only loading shows.
pub(super) struct Found {
    /// Bytes of all images.
    pub image_bytes: u64,
    /// Bytes of keys and values for the whole context.
    pub cache_bytes: u64,
    /// True if the device has memory of its own.
    pub own_memory: bool,
    /// True if the images were kept from last time.
    pub images_were_kept: bool,
    /// Number of threads that the system granted.
    pub threads: usize,
    /// The model's suggestions for choosing tokens.
    pub suggested: Suggested,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Notes on what was done besides.
    pub notes: Vec<String>,
}

impl Facts {
    /// The facts of a model whose weights are matrices of these `specs`.
    pub(super) fn new(
        decoder: &Decoder,
        built: &Built,
        specs: &[MatrixSpec],
        chosen: Chosen,
        mut found: Found,
    ) -> Facts {
        let mut by_type: Vec<(DType, u64)> = Vec::new();
        for spec in specs {
            match by_type.iter_mut().find(|(dtype, _)| *dtype == spec.dtype()) {
                Some((_, bytes)) => *bytes += spec.bytes(),
                None => by_type.push((spec.dtype(), spec.bytes())),
            }
        }
        // A device that others have to do without is no news to its owner; one that could have computed is.
        let declined = chosen.declined.iter();
        found.warnings.extend(declined.map(|why| {
            let message = format!("running on {}, because another device cannot be used: {why}", chosen.id);
            hints::FALLBACK.told(&message)
        }));
        found.notes.push(format!("chose the backend {}: {}", chosen.id, chosen.because));
        found.notes.extend(chosen.passed.iter().map(|why| format!("not used: {why}")));
        Facts {
            architecture: decoder.architecture.clone(),
            parameters: specs.iter().map(|spec| spec.rows() * spec.columns()).sum(),
            bytes: specs.iter().map(MatrixSpec::bytes).sum(),
            image_bytes: found.image_bytes,
            bytes_per_token: built.program.operations.iter().map(|one| of_weights(one, specs, 1)).sum(),
            cache_bytes: found.cache_bytes,
            dtype: by_type.iter().max_by_key(|(_, bytes)| *bytes).map_or(DType::F32, |(dtype, _)| *dtype),
            has_blocks: specs
                .iter()
                .any(|spec| spec.dtype().info().is_some_and(|info| info.block_elements > 1)),
            trained_context: decoder.context,
            vocabulary: decoder.vocabulary,
            backend: chosen.id,
            device: chosen.info.name,
            own_memory: found.own_memory,
            threads: found.threads,
            images_were_kept: found.images_were_kept,
            suggested: found.suggested,
            warnings: found.warnings,
            notes: found.notes,
        }
    }
}

/// Bytes of keys and values for a context.
pub(super) fn cache_bytes(built: &Built, context: u32) -> u64 {
    let mut all = 0u64;
    for state in &built.program.states {
        let State::Paged(state) = state else { continue };
        let (bytes, per) = state.dtype.info().map_or((4, 1), |info| (info.block_bytes, info.block_elements));
        let elements = u128::from(state.heads) * (u128::from(state.key) + u128::from(state.value));
        let of_state = elements * u128::from(context) * u128::from(bytes) / u128::from(per.max(1));
        all = all.saturating_add(u64::try_from(of_state).unwrap_or(u64::MAX));
    }
    all
}

/// Bytes of the values of so many tokens, each of which is kept until the next step. Logits come on top.
pub(super) fn step_bytes(program: &Program, rows: u32) -> u64 {
    let of_batch = program.values.iter().filter(|value| value.rows == RowsOf::BATCH);
    let elements = of_batch.fold(0u64, |all, value| all.saturating_add(value.width.into()));
    elements.saturating_mul(u64::from(rows)).saturating_mul(4)
}
