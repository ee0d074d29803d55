//! One operation of a model by itself, on inputs that are given.

use super::slices::moved;
use crate::check::{Heap, Matrix};
use crate::tapped::{Rows, Tapped};
use apr_sdk::{
    Append, Batch, DType, Embed, Error, MatrixSpec, Operation, PagedState, Program, Result, RowIndex, RowsOf,
    SessionLimits, Slice, State, StepSink, ValueSpec, Weight, Workers,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Runs single operations over a model's weights, as programs of one operation.
pub(super) struct Local {
    workers: Arc<dyn Workers + Send>,
    /// The token ids of the rows.
    ids: Vec<u32>,
    /// Tables whose rows the inputs take the place of, by their width.
    tables: HashMap<u32, Weight>,
}

/// What is stored before attention reads it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The state.
    pub(super) state: PagedState,
    /// The operation that stores.
    pub(super) append: Append,
}

/// A program gives no logits here.
struct Nothing;

impl StepSink for Nothing {
    fn logits(&mut self, _: u32, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn token(&mut self, _: u32, _: u32) -> Result<()> {
        Ok(())
    }
}

impl Local {
    pub(super) fn new(model: &Tapped<'_>, ids: &[u32]) -> Local {
        Local { workers: model.runner.workers(), ids: ids.to_vec(), tables: HashMap::new() }
    }

    /// The results of a model's operation. `inputs` are the rows of what it reads, in the order of [`Operation::reads`]; for
    /// attention, those of what is stored follow.
    pub(super) fn run(
        &mut self,
        model: &Tapped<'_>,
        operation: &Operation,
        stored: Option<&Stored>,
        inputs: &[Rows],
    ) -> Result<Vec<Rows>> {
        let width: usize = inputs.iter().map(|input| input.width).sum();
        let width = u32::try_from(width).map_err(|_| Error::limit("the inputs are too wide"))?;
        let mut program = Program::default();
        let mut weights = model.weights.to_vec();
        let mut reads = Vec::new();
        if width > 0 {
            let table = u32::try_from(weights.len()).unwrap_or(u32::MAX);
            weights.push(self.table(model, width)?);
            program.values.push(ValueSpec { width, rows: RowsOf::BATCH });
            let out = Slice { value: 0, first: 0, width };
            program
                .operations
                .push(Embed { table, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out }.into());
            let mut first = 0;
            for input in inputs {
                let width = u32::try_from(input.width).unwrap_or(u32::MAX);
                reads.push(Slice { value: 0, first, width });
                first += width;
            }
        }
        let mut writes = Vec::new();
        for slice in operation.writes() {
            let value = u32::try_from(program.values.len()).unwrap_or(u32::MAX);
            program.values.push(ValueSpec { width: slice.width, rows: rows_of(operation) });
            writes.push(Slice { value, first: 0, width: slice.width });
        }
        let mut moved = moved(operation, &reads, &writes);
        if let (Some(stored), Operation::Attention(attention)) = (stored, &mut moved) {
            program.states.push(State::Paged(stored.state));
            let append = Append { state: 0, ..stored.append.clone() };
            let kept = reads.get(operation.reads().len()..).unwrap_or_default();
            program.operations.push(super::slices::moved(&append.into(), kept, &[]));
            attention.state = 0;
        }
        program.operations.push(moved);
        self.step(model, &program, &weights, inputs, &writes)
    }

    fn step(
        &self,
        model: &Tapped<'_>,
        program: &Program,
        weights: &[Weight],
        inputs: &[Rows],
        writes: &[Slice],
    ) -> Result<Vec<Rows>> {
        let count = self.ids.len();
        let rows = u32::try_from(count).unwrap_or(u32::MAX);
        let limits = SessionLimits::new(rows, 1, rows);
        let mut session = model.device.compile(&program.to_bytes()?, weights, &limits)?;
        let positions: Vec<u32> = (0..rows).collect();
        let sequences = vec![0; count];
        let mut beside = Vec::new();
        for row in 0..count {
            for input in inputs {
                let first = row * input.width;
                beside.extend_from_slice(input.elements.get(first..first + input.width).unwrap_or_default());
            }
        }
        let mut batch = Batch::new(&self.ids, &positions, &sequences, &positions)?;
        if !beside.is_empty() {
            batch = batch.with_rows(&beside);
        }
        session.step(&batch, self.workers.as_ref(), &mut Nothing)?;
        let mut results = Vec::new();
        for slice in writes {
            let width = usize::try_from(slice.width).unwrap_or(usize::MAX);
            let mut elements = vec![0.0; count.saturating_mul(width)];
            session.read(slice.value, &mut elements)?;
            results.push(Rows { width, elements });
        }
        Ok(results)
    }

    /// A table of one row.
    fn table(&mut self, model: &Tapped<'_>, width: u32) -> Result<Weight> {
        if let Some(known) = self.tables.get(&width) {
            return Ok(*known);
        }
        let spec = MatrixSpec::new(DType::F32, 1, width.into())?;
        let bytes = vec![0; usize::try_from(spec.bytes()).unwrap_or(usize::MAX)];
        let weight = model.device.prepare(&spec, &Matrix { spec, bytes }, &mut Heap)?;
        self.tables.insert(width, weight);
        Ok(weight)
    }
}

/// Rows of an operation's results: all of the batch's want output, so that only pooling tells them apart.
fn rows_of(operation: &Operation) -> RowsOf {
    if matches!(operation, Operation::Pool(_)) { RowsOf::OUTPUTS } else { RowsOf::BATCH }
}
