//! Distribution of the values of one tensor.

use super::Theme;
use super::parts::{flow, name, number, say};
use super::stats::reasons;
use crate::cli::verbs::tensors::show_value;
use crate::cli::verbs::tui::state::App;
use apr_engine::verify::histogram::Histogram;
use apr_engine::verify::stats::Stats;
use apr_host::sizes::{show_count, show_size};
use apr_sdk::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Bar, BarChart, BarGroup, Paragraph, Wrap};

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(selected) = app.selected() else {
        return say(frame, area, "Select a tensor first: press [t] to list them.");
    };
    let row = &app.contents.rows[selected];
    let width = usize::from(area.width);
    let kind = format!("{} {:?}, {}", row.dtype, row.shape, show_size(row.bytes));
    let mut lines = vec![Line::styled(name(&row.name, width), theme.head()), Line::raw(kind)];
    let measured = app.measured.get(&selected);
    lines.extend(flow(&measured.and_then(|one| one.stats.as_ref()).map(facts).unwrap_or_default(), width));
    let is_bad = measured.is_some_and(|one| !one.findings.is_empty() || one.error.is_some());
    let style = if is_bad { theme.bad() } else { Default::default() };
    let reasons = measured.map(reasons).unwrap_or_default();
    lines.extend(reasons.iter().map(|text| Line::styled(escape(text, 1000), style)));
    let paragraph = Paragraph::new(lines.clone()).wrap(Wrap { trim: true });
    let is_charted = measured.is_none_or(|one| one.histogram.is_some() || !one.is_whole);
    // Without a chart, the text has all of the screen.
    let tallest = if is_charted { area.height.saturating_sub(4).max(2) } else { area.height };
    let height = lines.iter().map(|line| line.width().div_ceil(width.max(1)).max(1)).sum::<usize>();
    let height = u16::try_from(height).unwrap_or(u16::MAX).min(tallest);
    let [above, below] = Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    frame.render_widget(paragraph, above);
    match measured.and_then(|one| one.histogram.as_ref()) {
        Some(histogram) => chart(frame, below, histogram, theme),
        None if measured.is_none_or(|one| !one.is_whole) => say(frame, below, "measuring, press Esc to stop"),
        None => {}
    }
}

/// The figures; counts of what is not there are left out, but for zeros and NaN.
fn facts(stats: &Stats) -> Vec<String> {
    let values = stats.figures();
    let mut all: Vec<String> =
        values.iter().filter_map(|(what, value)| Some(format!("{what} {}", show_value((*value)?)))).collect();
    let counts = [("values", stats.count), ("zeros", stats.zeros), ("NaN", stats.nans), ("inf", stats.infs)];
    for (what, count) in counts {
        if count > 0 || what != "inf" {
            all.push(format!("{what} {}", show_count(count.into())));
        }
    }
    all
}

/// One bar a bin; below, the range, and above, what the tallest bar stands for.
fn chart(frame: &mut Frame<'_>, area: Rect, histogram: &Histogram, theme: Theme) {
    let bins = &histogram.bins;
    let (Some(first), Some(last), true) = (bins.first(), bins.last(), area.height >= 3) else { return };
    let [head, bars, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let n = u16::try_from(bins.len()).unwrap_or(u16::MAX);
    if area.width < n {
        return say(frame, area, &format!("{n} bars require a wider terminal."));
    }
    let bar_width = (area.width / n.max(1)).clamp(1, 8);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    // In eighths of a line: a bin with anything in it shows at least a mark.
    let tallest = u64::from(bars.height) * 8;
    let drawn = bins.iter().map(|bin| {
        let height = (u128::from(bin.count) * u128::from(tallest)).div_ceil(u128::from(most));
        let height = u64::try_from(height).unwrap_or(tallest);
        Bar::default().value(height).text_value("").style(theme.bar())
    });
    let group = BarGroup::default().bars(&drawn.collect::<Vec<_>>());
    let widget = BarChart::default().data(group).bar_width(bar_width).bar_gap(0).max(tallest);
    let axis = match n {
        1 => number(first.from, area.width),
        _ => {
            let span = (n * bar_width).min(area.width);
            let low = number(first.from, span.saturating_sub(1) / 2);
            let high = number(last.to, span.saturating_sub(1) / 2);
            let rest = usize::from(span).saturating_sub(low.len());
            format!("{low}{high:>rest$}")
        }
    };
    frame.render_widget(Line::raw(format!("tallest bar: {}", show_count(most.into()))), head);
    frame.render_widget(widget, bars);
    frame.render_widget(Line::raw(axis), foot);
}
