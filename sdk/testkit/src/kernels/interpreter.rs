//! A plain interpreter of programs, in double precision: every operation by its definition, one row after the other.

use super::judge::ensure;
use super::setup::Floats;
use apr_sdk::{
    Activate, Activation, Append, Attention, Batch, Binary, BinaryKind, Combine, DType, Embed, Error,
    ExpertLinear, ExpertScore, HeadLinear, Linear, Mask, Measure, Norm, NormKind, Operation, PagedState,
    Pool, Pooling, Program, Result, Rope, RopeStyle, Route, RowIndex, RowsOf, Slice, State, Unary, UnaryKind,
    half,
};

type Position = (Vec<f64>, Vec<f64>);

/// A program with its states. The program must hold together: what a backend refuses, this may stumble over.
pub struct Interpreter<'a> {
    program: &'a Program,
    weights: &'a [Floats],
    /// By state and sequence, the key and value of each position.
    states: Vec<Vec<Vec<Position>>>,
    /// The rows of each value, as the last step left them.
    pub values: Vec<Vec<Vec<f64>>>,
    /// The last step's logits for each row that wanted output.
    pub logits: Vec<Vec<f64>>,
}

fn range(slice: &Slice) -> std::ops::Range<usize> {
    slice.first as usize..(slice.first + slice.width) as usize
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function by its series or its continued fraction.
fn erf(x: f64) -> f64 {
    if x.abs() < 3.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let fraction = (1..60).rev().fold(x.abs(), |below, n| x.abs() + f64::from(n) / 2.0 / below);
    (1.0 - (-x * x).exp() / fraction / std::f64::consts::PI.sqrt()).copysign(x)
}

fn softmax(scores: &mut [f64]) {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|x| *x /= sum);
}

/// A row of heads as a cache keeps it. The codes of Q8_0 are those of ggml's reference: elements times the inverse of
/// the scale as F32, halves away from zero.
fn cached(row: &[f64], width: usize, dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F16 => row.iter().map(|x| f16(*x as f32)).collect(),
        DType::Q8_0 => row
            .chunks(width)
            .flat_map(|head| head.chunks(32))
            .flat_map(|block| {
                let d = block.iter().fold(0f32, |most, x| most.max((*x as f32).abs())) / 127.0;
                block.iter().map(move |x| f64::from((*x as f32 * (1.0 / d)).round()) * f16(d))
            })
            .collect(),
        _ => row.to_vec(),
    }
}

/// A value as F16 keeps it.
fn f16(x: f32) -> f64 {
    f64::from(half::from_f16(half::to_f16(x)))
}

impl<'a> Interpreter<'a> {
    /// A program whose weights are given by their numbers, with room for some sequences.
    pub fn new(program: &'a Program, weights: &'a [Floats], sequences: usize) -> Self {
        let states = program.states.iter().map(|_| vec![Vec::new(); sequences]).collect();
        Interpreter { program, weights, states, values: Vec::new(), logits: Vec::new() }
    }

    fn vector(&self, weight: Option<u32>) -> Option<Vec<f64>> {
        weight.map(|weight| self.weights[weight as usize].data.iter().map(|x| f64::from(*x)).collect())
    }

    /// Number of rows of a value.
    fn rows(&self, slice: &Slice) -> usize {
        self.values[slice.value as usize].len()
    }

    fn get(&self, slice: &Slice, row: usize) -> Vec<f64> {
        self.values[slice.value as usize][row][range(slice)].to_vec()
    }

    fn set(&mut self, slice: &Slice, row: usize, x: &[f64]) {
        self.values[slice.value as usize][row][range(slice)].copy_from_slice(x);
    }

    fn product(&self, weight: u32, first: usize, count: usize, x: &[f64]) -> Vec<f64> {
        let matrix = &self.weights[weight as usize];
        let rows = (first..first + count).map(|row| matrix.row(row).iter());
        rows.map(|row| row.zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
    }

    /// The cache of keys and values that a program has by this number.
    fn cache(&self, state: u32) -> Result<PagedState> {
        match self.program.states.get(state as usize) {
            Some(State::Paged(state)) => Ok(*state),
            _ => Err(Error::unsupported(format!("state {state} is no cache of keys and values"))),
        }
    }

    /// Runs a step.
    ///
    /// # Errors
    /// Unsupported for an operation or a state without a definition here; Failed for positions with gaps.
    pub fn step(&mut self, batch: &Batch<'_>) -> Result<()> {
        let mut sequences: Vec<u32> = Vec::new();
        for sequence in batch.sequences() {
            if !sequences.contains(sequence) {
                sequences.push(*sequence);
            }
        }
        let program = self.program;
        let mut operations = program.operations.iter();
        let pooled = operations
            .any(|operation| matches!(operation, Operation::Pool(pool) if pool.kind != Pooling::OUTPUTS));
        let outputs = if pooled { sequences.len() } else { batch.outputs().len() };
        let values = self.program.values.iter().map(|spec| {
            let rows = if spec.rows == RowsOf::OUTPUTS { outputs } else { batch.ids().len() };
            vec![vec![0.0; spec.width as usize]; rows]
        });
        self.values = values.collect();
        self.logits.clear();
        program.operations.iter().try_for_each(|operation| self.operation(operation, batch, &sequences))
    }

    fn operation(&mut self, operation: &Operation, batch: &Batch<'_>, sequences: &[u32]) -> Result<()> {
        match operation {
            Operation::Embed(op) => self.embed(op, batch),
            Operation::Norm(op) => self.norm(op),
            Operation::Linear(op) => self.linear(op),
            Operation::HeadLinear(op) => self.head_linear(op),
            Operation::Activate(op) => self.activate(op),
            Operation::Rope(op) => self.rope(op, batch),
            Operation::Append(op) => self.append(op, batch)?,
            Operation::Attention(op) => self.attention(op, batch)?,
            Operation::Route(op) => self.route(op),
            Operation::ExpertLinear(op) => self.expert_linear(op),
            Operation::Combine(op) => self.combine(op),
            Operation::Binary(op) => self.binary(op),
            Operation::Unary(op) => self.unary(op),
            Operation::Pool(op) => self.pool(op, batch, sequences),
            Operation::Measure(op) => self.measure(op),
            Operation::Sample(op) => {
                self.logits = (0..self.rows(&op.logits)).map(|row| self.get(&op.logits, row)).collect();
            }
            _ => {
                let name = operation.code().0.name();
                return Err(Error::unsupported(format!("the interpreter does not know `{name}`")));
            }
        }
        Ok(())
    }

    fn embed(&mut self, op: &Embed, batch: &Batch<'_>) {
        for row in 0..self.rows(&op.out) {
            let index = match op.index {
                RowIndex::TOKEN => batch.ids()[row],
                RowIndex::POSITION => batch.positions()[row],
                _ => 0,
            };
            let width = op.out.width as usize;
            let x: Vec<f64> = match (batch.rows(), op.index) {
                (Some(given), RowIndex::TOKEN) => {
                    given[row * width..][..width].iter().map(|x| f64::from(*x)).collect()
                }
                _ => {
                    let from = self.weights[op.table as usize].row((index + op.offset) as usize);
                    from.iter().map(|x| f64::from(*x) * f64::from(op.scale)).collect()
                }
            };
            self.set(&op.out, row, &x);
        }
    }

    fn norm(&mut self, op: &Norm) {
        let gain = self.vector(op.gain);
        let bias = self.vector(op.bias);
        for row in 0..self.rows(&op.x) {
            let mut x = self.get(&op.x, row);
            let width = x.len() / op.heads as usize;
            for (head, x) in x.chunks_mut(width).enumerate() {
                let n = width as f64;
                let mean = if op.kind == NormKind::LAYER { x.iter().sum::<f64>() / n } else { 0.0 };
                let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
                for (i, x) in x.iter_mut().enumerate() {
                    // Gains and biases are those of one head, or of all.
                    let at = head * width + i;
                    let gain = gain.as_ref().map_or(1.0, |gain| gain[at % gain.len()]);
                    let bias = bias.as_ref().map_or(0.0, |bias| bias[at % bias.len()]);
                    *x = (*x - mean) / (variance + f64::from(op.epsilon)).sqrt();
                    *x = *x * gain + bias;
                }
            }
            self.set(&op.out, row, &x);
        }
    }

    fn linear(&mut self, op: &Linear) {
        for row in 0..self.rows(&op.x) {
            let x = self.get(&op.x, row);
            let residual = op.residual.as_ref().map(|residual| self.get(residual, row));
            for part in &op.parts {
                let mut y = self.product(part.weight, part.first_row as usize, part.out.width as usize, &x);
                let bias = self.vector(part.bias);
                for (i, y) in y.iter_mut().enumerate() {
                    *y += bias.as_ref().map_or(0.0, |bias| bias[i]);
                    *y *= f64::from(op.scale);
                    *y += residual.as_ref().map_or(0.0, |residual| residual[i]);
                }
                self.set(&part.out, row, &y);
            }
        }
    }

    fn head_linear(&mut self, op: &HeadLinear) {
        for row in 0..self.rows(&op.x) {
            let x = self.get(&op.x, row);
            let given = x.len() / op.heads as usize;
            let width = op.out.width as usize / op.heads as usize;
            let heads = x.chunks(given).enumerate();
            let y: Vec<f64> =
                heads.flat_map(|(head, x)| self.product(op.weight, head * width, width, x)).collect();
            self.set(&op.out, row, &y);
        }
    }

    fn activate(&mut self, op: &Activate) {
        for row in 0..self.rows(&op.gate) {
            let gate = self.get(&op.gate, row);
            let up = op.up.as_ref().map(|up| self.get(up, row));
            let alpha = f64::from(op.alpha);
            let limit = f64::from(op.limit);
            let y = gate.iter().enumerate().map(|(i, &x)| {
                let up = up.as_ref().map_or(1.0, |up| up[i]);
                up * match op.kind {
                    Activation::SILU => x * sigmoid(x),
                    Activation::GELU_ERF => x * 0.5 * (1.0 + erf(x / 2f64.sqrt())),
                    Activation::GELU_TANH => {
                        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                        x * 0.5 * (1.0 + inner.tanh())
                    }
                    Activation::GELU_QUICK => x * sigmoid(1.702 * x),
                    Activation::RELU => x.max(0.0),
                    Activation::RELU_SQUARED => x.max(0.0).powi(2),
                    Activation::SIGMOID => sigmoid(x),
                    Activation::TANH => x.tanh(),
                    _ => {
                        let g = x.min(limit);
                        return g * sigmoid(alpha * g) * (up.clamp(-limit, limit) + 1.0);
                    }
                }
            });
            let y: Vec<f64> = y.collect();
            self.set(&op.out, row, &y);
        }
    }

    fn rope(&mut self, op: &Rope, batch: &Batch<'_>) {
        for row in 0..self.rows(&op.x) {
            let mut x = self.get(&op.x, row);
            let width = x.len() / op.heads as usize;
            let pairs = op.frequencies.len();
            for head in x.chunks_mut(width) {
                for (i, frequency) in op.frequencies.iter().enumerate() {
                    let first = op.first as usize;
                    let (a, b) = match op.style {
                        RopeStyle::HALF => (first + i, first + i + pairs),
                        _ => (first + 2 * i, first + 2 * i + 1),
                    };
                    let angle = f64::from(batch.positions()[row] as f32 * frequency);
                    let (sin, cos) = angle.sin_cos();
                    let m = f64::from(op.magnitude);
                    (head[a], head[b]) =
                        (m * (head[a] * cos - head[b] * sin), m * (head[b] * cos + head[a] * sin));
                }
            }
            self.set(&op.out, row, &x);
        }
    }

    fn append(&mut self, op: &Append, batch: &Batch<'_>) -> Result<()> {
        let state = self.cache(op.state)?;
        for row in 0..self.rows(&op.key) {
            let key = cached(&self.get(&op.key, row), state.key as usize, state.dtype);
            let value = op.value.as_ref().map(|value| self.get(value, row)).unwrap_or_default();
            let value = cached(&value, state.value as usize, state.dtype);
            let positions = &mut self.states[op.state as usize][batch.sequences()[row] as usize];
            let position = batch.positions()[row] as usize;
            let next = positions.len();
            ensure(position == next, || format!("row {row} has position {position}, not {next}"))?;
            positions.push((key, value));
        }
        Ok(())
    }

    fn expert_linear(&mut self, op: &ExpertLinear) {
        for row in 0..self.rows(&op.x) {
            let x = self.get(&op.x, row);
            let route = self.get(&op.route, row);
            let used = op.used as usize;
            for part in &op.parts {
                let width = part.out.width as usize / used;
                let mut y = Vec::new();
                for (choice, expert) in route[..used].iter().enumerate() {
                    let expert = *expert as usize;
                    let given = x.len() / used;
                    let x = if op.shared_input { &x[..] } else { &x[choice * given..][..given] };
                    let stride = self.weights[part.weight as usize].rows / op.experts as usize;
                    let first = expert * stride + part.first_row as usize;
                    let bias = self.vector(part.bias);
                    for (i, product) in self.product(part.weight, first, width, x).iter().enumerate() {
                        y.push(product + bias.as_ref().map_or(0.0, |bias| bias[expert * width + i]));
                    }
                }
                self.set(&part.out, row, &y);
            }
        }
    }

    fn combine(&mut self, op: &Combine) {
        for row in 0..self.rows(&op.x) {
            let x = self.get(&op.x, row);
            let route = self.get(&op.route, row);
            let width = op.out.width as usize;
            let mut y = op.residual.as_ref().map_or(vec![0.0; width], |residual| self.get(residual, row));
            for (x, weight) in x.chunks(width).zip(&route[op.used as usize..]) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += x * weight);
            }
            self.set(&op.out, row, &y);
        }
    }

    fn binary(&mut self, op: &Binary) {
        for row in 0..self.rows(&op.a) {
            let mut y = self.get(&op.a, row);
            let b = self.get(&op.b, row);
            for (y, b) in y.iter_mut().zip(b.iter().cycle()) {
                match op.kind {
                    BinaryKind::ADD => *y += b,
                    BinaryKind::MULTIPLY => *y *= b,
                    _ => *y -= b,
                }
            }
            self.set(&op.out, row, &y);
        }
    }

    fn unary(&mut self, op: &Unary) {
        let a = f64::from(op.a);
        let b = f64::from(op.b);
        for row in 0..self.rows(&op.x) {
            let mut y = self.get(&op.x, row);
            for x in &mut y {
                *x = match op.kind {
                    UnaryKind::AFFINE => a * *x + b,
                    UnaryKind::SOFT_CAP => a * (*x / a).tanh(),
                    UnaryKind::CLAMP => x.clamp(a, b),
                    _ => sigmoid(*x),
                };
            }
            self.set(&op.out, row, &y);
        }
    }

    fn pool(&mut self, op: &Pool, batch: &Batch<'_>, sequences: &[u32]) {
        for output in 0..self.rows(&op.out) {
            let mut rows: Vec<usize> = (0..batch.ids().len()).collect();
            rows.retain(|row| sequences.get(output) == Some(&batch.sequences()[*row]));
            match op.kind {
                Pooling::OUTPUTS => rows = vec![batch.outputs()[output] as usize],
                Pooling::FIRST => rows.truncate(1),
                Pooling::LAST => drop(rows.drain(..rows.len().saturating_sub(1))),
                _ => {}
            }
            let mut y = vec![0.0; op.x.width as usize];
            for row in &rows {
                y.iter_mut().zip(self.get(&op.x, *row)).for_each(|(y, x)| *y += x / rows.len() as f64);
            }
            if op.normalize {
                let norm = y.iter().map(|y| y * y).sum::<f64>().sqrt();
                y.iter_mut().for_each(|y| *y /= norm);
            }
            self.set(&op.out, output, &y);
        }
    }

    fn measure(&mut self, op: &Measure) {
        for row in 0..self.rows(&op.x) {
            let mut x = self.get(&op.x, row);
            let zeros = x.iter().filter(|x| **x == 0.0).count();
            let all = x.len();
            x.retain(|x| x.is_finite());
            let figures = [
                x.iter().copied().fold(f64::INFINITY, f64::min),
                x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                x.iter().sum(),
                x.iter().map(|x| x * x).sum(),
                zeros as f64,
                (all - x.len()) as f64,
            ];
            self.set(&op.out, row, &figures);
        }
    }

    fn attention(&mut self, op: &Attention, batch: &Batch<'_>) -> Result<()> {
        let state = self.cache(op.state)?;
        let key = state.key as usize;
        let value = state.value as usize;
        let sinks = self.vector(op.sinks);
        for row in 0..batch.ids().len() {
            let query = self.get(&op.query, row);
            let positions = &self.states[op.state as usize][batch.sequences()[row] as usize];
            let own = batch.positions()[row] as usize;
            let window = op.window as usize;
            let mut out = Vec::new();
            for head in 0..op.heads as usize {
                let key_head = head / (op.heads as usize / state.heads as usize);
                let seen = (0..positions.len()).filter(|&at| match op.mask {
                    Mask::FULL => true,
                    Mask::WINDOW => at <= own && own - at < window,
                    Mask::CHUNK => at <= own && at / window == own / window,
                    Mask::PREFIX => at <= own || at < window,
                    _ => at <= own,
                });
                let seen: Vec<usize> = seen.collect();
                let scores = seen.iter().map(|at| {
                    let k = &positions[*at].0[key_head * key..][..key];
                    let q = &query[head * key..][..key];
                    let mut score = q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() * f64::from(op.scale);
                    if op.soft_cap != 0.0 {
                        score = f64::from(op.soft_cap) * (score / f64::from(op.soft_cap)).tanh();
                    }
                    let slope = op.slopes.get(head).copied().unwrap_or(0.0);
                    score - f64::from(slope) * (own as f64 - *at as f64).abs()
                });
                let mut weights: Vec<f64> = scores.collect();
                weights.extend(sinks.as_ref().map(|sinks| sinks[head]));
                softmax(&mut weights);
                let mut sum = vec![0.0; value];
                for (at, weight) in seen.iter().zip(&weights) {
                    let (k, v) = &positions[*at];
                    let v = if v.is_empty() {
                        &k[key_head * key + op.value_first as usize..][..value]
                    } else {
                        &v[key_head * value..][..value]
                    };
                    sum.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v);
                }
                out.extend(sum);
            }
            self.set(&op.out, row, &out);
        }
        Ok(())
    }

    fn route(&mut self, op: &Route) {
        let bias = self.vector(op.bias);
        for row in 0..self.rows(&op.scores) {
            let mut weights = self.get(&op.scores, row);
            match op.score {
                ExpertScore::SOFTMAX => softmax(&mut weights),
                ExpertScore::SIGMOID => weights.iter_mut().for_each(|x| *x = sigmoid(*x)),
                _ => {}
            }
            let mut by: Vec<f64> = weights.clone();
            if let Some(bias) = &bias {
                by.iter_mut().zip(bias).for_each(|(by, bias)| *by += bias);
            }
            if op.groups_used > 0 {
                let size = by.len() / op.groups as usize;
                let taken = if op.score == ExpertScore::SIGMOID { 2 } else { 1 };
                let mut quality: Vec<(f64, usize)> = Vec::new();
                for (number, group) in by.chunks(size).enumerate() {
                    let mut group = group.to_vec();
                    group.sort_by(|a, b| b.total_cmp(a));
                    quality.push((group.iter().take(taken).sum(), number));
                }
                quality.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, group) in &quality[op.groups_used as usize..] {
                    by[group * size..(group + 1) * size].fill(f64::NEG_INFINITY);
                }
            }
            let used = op.out.width as usize / 2;
            let mut order: Vec<usize> = (0..by.len()).collect();
            order.sort_by(|a, b| by[*b].total_cmp(&by[*a]));
            order.truncate(used);
            let mut chosen: Vec<f64> = order.iter().map(|expert| weights[*expert]).collect();
            if op.score == ExpertScore::SOFTMAX_OF_CHOSEN {
                softmax(&mut chosen);
            }
            if op.normalize {
                let sum: f64 = chosen.iter().sum();
                chosen.iter_mut().for_each(|x| *x /= sum);
            }
            let mut out: Vec<f64> = order.iter().map(|expert| *expert as f64).collect();
            out.extend(chosen.iter().map(|x| x * f64::from(op.scale)));
            self.set(&op.out, row, &out);
        }
    }
}
