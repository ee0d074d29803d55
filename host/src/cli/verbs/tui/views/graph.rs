//! The names as a tree, in which layers that are made alike stand once.

use super::Theme;
use super::parts::{columns, cut, say, table};
use crate::cli::verbs::tui::state::App;
use apr_host::sizes::{show_count, show_size};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Text;
use ratatui::widgets::Row;

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let lines = match &app.graph {
        None => return say(frame, area, "grouping the names, press Esc to stop"),
        Some(Err(why)) => return say(frame, area, why),
        Some(Ok(lines)) if lines.is_empty() => return say(frame, area, "The model has no tensors."),
        Some(Ok(lines)) => lines,
    };
    let all = [("group", 0, 0), ("parameters", 16, 40), ("size", 9, 60), ("what", 26, 72)];
    let (shown, width) = columns(&all, area.width);
    table(frame, area, &shown, &mut app.tree, lines.len(), theme, |at| {
        let line = &lines[at];
        Row::new(shown.iter().map(|(head, own, _)| match *head {
            "group" => Text::raw(cut(&line.name, width)),
            "parameters" => Text::raw(show_count(line.parameters.into())).right_aligned(),
            "size" => Text::raw(show_size(line.bytes)).right_aligned(),
            _ => Text::raw(cut(&line.what, usize::from(*own))),
        }))
    });
}
