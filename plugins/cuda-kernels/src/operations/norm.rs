//! Normalizations.

use crate::driver::{Buffer, Launch};
use crate::parameters;
use crate::session::compile::{Compiler, rounded};
use crate::session::step::{self, Node, Step, index, short};
use apr_sdk::{Columns, NormKind, Result};
use std::sync::Arc;

/// The most threads of a part that is normalized on its own.
const MOST_THREADS: usize = 512;

struct Norm {
    x: Columns,
    out: Columns,
    is_centred: bool,
    /// A vector, and by how many elements the next part's lies further.
    gain: Option<(Arc<Buffer>, usize)>,
    bias: Option<(Arc<Buffer>, usize)>,
    epsilon: f32,
    /// Elements of a part that is normalized on its own.
    width: usize,
    slot: Option<usize>,
}

pub(super) fn compile(operation: &apr_sdk::Norm, compiler: &mut Compiler<'_>) -> Result<()> {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let width = x.width / index(operation.heads);
    let gain = operation.gain.map(|gain| vector(gain, width, compiler)).transpose()?;
    let bias = operation.bias.map(|bias| vector(bias, width, compiler)).transpose()?;
    let (is_centred, epsilon) = (operation.kind == NormKind::LAYER, operation.epsilon);
    compiler.written(&out);
    compiler.push_maker(&out, Norm { x, out, is_centred, gain, bias, epsilon, width, slot: None });
    Ok(())
}

/// A vector's elements, and how many of them lie between those of one part and of the next.
fn vector(weight: u32, width: usize, compiler: &mut Compiler<'_>) -> Result<(Arc<Buffer>, usize)> {
    // A vector as wide as a part is the same for all.
    let step = if compiler.matrix(weight).layout.columns == width { 0 } else { width };
    Ok((compiler.floats(weight)?, step))
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
