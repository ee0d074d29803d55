//! The Jidoka conditions: compares a result with its source. A NaN on both sides is not a finding.

use crate::architecture::differing;
use crate::diff::computations::{Computation, computations};
use crate::diff::side_by_side::side_by_side;
use crate::diff::sides::{Side, Sides};
use crate::diff::tokenizers::Tokenizers;
use crate::diff::{Rounding, by_name};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::registry::Registry;
use crate::rosetta::facts::FACTS;
pub use crate::rosetta::facts::Stated;
use crate::values::numbers::{CHUNK, Numbers};
use apr_sdk::tokenizer::Difference;
use apr_sdk::{DType, Error, Packing, Result, escape};
use serde::Serialize;
use std::collections::HashMap;

/// Elements compared at once.
const PIECE: usize = 1 << 16;

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `ROSETTA-NAN-001` and so on.
    pub code: &'static str,
    /// The tensor, if it is about one.
    pub tensor: Option<String>,
    /// The difference, with both sides.
    pub message: String,
}

/// A fact that may be stated by both models.
#[derive(Clone, Debug, Serialize)]
pub struct FactPair {
    /// The fact's name.
    pub name: &'static str,
    /// The source's statement.
    pub source: Option<Stated>,
    /// The result's statement.
    pub result: Option<Stated>,
}

impl FactPair {
    /// Returns whether both sides state it, and agree.
    pub fn agrees(&self) -> bool {
        self.source.as_ref().zip(self.result.as_ref()).is_some_and(|(a, b)| a.value == b.value)
    }
}

/// The comparison of a result with its source.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// Conditions that do not hold, in source order.
    pub findings: Vec<Finding>,
    /// Number of tensors that both have.
    pub tensors: usize,
    /// Number of those with equal type, shape and bytes.
    pub identical: usize,
    /// Number of those whose values are the source's, rounded to nearest in a narrower float type.
    pub rounded: usize,
    /// The largest absolute difference between two values; 0 if all bytes are equal.
    pub max_abs_diff: f64,
    /// The tensor that contains it.
    pub worst: Option<String>,
    /// Architecture, sizes, vocabulary: compared if both state them.
    pub facts: Vec<FactPair>,
    /// Assumptions, and content that was not compared.
    pub notes: Vec<String>,
}

/// Compares a result with its source. With a `tolerance`, values may differ by that much; without one,
/// payloads of the same type must have the same bytes, others the same values. Of two models in different
/// dialects, one is read in the other's if a table translates it; then values rounded to nearest in a
/// narrower float type are equal.
///
/// # Errors
/// Unsupported if values must be compared but cannot be read; any error from reading.
pub fn compare(
    engine: &Engine,
    source: &OpenedModel,
    result: &OpenedModel,
    tolerance: Option<f64>,
) -> Result<Comparison> {
    let mut sides = Sides::in_one_dialect(engine, source, result)?;
    let pairs = by_name(&engine.registry, &mut sides, &[])?.pairs;
    [source, result].iter().try_for_each(|opened| opened.will_read_payload())?;
    let mut comparison = Comparison { notes: sides.notes.clone(), ..Comparison::default() };
    let [n, m] = [&sides.a, &sides.b].map(|side| side.n_tensors());
    if n != m {
        comparison.find(
            "ROSETTA-COUNT-001",
            None,
            format!("expected {n} tensors as in the source, found {m}"),
        );
    }
    let there: HashMap<usize, usize> = pairs.iter().map(|pair| (pair.a, pair.b)).collect();
    for (number, tensor) in sides.a.tensors().enumerate() {
        let name = &sides.a.own_name(number).to_owned();
        let Some(&at) = there.get(&number) else {
            let message = "it is missing from the result".to_owned();
            comparison.find("ROSETTA-COUNT-001", Some(name), message);
            continue;
        };
        comparison.tensors += 1;
        let have = sides.b.tensor(at);
        if have.shape != tensor.shape {
            let message = format!("{:?} became {:?}", tensor.shape, have.shape);
            comparison.find("ROSETTA-DIM-001", Some(name), message);
            continue;
        }
        let pair = measure(engine, &sides, number, at)?;
        comparison.judge(name, tensor.dtype, have.dtype, &pair, tolerance)?;
    }
    for (name, was, is) in &sides.differing {
        let known = FACTS.iter().find(|fact| fact.is_called(name));
        let message = format!("`{}` was {was}, but is {is} in the result", escape(name, 120));
        comparison.find(known.map_or("ROSETTA-ARCH-001", |fact| fact.code), None, message);
    }
    if !sides.translated && source.model.dialect == result.model.dialect {
        // The other facts are compared below, whatever their keys.
        for (name, was, is) in differing(engine, &source.model, &result.model)? {
            if !FACTS.iter().any(|fact| fact.is_called(&name)) {
                let message = format!("`{}` was {was}, but is {is} in the result", escape(&name, 120));
                comparison.find("ROSETTA-ARCH-001", None, message);
            }
        }
    }
    computations(engine, source, result)?.iter().for_each(|found| comparison.compare_computation(found));
    comparison.compare_facts(source, result, sides.translated)?;
    comparison.compare_tokenizers(&Tokenizers::compared(engine, source, result)?);
    [source, result].iter().try_for_each(|opened| opened.files.refuse_changed())?;
    Ok(comparison)
}

fn measure(engine: &Engine, sides: &Sides<'_>, a: usize, b: usize) -> Result<Measured> {
    let from = sides.a.tensor(a).dtype;
    let to = sides.b.tensor(b).dtype;
    let mut measured = Measured::new(from, to, &engine.registry);
    if sides.translated {
        measured.rounding = Rounding::new(from, to);
    }
    // If a type's values cannot be read, only the bytes can be compared, and only if both types are the same.
    if from != to && measured.values.is_none() {
        return Ok(measured);
    }
    let widths = measured.widths();
    let sizes = [widths.0 * PIECE, widths.1 * PIECE];
    if sides.translated || sides.a.is_retyped(a) || sides.b.is_retyped(b) {
        in_rows(engine, [(&sides.a, a), (&sides.b, b)], sizes, &mut |a, b| {
            measured.add(a, b);
            Ok(())
        })?;
    } else {
        side_by_side(engine, (sides.a.opened, a), (sides.b.opened, b), sizes, &mut |_, a, b| {
            measured.add(a, b);
            Ok(())
        })?;
    }
    Ok(measured)
}

/// Receives corresponding pieces of both sides.
type Each<'e> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'e;

/// Passes two tensors, one of them read in the other's dialect, to `each`, in order, in pieces of `sizes`
/// bytes.
fn in_rows(
    engine: &Engine,
    of: [(&Side<'_>, usize); 2],
    sizes: [usize; 2],
    each: &mut Each<'_>,
) -> Result<()> {
    let [a, b] = of;
    let registry = &engine.registry;
    let [Some(of_a), Some(of_b)] = [a.0.random(a.1, registry)?, b.0.random(b.1, registry)?] else {
        let (Some(one), Some(two)) = (a.0.in_order(a.1), b.0.in_order(b.1)) else {
            let message = "its payload can only be read sequentially, and its rows are in a different order \
                           in the other model";
            let error = Error::unsupported(message).tensor(a.0.own_name(a.1));
            return Err(error.hint("convert both to uncompressed files and verify those"));
        };
        return side_by_side(engine, (a.0.opened, one), (b.0.opened, two), sizes, &mut |_, a, b| each(a, b));
    };
    let lens = [a.0.tensor(a.1).payload_len()?, b.0.tensor(b.1).payload_len()?];
    let mut buffers = [Vec::new(), Vec::new()];
    let mut at = [0u64; 2];
    let made_of = [of_a, of_b];
    while at[0] < lens[0] || at[1] < lens[1] {
        engine.check_cancelled()?;
        for (n, (side, number)) in of.iter().enumerate() {
            let left = usize::try_from(lens[n].saturating_sub(at[n])).unwrap_or(usize::MAX);
            buffers[n].resize(left.min(sizes[n]), 0);
            side.fill(engine, *number, &made_of[n], at[n], &mut buffers[n])?;
            at[n] += buffers[n].len() as u64;
        }
        each(&buffers[0], &buffers[1])?;
    }
    Ok(())
}

impl Comparison {
    fn find(&mut self, code: &'static str, tensor: Option<&String>, message: String) {
        self.findings.push(Finding { code, tensor: tensor.cloned(), message });
    }

    fn judge(
        &mut self,
        name: &String,
        from: DType,
        to: DType,
        pair: &Measured,
        tolerance: Option<f64>,
    ) -> Result<()> {
        if from == to && pair.same_bytes {
            self.identical += 1;
            return Ok(());
        }
        let readable = pair.values.is_some();
        if from != to && !readable {
            let message =
                format!("cannot compare values of {from} and {to}: no quantizer plugin can decode both");
            return Err(Error::unsupported(message).tensor(name));
        }
        if pair.max_abs_diff > self.max_abs_diff {
            self.max_abs_diff = pair.max_abs_diff;
            self.worst = Some(name.clone());
        }
        if pair.new_nans > 0 {
            let message = format!("{} values became NaN, first at element {}", pair.new_nans, pair.first_nan);
            self.find("ROSETTA-NAN-001", Some(name), message);
        }
        if pair.new_infs > 0 {
            let message =
                format!("{} values became infinite, first at element {}", pair.new_infs, pair.first_inf);
            self.find("ROSETTA-INF-001", Some(name), message);
        }
        let rounded = pair.rounding.as_ref().is_some_and(|rounding| rounding.holds().is_some());
        let lossy = pair.max_abs_diff > tolerance.unwrap_or(0.0) && !rounded;
        self.rounded += usize::from(rounded && pair.max_abs_diff > 0.0);
        if from == to && (tolerance.is_none() || !readable) {
            let [a, b] = [&pair.source_crc, &pair.result_crc].map(|crc| crc.clone().finalize());
            let what =
                if readable { String::new() } else { format!("; no quantizer plugin can decode {from}") };
            self.find("ROSETTA-CRC-001", Some(name), format!("CRC-32 {a:08x} became {b:08x}{what}"));
        } else if lossy {
            let most = tolerance.unwrap_or(0.0);
            let message = format!(
                "values differ by up to {:e}, more than the tolerance of {most:e}",
                pair.max_abs_diff
            );
            self.find("ROSETTA-QUANT-001", Some(name), message);
        }
        Ok(())
    }

    fn compare_computation(&mut self, computation: &Computation) {
        let message = match &computation.lines {
            [None, None] => format!("`{}` differs", computation.key),
            [was, is] => {
                let [was, is] = [was, is]
                    .map(|line| line.as_deref().map_or("nothing".to_owned(), |line| escape(line, 240)));
                format!("`{}`: {was} became {is}", computation.key)
            }
        };
        self.find("ROSETTA-GRAPH-001", None, message);
    }

    fn compare_tokenizers(&mut self, tokenizers: &Tokenizers) {
        for difference in &tokenizers.counted {
            let place = difference.place();
            let Difference { planned: was, written: is, .. } = difference;
            let message = format!("the tokenizer's {place} was {was}, but is {is} in the result");
            self.find("ROSETTA-VOCAB-001", None, message);
        }
        for (field, n) in &tokenizers.more {
            self.find("ROSETTA-VOCAB-001", None, format!("the tokenizer's {field}: {n} more differences"));
        }
        if let ([Some(source), Some(result)], true) = (&tokenizers.words, tokenizers.is_open) {
            let message = format!("the source's tokenizer is {source}, but the result's is {result}");
            match tokenizers.is_open_twice {
                true => self.notes.push(format!("tokenizers are not compared: {message}")),
                false => self.find("ROSETTA-VOCAB-001", None, message),
            }
        }
    }

    /// An architecture may have a name in each dialect.
    fn compare_facts(&mut self, source: &OpenedModel, result: &OpenedModel, translated: bool) -> Result<()> {
        for fact in FACTS.iter().filter(|fact| !translated || fact.name != "architecture") {
            let a = fact.of(source)?;
            let b = fact.of(result)?;
            if let (Some(a), Some(b)) = (&a, &b)
                && a.value != b.value
            {
                let [was, is] =
                    [a, b].map(|fact| format!("{} ({})", escape(&fact.value, 80), escape(&fact.key, 120)));
                let message = format!("the {} was {was}, but is {is} in the result", fact.name);
                self.find(fact.code, None, message);
            }
            if a.is_some() || b.is_some() {
                self.facts.push(FactPair { name: fact.name, source: a, result: b });
            }
        }
        Ok(())
    }
}

/// The decoder of each side, with the bytes of as many elements as are taken together.
type Values = ((Numbers, usize), (Numbers, usize));

/// Measures two payloads piece by piece.
struct Measured {
    values: Option<Values>,
    /// True if both sides have one type, so that equal bytes are equal values.
    is_of_one_type: bool,
    /// Checks, between two dialects, whether one side's values are the other's, rounded.
    rounding: Option<Rounding>,
    /// Elements taken together: one, or a block.
    together: usize,
    same_bytes: bool,
    source_crc: crc32fast::Hasher,
    result_crc: crc32fast::Hasher,
    elements: u64,
    max_abs_diff: f64,
    new_nans: u64,
    first_nan: u64,
    new_infs: u64,
    first_inf: u64,
}

impl Measured {
    fn new(from: DType, to: DType, registry: &Registry) -> Measured {
        let readers = [from, to].map(|dtype| {
            let numbers = Numbers::with(dtype, registry).filter(|numbers| numbers.per_element == 1)?;
            // With packed bits, the last byte may contain unused bits.
            let info = dtype.info().filter(|info| info.packing == Packing::Row);
            info.map(|info| (numbers, info.block_elements))
        });
        // As many elements as give whole blocks, and whole bytes, on both sides.
        let together = readers.iter().flatten().map(|(_, elements)| *elements).max().unwrap_or(1);
        let together = usize::try_from(together).unwrap_or(1);
        let [a, b] = readers.map(|reader| {
            reader.map(|(numbers, _)| {
                let bytes = numbers.bytes_of(together);
                (numbers, bytes)
            })
        });
        Measured {
            values: a.zip(b),
            is_of_one_type: from == to,
            rounding: None,
            together,
            same_bytes: true,
            source_crc: crc32fast::Hasher::new(),
            result_crc: crc32fast::Hasher::new(),
            elements: 0,
            max_abs_diff: 0.0,
            new_nans: 0,
            first_nan: 0,
            new_infs: 0,
            first_inf: 0,
        }
    }

    /// Bytes of what is taken together on both sides; equal if elements cannot be told apart.
    fn widths(&self) -> (usize, usize) {
        self.values.as_ref().map_or((1, 1), |(a, b)| (a.1, b.1))
    }

    /// Compares equally many elements of both sides.
    fn add(&mut self, source: &[u8], result: &[u8]) {
        self.source_crc.update(source);
        self.result_crc.update(result);
        let same = source == result;
        self.same_bytes &= same;
        if let Some(rounding) = &self.rounding {
            rounding.look(source, result);
        }
        let Some(((numbers_a, a), (numbers_b, b))) = self.values.clone() else { return };
        if same && self.is_of_one_type {
            self.elements += (source.len() / a * self.together) as u64;
            return;
        }
        let mut high = [[0.0; CHUNK]; 2];
        let mut low = [[0.0; CHUNK]; 2];
        let each = CHUNK / self.together;
        for (x, y) in source.chunks(a * each).zip(result.chunks(b * each)) {
            let n = (x.len() / a).min(y.len() / b) * self.together;
            numbers_a.read_wide(x, &mut high[0][..n], &mut low[0][..n]);
            numbers_b.read_wide(y, &mut high[1][..n], &mut low[1][..n]);
            for at in 0..n {
                self.add_values((high[0][at], low[0][at]), (high[1][at], low[1][at]));
                self.elements += 1;
            }
        }
    }

    /// Compares two numbers, each a float and what an integer above 2^53 has beyond it.
    fn add_values(&mut self, source: (f64, f64), result: (f64, f64)) {
        let ((x, x_rest), (y, y_rest)) = (source, result);
        if y.is_nan() && !x.is_nan() {
            self.first_nan = if self.new_nans == 0 { self.elements } else { self.first_nan };
            self.new_nans += 1;
        } else if y.is_infinite() && !x.is_infinite() && !x.is_nan() {
            self.first_inf = if self.new_infs == 0 { self.elements } else { self.first_inf };
            self.new_infs += 1;
        } else if x.is_nan() && y.is_nan() || x == y && x_rest == y_rest {
            // Equal, including NaN or infinity on both sides.
        } else if x.is_finite() && y.is_finite() {
            self.max_abs_diff = self.max_abs_diff.max(((x - y) + (x_rest - y_rest)).abs());
        } else {
            // A value that was not finite and became a number, or another infinity, is infinitely far off.
            self.max_abs_diff = f64::INFINITY;
        }
    }
}
