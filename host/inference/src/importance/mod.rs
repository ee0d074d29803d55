//! Importance matrices, as llama-imatrix collects them: for each matrix of a program the sums of the squares of what its
//! columns are multiplied with.
//!
//! Every matrix of a layer is looked at, experts each by itself; the output only if it is asked for and is not the embedding
//! too. The values are those that the backend computed before it rounds any: they are read from a program that keeps every
//! intermediate result.

mod inputs;
mod statistics;
mod totals;

pub use statistics::{Statistics, layer_of, statistics};
pub use totals::{merge, rescale};

use crate::program::{Built, WeightOf};
use crate::runner::Runner;
use apr_sdk::{Error, Operation, Result, RowsOf, Slice, TensorSums, ValueSpec};
use inputs::{Chosen, Input};
use std::collections::HashSet;

/// Collects sums while windows of a text run.
pub struct Collector {
    inputs: Vec<Input>,
    /// True if logits are computed, of which only the output's input is wanted.
    has_logits: bool,
    /// The values of one step.
    values: Vec<f32>,
}

impl Collector {
    /// Collects over a program that keeps every intermediate result (`Request::taps`); with the output if `process_output`
    /// says so.
    ///
    /// # Errors
    /// Plugin for a program that names what it does not have.
    pub fn new(built: &Built, process_output: bool) -> Result<Collector> {
        let embeddings: HashSet<u32> = built
            .program
            .operations
            .iter()
            .filter_map(|one| if let Operation::Embed(embed) = one { Some(embed.table) } else { None })
            .collect();
        let mut collector = Collector { inputs: Vec::new(), has_logits: false, values: Vec::new() };
        for operation in &built.program.operations {
            let (x, chosen, weights) = match operation {
                Operation::Linear(linear) => (linear.x, None, of_parts(&linear.parts)),
                Operation::HeadLinear(linear) => (linear.x, None, vec![linear.weight]),
                Operation::ExpertLinear(linear) => {
                    let route = spec_of(built, linear.route)?;
                    (linear.x, Some(Chosen::of(linear, index(route.width))), of_parts(&linear.parts))
                }
                _ => continue,
            };
            let spec = spec_of(built, x)?;
            let is_output = spec.rows == RowsOf::OUTPUTS;
            let mut names: Vec<String> = Vec::new();
            for weight in weights {
                let is_wanted = !is_output || (process_output && !embeddings.contains(&weight));
                match built.weights.get(index(weight)) {
                    Some(WeightOf::Tensor(name)) if is_wanted && !names.contains(name) => {
                        names.push(name.clone());
                    }
                    Some(_) => {}
                    None => return Err(Error::plugin("a program names a weight that does not exist")),
                }
            }
            if !names.is_empty() {
                collector.has_logits |= is_output;
                collector.inputs.push(Input::new(names, x, index(spec.width), chosen));
            }
        }
        match collector.inputs.is_empty() {
            true => {
                Err(Error::unsupported("the model has no matrices that an importance matrix could cover"))
            }
            false => Ok(collector),
        }
    }

    /// Runs a window from the beginning, and adds its values.
    ///
    /// # Errors
    /// Failed for a value that is not finite, naming the tensor; any error from the backend.
    pub fn window(&mut self, runner: &mut Runner, ids: &[u32]) -> Result<()> {
        runner.clear()?;
        runner.feed_steps(ids, self.has_logits, &mut |runner, rows| {
            let mut held = None;
            for input in &mut self.inputs {
                if held != Some(input.x.value) {
                    self.values.resize(rows * input.width, 0.0);
                    runner.read(input.x.value, &mut self.values)?;
                    held = Some(input.x.value);
                }
                match &input.chosen {
                    None => input.add(&self.values),
                    Some(chosen) => {
                        let mut route = vec![0.0; rows * chosen.route_width];
                        runner.read(chosen.route.value, &mut route)?;
                        input.add_chosen(&self.values, &route)?;
                    }
                }
            }
            Ok(())
        })?;
        self.inputs.iter().try_for_each(Input::check)
    }

    /// The sums so far: of each tensor once.
    ///
    /// # Errors
    /// As [`merge`].
    pub fn sums(&self) -> Result<Vec<TensorSums>> {
        let mut all = Vec::new();
        for input in &self.inputs {
            merge(&mut all, input.sums())?;
        }
        Ok(all)
    }
}

fn of_parts(parts: &[apr_sdk::WeightPart]) -> Vec<u32> {
    parts.iter().map(|part| part.weight).collect()
}

/// The shape of the value that a slice is in.
fn spec_of(built: &Built, slice: Slice) -> Result<ValueSpec> {
    let spec = built.program.values.get(index(slice.value)).copied();
    spec.ok_or_else(|| Error::plugin("a program reads a value that does not exist"))
}

/// A number of a program as an index.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
