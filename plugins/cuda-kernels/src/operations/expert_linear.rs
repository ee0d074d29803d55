//! The matrices of each row's chosen experts: each choice reads its expert's matrix.

use super::product::{self, MOST_PARTS, Mode, Piece};
use crate::device::Matrix;
use crate::driver::{Buffer, Launch};
use crate::parameters::{self, Part};
use crate::session::compile::{Compiler, Source};
use crate::session::step::{Node, Step, index, short};
use apr_sdk::{Columns, Result};
use std::sync::Arc;

struct Rows {
    matrix: Arc<Matrix>,
    /// Rows of an expert in the matrix.
    stride: usize,
    /// The first of them.
    first: usize,
    /// How many.
    width: usize,
    /// A row for each expert.
    bias: Option<Arc<Buffer>>,
    source: Source,
    out: Columns,
}

struct ExpertLinear {
    route: Columns,
    experts: u32,
    used: u32,
    is_shared: bool,
    parts: Vec<Rows>,
}

pub(super) fn compile(operation: &apr_sdk::ExpertLinear, compiler: &mut Compiler<'_>) -> Result<()> {
    let (experts, used) = (index(operation.experts), index(operation.used));
    let (x, route) = (compiler.columns(&operation.x), compiler.columns(&operation.route));
    let is_shared = operation.shared_input;
    let mut parts = Vec::new();
    for part in &operation.parts {
        let out = compiler.columns(&part.out);
        let matrix = compiler.matrix(part.weight);
        let (stride, first) = (matrix.layout.rows / experts, index(part.first_row));
        let bias = part.bias.map(|bias| compiler.floats(bias)).transpose()?;
        let source = compiler.activations(&x, if is_shared { 1 } else { used }, &matrix, true);
        parts.push(Rows { matrix, stride, first, width: out.width / used, bias, source, out });
    }
    parts.iter().for_each(|part| compiler.written(&part.out));
    let (experts, used) = (operation.experts, operation.used);
    compiler.push(ExpertLinear { route, experts, used, is_shared, parts });
    Ok(())
}

impl Node for ExpertLinear {
    fn check(&self, batch: &apr_sdk::Batch<'_>) -> Result<()> {
        let choices = batch.ids().len().saturating_mul(index(self.used));
        super::launchable(short(choices), "choices of experts")
    }

    fn launch(&self, step: &Step<'_>, out: &mut Vec<Launch>) {
        let (experts, used, is_shared) = (self.experts, self.used, self.is_shared);
        let mode = Mode::Experts { route: step.place(&self.route), experts, used, is_shared };
        let alike = |a: &Rows, b: &Rows| {
            a.source == b.source && product::joins(a.matrix.layout.of, b.matrix.layout.of)
        };
        for parts in self.parts.chunk_by(alike).flat_map(|parts| parts.chunks(MOST_PARTS)) {
            let pieces: Vec<Piece<'_>> = parts
                .iter()
                .map(|part| {
                    let (to, row) = (step.place(&part.out), part.matrix.layout.row);
                    let part_of = Part {
                        weights: part.matrix.at() + (part.first * row) as u64,
                        bias: part.bias.as_ref().map_or(0, |bias| bias.at()),
                        out: to.at,
                        row_bytes: short(row),
                        rows: short(part.width),
                        out_stride: to.stride,
                        expert_rows: short(part.stride),
                        ..Default::default()
                    };
                    Piece { matrix: &part.matrix, part: part_of }
                })
                .collect();
            let given = (parts[0].source, step.count(self.route.rows));
            product::launch(step, &pieces, given, (1.0, parameters::Place::default()), mode, out);
        }
    }
}
