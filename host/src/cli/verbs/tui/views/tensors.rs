//! The list of tensors.

use super::Theme;
use super::parts::{columns, cut, name, say, table};
use crate::cli::verbs::tui::state::App;
use apr_host::sizes::show_size;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Text;
use ratatui::widgets::Row;

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    if app.shown.is_empty() {
        let is_empty = app.contents.rows.is_empty();
        let message = if is_empty { "The model has no tensors." } else { "No name contains that text." };
        return say(frame, area, message);
    }
    let all = [("tensor", 0, 0), ("type", 8, 24), ("shape", 20, 56), ("size", 9, 40)];
    let (shown, width) = columns(&all, area.width);
    let rows = &app.contents.rows;
    let numbers = &app.shown;
    table(frame, area, &shown, &mut app.list, numbers.len(), theme, |at| {
        let row = &rows[numbers[at]];
        Row::new(shown.iter().map(|(head, own, _)| match *head {
            "tensor" => Text::raw(name(&row.name, width)),
            "type" => Text::raw(cut(&row.dtype, usize::from(*own))),
            "shape" => Text::raw(cut(&format!("{:?}", row.shape), usize::from(*own))),
            _ => Text::raw(show_size(row.bytes)).right_aligned(),
        }))
    });
}
