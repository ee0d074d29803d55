//! The matrices of each row's chosen experts: each choice reads its expert's matrix.

use super::product::{self, MOST_PARTS, Mode, Piece};
use crate::device::Matrix;
use crate::driver::{Buffer, Launch};
use crate::parameters::{self, Part};
use crate::session::compile::{Compiler, Source, all_apart, apart, divided, same_rows};
use crate::session::step::{Node, Step, index, short};
use crate::session::values::Place;
use apr_sdk::{Error, Result};
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
    out: Place,
}

struct ExpertLinear {
    route: Place,
    experts: u32,
    used: u32,
    is_shared: bool,
    parts: Vec<Rows>,
}

pub(super) fn compile(operation: &apr_sdk::ExpertLinear, compiler: &mut Compiler<'_>) -> Result<()> {
    let (experts, used) = (index(operation.experts), index(operation.used));
    if experts == 0 || used == 0 || used > experts {
        return Err(Error::invalid_argument(format!("cannot choose {used} of {experts} experts")));
    }
    let x = compiler.place(&operation.x)?;
    let route = compiler.place_of(&operation.route, 2 * used, "the route")?;
    same_rows(&[&x, &route])?;
    let is_shared = operation.shared_input;
    let given = if is_shared { x.width } else { divided(x.width, operation.used, "choices")? };
    let (mut parts, mut outs) = (Vec::new(), Vec::new());
    for part in &operation.parts {
        let out = compiler.place(&part.out)?;
        same_rows(&[&x, &out])?;
        apart(&out, &x, "the input")?;
        apart(&out, &route, "the route")?;
        let width = divided(out.width, operation.used, "choices")?;
        let matrix = compiler.matrix(part.weight)?;
        let (all, columns) = (matrix.layout.rows, matrix.layout.columns);
        let (stride, first) = (all / experts, index(part.first_row));
        if !all.is_multiple_of(experts)
            || columns != given
            || first.checked_add(width).is_none_or(|end| end > stride)
        {
            return Err(Error::invalid_argument(format!(
                "a matrix of {all} x {columns} does not hold {width} rows from {first} on of {given} elements for \
                 each of {experts} experts"
            )));
        }
        let bias = part.bias.map(|bias| expert_bias(compiler, bias, experts, width)).transpose()?;
        let source = compiler.activations(&x, if is_shared { 1 } else { used }, &matrix, true);
        outs.push(out);
        parts.push(Rows { matrix, stride, first, width, bias, source, out });
    }
    all_apart(&outs)?;
    outs.iter().for_each(|out| compiler.written(out));
    let (experts, used) = (operation.experts, operation.used);
    compiler.push(ExpertLinear { route, experts, used, is_shared, parts });
    Ok(())
}

/// The rows of a bias, one after the other.
fn expert_bias(
    compiler: &mut Compiler<'_>,
    weight: u32,
    experts: usize,
    width: usize,
) -> Result<Arc<Buffer>> {
    let layout = &compiler.matrix(weight)?.layout;
    if (layout.rows, layout.columns) != (experts, width) {
        return Err(Error::invalid_argument(format!(
            "the bias has {} x {} elements instead of {experts} x {width}",
            layout.rows, layout.columns
        )));
    }
    compiler.floats(weight)
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
