//! The checks of operations: that each fits the program around it.

mod kinds;
mod relations;

use crate::kernel::columns::{Columns, index};
use crate::kernel::matrix::WeightShape;
use crate::kernel::numbers::{Activation, Mask, Pooling, RowsOf, UnaryKind};
use crate::kernel::operations::{
    Activate, Append, Attention, Binary, Combine, Embed, ExpertLinear, HeadLinear, Linear, MEASURE_FIGURES,
    Measure, Norm, Operation, Pool, Rope, Route, Sample, Slice, Unary, WeightPart,
};
use crate::kernel::program::{PagedState, ValueSpec};
use crate::{Error, Result};
use relations::{all_apart, apart, of_batch, same_or_apart, same_rows};

/// The checks of a program on their way through its operations.
pub(super) struct Checks<'p> {
    values: &'p [ValueSpec],
    states: &'p [PagedState],
    weights: &'p [WeightShape],
    /// For each state: whether its values are parts of its keys; `None` while no operation stores any.
    views: Vec<Option<bool>>,
    is_by_row: bool,
    is_pooled: bool,
    is_sampled: bool,
}

impl<'p> Checks<'p> {
    pub(super) fn new(
        values: &'p [ValueSpec],
        states: &'p [PagedState],
        weights: &'p [WeightShape],
    ) -> Checks<'p> {
        let views = vec![None; states.len()];
        Checks { values, states, weights, views, is_by_row: false, is_pooled: false, is_sampled: false }
    }

    /// For each state: whether its values are parts of its keys; `None` if no operation stores any.
    pub(super) fn into_views(self) -> Vec<Option<bool>> {
        self.views
    }

    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Checks the next operation.
    pub(super) fn operation(&mut self, operation: &Operation) -> Result<()> {
        if self.is_sampled {
            return Err(Error::invalid_argument("the choice of tokens must be the last operation"));
        }
        operation.check_kinds()?;
        match operation {
            Operation::Embed(embed) => self.embed(embed),
            Operation::Norm(norm) => self.norm(norm),
            Operation::Linear(linear) => self.linear(linear),
            Operation::HeadLinear(linear) => self.head_linear(linear),
            Operation::Activate(activate) => self.activate(activate),
            Operation::Rope(rope) => self.rope(rope),
            Operation::Append(append) => self.append(append),
            Operation::Attention(attention) => self.attention(attention),
            Operation::Route(route) => self.route(route),
            Operation::ExpertLinear(linear) => self.expert_linear(linear),
            Operation::Combine(combine) => self.combine(combine),
            Operation::Binary(binary) => self.binary(binary),
            Operation::Unary(unary) => self.unary(unary),
            Operation::Pool(pool) => self.pool(pool),
            Operation::Measure(measure) => self.measure(measure),
            Operation::Sample(sample) => self.sample(sample),
        }
    }

    fn columns(&self, slice: &Slice) -> Result<Columns> {
        let [value, first, width] = [slice.value, slice.first, slice.width].map(index);
        let Some(spec) = self.values.get(value) else {
            return Err(Error::invalid_argument(format!("value {value} does not exist")));
        };
        let whole = index(spec.width);
        if width == 0 || first.checked_add(width).is_none_or(|end| end > whole) {
            return Err(Error::invalid_argument(format!(
                "elements {first} to {first} + {width} are out of range for value {value} of {whole} elements"
            )));
        }
        Ok(Columns { value, first, width, rows: spec.rows })
    }

    fn columns_of(&self, slice: &Slice, width: usize, what: &str) -> Result<Columns> {
        let columns = self.columns(slice)?;
        if columns.width != width {
            let is = columns.width;
            return Err(Error::invalid_argument(format!("{what} has {is} elements, expected {width}")));
        }
        Ok(columns)
    }

    fn optional(&self, slice: Option<&Slice>, width: usize, what: &str) -> Result<Option<Columns>> {
        slice.map(|slice| self.columns_of(slice, width, what)).transpose()
    }

    fn weight(&self, weight: u32) -> Result<WeightShape> {
        self.weights
            .get(index(weight))
            .copied()
            .ok_or_else(|| Error::invalid_argument(format!("weight {weight} does not exist")))
    }

    fn vector(&self, weight: Option<u32>, lengths: &[usize], what: &str) -> Result<()> {
        let Some(weight) = weight else { return Ok(()) };
        let WeightShape { rows, columns } = self.weight(weight)?;
        if rows == 1 && lengths.contains(&columns) {
            return Ok(());
        }
        let wanted: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        Err(Error::invalid_argument(format!(
            "{what} is a matrix of {rows} x {columns}, expected a vector of {} elements",
            wanted.join(" or ")
        )))
    }

    fn state(&self, state: u32) -> Result<PagedState> {
        self.states
            .get(index(state))
            .copied()
            .ok_or_else(|| Error::invalid_argument(format!("state {state} does not exist")))
    }

    fn embed(&self, embed: &Embed) -> Result<()> {
        let table = self.weight(embed.table)?;
        let out = self.columns_of(&embed.out, table.columns, "the result")?;
        if out.rows != RowsOf::BATCH {
            return Err(Error::invalid_argument("the result must have one row for each row of the batch"));
        }
        Ok(())
    }

    fn norm(&self, norm: &Norm) -> Result<()> {
        let x = self.columns(&norm.x)?;
        let out = self.columns_of(&norm.out, x.width, "the result")?;
        same_rows(&[&x, &out])?;
        same_or_apart(&out, &x, "the input")?;
        let width = divided(x.width, norm.heads, "heads")?;
        self.vector(norm.gain, &[x.width, width], "the gain")?;
        self.vector(norm.bias, &[x.width, width], "the bias")
    }

    fn linear(&self, linear: &Linear) -> Result<()> {
        let x = self.columns(&linear.x)?;
        let outs = linear.parts.iter().map(|part| self.columns(&part.out)).collect::<Result<Vec<_>>>()?;
        let Some(first) = outs.first() else {
            return Err(Error::invalid_argument("it has no matrix"));
        };
        for out in &outs {
            same_rows(&[&x, out])?;
            apart(out, &x, "the input")?;
        }
        all_apart(&outs)?;
        if let Some(residual) = self.optional(linear.residual.as_ref(), first.width, "the residual")? {
            if outs.len() > 1 {
                return Err(Error::invalid_argument(
                    "a residual can only be added to the result of a single matrix",
                ));
            }
            same_rows(&[&x, &residual])?;
            same_or_apart(first, &residual, "the residual")?;
        }
        linear.parts.iter().zip(&outs).try_for_each(|(part, out)| self.rows_of_matrix(part, &x, out))
    }

    fn rows_of_matrix(&self, part: &WeightPart, x: &Columns, out: &Columns) -> Result<()> {
        let WeightShape { rows, columns } = self.weight(part.weight)?;
        if columns != x.width {
            return Err(Error::invalid_argument(format!(
                "a matrix of {rows} x {columns} has an input of {} elements",
                x.width
            )));
        }
        let first = index(part.first_row);
        if first.checked_add(out.width).is_none_or(|end| end > rows) {
            return Err(Error::invalid_argument(format!(
                "{} rows from row {first} are out of range for a matrix of {rows} rows",
                out.width
            )));
        }
        self.vector(part.bias, &[out.width], "the bias")
    }

    fn head_linear(&self, linear: &HeadLinear) -> Result<()> {
        let x = self.columns(&linear.x)?;
        let out = self.columns(&linear.out)?;
        same_rows(&[&x, &out])?;
        apart(&out, &x, "the input")?;
        let given = divided(x.width, linear.heads, "heads")?;
        divided(out.width, linear.heads, "heads")?;
        let WeightShape { rows, columns } = self.weight(linear.weight)?;
        if rows != out.width || columns != given {
            return Err(Error::invalid_argument(format!(
                "the matrix has {rows} x {columns} elements, expected {} x {given}",
                out.width
            )));
        }
        Ok(())
    }

    fn activate(&self, activate: &Activate) -> Result<()> {
        let gate = self.columns(&activate.gate)?;
        let out = self.columns_of(&activate.out, gate.width, "the result")?;
        let up = self.optional(activate.up.as_ref(), gate.width, "the factor")?;
        same_rows(&[&gate, &out, up.as_ref().unwrap_or(&out)])?;
        same_or_apart(&out, &gate, "the argument")?;
        if let Some(up) = &up {
            return same_or_apart(&out, up, "the factor");
        }
        if activate.kind == Activation::SWIGLU_CLAMPED {
            return Err(Error::invalid_argument("a clamped SwiGLU requires a factor"));
        }
        Ok(())
    }

    fn rope(&self, rope: &Rope) -> Result<()> {
        let x = self.columns(&rope.x)?;
        let out = self.columns_of(&rope.out, x.width, "the result")?;
        of_batch(&[&x, &out])?;
        same_or_apart(&out, &x, "the input")?;
        let width = divided(x.width, rope.heads, "heads")?;
        let first = index(rope.first);
        let pairs = rope.frequencies.len();
        if pairs == 0 || first.checked_add(2 * pairs).is_none_or(|end| end > width) {
            return Err(Error::invalid_argument(format!(
                "{pairs} pairs from element {first} are out of range for a head of {width} elements"
            )));
        }
        Ok(())
    }

    fn append(&mut self, append: &Append) -> Result<()> {
        let state = self.state(append.state)?;
        let key = self.columns_of(&append.key, heads_of(state.heads, state.key), "the key")?;
        let width = heads_of(state.heads, state.value);
        let value = self.optional(append.value.as_ref(), width, "the value")?;
        of_batch(&[&key, value.as_ref().unwrap_or(&key)])?;
        let views = &mut self.views[index(append.state)];
        if views.is_some() {
            return Err(Error::invalid_argument("another operation stores the keys of this state"));
        }
        *views = Some(value.is_none());
        Ok(())
    }

    fn attention(&self, attention: &Attention) -> Result<()> {
        let state = self.state(attention.state)?;
        let heads = attention.heads;
        let key_heads = state.heads;
        if heads == 0 || heads % key_heads != 0 {
            return Err(Error::invalid_argument(format!("{heads} heads cannot share {key_heads} key heads")));
        }
        let query = self.columns_of(&attention.query, heads_of(heads, state.key), "the query")?;
        let out = self.columns_of(&attention.out, heads_of(heads, state.value), "the result")?;
        of_batch(&[&query, &out])?;
        apart(&out, &query, "the query")?;
        let Some(views) = self.views[index(attention.state)] else {
            return Err(Error::invalid_argument("no earlier operation stores the keys of its state"));
        };
        let view = attention.value_first;
        if views && view.checked_add(state.value).is_none_or(|end| end > state.key) {
            return Err(Error::invalid_argument(format!(
                "values of {} elements from element {view} are out of range for keys of {}",
                state.value, state.key
            )));
        }
        let slopes = attention.slopes.len();
        if ![0, index(heads)].contains(&slopes) {
            return Err(Error::invalid_argument(format!(
                "expected {heads} slopes, one per head, found {slopes}"
            )));
        }
        if attention.window == 0 && [Mask::WINDOW, Mask::CHUNK].contains(&attention.mask) {
            let mask = attention.mask.name();
            return Err(Error::invalid_argument(format!("the mask `{mask}` requires a window")));
        }
        self.vector(attention.sinks, &[index(heads)], "the sinks")
    }

    fn route(&self, route: &Route) -> Result<()> {
        let scores = self.columns(&route.scores)?;
        let out = self.columns(&route.out)?;
        same_rows(&[&scores, &out])?;
        apart(&out, &scores, "the scores")?;
        let used = out.width / 2;
        let size = divided(scores.width, route.groups, "groups")?;
        let [groups, groups_used] = [route.groups, route.groups_used].map(index);
        let reachable = if groups_used == 0 { scores.width } else { groups_used.min(groups) * size };
        if out.width % 2 != 0 || used == 0 || used > reachable || groups_used > groups {
            return Err(Error::invalid_argument(format!(
                "a result of {} elements does not match {} experts in {groups_used} of {groups} groups",
                out.width, scores.width
            )));
        }
        self.vector(route.bias, &[scores.width], "the bias")
    }

    fn expert_linear(&self, linear: &ExpertLinear) -> Result<()> {
        let [experts, used] = [linear.experts, linear.used].map(index);
        if experts == 0 || used == 0 || used > experts {
            return Err(Error::invalid_argument(format!("cannot choose {used} of {experts} experts")));
        }
        let x = self.columns(&linear.x)?;
        let route = self.columns_of(&linear.route, used.saturating_mul(2), "the route")?;
        same_rows(&[&x, &route])?;
        let given = if linear.shared_input { x.width } else { divided(x.width, linear.used, "choices")? };
        let mut outs = Vec::new();
        for part in &linear.parts {
            let out = self.columns(&part.out)?;
            same_rows(&[&x, &out])?;
            apart(&out, &x, "the input")?;
            apart(&out, &route, "the route")?;
            let width = divided(out.width, linear.used, "choices")?;
            self.rows_of_experts(part, experts, given, width)?;
            outs.push(out);
        }
        all_apart(&outs)
    }

    fn rows_of_experts(&self, part: &WeightPart, experts: usize, given: usize, width: usize) -> Result<()> {
        let WeightShape { rows, columns } = self.weight(part.weight)?;
        let stride = rows / experts;
        let first = index(part.first_row);
        if rows % experts != 0 || columns != given || first.checked_add(width).is_none_or(|end| end > stride)
        {
            return Err(Error::invalid_argument(format!(
                "a matrix of {rows} x {columns} does not contain {width} rows from row {first} of {given} \
                 elements for each of {experts} experts"
            )));
        }
        let Some(bias) = part.bias else { return Ok(()) };
        let bias = self.weight(bias)?;
        if bias.rows != experts || bias.columns != width {
            return Err(Error::invalid_argument(format!(
                "the bias has {} x {} elements, expected {experts} x {width}",
                bias.rows, bias.columns
            )));
        }
        Ok(())
    }

    fn combine(&self, combine: &Combine) -> Result<()> {
        let x = self.columns(&combine.x)?;
        let width = divided(x.width, combine.used, "choices")?;
        let route = self.columns_of(&combine.route, index(combine.used).saturating_mul(2), "the route")?;
        let out = self.columns_of(&combine.out, width, "the result")?;
        let residual = self.optional(combine.residual.as_ref(), width, "the residual")?;
        same_rows(&[&x, &route, &out, residual.as_ref().unwrap_or(&out)])?;
        apart(&out, &x, "the input")?;
        apart(&out, &route, "the route")?;
        residual.map_or(Ok(()), |residual| same_or_apart(&out, &residual, "the residual"))
    }

    fn binary(&self, binary: &Binary) -> Result<()> {
        let a = self.columns(&binary.a)?;
        let b = self.columns(&binary.b)?;
        let out = self.columns_of(&binary.out, a.width, "the result")?;
        if b.width != 1 {
            self.columns_of(&binary.b, a.width, "the second")?;
        }
        same_rows(&[&a, &b, &out])?;
        same_or_apart(&out, &a, "the first")?;
        same_or_apart(&out, &b, "the second")
    }

    fn unary(&self, unary: &Unary) -> Result<()> {
        let x = self.columns(&unary.x)?;
        let out = self.columns_of(&unary.out, x.width, "the result")?;
        same_rows(&[&x, &out])?;
        same_or_apart(&out, &x, "the input")?;
        if unary.kind == UnaryKind::SOFT_CAP && (unary.a == 0.0 || unary.a.is_nan()) {
            return Err(Error::invalid_argument(format!("{} is not a valid bound for a soft cap", unary.a)));
        }
        Ok(())
    }

    fn pool(&mut self, pool: &Pool) -> Result<()> {
        let x = self.columns(&pool.x)?;
        let out = self.columns_of(&pool.out, x.width, "the result")?;
        if x.rows != RowsOf::BATCH || out.rows != RowsOf::OUTPUTS {
            return Err(Error::invalid_argument("it can only make rows of outputs from rows of the batch"));
        }
        if pool.kind == Pooling::OUTPUTS {
            self.is_by_row = true;
        } else {
            self.is_pooled = true;
        }
        if self.is_by_row && self.is_pooled {
            return Err(Error::unsupported("one program cannot have both outputs by row and by sequence"));
        }
        Ok(())
    }

    fn measure(&self, measure: &Measure) -> Result<()> {
        let x = self.columns(&measure.x)?;
        let out = self.columns_of(&measure.out, index(MEASURE_FIGURES), "the result")?;
        same_rows(&[&x, &out])?;
        apart(&out, &x, "the input")
    }

    fn sample(&mut self, sample: &Sample) -> Result<()> {
        self.columns(&sample.logits)?;
        self.is_sampled = true;
        Ok(())
    }
}

/// Number of elements of all heads.
fn heads_of(heads: u32, width: u32) -> usize {
    index(heads).saturating_mul(index(width))
}

/// Number of elements of each of so many equal parts.
fn divided(width: usize, parts: u32, what: &str) -> Result<usize> {
    let count = index(parts);
    if count == 0 || width % count != 0 {
        return Err(Error::invalid_argument(format!(
            "{width} elements cannot be divided evenly into {parts} {what}"
        )));
    }
    Ok(width / count)
}

#[cfg(test)]
mod tests;
