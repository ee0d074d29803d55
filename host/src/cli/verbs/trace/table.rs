//! A trace as a table.

use super::document::{Filter, shape, shown};
use super::figures::{milliseconds, number, number_or_dash, percent};
use super::subject::Trace;
use apr_host::sizes::{show_number_of, show_size};
use apr_inference::trace::{Figures, Recording, TracedResult};
use apr_sdk::escape;
use std::fmt;

/// The heads of the columns.
const HEADS: [&str; 11] =
    ["result", "operation", "shape", "min", "max", "mean", "rms", "zeros", "nan", "time", "read"];

/// Writes the table of a trace.
pub fn write(f: &mut fmt::Formatter<'_>, trace: &Trace, filter: Option<&Filter>) -> fmt::Result {
    let model = &trace.model;
    writeln!(
        f,
        "{}: {}, {}, {}",
        escape(&model.path, 400),
        escape(&model.architecture, 80),
        show_number_of(model.layers, "layer"),
        model.dtype
    )?;
    part(f, "prompt", &trace.prompt, filter)?;
    if let Some(answer) = &trace.answer {
        part(f, "answer", answer, filter)?;
    }
    if trace.next.is_empty() {
        return writeln!(f, "\nnext: no token, for no logit is a number");
    }
    writeln!(f, "\nnext:")?;
    for (number, candidate) in trace.next.iter().enumerate() {
        let text = candidate.text.as_deref().map_or_else(String::new, |text| escape(text, 40));
        writeln!(f, "  {}. {:.4}  {:>7}  {text}", number + 1, candidate.probability, candidate.id)?;
    }
    Ok(())
}

/// Writes the table of a recording.
fn part(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    recording: &Recording,
    filter: Option<&Filter>,
) -> fmt::Result {
    let tokens = show_number_of(recording.ids.len(), "token");
    let steps = show_number_of(recording.steps.len(), "step");
    let took = recording.took();
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    writeln!(f, "\n{word}: {tokens} in {steps}, {}{}", milliseconds(nanoseconds), cost(recording))?;
    let rows = rows(recording, filter);
    let mut widths = HEADS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    line(f, &HEADS.map(str::to_owned), &widths)?;
    rows.iter().try_for_each(|row| line(f, row, &widths))?;
    let read = recording.operations.iter().map(|operation| operation.bytes).sum();
    let timed: u64 = recording.operations.iter().map(|operation| operation.nanoseconds).sum();
    writeln!(f, "total: {} in operations, {} read", milliseconds(timed), show_size(read))
}

/// What measuring took, where the backend says it.
fn cost(recording: &Recording) -> String {
    let measuring: u64 = recording.steps.iter().map(|step| step.measuring).sum();
    if measuring == 0 {
        return String::new();
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let share = measuring as f64 / recording.took().as_nanos().max(1) as f64;
    format!(", {} of it to measure", percent(share))
}

/// The rows of the table: one for each result, with time and bytes at the operation's first.
fn rows(recording: &Recording, filter: Option<&Filter>) -> Vec<[String; 11]> {
    let mut rows = Vec::new();
    for operation in &recording.operations {
        let time =
            if operation.nanoseconds > 0 { milliseconds(operation.nanoseconds) } else { "-".to_owned() };
        let read = if operation.bytes > 0 { show_size(operation.bytes) } else { "-".to_owned() };
        if operation.results.is_empty() && filter.is_none() {
            let mut row = HEADS.map(|_| String::new());
            (row[0], row[1]) = (operation.name.clone(), operation.kind.clone());
            (row[9], row[10]) = (time, read);
            rows.push(row);
            continue;
        }
        let mut once = Some([time, read]);
        for result in shown(operation, filter) {
            rows.push(row(result, &operation.kind, once.take().unwrap_or_default()));
        }
    }
    rows
}

fn row(result: &TracedResult, kind: &str, [time, read]: [String; 2]) -> [String; 11] {
    let [n_rows, columns] = shape(result);
    let Figures { least, greatest, not_finite, .. } = result.figures;
    let is_any = result.figures.finite() > 0;
    let extreme = |x: f32| if is_any { number(f64::from(x)) } else { "-".to_owned() };
    [
        result.name.clone(),
        kind.to_owned(),
        format!("{n_rows}x{columns}"),
        extreme(least),
        extreme(greatest),
        number_or_dash(result.figures.mean()),
        number_or_dash(result.figures.rms()),
        percent(result.figures.share_of_zeros()),
        not_finite.to_string(),
        time,
        read,
    ]
}

/// Writes a line: names to the left, numbers to the right.
fn line(f: &mut fmt::Formatter<'_>, cells: &[String; 11], widths: &[usize; 11]) -> fmt::Result {
    let mut text = String::new();
    for (number, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let padded = if number < 3 { format!("{cell:width$}") } else { format!("{cell:>width$}") };
        text.push_str(&padded);
        text.push_str("  ");
    }
    writeln!(f, "{}", text.trim_end())
}
