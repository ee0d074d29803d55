//! A program that measures its own results while they are in the caches of the processor.

use apr_sdk::{Error, MEASURE_FIGURES, Measure, Operation, Program, Result, Slice, ValueSpec};

/// A program in which a measure follows every operation that has results.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredProgram {
    /// The program.
    pub program: Program,
    /// The original operation that each operation is, or whose results it measures.
    pub(super) origins: Vec<Origin>,
    /// The values with the figures of each original operation's results.
    pub(super) figures: Vec<Vec<u32>>,
}

/// The place of an operation in the original program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is this operation.
    Own(usize),
    /// It was put in.
    Added,
}

impl MeasuredProgram {
    /// The measured form of a program.
    ///
    /// # Errors
    /// LimitExceeded for a program of 2^32 values; Plugin if it writes a value that it does not have.
    pub fn new(program: &Program) -> Result<MeasuredProgram> {
        let mut measured = MeasuredProgram {
            program: Program { operations: Vec::new(), ..program.clone() },
            origins: Vec::new(),
            figures: Vec::new(),
        };
        for (number, operation) in program.operations.iter().enumerate() {
            measured.program.operations.push(operation.clone());
            measured.origins.push(Origin::Own(number));
            let mut values = Vec::new();
            for slice in operation.writes() {
                values.push(measured.measure(slice)?);
            }
            measured.figures.push(values);
        }
        Ok(measured)
    }

    /// Measures a slice; returns the value with its figures.
    fn measure(&mut self, slice: Slice) -> Result<u32> {
        let values = &mut self.program.values;
        let of = usize::try_from(slice.value).ok().and_then(|number| values.get(number));
        let rows = of.ok_or_else(|| Error::plugin("a program writes a value that does not exist"))?.rows;
        let value = u32::try_from(values.len()).map_err(|_| Error::limit("a program has too many values"))?;
        values.push(ValueSpec { width: MEASURE_FIGURES, rows });
        let out = Slice { value, first: 0, width: MEASURE_FIGURES };
        self.program.operations.push(Operation::from(Measure { x: slice, out }));
        self.origins.push(Origin::Added);
        Ok(value)
    }
}

/// The operation that a backend must support for this.
pub fn measure() -> Operation {
    let x = Slice { value: 0, first: 0, width: MEASURE_FIGURES };
    Operation::from(Measure { x, out: Slice { value: 1, ..x } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{CheckedProgram, Embed, RowIndex, RowsOf, Sample, WeightShape};

    #[test]
    fn a_measure_follows_every_result_and_the_end_stays_the_end() {
        let x = Slice { value: 0, first: 0, width: 8 };
        let program = Program {
            values: vec![ValueSpec { width: 8, rows: RowsOf::BATCH }],
            states: Vec::new(),
            operations: vec![
                Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into(),
                Sample { logits: x }.into(),
            ],
        };
        let measured = MeasuredProgram::new(&program).unwrap();
        assert_eq!(measured.origins, [Origin::Own(0), Origin::Added, Origin::Own(1)]);
        assert_eq!(measured.figures, [vec![1], vec![]]);
        let weights = [WeightShape { rows: 10, columns: 8 }];
        CheckedProgram::new(measured.program.clone(), &weights).unwrap();
        let mut broken = program;
        broken.values.clear();
        assert!(MeasuredProgram::new(&broken).is_err());
    }
}
