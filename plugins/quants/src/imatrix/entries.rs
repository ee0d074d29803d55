//! The entries of a file: as means for quantizing, or as the sums they were made of.

use super::DIALECT;
use apr_sdk::{Cursor, Error, ImportanceSink, Result, TensorSums};

/// An entry as it is stored.
pub struct Entry<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// Where its values begin.
    pub at: u64,
    /// A value for each column, matrix after matrix.
    pub values: Vec<f32>,
    /// What the values are to be divided by.
    pub counts: Counts,
}

/// What values are to be divided by.
pub enum Counts {
    /// One number for all; nothing if it is not positive.
    Calls(i32),
    /// A number of rows for each matrix; where it is 0, the values are 1. They divide the number of values.
    Rows(Vec<f32>),
}

/// Receives entries.
pub trait Entries {
    /// Takes an entry.
    ///
    /// # Errors
    /// Malformed for values that are not finite or negative.
    fn entry(&mut self, cursor: &Cursor<'_>, entry: Entry<'_>) -> Result<()>;
}

/// Hands on means.
pub struct Means<'a>(pub &'a mut dyn ImportanceSink);

impl Entries for Means<'_> {
    fn entry(&mut self, cursor: &Cursor<'_>, entry: Entry<'_>) -> Result<()> {
        let Entry { name, at, mut values, counts } = entry;
        let mut columns = values.len();
        match counts {
            Counts::Calls(calls) if calls > 0 => {
                #[allow(clippy::cast_precision_loss, reason = "as llama-quantize divides")]
                let calls = calls as f32;
                values.iter_mut().for_each(|value| *value /= calls);
            }
            Counts::Calls(_) => {}
            Counts::Rows(counts) => {
                columns /= counts.len().max(1);
                for (values, count) in values.chunks_exact_mut(columns.max(1)).zip(counts) {
                    // Counts are whole.
                    let count = count.round();
                    for value in values {
                        *value = if count > 0.0 { *value / count } else { 1.0 };
                    }
                }
            }
        }
        check(cursor, name, at, columns, &values)?;
        self.0.tensor(DIALECT, name, &values)
    }
}

/// Keeps sums.
#[derive(Default)]
pub struct Sums {
    /// The tensors so far.
    pub tensors: Vec<TensorSums>,
}

impl Entries for Sums {
    fn entry(&mut self, cursor: &Cursor<'_>, entry: Entry<'_>) -> Result<()> {
        let Entry { name, at, values: sums, counts } = entry;
        let counts: Vec<u64> = match counts {
            Counts::Calls(calls) => vec![u64::try_from(calls).unwrap_or(0)],
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked by the reader"
            )]
            Counts::Rows(counts) => counts.iter().map(|count| count.round() as u64).collect(),
        };
        check(cursor, name, at, sums.len() / counts.len().max(1), &sums)?;
        self.tensors.push(TensorSums { name: name.to_owned(), sums, counts });
        Ok(())
    }
}

/// Checks values that begin at `at`; each matrix has `columns` of them. Unlike llama-quantize it refuses negative values: they
/// turn a search for the least error into one for the greatest.
fn check(cursor: &Cursor<'_>, name: &str, at: u64, columns: usize, values: &[f32]) -> Result<()> {
    let is_bad = |value: &f32| !value.is_finite() || *value < 0.0;
    let Some(n) = values.iter().position(is_bad) else { return Ok(()) };
    let (value, column, matrix) = (values[n], n % columns.max(1), n / columns.max(1));
    let of = if values.len() > columns { format!(" of matrix {matrix}") } else { String::new() };
    let what = if value < 0.0 && value.is_finite() { "negative" } else { "not finite" };
    let message = format!("the importance of column {column}{of} is {what}: {value}");
    let error: Error = cursor.error_at(at + 4 * n as u64, message);
    Err(error.tensor(name).hint("make the importance matrix again"))
}
