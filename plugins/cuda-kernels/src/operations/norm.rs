//! Normalizations.

use crate::driver::{Buffer, Launch};
use crate::parameters;
use crate::session::compile::{Compiler, divided, rounded, same_or_apart, same_rows};
use crate::session::step::{self, Node, Step, short};
use crate::session::values::Place;
use apr_sdk::{NormKind, Result};
use std::sync::Arc;

/// The most threads of a part that is normalized on its own.
const MOST_THREADS: usize = 512;

struct Norm {
    x: Place,
    out: Place,
    is_centred: bool,
    /// A vector, and by how many elements the next part's lies further.
    gain: Option<(Arc<Buffer>, usize)>,
    bias: Option<(Arc<Buffer>, usize)>,
    epsilon: f32,
    /// Elements of a part that is normalized on its own.
    width: usize,
    slot: Option<usize>,
}

/// Checks the kind.
pub(super) fn check(operation: &apr_sdk::Norm) -> Result<()> {
    super::known(operation.kind, &[NormKind::RMS, NormKind::LAYER], &operation.kind.name())
}

pub(super) fn compile(operation: &apr_sdk::Norm, compiler: &mut Compiler<'_>) -> Result<()> {
    let x = compiler.place(&operation.x)?;
    let out = compiler.place_of(&operation.out, x.width, "the result")?;
    same_rows(&[&x, &out])?;
    same_or_apart(&out, &x, "the input")?;
    let width = divided(x.width, operation.heads, "heads")?;
    let mut vector = |weight: Option<u32>, what| {
        let Some(weight) = weight else { return Ok(None) };
        let (buffer, columns) = compiler.vector(weight, &[x.width, width], what)?;
        // A vector as wide as a part is the same for all.
        Ok(Some((buffer, if columns == width { 0 } else { width })))
    };
    let (gain, bias) = (vector(operation.gain, "the gain")?, vector(operation.bias, "the bias")?);
    let (is_centred, epsilon) = (operation.kind == NormKind::LAYER, operation.epsilon);
    compiler.written(&out);
    compiler.push_maker(&out, Norm { x, out, is_centred, gain, bias, epsilon, width, slot: None });
    Ok(())
}

impl Node for Norm {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let at = |vector: &Option<(Arc<Buffer>, usize)>| vector.as_ref().map_or(0, |(buffer, _)| buffer.at());
        let by = |vector: &Option<(Arc<Buffer>, usize)>| vector.as_ref().map_or(0, |(_, by)| short(*by));
        let parameters = parameters::Norm {
            x: step.place(&self.x),
            out: step.place(&self.out),
            gain: at(&self.gain),
            bias: at(&self.bias),
            to: rounded(step, self.slot, self.out.rows),
            width: short(self.width),
            gain_step: by(&self.gain),
            bias_step: by(&self.bias),
            is_centred: u32::from(self.is_centred),
            epsilon: self.epsilon,
            pad: 0,
        };
        // A thread takes four elements at a time.
        let threads = self.width.div_ceil(4).next_multiple_of(32).min(MOST_THREADS);
        let grid = [self.x.width / self.width, step.count(self.x.rows), 1];
        let is_aligned =
            |place: &parameters::Place| place.at.is_multiple_of(16) && place.stride.is_multiple_of(4);
        let kernel = match self.width {
            width
                if !width.is_multiple_of(4) || !is_aligned(&parameters.x) || !is_aligned(&parameters.out) =>
            {
                "norm_any"
            }
            width if width <= 4 * threads => "norm_1",
            width if width <= 16 * threads => "norm_4",
            _ => "norm_any",
        };
        if grid[1] > 0 {
            out.push(step::launch(("rows", kernel), grid, threads, &parameters));
        }
    }

    fn round_into(&mut self, slot: usize) -> bool {
        let can = self.slot.is_none() && self.width.is_multiple_of(32);
        if can {
            self.slot = Some(slot);
        }
        can
    }
}
