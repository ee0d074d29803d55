//! A program for people: a line for each operation, with the values that it reads and writes.

use super::WeightOf;
use apr_sdk::{Operation, Program, RopeStyle, RowsOf, Slice, State, UnaryKind, WeightPart};
use std::fmt::Write;

/// A program as text. `weights` are what it calls its weights; a number without one is listed as it is.
pub fn listing(program: &Program, weights: &[WeightOf]) -> String {
    let lister = Lister { program, weights };
    let mut out = String::new();
    // Writing to a text cannot fail.
    for (number, value) in program.values.iter().enumerate() {
        let of = if value.rows == RowsOf::OUTPUTS { " for each output" } else { "" };
        let _ = writeln!(out, "v{number}: {}{of}", value.width);
    }
    for (number, state) in program.states.iter().enumerate() {
        let _ = match state {
            State::Paged(paged) => writeln!(
                out,
                "s{number}: {} heads, keys of {}, values of {}, {}{}",
                paged.heads,
                paged.key,
                paged.value,
                paged.dtype,
                if paged.window > 0 { format!(", window {}", paged.window) } else { String::new() }
            ),
            State::Fixed(fixed) => writeln!(out, "s{number}: {:?}", fixed.shape),
            other => writeln!(out, "s{number}: {other:?}"),
        };
    }
    for operation in &program.operations {
        let _ = writeln!(out, "{:<13} {}", operation.code().0.name(), lister.operation(operation));
    }
    out
}

struct Lister<'a> {
    program: &'a Program,
    weights: &'a [WeightOf],
}

impl Lister<'_> {
    /// A value, with its part where it is not the whole.
    fn slice(&self, slice: Slice) -> String {
        let whole = usize::try_from(slice.value).ok().and_then(|at| self.program.values.get(at));
        if slice.first == 0 && whole.is_some_and(|whole| whole.width == slice.width) {
            return format!("v{}", slice.value);
        }
        format!("v{}[{}..{}]", slice.value, slice.first, slice.first.saturating_add(slice.width))
    }

    fn weight(&self, number: u32) -> String {
        match usize::try_from(number).ok().and_then(|at| self.weights.get(at)) {
            Some(WeightOf::Tensor(name)) => name.clone(),
            Some(WeightOf::Literal { columns, .. }) => format!("{columns} numbers"),
            None => format!("w{number}"),
        }
    }

    fn maybe(&self, name: &str, weight: Option<u32>) -> String {
        weight.map_or_else(String::new, |weight| format!(", {name} {}", self.weight(weight)))
    }

    fn parts(&self, parts: &[WeightPart]) -> String {
        let mut listed = Vec::new();
        for part in parts {
            let bias = part.bias.map_or_else(String::new, |bias| format!(" + {}", self.weight(bias)));
            let first =
                if part.first_row > 0 { format!(" from row {}", part.first_row) } else { String::new() };
            listed.push(format!("{}{first}{bias} -> {}", self.weight(part.weight), self.slice(part.out)));
        }
        listed.join("; ")
    }

    fn plus(&self, residual: Option<Slice>) -> String {
        residual.map_or_else(String::new, |x| format!(" + {}", self.slice(x)))
    }

    fn operation(&self, operation: &Operation) -> String {
        let v = |slice: Slice| self.slice(slice);
        match operation {
            Operation::Embed(op) => {
                let at = if op.offset > 0 { format!(" + {}", op.offset) } else { String::new() };
                let table = self.weight(op.table);
                format!("{table} by {}{at}{} -> {}", op.index.name(), times(op.scale), v(op.out))
            }
            Operation::Norm(op) => {
                let heads = if op.heads > 1 { format!(", {} heads", op.heads) } else { String::new() };
                let gain = self.maybe("gain", op.gain);
                let bias = self.maybe("bias", op.bias);
                let form = format!("{}, epsilon {}{heads}{gain}{bias}", op.kind.name(), op.epsilon);
                format!("{} -> {}, {form}", v(op.x), v(op.out))
            }
            Operation::Linear(op) => {
                let residual = self.plus(op.residual);
                format!("{} by {}{}{residual}", v(op.x), self.parts(&op.parts), times(op.scale))
            }
            Operation::HeadLinear(op) => {
                format!("{} by {} -> {}, {} heads", v(op.x), self.weight(op.weight), v(op.out), op.heads)
            }
            Operation::Activate(op) => {
                let up = op.up.map_or_else(String::new, |up| format!(" x {}", v(up)));
                let bounds = match op.limit > 0.0 {
                    true => format!(", alpha {}, limit {}", op.alpha, op.limit),
                    false => String::new(),
                };
                format!("{}({}){up} -> {}{bounds}", op.kind.name(), v(op.gate), v(op.out))
            }
            Operation::Rope(op) => {
                let style = if op.style == RopeStyle::HALF { "halves" } else { "neighbours" };
                let first = if op.first > 0 { format!(" from {}", op.first) } else { String::new() };
                let turns = op.frequencies.len() * 2;
                let magnitude = times(op.magnitude);
                let last = op.frequencies.last().copied().unwrap_or_default();
                format!(
                    "{} -> {}, {} heads, {turns} elements{first}, {style}, down to {last:e}{magnitude}",
                    v(op.x),
                    v(op.out),
                    op.heads
                )
            }
            Operation::Append(op) => {
                let value = op.value.map_or_else(|| "views of keys".to_owned(), v);
                format!("{}, {value} -> s{}", v(op.key), op.state)
            }
            Operation::Attention(op) => {
                let window = if op.window > 0 { format!(" {}", op.window) } else { String::new() };
                let cap = if op.soft_cap > 0.0 { format!(", cap {}", op.soft_cap) } else { String::new() };
                let slopes = if op.slopes.is_empty() { "" } else { ", slopes" };
                format!(
                    "{} over s{} -> {}, {} heads, {}{window}, scale {}{cap}{slopes}{}",
                    v(op.query),
                    op.state,
                    v(op.out),
                    op.heads,
                    op.mask.name(),
                    op.scale,
                    self.maybe("sinks", op.sinks)
                )
            }
            Operation::Route(op) => {
                let normalize = if op.normalize { ", normalized" } else { "" };
                let groups = if op.groups > 1 { format!(", {} groups", op.groups) } else { String::new() };
                format!(
                    "{} -> {}, {}{normalize}{}{groups}{}",
                    v(op.scores),
                    v(op.out),
                    op.score.name(),
                    times(op.scale),
                    self.maybe("bias", op.bias)
                )
            }
            Operation::ExpertLinear(op) => {
                let parts = self.parts(&op.parts);
                format!("{} by {} of {} ({}) {parts}", v(op.x), op.used, op.experts, v(op.route))
            }
            Operation::Combine(op) => {
                format!("{} by {}{} -> {}", v(op.x), v(op.route), self.plus(op.residual), v(op.out))
            }
            Operation::Binary(op) => format!("{} {} {} -> {}", op.kind.name(), v(op.a), v(op.b), v(op.out)),
            Operation::Unary(op) => {
                let numbers = match op.kind {
                    UnaryKind::SIGMOID => String::new(),
                    UnaryKind::SOFT_CAP => format!(", {}", op.a),
                    _ => format!(", {} {}", op.a, op.b),
                };
                format!("{} {} -> {}{numbers}", op.kind.name(), v(op.x), v(op.out))
            }
            Operation::Pool(op) => {
                let normalize = if op.normalize { ", normalized" } else { "" };
                format!("{} {} -> {}{normalize}", op.kind.name(), v(op.x), v(op.out))
            }
            Operation::Measure(op) => format!("{} -> {}", v(op.x), v(op.out)),
            Operation::Sample(op) => v(op.logits),
            other => format!("{other:?}"),
        }
    }
}

/// A factor, unless it is 1.
fn times(scale: f32) -> String {
    if (scale - 1.0).abs() > 0.0 { format!(" x {scale}") } else { String::new() }
}
