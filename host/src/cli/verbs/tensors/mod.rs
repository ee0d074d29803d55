//! `apr tensors`: which tensors are in there, and what is in them?

pub mod tree;
mod values;

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, Streamed, boxed, plain, write_rows};
use apr_engine::open::OpenedModel;
use apr_engine::planned::selection::Choice;
use apr_engine::verify::histogram::{Histogram, histogram};
use apr_engine::verify::input_checksums::refuse_damaged;
use apr_engine::verify::stats::{RowOptions, Stats, TensorRow, each_row_of};
use apr_engine::wording::nearest;
use apr_host::sizes::show_share;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// List a model's tensors
///
/// Names and types are the file's own, shapes are outermost first. Without
/// --sha256 and --stats only the header is read. With -q only the names are
/// printed, one per line.
///
/// With NAME, the values of that tensor are printed, dequantized if need be; for
/// a long one, its first and last values. Slices are written as in Python, and
/// only what they need is read: NAME[0:4, :8], NAME[-1].
///
/// Examples:
///   apr tensors model.gguf
///   apr tensors model.gguf --tree
///   apr tensors model.gguf 'blk.0.attn_q.weight[0:4, :8]'
///   apr tensors model.gguf output_norm.weight --json
///   apr tensors model.safetensors --json --sha256
///   apr tensors model.apr --stats --include 'blk.0.*'
///   apr tensors model.apr --hist blk.0.attn_norm.weight
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model: a file, any of its shards, its index, or its folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the values of this tensor, or of a slice of it: NAME[0:4, :8]
    #[arg(value_name = "NAME", conflicts_with_all = ["sha256", "stats", "hist", "tree"])]
    name: Option<String>,
    /// Show the names as a tree with totals, folding layers that are alike into one
    #[arg(long, conflicts_with_all = ["sha256", "stats", "hist"])]
    tree: bool,
    /// Add the SHA-256 of each tensor's weights, as row-major and little-endian in every format; of packed weights, of each
    /// stored tensor. Checksums that the file stores of what is read are compared
    #[arg(long)]
    sha256: bool,
    /// Show min, max, mean and standard deviation, and the number of zeros, NaNs and infinities if there are any
    #[arg(long)]
    stats: bool,
    /// Show a histogram of this tensor's values
    #[arg(long, value_name = "NAME")]
    hist: Option<String>,
    /// Show only tensors that match; may be repeated. `*` is any text, `?` one character, {a,b} either text
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["hist", "name", "tree"])]
    include: Vec<String>,
    /// Leave out tensors that match; may be repeated
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["hist", "name", "tree"])]
    exclude: Vec<String>,
    /// Show packed weights as they are stored: codes, scales and tables
    #[arg(long)]
    raw: bool,
    /// How the model is opened.
    #[command(flatten)]
    pub open: OpenArgs,
}

/// The tensors in the file's order. JSON: `apr tensors`: a bare array of objects of the schema `apr.tensors/1`, each with
/// `name`, `dtype`, `shape`, `bytes`; `file` and `offset` if the payload is one run of bytes of a file; for a packed weight
/// `packed` (`as`, `bytes`, `parts`), for a compressed tensor `compressed` (`as`, `bytes`); with `--sha256` also `sha256`, with `--stats` `stats` (`count`, `min`, `max`, `mean`,
/// `std`, `zeros`, `nans`, `infs`) or `stats_missing` with the reason; with `--hist NAME` that tensor alone, with `histogram`:
/// `bins` (each `from`, `to`, `count`), `nans`, `infs`.
#[derive(Debug)]
pub struct Listed {
    rows: Vec<TensorRow>,
    warnings: Vec<String>,
}

/// Opens the model, and lists its tensors or shows one.
///
/// # Errors
/// What opening and, where values are asked for, reading raised; Failed, E004, for digests of a damaged file; InvalidArgument for a tensor or a slice that there is not.
pub fn run(args: &Args, context: &Context) -> Result<Box<dyn Report>> {
    let open = args.open.shown(args.raw || args.sha256).recorded(args.sha256);
    let (host, mut opened) = host_and_model(&open, &args.file, context)?;
    if args.tree {
        return tree::of(&opened).map(boxed);
    }
    if let Some(name) = &args.name {
        return values::of(&host, &opened, name, context.terminal.json).map(boxed);
    }
    if !args.sha256 && !args.stats && args.hist.is_none() {
        opened.forget_readers();
    }
    let choice = Choice { include: args.include.clone(), exclude: args.exclude.clone(), drop: Vec::new() };
    let hidden = choice.unmatched(&opened.model.tensors);
    let hidden = hidden.map_err(|e| e.in_file(args.file.display().to_string()))?;
    let shown: Vec<usize> = (0..hidden.len()).filter(|&number| hidden[number].is_none()).collect();
    let mut rows = Vec::with_capacity(shown.len());
    let wanted = RowOptions { sha256: args.sha256, stats: args.stats };
    each_row_of(&host, &opened, &shown, wanted, &mut |row| rows.push(row))?;
    if args.sha256 {
        let subset = (shown.len() < hidden.len()).then_some(shown.as_slice());
        refuse_damaged(&host, &opened, subset)?;
    }
    if let Some(name) = &args.hist {
        let number = rows.iter().position(|row| row.name == *name).ok_or_else(|| unknown(&opened, name))?;
        let mut row = rows.swap_remove(number);
        row.histogram = Some(histogram(&host, &opened, number)?);
        rows = vec![row];
    }
    Ok(boxed(Listed { rows, warnings: opened.warnings }))
}

/// The error for a tensor that there is not.
fn unknown(opened: &OpenedModel, name: &str) -> Error {
    let near = nearest(name, opened.model.tensors.iter().map(|tensor| tensor.name.as_str()));
    let near = near.map_or(String::new(), |near| format!("did you mean `{}`? ", escape(near, 200)));
    let file = opened.path.display().to_string();
    let error = Error::invalid_argument("the model has no tensor with this name").tensor(name);
    error.hint(format!("{near}run `apr tensors {file} -q` to list the names")).in_file(file)
}

/// A tensor as JSON has it. An array has no key for its schema, so each of its objects has.
#[derive(Serialize)]
struct Document<'r> {
    schema: &'static str,
    #[serde(flatten)]
    row: &'r TensorRow,
}

impl Listed {
    fn documents(&self) -> Vec<Document<'_>> {
        self.rows.iter().map(|row| Document { schema: "apr.tensors/1", row }).collect()
    }
}

impl Report for Listed {
    fn json(&self) -> Result<Json> {
        plain(&self.documents())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write_rows(out, &self.documents())
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        self.rows.iter().map(|row| format!("{}\n", escape(&row.name, usize::MAX))).collect()
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.rows.iter().map(|row| escape(&row.name, 400)).collect();
        let shapes: Vec<_> = self.rows.iter().map(|row| format!("{:?}", row.shape)).collect();
        let name_width = width(&names, 60);
        let shape_width = width(&shapes, 30);
        for ((row, name), shape) in self.rows.iter().zip(&names).zip(&shapes) {
            write!(f, "{name:name_width$}  {:<8}  {shape:shape_width$}  {:>12}", row.dtype, row.bytes)?;
            if let Some(compressed) = &row.compressed {
                let share = show_share(compressed.bytes, row.bytes);
                write!(f, "  {} in {} bytes ({share})", escape(&compressed.method, 80), compressed.bytes)?;
            }
            if let Some(packed) = &row.packed {
                write!(f, "  {} in {} bytes", escape(&packed.about, 160), packed.bytes)?;
            }
            if let Some(sha256) = &row.sha256 {
                write!(f, "  {sha256}")?;
            }
            if let Some(stats) = &row.stats {
                write_stats(f, stats)?;
            }
            if let Some(reason) = &row.stats_missing {
                write!(f, "  {reason}")?;
            }
            writeln!(f)?;
            if let Some(histogram) = &row.histogram {
                write_histogram(f, histogram)?;
            }
        }
        Ok(())
    }
}

/// Width of the longest text, or `most`: one absurd name must not push every other row off the screen.
fn width(texts: &[String], most: usize) -> usize {
    texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).min(most)
}

/// One bar a bin, the longest 40 characters.
fn write_histogram(f: &mut fmt::Formatter<'_>, histogram: &Histogram) -> fmt::Result {
    const LONGEST: u128 = 40;
    let most = histogram.bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    for bin in &histogram.bins {
        // A bin with anything in it shows at least a mark.
        let bar = (u128::from(bin.count) * LONGEST).div_ceil(u128::from(most));
        let bar = "#".repeat(usize::try_from(bar).unwrap_or(0));
        let from = show_value(bin.from);
        let to = show_value(bin.to);
        let gap = if bar.is_empty() { "" } else { "  " };
        writeln!(f, "  {from:>13} to {to:>13}  {:>12}{gap}{bar}", bin.count)?;
    }
    for (count, what) in [(histogram.nans, "nans"), (histogram.infs, "infs")] {
        if count > 0 {
            writeln!(f, "  {what:>29}  {count:>12}")?;
        }
    }
    Ok(())
}

fn write_stats(f: &mut fmt::Formatter<'_>, stats: &Stats) -> fmt::Result {
    for (what, value) in stats.figures() {
        if let Some(value) = value {
            write!(f, "  {what} {}", show_value(value))?;
        }
    }
    for (count, what) in [(stats.zeros, "zeros"), (stats.nans, "nans"), (stats.infs, "infs")] {
        if count > 0 {
            write!(f, "  {what} {count}")?;
        }
    }
    Ok(())
}

/// Five digits; with an exponent where a plain number would be all zeros or too long.
pub fn show_value(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e6).contains(&size) { format!("{value:.5}") } else { format!("{value:.5e}") }
}

#[cfg(test)]
mod tests {
    use super::show_value;

    #[test]
    fn values_stay_short() {
        assert_eq!(
            [0.0, 0.5, -1e-5, 3e30].map(show_value),
            ["0.00000", "0.50000", "-1.00000e-5", "3.00000e30"]
        );
    }
}
