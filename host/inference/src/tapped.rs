//! A loaded model of which every intermediate result can be read.

use crate::program::{Built, WeightOf};
use crate::runner::Runner;
use apr_sdk::{Device, Error, MatrixSpec, Result, Slice, Weight};

/// The values of weights by the names of their tensors, decoded to F32.
pub trait Values {
    /// The tensor as a matrix, in the type in which it is stored.
    ///
    /// # Errors
    /// Plugin if there is no such tensor.
    fn matrix(&self, tensor: &str) -> Result<MatrixSpec>;

    /// The elements of `count` rows from `first` on.
    ///
    /// # Errors
    /// InvalidArgument beyond the last row; any error of reading.
    fn rows(&self, tensor: &str, first: u64, count: u64) -> Result<Vec<f32>>;
}

/// A loaded model. Its program must keep every intermediate result (`Request::taps`).
pub struct Tapped<'a> {
    /// The runner.
    pub runner: &'a mut Runner,
    /// Its program.
    pub built: &'a Built,
    /// The device that holds its weights.
    pub device: &'a dyn Device,
    /// Its weights on that device.
    pub weights: &'a [Weight],
    /// The values of its weights.
    pub values: &'a dyn Values,
    /// Number of rows of the last step, all of them with an output.
    rows: usize,
}

/// Part of each row of a value, after a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Number of elements in a row.
    pub width: usize,
    /// The rows, one after the other.
    pub elements: Vec<f32>,
}

impl Rows {
    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.elements.chunks_exact(self.width.max(1))
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.elements.len() / self.width.max(1)
    }

    /// True if no element is NaN or infinite.
    pub fn are_finite(&self) -> bool {
        self.elements.iter().all(|element| element.is_finite())
    }
}

impl<'a> Tapped<'a> {
    /// A model before its first step.
    pub fn new(
        runner: &'a mut Runner,
        built: &'a Built,
        device: &'a dyn Device,
        weights: &'a [Weight],
        values: &'a dyn Values,
    ) -> Tapped<'a> {
        Tapped { runner, built, device, weights, values, rows: 0 }
    }

    /// Forgets all tokens and runs these in one step; returns the logits after each.
    ///
    /// # Errors
    /// InvalidArgument if there are none, or more than a step takes; any error from the backend.
    pub fn run(&mut self, ids: &[u32]) -> Result<Rows> {
        let most = self.runner.rows();
        if ids.len() > most {
            let message = format!("{} tokens do not fit in one step of at most {most}", ids.len());
            return Err(Error::invalid_argument(message).hint(format!("pass --tokens {most} or fewer")));
        }
        self.rows = 0;
        self.runner.clear()?;
        let mut logits = Rows { width: self.runner.width(), elements: Vec::new() };
        self.runner.feed_all(ids, &mut |_, row| {
            logits.elements.extend_from_slice(row);
            Ok(())
        })?;
        self.rows = ids.len();
        Ok(logits)
    }

    /// Part of each row of a value, as the last step left it.
    ///
    /// # Errors
    /// Plugin if the program has no such value; any error from the backend.
    pub fn read(&mut self, slice: &Slice) -> Result<Rows> {
        let values = &self.built.program.values;
        let spec = usize::try_from(slice.value).ok().and_then(|number| values.get(number));
        let spec = spec.ok_or_else(|| Error::plugin("a program names a value that does not exist"))?;
        let whole = usize::try_from(spec.width).unwrap_or(usize::MAX);
        let mut elements = vec![0.0; self.rows.saturating_mul(whole)];
        self.runner.read(slice.value, &mut elements)?;
        let [first, width] = [slice.first, slice.width].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        if first == 0 && width == whole {
            return Ok(Rows { width, elements });
        }
        let rows = elements.chunks_exact(whole.max(1));
        let parts = rows.map(|row| row.get(first..first.saturating_add(width)).unwrap_or_default());
        Ok(Rows { width, elements: parts.flatten().copied().collect() })
    }

    /// The name of a value, such as `layer.3.attention.query`.
    pub fn name(&self, value: u32) -> &'a str {
        let found = self.built.taps.iter().find(|(_, of)| *of == value);
        found.map_or("", |(name, _)| name)
    }

    /// The tensor of a weight, unless it was computed.
    pub fn tensor(&self, weight: u32) -> Option<&'a str> {
        let number = usize::try_from(weight).ok()?;
        match self.built.weights.get(number)? {
            WeightOf::Tensor(name) => Some(name),
            WeightOf::Literal { .. } => None,
        }
    }

    /// The elements of a weight that is a vector, such as a gain or a bias.
    ///
    /// # Errors
    /// Plugin if the program has no such weight; any error of reading.
    pub fn vector(&self, weight: u32) -> Result<Vec<f32>> {
        let number = usize::try_from(weight).ok();
        match number.and_then(|number| self.built.weights.get(number)) {
            Some(WeightOf::Tensor(name)) => {
                let rows = self.values.matrix(name)?.rows();
                self.values.rows(name, 0, rows)
            }
            Some(WeightOf::Literal { values, .. }) => Ok(values.clone()),
            None => Err(Error::plugin("a program names a weight that does not exist")),
        }
    }
}
