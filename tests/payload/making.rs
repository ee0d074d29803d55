//! Tensors made of others: every op against a plain loop over the same elements, from every kind of payload.

use crate::arrival::expected;
use crate::casts::slowly_cast;
use crate::{alone, bytes, host, noise, registry, view, write};
use apr_engine::convert::Plan;
use apr_engine::convert::{Make, Translated};
use apr_engine::expression::{Expression, PlannedTensor, concat, unit};
use apr_engine::open::OpenedModel;
use apr_engine::planned::request::VerifyMode;
use apr_host::convert::{ConvertOptions, Converted, convert_with, plan_with};
use apr_host::host::Host;
use apr_sdk::{DType, Error, Payload, Tensor as Planned};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};
use std::path::Path;

/// Numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// The numbers below `n` in any order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..n).collect();
        (0..n).map(|_| left.swap_remove(self.below(left.len() as u64) as usize)).collect()
    }

    /// `n` as a product of a few numbers.
    pub fn factors(&mut self, mut n: u64) -> Vec<u64> {
        let mut out = Vec::new();
        while n > 1 {
            let divisors: Vec<u64> = (2..=n.min(64)).filter(|d| n.is_multiple_of(*d)).chain([n]).collect();
            let one = divisors[self.below(divisors.len() as u64) as usize];
            out.push(one);
            n /= one;
        }
        out
    }
}

/// A run of a tensor to be made.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A box of a tensor: its first unit, and size and stride of each dimension.
    Box { tensor: usize, start: u64, dims: Vec<(u64, u64)> },
    /// Computed bytes.
    Bytes(Vec<u8>),
}

/// What a tensor is made of: pieces one after another, and what is added to each element.
#[derive(Clone, Debug)]
pub struct Making {
    pub pieces: Vec<Piece>,
    pub dtype: DType,
    pub add: Option<f32>,
    pub words: Vec<String>,
}

impl Making {
    fn expression(&self, opened: &OpenedModel, row_len: u64) -> Result<Expression, Error> {
        let part = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => Ok(Expression::fill(self.dtype, bytes)),
            Piece::Box { tensor, start, dims } => {
                Expression::boxed(*tensor, &opened.model.tensors[*tensor], *start, dims)
            }
        };
        let all = concat(self.pieces.iter().map(part).collect::<Result<_, _>>()?);
        Ok(self.add.map_or(all.clone(), |c| all.changed(None, c, row_len)))
    }

    /// The tensor of this name, type and shape.
    pub fn planned(
        &self,
        opened: &OpenedModel,
        (name, dtype, shape): (&str, DType, &[u64]),
    ) -> Result<PlannedTensor, Error> {
        let (name, shape, payload) = (name.to_owned(), shape.to_vec(), Payload::Sequential);
        let tensor = Planned { name, dtype: self.dtype, shape, payload };
        let expression = self.expression(opened, tensor.shape.last().copied().unwrap_or(1));
        let expression = expression.map_err(|e| e.tensor(&tensor.name))?;
        let mut planned = PlannedTensor::new(tensor, expression);
        planned.words.clone_from(&self.words);
        planned.retype(dtype, registry());
        Ok(planned)
    }
}

/// A tensor to be made: name, dtype, shape, how.
pub type Wanted = (&'static str, DType, Vec<u64>, Making);

/// Makes the model of these tensors and nothing else.
pub fn remade(wanted: &[Wanted]) -> impl Fn(&OpenedModel) -> Result<Vec<PlannedTensor>, Error> + '_ {
    |opened| {
        let planned = |(name, dtype, shape, making): &Wanted| making.planned(opened, (name, *dtype, shape));
        wanted.iter().map(planned).collect()
    }
}

/// A conversion of tensors that are made so.
pub fn convert_as(host: &Host, options: &ConvertOptions, make: &Make<'_>) -> Result<Converted, Error> {
    convert_with(host, options, &|selected| Translated::made_of(selected, make))
}

/// What it would do.
pub fn plan_as(host: &Host, options: &ConvertOptions, make: &Make<'_>) -> Result<Plan, Error> {
    plan_with(host, options, &|selected| Translated::made_of(selected, make))
}

/// What is under the output's name after a conversion with so many threads.
pub fn made(input: &Path, scratch: &Scratch, threads: usize, make: &Make<'_>) -> Vec<u8> {
    let output = scratch.at("out.kinds");
    let mut o = options(input, &output);
    (o.force, o.verify) = (true, VerifyMode::Full);
    convert_as(&host(threads), &o, make).unwrap();
    std::fs::read(&output).unwrap()
}

/// These pieces, as they are.
pub fn making(dtype: DType, pieces: Vec<Piece>) -> Making {
    Making { pieces, dtype, add: None, words: Vec::new() }
}

/// A box of tensor number `tensor` whose dimensions, of these sizes, come in another order: `order[0]` outermost.
pub fn turned(tensor: usize, sizes: &[u64], order: &[usize]) -> Piece {
    let step = |axis: usize| sizes[axis + 1..].iter().product::<u64>();
    Piece::Box { tensor, start: 0, dims: order.iter().map(|&axis| (sizes[axis], step(axis))).collect() }
}

/// The same elements one by one.
pub fn slowly(payloads: &[Vec<u8>], making: &Making) -> Vec<u8> {
    let width = unit(making.dtype).unwrap().block_bytes as usize;
    let mut out = Vec::new();
    for piece in &making.pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Box { tensor, start, dims } => {
                for mut number in 0..dims.iter().map(|(size, _)| size).product::<u64>() {
                    let mut at = *start;
                    for (size, stride) in dims.iter().rev() {
                        at += number % size * stride;
                        number /= size;
                    }
                    out.extend_from_slice(&payloads[*tensor][at as usize * width..][..width]);
                }
            }
        }
    }
    out
}

/// A tensor of each kind of payload, all of one dtype.
fn sources(dice: &mut Dice, dtype: DType) -> Vec<Tensor> {
    let info = dtype.info().unwrap();
    let (elements, width) = (u64::from(info.block_elements), u64::from(info.block_bytes));
    let mut out = Vec::new();
    for (number, kind) in
        [Kind::Plain, Kind::View, Kind::BigView, Kind::Blocks, Kind::Stream].into_iter().enumerate()
    {
        let mut shape: Vec<u64> = (0..1 + dice.below(4)).map(|_| 1 + dice.below(9)).collect();
        let name = format!("t{number}");
        if matches!(kind, Kind::View | Kind::BigView) && elements == 1 {
            let order = dice.order(shape.len());
            out.push(view(&name, kind, dtype, &shape, &order));
            continue;
        }
        let len = shape.iter().product::<u64>() * width;
        *shape.last_mut().unwrap() *= elements;
        let mut tensor = Tensor::new(&name, kind, dtype, &shape, noise(number as u32, len as usize));
        tensor.size = 1 + dice.below(200);
        out.push(tensor);
    }
    out
}

/// Any box of a tensor of so many units.
fn any_box(dice: &mut Dice, tensor: usize, units: u64) -> Piece {
    let sizes = dice.factors(units);
    let mut start = 0;
    let mut dims = Vec::new();
    for axis in dice.order(sizes.len()) {
        let step: u64 = sizes[axis + 1..].iter().product();
        // All of it, or some.
        let first = if dice.below(2) == 0 { 0 } else { dice.below(sizes[axis]) };
        let hop = 1 + dice.below(2);
        let size = if dice.below(2) == 0 && first == 0 {
            (sizes[axis], step)
        } else {
            (1 + dice.below((sizes[axis] - first).div_ceil(hop)), step * hop)
        };
        start += first * step;
        dims.push(size);
    }
    if dice.below(8) == 0 {
        dims.insert(0, (1 + dice.below(3), 0));
    }
    Piece::Box { tensor, start, dims }
}

#[test]
fn any_boxes_of_any_payload_are_what_a_loop_gives() {
    let _alone = alone();
    let mut dice = Dice(0x5eed);
    for round in 0..40 {
        for dtype in [DType::F32, DType::BF16, DType::U8, DType::Q4_0, DType::C64] {
            let scratch = Scratch::in_memory();
            let tensors = sources(&mut dice, dtype);
            let payloads: Vec<_> = tensors.iter().map(expected).collect();
            let info = dtype.info().unwrap();
            let units: Vec<_> =
                payloads.iter().map(|p| p.len() as u64 / u64::from(info.block_bytes)).collect();
            let wanted: Vec<Wanted> = ["one", "two", "three", "four", "five"]
                .into_iter()
                .map(|name| {
                    let mut pieces = Vec::new();
                    for _ in 0..1 + dice.below(4) {
                        let tensor = dice.below(5) as usize;
                        pieces.push(any_box(&mut dice, tensor, units[tensor]));
                    }
                    if dice.below(3) == 0 {
                        pieces.push(Piece::Bytes(noise(round, 3 * info.block_bytes as usize)));
                    }
                    let mut making = making(dtype, pieces);
                    let n = slowly(&payloads, &making).len() as u64 / u64::from(info.block_bytes);
                    let mut to = dtype;
                    if matches!(dtype, DType::F32 | DType::BF16) {
                        to = [dtype, DType::F32, DType::F16, DType::F64][dice.below(4) as usize];
                        making.add = [None, Some(1.0)][dice.below(2) as usize];
                    }
                    (name, to, vec![n * u64::from(info.block_elements)], making)
                })
                .collect();
            let each = |(_, to, _, making): &Wanted| slowly_cast(&payloads, making, *to).0;
            let want: Vec<u8> = wanted.iter().flat_map(each).collect();
            let input = write(&scratch, tensors);
            for threads in [1, 3] {
                let bytes = made(&input, &scratch, threads, &remade(&wanted));
                assert!(bytes.ends_with(&want), "round {round}, {dtype}, {threads} threads: {wanted:?}");
            }
            assert_eq!(scratch.names(), ["in.kinds", "out.kinds"]);
        }
    }
}

#[test]
fn large_boxes_of_any_payload_are_the_same_with_any_number_of_threads() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let sizes = [8, 2, 33, 4100];
    let shape = [528, 4100];
    let tensors = vec![
        view("plain", Kind::Plain, DType::F32, &shape, &[0, 1]),
        view("turned", Kind::View, DType::F32, &shape, &[1, 0]),
        view("big", Kind::BigView, DType::F32, &shape, &[0, 1]),
        Tensor::new("blocks", Kind::Blocks, DType::F32, &shape, noise(1, 4 * 528 * 4100)),
        Tensor::new("stream", Kind::Stream, DType::F32, &shape, noise(2, 4 * 528 * 4100)),
    ];
    let payloads: Vec<_> = tensors.iter().map(expected).collect();
    let names = ["plain", "turned", "big", "blocks", "stream"];
    let mut wanted: Vec<Wanted> = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let rows = making(DType::F32, vec![turned(number, &sizes, &[0, 2, 1, 3])]);
        wanted.push((name, DType::F32, shape.to_vec(), rows));
    }
    let stacked = (0..5).map(|number| turned(number, &shape, &[1, 0])).collect();
    wanted.push(("all", DType::F32, vec![5, 4100, 528], making(DType::F32, stacked)));
    let want: Vec<u8> = wanted.iter().flat_map(|(.., making)| slowly(&payloads, making)).collect();
    let input = write(&scratch, tensors);
    for threads in [1, 2, 7] {
        assert!(made(&input, &scratch, threads, &remade(&wanted)).ends_with(&want), "{threads}");
    }
}

#[test]
fn a_stack_of_128_experts_is_them_one_after_another() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let tensors: Vec<_> = (0..128).map(|n| bytes(&format!("e{n}"), Kind::Plain, 30_000 + 18, n)).collect();
    let want: Vec<u8> = tensors.iter().flat_map(|t| t.bytes.clone()).collect();
    let copies = (0..128).map(|n| turned(n, &[30_018], &[0])).collect();
    let mut making = making(DType::U8, copies);
    making.words = vec!["stack 128".to_owned()];
    let wanted = [("experts", DType::U8, vec![128, 30_018], making)];
    let input = write(&scratch, tensors);
    for threads in [1, 7] {
        assert!(made(&input, &scratch, threads, &remade(&wanted)).ends_with(&want));
    }
    let plan = plan_as(&host(2), &options(&input, &scratch.at("o.kinds")), &remade(&wanted)).unwrap();
    assert_eq!(plan.tensors[0].ops, ["stack 128"]);
}

#[test]
fn a_table_that_asks_for_what_is_not_there_is_refused() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let input = write(&scratch, vec![view("t", Kind::Plain, DType::F32, &[4, 5], &[0, 1])]);
    let mut cases: Vec<(&str, Wanted)> = Vec::new();
    let whole = || turned(0, &[4, 5], &[0, 1]);
    let boxed = |start, dims: &[(u64, u64)]| Piece::Box { tensor: 0, start, dims: dims.to_vec() };
    let f32s = |shape: &[u64], pieces| ("x", DType::F32, shape.to_vec(), making(DType::F32, pieces));
    cases.push(("past the end of `t`", f32s(&[4, 5], vec![boxed(1, &[(20, 1)])])));
    cases.push(("past the end of `t`", f32s(&[1], vec![boxed(u64::MAX, &[])])));
    cases.push(("past the end of `t`", f32s(&[2, 2], vec![boxed(0, &[(2, u64::MAX), (2, 1)])])));
    cases.push(("80 bytes of F32, but needs 160", f32s(&[8, 5], vec![whole()])));
    cases.push(("needs 80", f32s(&[20], vec![whole(), whole()])));
    cases.push(("needs 4", f32s(&[1], vec![boxed(0, &[(u64::MAX, 0), (u64::MAX, 0)])])));
    cases.push((
        "cannot convert from F32 to I32",
        ("x", DType::I32, vec![20], making(DType::I32, vec![whole()])),
    ));
    for (message, wanted) in cases {
        let o = options(&input, &scratch.at("out.kinds"));
        let error = convert_as(&host(2), &o, &remade(std::slice::from_ref(&wanted))).unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert_eq!(error.tensor_name(), Some("x"));
        assert_eq!(scratch.names(), ["in.kinds"]);
    }
}
