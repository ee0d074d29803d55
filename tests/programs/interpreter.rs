//! Runs programs slowly and plainly, to say what they mean: one sequence, one step, sums in F64. It shares nothing with any
//! backend.

use apr_sdk::{
    Activation, Attention, BinaryKind, ExpertScore, Mask, Norm, NormKind, Operation, Pooling, Program, Rope,
    RopeStyle, RowIndex, RowsOf, Slice, State, UnaryKind, WeightPart,
};

/// A weight: rows of F32.
pub struct Matrix {
    pub columns: usize,
    pub data: Vec<f32>,
}

impl Matrix {
    fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..][..self.columns]
    }

    fn rows(&self) -> usize {
        self.data.len() / self.columns
    }
}

fn at(number: u32) -> usize {
    number as usize
}

/// Values of a step.
struct Step<'a> {
    program: &'a Program,
    weights: &'a [Matrix],
    ids: &'a [u32],
    outputs: &'a [usize],
    values: Vec<Vec<f32>>,
    /// Keys and values of each state, position by position.
    caches: Vec<Vec<(Vec<f32>, Vec<f32>)>>,
}

/// Runs a program over the tokens of one text; returns the rows of `output`, one after the other.
pub fn run(program: &Program, weights: &[Matrix], ids: &[u32], outputs: &[usize], output: u32) -> Vec<f32> {
    let rows = |of: RowsOf| if of == RowsOf::OUTPUTS { outputs.len() } else { ids.len() };
    let values = program.values.iter().map(|value| vec![f32::NAN; at(value.width) * rows(value.rows)]);
    let caches = program.states.iter().map(|_| Vec::new());
    let mut step =
        Step { program, weights, ids, outputs, values: values.collect(), caches: caches.collect() };
    for operation in &program.operations {
        step.operation(operation);
    }
    step.values.swap_remove(at(output))
}

impl Step<'_> {
    fn rows(&self, slice: Slice) -> usize {
        self.values[at(slice.value)].len() / at(self.program.values[at(slice.value)].width)
    }

    fn get(&self, slice: Slice, row: usize) -> Vec<f32> {
        let width = at(self.program.values[at(slice.value)].width);
        assert!(at(slice.first + slice.width) <= width, "{slice:?} of {width}");
        self.values[at(slice.value)][row * width + at(slice.first)..][..at(slice.width)].to_vec()
    }

    fn set(&mut self, slice: Slice, row: usize, data: &[f32]) {
        let width = at(self.program.values[at(slice.value)].width);
        assert_eq!(data.len(), at(slice.width));
        self.values[at(slice.value)][row * width + at(slice.first)..][..data.len()].copy_from_slice(data);
    }

    fn vector(&self, weight: u32) -> &[f32] {
        assert_eq!(self.weights[at(weight)].rows(), 1, "a vector is one row");
        self.weights[at(weight)].row(0)
    }

    /// Makes each row of `out` from its number.
    fn each(&mut self, out: Slice, make: impl Fn(&Self, usize) -> Vec<f32>) {
        for row in 0..self.rows(out) {
            let made = make(self, row);
            self.set(out, row, &made);
        }
    }

    fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Embed(op) => self.each(op.out, |step, row| {
                let index = match op.index {
                    RowIndex::TOKEN => step.ids[row],
                    RowIndex::POSITION => row as u32,
                    _ => 0,
                };
                let table = &step.weights[at(op.table)];
                table.row(at(index + op.offset)).iter().map(|x| x * op.scale).collect()
            }),
            Operation::Norm(op) => self.each(op.out, |step, row| step.norm(op, &step.get(op.x, row))),
            Operation::Linear(op) => {
                // All parts read before any is written.
                let made: Vec<Vec<Vec<f32>>> = op
                    .parts
                    .iter()
                    .map(|part| {
                        (0..self.rows(part.out))
                            .map(|row| {
                                let mut made =
                                    self.product(part, 0, at(part.out.width), &self.get(op.x, row));
                                made.iter_mut().for_each(|x| *x *= op.scale);
                                if let Some(residual) = op.residual {
                                    made.iter_mut().zip(self.get(residual, row)).for_each(|(x, r)| *x += r);
                                }
                                made
                            })
                            .collect()
                    })
                    .collect();
                for (part, rows) in op.parts.iter().zip(made) {
                    rows.iter().enumerate().for_each(|(row, made)| self.set(part.out, row, made));
                }
            }
            Operation::Activate(op) => self.each(op.out, |step, row| {
                let up = op.up.map(|up| step.get(up, row));
                let gate = step.get(op.gate, row);
                let made = gate.iter().enumerate().map(|(at, x)| {
                    let x = activation(op.kind, f64::from(*x));
                    (x * up.as_ref().map_or(1.0, |up| f64::from(up[at]))) as f32
                });
                made.collect()
            }),
            Operation::Rope(op) => self.each(op.out, |step, row| rotated(op, &step.get(op.x, row), row)),
            Operation::Append(op) => {
                for row in 0..self.ids.len() {
                    let pair = (self.get(op.key, row), self.get(op.value.unwrap(), row));
                    self.caches[at(op.state)].push(pair);
                }
            }
            Operation::Attention(op) => self.each(op.out, |step, row| step.attention(op, row)),
            Operation::Route(op) => self.each(op.out, |step, row| {
                assert!(op.bias.is_none() && op.groups == 1, "not in the families of these tests");
                let scores: Vec<f64> = step.get(op.scores, row).iter().map(|x| f64::from(*x)).collect();
                let used = at(op.out.width) / 2;
                let weights = match op.score {
                    ExpertScore::SOFTMAX => softmax(&scores),
                    ExpertScore::SIGMOID => scores.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
                    _ => scores.clone(),
                };
                let mut order: Vec<usize> = (0..scores.len()).collect();
                order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
                order.truncate(used);
                let mut chosen: Vec<f64> = order.iter().map(|expert| weights[*expert]).collect();
                if op.score == ExpertScore::SOFTMAX_OF_CHOSEN {
                    chosen = softmax(&chosen);
                }
                let sum = if op.normalize { chosen.iter().sum() } else { 1.0 };
                let experts = order.iter().map(|expert| *expert as f32);
                experts.chain(chosen.iter().map(|w| (w / sum * f64::from(op.scale)) as f32)).collect()
            }),
            Operation::ExpertLinear(op) => {
                let used = at(op.used);
                for part in &op.parts {
                    let width = at(part.out.width) / used;
                    self.each(part.out, |step, row| {
                        let (x, route) = (step.get(op.x, row), step.get(op.route, row));
                        let columns = if op.shared_input { x.len() } else { x.len() / used };
                        let per_expert = step.weights[at(part.weight)].rows() / at(op.experts);
                        let one = |slot: usize| {
                            let x = if op.shared_input { &x[..] } else { &x[slot * columns..][..columns] };
                            step.product(part, route[slot] as usize * per_expert, width, x)
                        };
                        (0..used).flat_map(one).collect()
                    });
                }
            }
            Operation::Combine(op) => self.each(op.out, |step, row| {
                let (x, route, used) = (step.get(op.x, row), step.get(op.route, row), at(op.used));
                let width = x.len() / used;
                let residual = op.residual.map(|residual| step.get(residual, row));
                let sum = |at: usize| {
                    let parts =
                        (0..used).map(|slot| f64::from(x[slot * width + at]) * f64::from(route[used + slot]));
                    (parts.sum::<f64>() + residual.as_ref().map_or(0.0, |r| f64::from(r[at]))) as f32
                };
                (0..width).map(sum).collect()
            }),
            Operation::Binary(op) => self.each(op.out, |step, row| {
                let (a, b) = (step.get(op.a, row), step.get(op.b, row));
                let pairs = a.iter().enumerate().map(|(at, a)| (*a, b[if b.len() == 1 { 0 } else { at }]));
                pairs
                    .map(|(a, b)| match op.kind {
                        BinaryKind::ADD => a + b,
                        BinaryKind::MULTIPLY => a * b,
                        _ => a - b,
                    })
                    .collect()
            }),
            Operation::Unary(op) => self.each(op.out, |step, row| {
                let one = |x: f32| match op.kind {
                    UnaryKind::AFFINE => op.a * x + op.b,
                    UnaryKind::SOFT_CAP => (f64::from(op.a) * (f64::from(x) / f64::from(op.a)).tanh()) as f32,
                    UnaryKind::CLAMP => x.clamp(op.a, op.b),
                    _ => (1.0 / (1.0 + (-f64::from(x)).exp())) as f32,
                };
                step.get(op.x, row).into_iter().map(one).collect()
            }),
            Operation::Pool(op) => self.each(op.out, |step, row| {
                assert!(op.kind == Pooling::OUTPUTS && !op.normalize, "not in these tests");
                step.get(op.x, step.outputs[row])
            }),
            Operation::Sample(_) => {}
            other => panic!("{other:?} is not in these tests"),
        }
    }

    /// Rows of a part's matrix from `first` on times x, plus the bias.
    fn product(&self, part: &WeightPart, first: usize, width: usize, x: &[f32]) -> Vec<f32> {
        let matrix = &self.weights[at(part.weight)];
        assert_eq!(matrix.columns, x.len(), "columns of weight {}", part.weight);
        let dot = |row: usize| -> f64 {
            matrix
                .row(first + at(part.first_row) + row)
                .iter()
                .zip(x)
                .map(|(w, x)| f64::from(*w) * f64::from(*x))
                .sum()
        };
        let bias = part.bias.map(|bias| self.vector(bias));
        let made = (0..width).map(|row| (dot(row) + bias.map_or(0.0, |bias| f64::from(bias[row]))) as f32);
        made.collect()
    }

    fn norm(&self, op: &Norm, x: &[f32]) -> Vec<f32> {
        let width = x.len() / at(op.heads);
        let gain = op.gain.map(|gain| self.vector(gain));
        let bias = op.bias.map(|bias| self.vector(bias));
        let of = |vector: Option<&[f32]>, at: usize, none: f64| {
            vector
                .map_or(none, |vector| f64::from(vector[if vector.len() == width { at % width } else { at }]))
        };
        let mut made = Vec::new();
        for (head, part) in x.chunks_exact(width).enumerate() {
            let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / width as f64;
            let middle = match op.kind {
                NormKind::LAYER => mean(&mut part.iter().map(|x| f64::from(*x))),
                _ => 0.0,
            };
            let square = mean(&mut part.iter().map(|x| (f64::from(*x) - middle).powi(2)));
            let root = (square + f64::from(op.epsilon)).sqrt();
            made.extend(part.iter().enumerate().map(|(at, x)| {
                let at = head * width + at;
                ((f64::from(*x) - middle) / root * of(gain, at, 1.0) + of(bias, at, 0.0)) as f32
            }));
        }
        made
    }

    fn attention(&self, op: &Attention, row: usize) -> Vec<f32> {
        let State::Paged(state) = &self.program.states[at(op.state)] else { panic!("not a cache") };
        let (cache, heads) = (&self.caches[at(op.state)], at(op.heads));
        let (key, value, key_heads) = (at(state.key), at(state.value), at(state.heads));
        let queries = self.get(op.query, row);
        let mut made = Vec::new();
        for head in 0..heads {
            let query = &queries[head * key..][..key];
            let group = head / (heads / key_heads);
            let sees = |position: usize| match op.mask {
                Mask::FULL => true,
                Mask::CAUSAL => position <= row,
                Mask::WINDOW => position <= row && row - position < at(op.window),
                other => panic!("{other:?} is not in these tests"),
            };
            let seen: Vec<usize> = (0..cache.len()).filter(|position| sees(*position)).collect();
            let score = |position: &usize| {
                let keys = &cache[*position].0[group * key..][..key];
                let dot: f64 = query.iter().zip(keys).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                let mut score = dot * f64::from(op.scale);
                if op.soft_cap > 0.0 {
                    score = f64::from(op.soft_cap) * (score / f64::from(op.soft_cap)).tanh();
                }
                let slope = op.slopes.get(head).map_or(0.0, |slope| f64::from(*slope));
                score - slope * (row as f64 - *position as f64).abs()
            };
            let weights = softmax(&seen.iter().map(score).collect::<Vec<_>>());
            let sum = |at: usize| {
                let parts = seen.iter().zip(&weights);
                let parts = parts.map(|(p, w)| w * f64::from(cache[*p].1[group * value + at]));
                parts.sum::<f64>() as f32
            };
            made.extend((0..value).map(sum));
        }
        made
    }
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn rotated(op: &Rope, x: &[f32], position: usize) -> Vec<f32> {
    let mut made = x.to_vec();
    let (width, pairs) = (x.len() / at(op.heads), op.frequencies.len());
    for head in 0..at(op.heads) {
        let first = head * width + at(op.first);
        for (pair, frequency) in op.frequencies.iter().enumerate() {
            let (a, b) = match op.style {
                RopeStyle::HALF => (first + pair, first + pairs + pair),
                _ => (first + 2 * pair, first + 2 * pair + 1),
            };
            let (sin, cos) = (position as f64 * f64::from(*frequency)).sin_cos();
            let (sin, cos) = (sin * f64::from(op.magnitude), cos * f64::from(op.magnitude));
            let (u, v) = (f64::from(x[a]), f64::from(x[b]));
            made[a] = (u * cos - v * sin) as f32;
            made[b] = (u * sin + v * cos) as f32;
        }
    }
    made
}

fn activation(kind: Activation, x: f64) -> f64 {
    match kind {
        Activation::SILU => x / (1.0 + (-x).exp()),
        Activation::GELU_ERF => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Activation::GELU_TANH => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::RELU => x.max(0.0),
        other => panic!("{other:?} is not in these tests"),
    }
}

/// The error function: its series near 0, the continued fraction of its complement beyond.
fn erf(x: f64) -> f64 {
    if x.abs() < 2.5 {
        let mut power = x;
        let terms = (0..60).map(|n| {
            let term = power / f64::from(2 * n + 1);
            power *= -x * x / f64::from(n + 1);
            term
        });
        return 2.0 / std::f64::consts::PI.sqrt() * terms.sum::<f64>();
    }
    let fraction = (1..=80).rev().fold(x.abs(), |inner, n| x.abs() + f64::from(n) / 2.0 / inner);
    x.signum() * (1.0 - (-x * x).exp() / std::f64::consts::PI.sqrt() / fraction)
}
