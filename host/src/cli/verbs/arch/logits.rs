//! The logits that a model's own code computed, compared with those that its table computes.

use apr_engine::architecture::is_float;
use apr_engine::crew::Crew;
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::verify::tensor_values::{Number, values};
use apr_host::host::Host;
use apr_host::running::{Backend, LoadOptions, load};
use apr_host::storage::small_file::read_text;
use apr_sdk::{DType, DTypeKind, Error, Result, Tensor, escape};
use serde::Serialize;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Reference logits.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of the comparison")]
pub struct LogitsArgs {
    /// Compute the model as the table says, and compare its logits with those in FILE: one row for each token, or for the last
    /// ones
    #[arg(long = "logits", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Token ids that the logits belong to, separated by commas, or a file of them [default: the tensor `ids` of FILE]
    #[arg(long, value_name = "IDS", requires = "file")]
    tokens: Option<String>,
    /// Largest difference of a logit, in units of the root mean square of all logits
    #[arg(long, value_name = "X", default_value_t = 1e-3, requires = "file", value_parser = parse_tolerance)]
    tolerance: f64,
}

/// # Errors
/// A sentence saying what is wrong.
fn parse_tolerance(text: &str) -> std::result::Result<f64, String> {
    let tolerance = text.parse::<f64>().ok().filter(|tolerance| tolerance.is_finite() && *tolerance >= 0.0);
    tolerance.ok_or_else(|| format!("expected a number that is not negative, found `{text}`"))
}

/// Logits that were compared.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The file with the reference.
    file: String,
    /// Number of tokens computed.
    tokens: usize,
    /// Number of tokens whose logits were compared.
    rows: u64,
    /// Number of logits for each token.
    vocabulary: u64,
    /// Largest absolute difference; `null` where a computed logit is not finite.
    largest: Option<f64>,
    /// Root mean square of the reference.
    rms: f64,
    /// `largest` in units of `rms`.
    relative: Option<f64>,
    /// The largest `relative` that is accepted.
    tolerance: f64,
    /// Place of the largest difference: the token's number, from 0, and the id that the logit is for.
    at: (u64, u64),
    /// Number of computed logits that are not finite.
    nonfinite: u64,
    /// Number of tokens after which both find the same id most likely.
    same_choice: u64,
    /// True if both are the same within the tolerance.
    pub same: bool,
}

impl Compared {
    /// The error for logits that differ.
    pub fn failure(&self) -> Error {
        let apart = match self.relative {
            Some(relative) => format!("the logits differ by {relative:.1e} of their root mean square"),
            None => "the computed logits are not finite".to_owned(),
        };
        let message = format!(
            "the table does not compute the same logits: {apart}, the tolerance is {:.1e}",
            self.tolerance
        );
        let hint = "check the guesses about the computation: norms and their epsilon, activation, RoPE, \
                    scales, biases";
        Error::failed(message).in_file(self.file.clone()).hint(hint)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.same { "ok      " } else { "error   " };
        let file = escape(&self.file, 400);
        let (token, id) = self.at;
        match (self.largest, self.relative) {
            (Some(largest), Some(relative)) => writeln!(
                f,
                "{word} {file}: largest logit difference {largest:.2e} (token {token}, id {id}), \
                 {relative:.1e} of the root mean square {:.2e}; tolerance {:.1e}",
                self.rms, self.tolerance
            )?,
            _ => writeln!(f, "{word} {file}: {} computed logits are not finite", self.nonfinite)?,
        }
        writeln!(
            f,
            "{word} {file}: the most likely token is the same after {} of {} tokens",
            self.same_choice, self.rows
        )
    }
}

/// Computes a model as the table of architecture `arch` says, in F32 on the CPU, and compares its logits with those in a file.
///
/// # Errors
/// InvalidArgument for a file without logits of this model or without tokens; what opening, reading, loading and computing
/// raises.
pub fn compare(
    host: &Host,
    opened: &OpenedModel,
    arch: &str,
    file: &Path,
    args: &LogitsArgs,
) -> Result<Compared> {
    let reference = Reference::open(host, file)?;
    let ids = match &args.tokens {
        Some(text) => parse_tokens(text)?,
        None => reference.ids()?,
    };
    let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    if ids.is_empty() || reference.rows > count {
        let message = format!(
            "the file has logits for {} tokens, but the number of token ids is {count}",
            reference.rows
        );
        return Err(reference.error(message).hint("specify the ids of all computed tokens: --tokens IDS"));
    }
    let options = LoadOptions {
        arch: Some(arch.to_owned()),
        backend: Backend::Host,
        threads: host.threads().width(),
        // Some rotations depend on how long the text is.
        context: u32::try_from(ids.len()).ok(),
        cache: DType::F32,
        as_floats: true,
        ..LoadOptions::default()
    };
    let mut runner = load(host, opened, &options)?.runner;
    let width = u64::try_from(runner.width()).unwrap_or(u64::MAX);
    if width != reference.width {
        let message = format!(
            "the file has logits for a vocabulary of {}, but that of the model is {width}",
            reference.width
        );
        return Err(reference.error(message).hint("specify logits of this model"));
    }
    if let Some(id) = ids.iter().find(|id| u64::from(**id) >= width) {
        let message = format!("token id {id} is out of range for the model's vocabulary of {width}");
        return Err(Error::invalid_argument(message).hint("specify token ids of this model: --tokens IDS"));
    }
    let mut figures = Figures::default();
    let before = count - reference.rows;
    runner.feed_all(&ids, &mut |number, logits| {
        host.check_cancelled()?;
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        if let Some(row) = number.checked_sub(before) {
            figures.add(number, logits, &reference.row(row)?);
        }
        Ok(())
    })?;
    figures.compared(&reference, ids.len(), args.tolerance)
}

/// Token ids, given as they are or as a file.
fn parse_tokens(text: &str) -> Result<Vec<u32>> {
    let is_list = text.chars().all(|c| c.is_ascii_digit() || c == ',' || c.is_whitespace());
    let from_file;
    let (list, file) = if is_list {
        (text, None)
    } else {
        from_file = read_text(Path::new(text))?;
        (from_file.as_str(), Some(text))
    };
    let words = list.split(|c: char| c.is_whitespace() || [',', '[', ']'].contains(&c));
    let ids = words.filter(|word| !word.is_empty()).map(|word| {
        word.parse::<u32>().map_err(|_| {
            let error = Error::invalid_argument(format!("invalid token id `{}`", escape(word, 40)));
            let error = error.hint("specify numbers separated by commas");
            file.map_or(error.clone(), |file| error.in_file(file.to_owned()))
        })
    });
    ids.collect()
}

/// A file with reference logits.
struct Reference<'a> {
    host: &'a Host,
    opened: OpenedModel,
    /// The tensor of logits.
    tensor: usize,
    rows: u64,
    width: u64,
}

impl<'a> Reference<'a> {
    fn open(host: &'a Host, path: &Path) -> Result<Reference<'a>> {
        let opened = open(host, path, &OpenOptions { bare: true, ..OpenOptions::default() })?;
        let tensors = &opened.model.tensors;
        let tensor = tensor_of(tensors, &["logits"], &|tensor| is_float(tensor.dtype));
        let shape = tensor.map(|tensor| &tensors[tensor].shape[..]).unwrap_or_default();
        let batch = shape.len().saturating_sub(2);
        match (tensor, &shape[batch..]) {
            (Some(tensor), &[rows, width])
                if shape[..batch].iter().all(|n| *n == 1) && rows > 0 && width > 0 =>
            {
                Ok(Reference { host, opened, tensor, rows, width })
            }
            _ => {
                let message =
                    "no logits found in this file: expected a tensor of floats with one row per token";
                let hint =
                    "name it `logits` if there are several; `apr arch check --help` shows how to write it";
                Err(Error::invalid_argument(message).in_file(path.display().to_string()).hint(hint))
            }
        }
    }

    fn error(&self, message: String) -> Error {
        Error::invalid_argument(message).in_file(self.opened.path.display().to_string())
    }

    /// The token ids beside the logits.
    fn ids(&self) -> Result<Vec<u32>> {
        let tensors = &self.opened.model.tensors;
        let Some(tensor) = tensor_of(tensors, &["ids", "input_ids", "tokens"], &is_ids) else {
            let error = self.error("the file with the logits contains no token ids".to_owned());
            return Err(error.hint("specify the ids of the computed tokens: --tokens IDS"));
        };
        let all: Vec<_> = tensors[tensor].shape.iter().map(whole).collect();
        let ids = values(self.host, &self.opened, tensor, &all)?.into_iter().map(|number| match number {
            Number::Int(id) => u32::try_from(id).map_err(|_| self.error(format!("invalid token id {id}"))),
            _ => Err(self.error("token ids must be integers".to_owned())),
        });
        ids.collect()
    }

    /// One row of logits.
    fn row(&self, row: u64) -> Result<Vec<f64>> {
        let shape = &self.opened.model.tensors[self.tensor].shape;
        let mut axes: Vec<_> = shape.iter().map(whole).collect();
        if let Some(axis) = shape.len().checked_sub(2).and_then(|at| axes.get_mut(at)) {
            *axis = iter::once(row..row + 1).collect();
        }
        let numbers = values(self.host, &self.opened, self.tensor, &axes)?.into_iter();
        let row = numbers.map(|number| match number {
            Number::F32(x) => f64::from(x),
            Number::F64(x) => x,
            _ => f64::NAN,
        });
        let row: Vec<f64> = row.collect();
        match row.iter().all(|x| x.is_finite()) {
            true => Ok(row),
            false => Err(self.error("some of the logits in this file are not finite".to_owned())),
        }
    }
}

fn is_ids(tensor: &Tensor) -> bool {
    let is_integer =
        tensor.dtype.info().is_some_and(|info| matches!(info.kind, DTypeKind::Int | DTypeKind::Uint));
    is_integer && tensor.shape.iter().filter(|n| **n != 1).count() <= 1
}

/// All indices along a dimension.
fn whole(size: &u64) -> Vec<Range<u64>> {
    iter::once(0..*size).collect()
}

/// The tensor with one of these names that fits, else the only one that fits.
fn tensor_of(tensors: &[Tensor], names: &[&str], fits: &dyn Fn(&Tensor) -> bool) -> Option<usize> {
    let fitting: Vec<usize> = (0..tensors.len()).filter(|at| fits(&tensors[*at])).collect();
    let named = names.iter().find_map(|name| fitting.iter().find(|at| tensors[**at].name == *name));
    named.copied().or(if let [only] = fitting[..] { Some(only) } else { None })
}

/// Differences between two sets of logits.
#[derive(Default)]
struct Figures {
    largest: f64,
    at: (u64, u64),
    squares: f64,
    nonfinite: u64,
    same_choice: u64,
}

impl Figures {
    /// Adds the logits after one token.
    fn add(&mut self, token: u64, have: &[f32], want: &[f64]) {
        for (id, (have, want)) in (0u64..).zip(have.iter().zip(want)) {
            self.squares += want * want;
            let apart = (f64::from(*have) - want).abs();
            if !apart.is_finite() {
                self.nonfinite += 1;
            } else if apart > self.largest {
                (self.largest, self.at) = (apart, (token, id));
            }
        }
        let chosen = have.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let wanted = want.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        self.same_choice += u64::from(chosen.map(|(id, _)| id) == wanted.map(|(id, _)| id));
    }

    fn compared(self, reference: &Reference<'_>, tokens: usize, tolerance: f64) -> Result<Compared> {
        #[allow(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
        let count = reference.rows as f64 * reference.width as f64;
        let rms = (self.squares / count).sqrt();
        if rms == 0.0 {
            return Err(reference.error("all logits in this file are 0".to_owned()));
        }
        let largest = (self.nonfinite == 0).then_some(self.largest);
        let relative = largest.map(|largest| largest / rms);
        Ok(Compared {
            file: reference.opened.path.display().to_string(),
            tokens,
            rows: reference.rows,
            vocabulary: reference.width,
            largest,
            rms,
            relative,
            tolerance,
            at: self.at,
            nonfinite: self.nonfinite,
            same_choice: self.same_choice,
            same: relative.is_some_and(|relative| relative <= tolerance),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_numbers_between_commas() {
        assert_eq!(parse_tokens("1,2, 3").unwrap(), [1, 2, 3]);
        assert!(parse_tokens("").unwrap().is_empty());
        assert!(parse_tokens("4294967296").is_err() && parse_tokens("nowhere.txt").is_err());
    }

    #[test]
    fn a_logit_that_is_no_number_is_counted() {
        let mut figures = Figures::default();
        figures.add(0, &[1.0, 2.0], &[1.0, 2.5]);
        figures.add(1, &[f32::NAN, 2.0], &[3.0, 2.0]);
        assert_eq!((figures.largest, figures.at, figures.nonfinite), (0.5, (0, 1), 1));
    }
}
