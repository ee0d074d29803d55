//! Anomalies in words.

use super::figures::{number, percent};
use super::subject::Trace;
use apr_host::sizes::show_number_of;
use apr_inference::trace::{Anomaly, Fault};
use apr_sdk::escape;
use std::fmt;

/// Positions whose tokens are shown.
const SHOWN: usize = 5;

/// Writes what was found.
pub fn write(f: &mut fmt::Formatter<'_>, trace: &Trace, found: &[Anomaly]) -> fmt::Result {
    let results: usize = trace.prompt.operations.iter().map(|operation| operation.results.len()).sum();
    if found.is_empty() {
        return writeln!(f, "\nno anomalies in {}", show_number_of(results, "result"));
    }
    let odd: std::collections::BTreeSet<&str> = found.iter().map(|one| one.result.as_str()).collect();
    writeln!(f, "\nanomalies:")?;
    for anomaly in found {
        writeln!(f, "  {} (operation {}): {}", anomaly.result, anomaly.operation, in_words(&anomaly.fault))?;
        if !anomaly.positions.is_empty() {
            writeln!(f, "    at {}", places(trace, &anomaly.positions))?;
        }
    }
    writeln!(f, "no anomalies arise in the other {}", show_number_of(results - odd.len(), "result"))
}

/// A fault in words, with what may have caused it.
pub fn in_words(fault: &Fault) -> String {
    let at = |column: &Option<u32>| column.map_or_else(String::new, |column| format!(" in column {column}"));
    match fault {
        Fault::NotFinite { count, column, behind } => {
            let values = show_number_of(usize::try_from(*count).unwrap_or(usize::MAX), "value");
            let behind = match behind {
                0 => String::new(),
                n => format!("; {} behind it have some too", show_number_of(*n, "operation")),
            };
            format!(
                "{values} NaN or infinite, first{}{behind}: its weights are corrupt, or values overflow",
                if column.is_some() { at(column) } else { " here".to_owned() }
            )
        }
        Fault::Spike { peak, usual, column } => format!(
            "a spike of {}{}, {:.0} times the usual {}",
            number(f64::from(*peak)),
            at(column),
            peak / usual,
            number(f64::from(*usual))
        ),
        Fault::Outlier { rms, usual } => format!(
            "an RMS of {}, {:.0} times that of the same in other layers, {}: its weights may be corrupt, or \
             their scale wrong",
            number(*rms),
            rms / usual,
            number(*usual)
        ),
        Fault::Dead { columns, of, first } => {
            #[allow(clippy::cast_precision_loss, reason = "a share")]
            let share = *columns as f64 / (*of).max(1) as f64;
            format!(
                "{} of {of} columns ({}) are zero for every token, the first of them {first}: pruned, or dead \
                 neurons",
                columns,
                percent(share)
            )
        }
    }
}

/// Positions as ranges, with the tokens at the first of them.
fn places(trace: &Trace, positions: &[u32]) -> String {
    let mut text = format!("position {}", ranges(positions));
    let mut tokens = Vec::new();
    for position in positions.iter().take(SHOWN) {
        let token = usize::try_from(*position).ok().and_then(|at| trace.tokens.get(at));
        if let Some(shown) = token.and_then(|token| token.text.as_deref()) {
            tokens.push(format!("`{}`", escape(shown, 40)));
        }
    }
    if !tokens.is_empty() {
        let more = if positions.len() > SHOWN { ", ..." } else { "" };
        text.push_str(&format!(" ({}{more})", tokens.join(", ")));
    }
    text
}

/// `3, 7-9, 12`.
fn ranges(positions: &[u32]) -> String {
    let mut ranges: Vec<std::ops::RangeInclusive<u32>> = Vec::new();
    for position in positions {
        match ranges.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(*position) => *last = *last.start()..=*position,
            _ => ranges.push(*position..=*position),
        }
    }
    let shown = ranges.iter().map(|range| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}-{}", range.start(), range.end()),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_a_row_are_a_range() {
        assert_eq!(ranges(&[3, 7, 8, 9, 12]), "3, 7-9, 12");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn faults_are_told_with_their_numbers() {
        let spike = Fault::Spike { peak: 50.0, usual: 2.0, column: Some(7) };
        assert_eq!(in_words(&spike), "a spike of 50.00 in column 7, 25 times the usual 2.0000");
        let odd = Fault::NotFinite { count: 1, column: None, behind: 2 };
        assert!(in_words(&odd).starts_with("1 value NaN or infinite, first here; 2 operations behind it"));
    }
}
