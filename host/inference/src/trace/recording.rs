//! The record of a traced computation: what every operation gave, how long it took, and what it read.

use super::figures::Figures;
use crate::program::Built;
use apr_sdk::Program;
use std::time::Duration;

/// Rows whose figures are kept one by one, over all results: some 200 MB.
const MOST_ROWS: usize = 1 << 22;

/// A traced computation.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Every operation, in order.
    pub operations: Vec<Traced>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The tokens that ran, in order.
    pub ids: Vec<u32>,
    /// True if figures of single rows were left out, for there were too many.
    pub is_cut: bool,
    /// Rows kept so far, over all results.
    kept: usize,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Position of its first row.
    pub first: u32,
    /// Number of its rows.
    pub rows: usize,
    /// The time when it began, since a fixed moment.
    pub began: Duration,
    /// Its duration.
    pub took: Duration,
    /// Nanoseconds of each operation; empty if the device takes no times.
    pub times: Vec<u64>,
    /// Nanoseconds of measuring.
    pub measuring: u64,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its place in the program.
    pub number: usize,
    /// Its kind.
    pub kind: String,
    /// The layer that it belongs to.
    pub layer: Option<u32>,
    /// Its name: that of its results.
    pub name: String,
    /// Its results.
    pub results: Vec<TracedResult>,
    /// Nanoseconds, over all steps.
    pub nanoseconds: u64,
    /// Bytes of weights, keys and values that it read, over all steps.
    pub bytes: u64,
}

/// A result of an operation.
#[derive(Clone, Debug)]
pub struct TracedResult {
    /// Its name, such as `layer.3.attention.query`.
    pub name: String,
    /// Elements of a row.
    pub width: u32,
    /// The figures of all rows.
    pub figures: Figures,
    /// The figures of each row.
    pub rows: Vec<Row>,
    /// For each column, true if any row has something other than zero there; empty unless values were looked at.
    pub alive: Vec<bool>,
    /// Some values of its last row, the first and the last of them; empty unless values were looked at.
    pub sample: Vec<f32>,
}

/// A row of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its position.
    pub position: u32,
    /// Its figures.
    pub figures: Figures,
    /// The column of its largest magnitude; `None` unless values were looked at.
    pub peak: Option<u32>,
}

impl Recording {
    /// An empty recording of a program.
    pub(super) fn of(built: &Built) -> Recording {
        let mut operations = Vec::with_capacity(built.program.operations.len());
        for (number, operation) in built.program.operations.iter().enumerate() {
            let names = built.names.get(number).map_or(&[][..], Vec::as_slice);
            let mut results = Vec::new();
            for (name, slice) in names.iter().zip(operation.writes()) {
                results.push(TracedResult {
                    name: name.clone(),
                    width: slice.width,
                    figures: Figures::default(),
                    rows: Vec::new(),
                    alive: Vec::new(),
                    sample: Vec::new(),
                });
            }
            operations.push(Traced {
                number,
                kind: operation.code().0.name(),
                layer: names.first().and_then(|name| layer_of(name)),
                name: joined(names),
                results,
                nanoseconds: 0,
                bytes: 0,
            });
        }
        Recording { operations, ..Recording::default() }
    }

    /// Adds a row of an operation's result.
    pub(super) fn row(&mut self, operation: usize, result: usize, row: Row) {
        let Some(result) = self.operations.get_mut(operation).and_then(|one| one.results.get_mut(result))
        else {
            return;
        };
        result.figures.add(&row.figures);
        if self.kept < MOST_ROWS {
            self.kept += 1;
            result.rows.push(row);
        } else {
            self.is_cut = true;
        }
    }

    /// Number of elements that are not finite, over all results.
    pub fn not_finite(&self) -> u64 {
        let results = self.operations.iter().flat_map(|operation| &operation.results);
        results.map(|result| result.figures.not_finite).sum()
    }

    /// The duration of all steps.
    pub fn took(&self) -> Duration {
        self.steps.iter().map(|step| step.took).sum()
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        let last = self.operations.iter().filter_map(|operation| operation.layer).max();
        last.map_or(0, |last| usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1))
    }
}

impl Traced {
    /// The figures of all its results.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        self.results.iter().for_each(|result| figures.add(&result.figures));
        figures
    }
}

/// The layer in a name such as `layer.3.attention.query`.
fn layer_of(name: &str) -> Option<u32> {
    name.strip_prefix("layer.")?.split('.').next()?.parse().ok()
}

/// The names of an operation's results as one: what they begin with alike is said once.
fn joined(names: &[String]) -> String {
    let [first, rest @ ..] = names else { return String::new() };
    let at = first.rfind('.').map_or(0, |dot| dot + 1);
    let mut name = first.clone();
    for other in rest {
        name.push(',');
        name.push_str(other.strip_prefix(&first[..at]).unwrap_or(other));
    }
    name
}

/// Number of rows of the largest step that a program could be asked for, to check what it gives.
pub(super) fn width_of(program: &Program, value: u32) -> Option<usize> {
    let value = usize::try_from(value).ok().and_then(|number| program.values.get(number))?;
    usize::try_from(value.width).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_where_they_part() {
        let names = ["layer.3.attention.query", "layer.3.attention.key"].map(str::to_owned);
        assert_eq!(joined(&names), "layer.3.attention.query,key");
        assert_eq!(joined(&names[..1]), "layer.3.attention.query");
        assert_eq!(joined(&[]), "");
    }

    #[test]
    fn layers_are_numbers() {
        assert_eq!(layer_of("layer.12.branch"), Some(12));
        assert_eq!([layer_of("hidden"), layer_of("layer.x.y")], [None, None]);
    }
}
