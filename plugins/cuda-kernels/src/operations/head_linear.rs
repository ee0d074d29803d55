//! A matrix of its own for each head.

use super::product::{self, Mode, Piece};
use crate::device::Matrix;
use crate::driver::Launch;
use crate::parameters::{self, Part};
use crate::session::compile::{Compiler, Source};
use crate::session::step::{Node, Step, index, short};
use apr_sdk::{Columns, Result};
use std::sync::Arc;

struct HeadLinear {
    matrix: Arc<Matrix>,
    heads: u32,
    /// Rows of a head's matrix.
    width: usize,
    source: Source,
    out: Columns,
}

pub(super) fn compile(operation: &apr_sdk::HeadLinear, compiler: &mut Compiler<'_>) -> Result<()> {
    let (x, out) = (compiler.columns(&operation.x), compiler.columns(&operation.out));
    let matrix = compiler.matrix(operation.weight);
    super::launchable(operation.heads, "heads")?;
    let heads = index(operation.heads);
    let source = compiler.activations(&x, heads, &matrix, true);
    compiler.written(&out);
    compiler.push(HeadLinear { matrix, heads: operation.heads, width: out.width / heads, source, out });
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
