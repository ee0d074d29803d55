//! Normalizations.

use super::functions::{count, narrow};
use super::vector::sum_by;
use crate::level::versions;
use crate::session::compile::Compiler;
use crate::session::step::{Division, Step, Task, index};
use apr_sdk::{Columns, NormKind, Result};
use std::ops::Range;
use std::sync::Arc;

struct Norm {
    x: Columns,
    out: Columns,
    centred: bool,
    /// As wide as all parts or as one, which is then the same for all.
    gain: Option<Arc<[f32]>>,
    bias: Option<Arc<[f32]>>,
    epsilon: f32,
    /// Elements of a part that is normalized on its own.
    width: usize,
}

pub(super) fn compile(operation: &apr_sdk::Norm, compiler: &mut Compiler<'_>) {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let gain = operation.gain.map(|gain| compiler.floats(gain));
    let bias = operation.bias.map(|bias| compiler.floats(bias));
    let width = x.width / index(operation.heads);
    let (centred, epsilon) = (operation.kind == NormKind::LAYER, operation.epsilon);
    compiler.written(&out);
    compiler.push(Norm { x, out, centred, gain, bias, epsilon, width });
}

/// What of a vector belongs to a head.
fn of_head<'a>(vector: &'a Option<Arc<[f32]>>, head: &Range<usize>) -> Option<&'a [f32]> {
    let vector = vector.as_ref()?;
    Some(if vector.len() == head.len() { vector } else { &vector[head.clone()] })
}

impl Task for Norm {
    fn division(&self) -> Division {
        Division::Rows(self.x.rows)
    }

    fn run(&self, step: &Step<'_>, worker: usize) -> Result<()> {
        for row in step.rows(self.x.rows, worker) {
            if self.x != self.out {
                // SAFETY: this worker has its rows to itself, and the two have no element in common.
                unsafe { step.values.write(&self.out, row).copy_from_slice(step.values.read(&self.x, row)) };
            }
            // SAFETY: this worker has its rows to itself.
            let out = unsafe { step.values.write(&self.out, row) };
            for (head, out) in out.chunks_exact_mut(self.width).enumerate() {
                let part = head * self.width..(head + 1) * self.width;
                let (gain, bias) = (of_head(&self.gain, &part), of_head(&self.bias, &part));
                normalize(step.level, out, self.centred, self.epsilon, gain, bias);
            }
        }
        Ok(())
    }
}

versions! {
    /// Normalizes in place. Means are in double precision; all else is in single, in the order of its definition.
    normalize(
        x: &mut [f32],
        centred: bool,
        epsilon: f32,
        gain: Option<&[f32]>,
        bias: Option<&[f32]>,
    ) -> () {
        let elements = count(x.len());
        let mean = if centred { sum_by(x, |x| x) / elements } else { 0.0 };
        let variance = sum_by(x, |x| (x - mean) * (x - mean)) / elements;
        let factor = narrow(1.0 / (variance + f64::from(epsilon)).sqrt());
        if centred {
            for x in x.iter_mut() {
                *x = narrow(f64::from(*x) - mean);
            }
        }
        for x in x.iter_mut() {
            *x *= factor;
        }
        if let Some(gain) = gain {
            for (x, gain) in x.iter_mut().zip(gain) {
                *x *= gain;
            }
        }
        if let Some(bias) = bias {
            for (x, bias) in x.iter_mut().zip(bias) {
                *x += bias;
            }
        }
    }
}
