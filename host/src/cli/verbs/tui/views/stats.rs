//! The summary, and what was measured of every tensor: with each a verdict, and below the reason for the selected one.

use super::Theme;
use super::parts::{cell, columns, name, say, table};
use crate::cli::verbs::tui::state::App;
use crate::cli::verbs::tui::worker::Measured;
use apr_engine::architecture::Expected;
use apr_sdk::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Wrap};

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let lines = u16::try_from(app.contents.summary.len()).unwrap_or(u16::MAX).min(area.height / 2);
    let below = if area.height >= 12 { 3 } else { 1 };
    let [above, middle, below] =
        Layout::vertical([Constraint::Length(lines), Constraint::Fill(1), Constraint::Length(below)])
            .areas(area);
    let summary = app.contents.summary.iter().take(usize::from(lines));
    let summary = summary.map(|(label, text)| Line::raw(format!("{label:13}  {}", escape(text, 400))));
    frame.render_widget(Paragraph::new(summary.collect::<Vec<_>>()), above);
    if app.shown.is_empty() {
        return say(frame, middle, "There are no tensors to measure.");
    }
    let all =
        [("", 4, 0), ("tensor", 0, 0), ("mean", 11, 28), ("std", 11, 44), ("min", 11, 64), ("max", 11, 64)];
    let (shown, width) = columns(&all, middle.width);
    let rows = &app.contents.rows;
    let numbers = &app.shown;
    let measured = &app.measured;
    table(frame, middle, &shown, &mut app.list, numbers.len(), theme, |at| {
        let measured = measured.get(&numbers[at]);
        let stats = measured.and_then(|measured| measured.stats.as_ref());
        let (verdict, style) = match measured.map(verdict) {
            Some("OK") => ("OK", theme.good()),
            Some(verdict @ ("BAD" | "ERR")) => (verdict, theme.bad()),
            verdict => (verdict.unwrap_or(""), theme.head()),
        };
        Row::new(shown.iter().map(|(head, own, _)| match *head {
            "" => Text::styled(verdict, style),
            "tensor" => Text::raw(name(&rows[numbers[at]].name, width)),
            "mean" => cell(stats.and_then(|stats| stats.mean), *own),
            "std" => cell(stats.and_then(|stats| stats.std), *own),
            "min" => cell(stats.and_then(|stats| Some(stats.min.as_ref()?.value)), *own),
            _ => cell(stats.and_then(|stats| Some(stats.max.as_ref()?.value)), *own),
        }))
    });
    let selected = app.selected().and_then(|number| app.measured.get(&number));
    let texts = match (&app.failed, selected) {
        (Some(failed), _) => vec![failed.clone()],
        (None, Some(measured)) => reasons(measured),
        (None, None) => Vec::new(),
    };
    let texts = texts.iter().map(|text| Line::raw(escape(text, 1000))).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(texts).wrap(Wrap { trim: true }), below);
}

/// `ERR`: it cannot be read. `BAD`: a rule is broken, or a range left. `-`: nothing judges it.
fn verdict(measured: &Measured) -> &'static str {
    match measured {
        Measured { error: Some(_), .. } => "ERR",
        Measured { findings, .. } if !findings.is_empty() => "BAD",
        Measured { unexamined: Some(_), .. } => "-",
        _ => "OK",
    }
}

/// The reasons for a verdict.
pub fn reasons(measured: &Measured) -> Vec<String> {
    if let Some(error) = &measured.error {
        return vec![error.clone()];
    }
    let findings = measured.findings.iter();
    let mut reasons: Vec<String> =
        findings.map(|found| format!("{} [{}]", found.message, found.code)).collect();
    reasons.extend(measured.stats_missing.clone());
    reasons.extend(measured.unexamined.as_ref().map(|why| format!("not checked: {why}")));
    match &measured.expected {
        Some(expected) if !reasons.iter().any(|text| text.contains(&expected.source)) => {
            reasons.push(ranges(expected));
        }
        None if reasons.is_empty() => reasons.push("no rule is violated; no range is expected".to_owned()),
        _ => {}
    }
    reasons
}

fn ranges(expected: &Expected) -> String {
    let ranges = expected.ranges.iter().map(|(figure, [low, high])| {
        format!("{} {low} to {high}", apr_engine::architecture::Figure::name(*figure))
    });
    format!("expected: {} ({})", ranges.collect::<Vec<_>>().join(", "), expected.source)
}
