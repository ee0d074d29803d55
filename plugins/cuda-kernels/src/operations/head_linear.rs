//! A matrix of its own for each head.

use super::product::{self, Mode, Piece};
use crate::device::Matrix;
use crate::driver::Launch;
use crate::parameters::{self, Part};
use crate::session::compile::{Compiler, Source, apart, divided, same_rows};
use crate::session::step::{Node, Step, index, short};
use crate::session::values::Place;
use apr_sdk::{Error, Result};
use std::sync::Arc;

struct HeadLinear {
    matrix: Arc<Matrix>,
    heads: u32,
    /// Rows of a head's matrix.
    width: usize,
    source: Source,
    out: Place,
}

pub(super) fn compile(operation: &apr_sdk::HeadLinear, compiler: &mut Compiler<'_>) -> Result<()> {
    let (x, out) = (compiler.place(&operation.x)?, compiler.place(&operation.out)?);
    same_rows(&[&x, &out])?;
    apart(&out, &x, "the input")?;
    let given = divided(x.width, operation.heads, "heads")?;
    let width = divided(out.width, operation.heads, "heads")?;
    let matrix = compiler.matrix(operation.weight)?;
    let (rows, columns) = (matrix.layout.rows, matrix.layout.columns);
    if (rows, columns) != (out.width, given) {
        return Err(Error::invalid_argument(format!(
            "the matrix has {rows} x {columns} elements instead of {} x {given}",
            out.width
        )));
    }
    super::launchable(operation.heads, "heads")?;
    let source = compiler.activations(&x, index(operation.heads), &matrix, true);
    compiler.written(&out);
    compiler.push(HeadLinear { matrix, heads: operation.heads, width, source, out });
    Ok(())
}

impl Node for HeadLinear {
    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let to = step.place(&self.out);
        let part = Part {
            weights: self.matrix.at(),
            out: to.at,
            row_bytes: short(self.matrix.layout.row),
            rows: short(self.width),
            out_stride: to.stride,
            ..Default::default()
        };
        let pieces = [Piece { matrix: &self.matrix, part }];
        let given = (self.source, step.count(self.out.rows));
        product::launch(
            step,
            &pieces,
            given,
            (1.0, parameters::Place::default()),
            Mode::Heads(self.heads),
            out,
        );
    }
}
