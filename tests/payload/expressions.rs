//! Random expressions over random shapes and types give what a naive evaluation of whole tensors gives: with one thread and
//! with two, from files and from memory.

use crate::arrival::expected;
use crate::making::{Dice, made};
use crate::{alone, host, registry, write};
use apr_engine::convert::{Translated, run};
use apr_engine::expression::{Expression, PlannedTensor, concat, unit};
use apr_engine::open::{Held, Listed, OpenedModel};
use apr_engine::registry::Registry;
use apr_engine::tiles::Memory;
use apr_engine::values::cast::CastKernel;
use apr_sdk::{DType, Error, Payload, Tensor as Planned};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};
use std::path::Path;
use std::sync::Arc;

/// Elements of every row: whole blocks of the types used here.
const ROW: u64 = 64;

/// An expression as it is asked for, before any constructor made something else of it.
#[derive(Clone, Debug)]
enum Asked {
    Tensor(usize),
    Fill(DType, Vec<u8>),
    Region(Box<Asked>, u64, Vec<(u64, u64)>),
    Concat(Vec<Asked>),
    Plus(Box<Asked>, f32),
    Typed(Box<Asked>, DType),
}

/// A whole tensor's type and bytes.
type Whole = (DType, Vec<u8>);

/// What the sources are, and who knows blocks.
struct World {
    tensors: Vec<Tensor>,
    payloads: Vec<Vec<u8>>,
}

impl World {
    /// The expression that the constructors make.
    fn built(&self, asked: &Asked, opened: &OpenedModel) -> Result<Expression, Error> {
        Ok(match asked {
            Asked::Tensor(n) => Expression::of(*n, &opened.model.tensors[*n])?,
            Asked::Fill(dtype, bytes) => Expression::fill(*dtype, bytes),
            Asked::Region(of, start, dims) => self.built(of, opened)?.region(*start, dims)?,
            Asked::Concat(parts) => {
                concat(parts.iter().map(|part| self.built(part, opened)).collect::<Result<_, _>>()?)
            }
            Asked::Plus(of, c) => self.built(of, opened)?.changed(None, *c, ROW),
            Asked::Typed(of, to) => self.built(of, opened)?.typed(*to, ROW, registry(), None),
        })
    }

    /// What it should be, all at once.
    fn naive(&self, asked: &Asked) -> Whole {
        match asked {
            Asked::Tensor(n) => (self.tensors[*n].dtype, self.payloads[*n].clone()),
            Asked::Fill(dtype, bytes) => (*dtype, bytes.clone()),
            Asked::Region(of, start, dims) => {
                let (dtype, bytes) = self.naive(of);
                let each = unit(dtype).unwrap().block_bytes as usize;
                let mut out = Vec::new();
                for mut number in 0..dims.iter().map(|(size, _)| size).product::<u64>() {
                    let mut at = *start;
                    for (size, stride) in dims.iter().rev() {
                        at += number % size * stride;
                        number /= size;
                    }
                    out.extend_from_slice(&bytes[at as usize * each..][..each]);
                }
                (dtype, out)
            }
            Asked::Concat(parts) => {
                let parts: Vec<Whole> = parts.iter().map(|part| self.naive(part)).collect();
                (parts[0].0, parts.into_iter().flat_map(|(_, bytes)| bytes).collect())
            }
            Asked::Plus(of, c) => {
                let values = self.floats(&self.naive(of));
                (DType::F32, values.iter().flat_map(|value| (value + c).to_le_bytes()).collect())
            }
            Asked::Typed(of, to) => {
                let whole = self.naive(of);
                if whole.0 == *to {
                    return whole;
                }
                let cast = |from: DType, bytes: &[u8]| {
                    let cast = CastKernel::new(from, *to, None).unwrap().unwrap();
                    let mut out = vec![0; cast.after(bytes.len() as u64) as usize];
                    cast.apply(bytes, &mut out);
                    (*to, out)
                };
                match (whole.0.is_block(), to.is_block()) {
                    (false, false) => cast(whole.0, &whole.1),
                    (_, false) => {
                        let bytes: Vec<u8> =
                            self.floats(&whole).iter().flat_map(|value| value.to_le_bytes()).collect();
                        if *to == DType::F32 { (*to, bytes) } else { cast(DType::F32, &bytes) }
                    }
                    (_, true) => {
                        let values = self.floats(&whole);
                        let info = to.info().unwrap();
                        let len = values.len() / info.block_elements as usize * info.block_bytes as usize;
                        let mut out = vec![0; len];
                        let quantizer = registry().quantizer_of(*to).unwrap();
                        quantizer.encode(*to, &values, ROW, None, &mut out).unwrap();
                        (*to, out)
                    }
                }
            }
        }
    }

    fn floats(&self, (dtype, bytes): &Whole) -> Vec<f32> {
        if dtype.is_block() {
            let info = dtype.info().unwrap();
            let n = bytes.len() / info.block_bytes as usize * info.block_elements as usize;
            let mut out = vec![0.0; n];
            registry().quantizer_of(*dtype).unwrap().decode(*dtype, bytes, ROW, &mut out).unwrap();
            return out;
        }
        let as_floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
        };
        match CastKernel::new(*dtype, DType::F32, None).unwrap() {
            None => as_floats(bytes),
            Some(cast) => {
                let mut out = vec![0; cast.after(bytes.len() as u64) as usize];
                cast.apply(bytes, &mut out);
                as_floats(&out)
            }
        }
    }

    fn units(&self, asked: &Asked) -> u64 {
        let (dtype, bytes) = self.naive(asked);
        bytes.len() as u64 / u64::from(unit(dtype).unwrap().block_bytes)
    }

    /// A box of whole rows in any order, or of any units.
    fn region(&self, dice: &mut Dice, of: Asked, rows_only: bool) -> Asked {
        let dtype = self.naive(&of).0;
        let units = self.units(&of);
        let row = if dtype.is_block() { ROW / u64::from(dtype.info().unwrap().block_elements) } else { ROW };
        let (each, count) = match rows_only && units.is_multiple_of(row) {
            true => (row, units / row),
            false => (1, units),
        };
        if count == 0 {
            return of;
        }
        let sizes = dice.factors(count);
        let (mut start, mut dims) = (0, Vec::new());
        for axis in dice.order(sizes.len()) {
            let step: u64 = sizes[axis + 1..].iter().product();
            let first = if dice.below(3) > 0 { 0 } else { dice.below(sizes[axis]) };
            let size = if first == 0 { sizes[axis] } else { 1 + dice.below(sizes[axis] - first) };
            start += first * step * each;
            dims.push((size, step * each));
        }
        if each > 1 {
            dims.push((each, 1));
        }
        Asked::Region(Box::new(of), start, dims)
    }

    /// Any expression; `None` where the dice ask for what does not exist.
    fn any(&self, dice: &mut Dice) -> Option<Asked> {
        let first = dice.below(self.tensors.len() as u64) as usize;
        let dtype = self.tensors[first].dtype;
        let to = [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0][dice.below(5) as usize];
        // Blocks are moved in whole rows.
        let to_rows = dtype.is_block() || to.is_block() || dice.below(2) == 0;
        let mut parts = vec![Asked::Tensor(first)];
        for (n, tensor) in self.tensors.iter().enumerate() {
            if tensor.dtype == dtype && n != first && dice.below(3) == 0 {
                parts.push(Asked::Tensor(n));
            }
        }
        if dtype == DType::F32 && dice.below(4) == 0 {
            let bytes = (0..ROW as u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
            parts.push(Asked::Fill(DType::F32, bytes));
        }
        let some = |dice: &mut Dice, of| if dice.below(2) == 0 { self.region(dice, of, to_rows) } else { of };
        let parts: Vec<Asked> = parts.into_iter().map(|part| some(dice, part)).collect();
        let is_whole = |one: &Asked| {
            let (dtype, bytes) = self.naive(one);
            let info = dtype.info().unwrap();
            let row = ROW / u64::from(info.block_elements) * u64::from(info.block_bytes);
            !bytes.is_empty() && (bytes.len() as u64).is_multiple_of(row)
        };
        let mut one = Asked::Concat(parts);
        one = some(dice, one);
        one = some(dice, one);
        // Integers are moved, and are no values.
        if dtype == DType::I8 {
            return is_whole(&one).then_some(one);
        }
        if dtype != DType::F64 && dice.below(3) == 0 && (!dtype.is_block() || is_whole(&one)) {
            one = Asked::Plus(Box::new(one), 1.0);
            one = some(dice, one);
        }
        if dice.below(4) > 0 && (is_whole(&one) || !to.is_block() && !dtype.is_block()) {
            one = Asked::Typed(Box::new(one), to);
            one = some(dice, one);
        }
        is_whole(&one).then_some(one)
    }
}

fn numbers(dice: &mut Dice, dtype: DType, n: usize, registry: &Registry) -> Vec<u8> {
    let values: Vec<f32> = (0..n).map(|_| dice.below(4001) as f32 / 64.0 - 31.0).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    match dtype {
        DType::F32 => bytes,
        DType::I8 => values.iter().map(|value| (*value as i8).cast_unsigned()).collect(),
        block if block.is_block() => {
            let info = block.info().unwrap();
            let mut out = vec![0; n / info.block_elements as usize * info.block_bytes as usize];
            let quantizer = registry.quantizer_of(block).unwrap();
            quantizer.encode(block, &values, ROW, None, &mut out).unwrap();
            out
        }
        float => {
            let cast = CastKernel::new(DType::F32, float, None).unwrap().unwrap();
            let mut out = vec![0; cast.after(bytes.len() as u64) as usize];
            cast.apply(&bytes, &mut out);
            out
        }
    }
}

fn world(dice: &mut Dice) -> World {
    let dtypes = [DType::F32, DType::F16, DType::BF16, DType::F64, DType::Q8_0, DType::I8];
    let kinds = [Kind::Plain, Kind::View, Kind::BigView, Kind::Blocks, Kind::Stream];
    let mut tensors = Vec::new();
    for n in 0..10 {
        let dtype = dtypes[dice.below(6) as usize];
        let mut kind = kinds[dice.below(5) as usize];
        let shape = [1 + dice.below(12), ROW];
        if dtype.is_block() && matches!(kind, Kind::View | Kind::BigView) {
            kind = Kind::Plain;
        }
        let bytes = numbers(dice, dtype, (shape[0] * ROW) as usize, registry());
        let mut tensor = Tensor::new(&format!("t{n}"), kind, dtype, &shape, bytes);
        if matches!(kind, Kind::View | Kind::BigView) {
            tensor.strides = if dice.below(2) == 0 { vec![1, shape[0]] } else { vec![ROW, 1] };
            if kind == Kind::BigView {
                let width = dtype.info().unwrap().block_bytes as usize;
                tensor.bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
        }
        tensor.size = 1 + dice.below(500);
        tensors.push(tensor);
    }
    let payloads = tensors.iter().map(expected).collect();
    World { tensors, payloads }
}

#[test]
fn random_expressions_give_what_whole_tensors_give() {
    let _alone = alone();
    let mut dice = Dice(0x0dd5_eed5);
    let (mut n_made, mut n_spooled) = (0, 0);
    for round in 0..200 {
        let world = world(&mut dice);
        let scratch = Scratch::in_memory();
        let asked: Vec<Asked> = (0..12).filter_map(|_| world.any(&mut dice)).collect();
        let input = write(&scratch, world.tensors.clone());
        let opened = apr_engine::open::open(&host(1), &input, &Default::default()).unwrap();
        for one in &asked {
            let expression = world.built(one, &opened).unwrap();
            n_spooled += usize::from(expression.is_spooled());
        }
        n_made += asked.len();
        if asked.is_empty() {
            continue;
        }
        let make = |opened: &OpenedModel| {
            let each = asked.iter().enumerate().map(|(n, one)| {
                let mut planned = planned(&world, one, &world.built(one, opened)?);
                planned.tensor.name = format!("x{n:02}");
                Ok(planned)
            });
            each.collect()
        };
        let want: Vec<u8> = asked.iter().flat_map(|one| world.naive(one).1).collect();
        for threads in [1, 2] {
            let bytes = made(&input, &scratch, threads, &make);
            assert!(bytes.ends_with(&want), "round {round}, {threads} threads: {asked:#?}");
            let bytes = from_memory(&input, threads, &make);
            assert!(bytes.ends_with(&want), "round {round}, {threads} threads, from memory: {asked:#?}");
        }
    }
    assert!(n_made > 1000 && n_spooled > 100, "{n_made} were made, {n_spooled} spooled");
}

fn planned(world: &World, asked: &Asked, expression: &Expression) -> PlannedTensor {
    let (dtype, bytes) = world.naive(asked);
    let info = dtype.info().unwrap();
    let elements = bytes.len() as u64 / u64::from(info.block_bytes) * u64::from(info.block_elements);
    let (name, shape) = ("x".to_owned(), vec![elements / ROW, ROW]);
    PlannedTensor::new(Planned { name, dtype, shape, payload: Payload::Sequential }, expression.clone())
}

/// The same from memory to memory.
fn from_memory(
    input: &Path,
    threads: usize,
    make: &dyn Fn(&OpenedModel) -> Result<Vec<PlannedTensor>, Error>,
) -> Vec<u8> {
    let mut listed = Listed::default();
    let held = Held(std::fs::read(input).unwrap().into());
    listed.files.insert("in.kinds".to_owned(), Arc::new(held));
    let mut host = host(threads);
    host.places = Arc::new(listed);
    let mut memory = None;
    let o = options(Path::new("in.kinds"), Path::new("out.kinds"));
    let (request, output) = (o.request(), apr_tests::unplaced(&host, &o).unwrap());
    run(&host, &request, output, &|selected| Translated::made_of(selected, make), &mut |laid_out| {
        let made = Memory::new(laid_out.layout.files.iter().map(|file| (file.name.as_str(), file.len)))?;
        memory = Some(made.clone());
        Ok(Box::new(made))
    })
    .unwrap();
    memory.unwrap().into_files().remove(0).1
}
