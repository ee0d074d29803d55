//! The differences from the other model: the most distant tensors first, then what has no distance.

use super::Theme;
use super::parts::{cell, columns, flow, name, say, table};
use crate::cli::verbs::tui::state::App;
use apr_engine::diff::{Counts, Status, TensorDiff, TensorSide};
use apr_host::sizes::show_count;
use apr_sdk::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Wrap};

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let Some(other) = &app.contents.other else {
        return say(frame, area, "There is nothing to compare with: run `apr tui FILE OTHER`.");
    };
    let diff = match &app.compared {
        None => return say(frame, area, "comparing, press Esc to stop"),
        Some(Err(why)) => return say(frame, area, why),
        Some(Ok(diff)) => diff,
    };
    let width = usize::from(area.width);
    let mut lines = vec![Line::raw(format!("with {}", name(other, width.saturating_sub(5))))];
    lines.extend(flow(&counts(&diff.counts), width));
    let others = diff.facts.iter().filter(|fact| fact.matters).count();
    if others > 0 {
        let count = show_count(others as u128);
        lines.push(Line::raw(format!("also different: {count} apart from tensors, see `apr diff`")));
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height / 2);
    let detail = if area.height >= 12 { 3 } else { 1 };
    let [above, middle, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Fill(1), Constraint::Length(detail)])
            .areas(area);
    frame.render_widget(Paragraph::new(lines), above);
    if diff.tensors.is_empty() {
        let same = if diff.same { "The models are the same." } else { "All tensors are the same." };
        return say(frame, middle, same);
    }
    let all = [("", 9, 0), ("tensor", 0, 0), ("relative", 11, 40), ("max |a-b|", 11, 60), ("cosine", 9, 72)];
    let (shown, width) = columns(&all, middle.width);
    let pairs = &diff.tensors;
    table(frame, middle, &shown, &mut app.pairs, pairs.len(), theme, |at| {
        let pair = &pairs[at];
        let values = pair.values.as_ref();
        let style = if pair.matters { theme.bad() } else { theme.good() };
        Row::new(shown.iter().map(|(head, own, _)| match *head {
            "" => Text::styled(word(pair.status), style),
            "tensor" => Text::raw(name(side(pair).map_or("", |side| &side.name), width)),
            "max |a-b|" => cell(values.map(|values| values.max_abs), *own),
            "relative" => cell(values.map(|values| values.relative), *own),
            _ => cell(values.and_then(|values| values.cosine), *own),
        }))
    });
    let details: Vec<Line<'_>> = pairs.get(app.pairs.at).map(details).unwrap_or_default();
    frame.render_widget(Paragraph::new(details).wrap(Wrap { trim: true }), below);
}

fn side(pair: &TensorDiff) -> Option<&TensorSide> {
    pair.a.as_ref().or(pair.b.as_ref())
}

fn shown(side: &TensorSide) -> String {
    format!("{} {} {:?}", escape(&side.name, 200), side.dtype, side.shape)
}

/// The tensor on both sides, and the reason why there is no distance.
fn details(pair: &TensorDiff) -> Vec<Line<'static>> {
    let mut lines = match (&pair.a, &pair.b) {
        (Some(a), Some(b)) if a == b => vec![shown(a)],
        (a, b) => [("a: ", a), ("b: ", b)]
            .into_iter()
            .filter_map(|(word, side)| Some(format!("{word}{}", shown(side.as_ref()?))))
            .collect(),
    };
    let odd = pair.values.as_ref().map_or(0, |values| values.mismatched);
    lines.extend(
        (odd > 0).then(|| format!("NaN or infinity in only one of them: {}", show_count(odd.into()))),
    );
    lines.extend(pair.values_missing.as_ref().map(|why| escape(why, 400)));
    lines.into_iter().map(Line::raw).collect()
}

fn word(status: Status) -> &'static str {
    match status {
        Status::OnlyInA => "only in a",
        Status::OnlyInB => "only in b",
        Status::Shape => "shape",
        Status::Dtype => "type",
        Status::Different => "differs",
        Status::Renamed => "renamed",
        Status::WithinTolerance => "near",
        Status::Rounded => "rounded",
        Status::Equal => "equal",
    }
}

fn counts(counts: &Counts) -> Vec<String> {
    let all = [
        (counts.identical, "identical"),
        (counts.equal, "equal in value"),
        (counts.rounded, "equal after rounding"),
        (counts.within_tolerance, "within the tolerance"),
        (counts.different, "different"),
        (counts.shape, "of different shape"),
        (counts.dtype, "of different type"),
        (counts.renamed, "renamed"),
        (counts.only_in_a, "only in a"),
        (counts.only_in_b, "only in b"),
    ];
    let told = all.iter().filter(|(count, _)| *count > 0);
    told.map(|(count, what)| format!("{} {what}", show_count((*count).into()))).collect()
}
