//! Products of matrices with a few rows: which kernel, and how its lanes are divided.

use crate::device::Matrix;
use crate::driver::Launch;
use crate::layout::{MIXED, Type};
use crate::parameters::{self, Part};
use crate::session::compile::Source;
use crate::session::step::{self, FEW, Step, short};

/// Threads of a block.
const THREADS: usize = 128;
/// The most matrices of a launch.
pub(crate) const MOST_PARTS: usize = 4;

/// A matrix of a launch: its type, its part with all but where its blocks begin.
pub(crate) struct Piece<'m> {
    /// The matrix.
    pub(crate) matrix: &'m Matrix,
    /// The part.
    pub(crate) part: Part,
}

/// What kind of product it is.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// Each row of activations with all rows of the matrix.
    Plain,
    /// Each head of a row with its own rows.
    Heads(u32),
    /// Each chosen expert's rows.
    Experts {
        /// The experts' numbers.
        route: parameters::Place,
        /// How many there are.
        experts: u32,
        /// How many are chosen.
        used: u32,
        /// Whether all of them have the same input.
        is_shared: bool,
    },
}

/// How many lanes share a row of so many units, and how many rows each of them takes, one or two, for one token. Measured on an
/// H200: as many lanes as the device runs at once are best, each with its share of a row; a matrix with rows for more of them
/// gives a warp two rows. Lanes that find no work cost more than what they would hide.
fn lanes(units: usize, rows: usize) -> (usize, usize) {
    /// Lanes that a device runs at once.
    const AT_ONCE: usize = 72 << 10;
    /// With at least so many rows, the fewest lanes are enough.
    const MANY_ROWS: usize = 12 << 10;
    // Of ten lanes, seven have something to do in each turn.
    let is_used = |lanes: usize| units * 10 >= units.div_ceil(lanes) * lanes * 7;
    let all = [8, 16, 32, 64, THREADS];
    if rows >= MANY_ROWS {
        let used = [32, 16].into_iter().find(|lanes| units.div_ceil(*lanes) * lanes * 9 <= units * 10);
        return (used.unwrap_or(8), 2);
    }
    let mut best = (8, 1);
    let mut most = 0;
    for (lanes, per_lane) in all.into_iter().flat_map(|lanes| [(lanes, 1), (lanes, 2)]) {
        let running = rows.div_ceil(per_lane) * lanes;
        let is_better = running > most || (running == most && per_lane == 2 && lanes >= 32 && rows > 1);
        if is_used(lanes) && running <= AT_ONCE && is_better {
            (best, most) = ((lanes, per_lane), running);
        }
    }
    best
}

/// Whether parts of these types can share a launch.
pub(crate) fn joins(a: &'static Type, b: &'static Type) -> bool {
    // Those of 256 columns a block; see `matvec_mixed.cu`.
    let is_mixed = |of: &Type| (8..=10).contains(&of.number);
    a == b || (is_mixed(a) && is_mixed(b))
}

/// Appends the product of some matrices with the rows of `source`. All matrices have types that join.
pub(crate) fn launch(
    step: &Step<'_>,
    pieces: &[Piece<'_>],
    (source, tokens): (Source, usize),
    (scale, residual): (f32, parameters::Place),
    mode: Mode,
    out: &mut Vec<Launch>,
) {
    let Some(first) = pieces.first() else { return };
    if tokens == 0 {
        return;
    }
    let layout = &first.matrix.layout;
    let units = layout.units();
    let rows: usize = pieces.iter().map(|piece| piece.part.rows as usize).sum();
    let (lanes, per_lane) = lanes(units, rows);
    let few = if matches!(mode, Mode::Experts { .. }) { 1 } else { tokens.min(FEW) };
    let (variant, per_launch, per_lane) = match few {
        1 => (per_lane - 1, 1, per_lane),
        2 => (2, 2, 2),
        3 | 4 => (3, 4, 2),
        _ => (4, 8, 2),
    };
    let is_mixed = pieces.iter().any(|piece| piece.matrix.layout.of != layout.of);
    let (module, kernels) = if is_mixed { MIXED } else { (layout.of.module, layout.of.matvec) };
    let mut parameters = parameters::Matvec {
        part_count: short(pieces.len()),
        columns: short(layout.columns),
        units: short(units),
        blocks: short(layout.blocks),
        tokens: short(tokens),
        lanes: short(lanes),
        scale,
        ..Default::default()
    };
    if residual.width > 0 {
        (parameters.residual, parameters.residual_stride) = (residual.at, residual.stride);
    }
    match source {
        Source::Slot(slot) => {
            let rounded = step.slot(slot);
            (parameters.x, parameters.records, parameters.x_stride) =
                (rounded.codes, rounded.records, rounded.stride);
        }
        Source::Value(place) => {
            let place = step.place(&place);
            (parameters.x, parameters.x_stride) = (place.at, place.stride);
        }
    }
    let per_block = THREADS / lanes * per_lane;
    let mut blocks = 0;
    for (part, piece) in parameters.parts.iter_mut().zip(pieces) {
        *part = Part { first_block: short(blocks), kind: piece.matrix.layout.of.number, ..piece.part };
        blocks += (piece.part.rows as usize).div_ceil(per_block);
    }
    let chunks = tokens.div_ceil(per_launch);
    let grid = match mode {
        Mode::Plain => [blocks, 1, chunks],
        Mode::Heads(heads) => {
            (parameters.mode, parameters.used) = (1, heads);
            [blocks, heads as usize, chunks]
        }
        Mode::Experts { route, experts, used, is_shared } => {
            (parameters.mode, parameters.used, parameters.experts) = (2, used, experts);
            (parameters.route, parameters.route_stride) = (route.at, route.stride);
            parameters.is_shared = u32::from(is_shared);
            [blocks, tokens * used as usize, 1]
        }
    };
    out.push(step::launch((module, kernels[variant]), grid, THREADS, &parameters));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_find_work() {
        // What was fastest, or nearly, of all: units of Q4_K and Q6_K.
        assert_eq!(lanes(24, 1536), (32, 1));
        assert_eq!(lanes(24, 8960), (8, 1));
        assert_eq!(lanes(140, 1536), (64, 2));
        assert_eq!(lanes(64, 4096), (32, 2));
        assert_eq!(lanes(224, 4096), (32, 2));
        assert_eq!(lanes(64, 14336), (32, 2));
        assert_eq!(lanes(128, 28672), (32, 2));
        assert_eq!(lanes(56, 37888), (8, 2));
        assert_eq!(lanes(24, 17920), (8, 2));
        assert_eq!(lanes(3584, 1), (128, 1));
        assert_eq!(lanes(1, 1), (8, 1));
    }
}
