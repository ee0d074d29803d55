//! The cases: every operation in its forms, and those with weights over every type.

mod attention;
mod elements;
mod experts;
mod matrices;

use super::{Blocks, Case, Input, Matrix, TYPES};
use crate::sampling::random::Random;
use apr_sdk::{
    DType, Embed, MatrixSpec, Operation, Program, Result, RowIndex, RowsOf, Slice, State, ValueSpec,
};

/// All cases; the data are the same every time.
///
/// # Errors
/// Any error of packing, but for types that nothing packs: they have no cases.
pub fn cases(blocks: &dyn Blocks) -> Result<Vec<Case>> {
    let mut cases = matrices::cases(blocks)?;
    cases.extend(elements::cases()?);
    cases.extend(attention::cases()?);
    cases.extend(experts::cases(blocks)?);
    Ok(cases)
}

/// 2^-20.
const SMALL: f64 = 1.0 / 1_048_576.0;

/// Random data.
struct Data(Random);

impl Data {
    fn new(seed: u64) -> Data {
        Data(Random::new(seed))
    }

    /// Values that are roughly normal: the sum of twelve units less six.
    fn values(&mut self, n: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(n);
        for _ in 0..n {
            let units: f64 = (0..12).map(|_| self.0.unit()).sum();
            #[allow(clippy::cast_possible_truncation, reason = "rounding to F32 is what is meant")]
            values.push((units - 6.0) as f32);
        }
        values
    }
}

/// As F64.
fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// A matrix of F32.
fn plain(values: &[f32], columns: usize) -> Result<Matrix> {
    let rows = values.len() / columns;
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(Matrix { spec: MatrixSpec::new(DType::F32, u64_of(rows), u64_of(columns))?, bytes })
}

/// The input as value 0, and a value of `width` for the output.
fn values_of(input: usize, output: usize) -> Vec<ValueSpec> {
    [input, output].map(|width| ValueSpec { width: u32_of(width), rows: RowsOf::BATCH }).to_vec()
}

/// A program that takes rows of `input` elements as value 0 and runs one operation, or a few that belong together. The first
/// weight is the table that the rows take the place of.
fn program(input: usize, output: usize, states: Vec<State>, operations: Vec<Operation>) -> Program {
    let embed = Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: slice(0, 0, input) };
    let operations = std::iter::once(embed.into()).chain(operations).collect();
    Program { values: values_of(input, output), states, operations }
}

/// The table for [`program`].
fn table(input: usize) -> Result<Matrix> {
    plain(&vec![0.0; input], input)
}

/// Rows from position 0 on.
fn input(rows: Vec<f32>, width: usize) -> Input {
    Input { ids: vec![0; rows.len() / width], position: 0, rows }
}

/// A case of one operation in F32 over rows of `width` elements; `elements` are those of its result, each with the error
/// allowed in it.
fn over_rows(
    name: &'static str,
    operation: Operation,
    rows: Vec<f32>,
    width: usize,
    elements: Vec<(f64, f64)>,
) -> Result<Case> {
    let (expected, bounds): (Vec<f64>, Vec<f64>) = elements.into_iter().unzip();
    let n_rows = rows.len() / width;
    Ok(Case {
        operation: name,
        dtype: DType::F32,
        form: String::new(),
        program: program(width, expected.len() / n_rows, Vec::new(), vec![operation]),
        weights: vec![table(width)?],
        inputs: vec![input(rows, width)],
        output: Some(1),
        expected,
        bounds,
    })
}

fn slice(value: u32, first: usize, width: usize) -> Slice {
    Slice { value, first: u32_of(first), width: u32_of(width) }
}

fn u32_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn u64_of(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::Error;
    use std::collections::BTreeSet;

    /// Packs nothing.
    struct None;

    impl Blocks for None {
        fn encode(&self, _: DType, _: &[f32], _: usize) -> Result<Vec<u8>> {
            Err(Error::unsupported("packs nothing"))
        }

        fn decode(&self, _: DType, _: &[u8], _: usize) -> Result<Vec<f32>> {
            Err(Error::unsupported("unpacks nothing"))
        }
    }

    #[test]
    fn cases_hold_together_and_cover_every_operation() {
        let cases = cases(&None).unwrap();
        for case in &cases {
            let name = format!("{} {}", case.operation, case.form);
            assert!(!case.expected.is_empty() && case.expected.len() == case.bounds.len(), "{name}");
            assert!(case.expected.iter().all(|value| value.is_finite()), "{name}");
            assert!(case.bounds.iter().all(|bound| *bound > 0.0), "{name}");
            let bytes = case.program.to_bytes().unwrap();
            assert_eq!(Program::from_bytes(&bytes).unwrap(), case.program, "{name}");
        }
        let names: BTreeSet<&str> = cases.iter().map(|case| case.operation).collect();
        let all = [
            "activate",
            "attention",
            "binary",
            "combine",
            "embed",
            "expert_linear",
            "head_linear",
            "linear",
            "norm",
            "pool",
            "rope",
            "route",
            "sample",
            "unary",
        ];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), all);
    }
}
