//! Parts shared by several views.

use super::Theme;
use crate::cli::verbs::tensors::show_value;
use crate::cli::verbs::tui::cursor::Cursor;
use apr_sdk::escape;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};

/// `text` in at most `width` columns: its middle is left out if it is too long, since names differ at both ends. Characters that
/// take two columns may make it longer; the table cuts those.
pub fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let Some(left) = width.checked_sub(1) else { return String::new() };
    let head = left / 3;
    let tail = text.chars().skip(count - (left - head));
    text.chars().take(head).chain(['…']).chain(tail).collect()
}

/// A name from a file, safe to show, in at most `width` columns.
pub fn name(text: &str, width: usize) -> String {
    cut(&escape(text, 1000), width)
}

/// A number in at most `width` columns, with fewer digits where five do not fit: one that is cut would be another number.
pub fn number(value: f64, width: u16) -> String {
    let forms = [show_value(value), format!("{value:.3e}"), format!("{value:.1e}"), format!("{value:.0e}")];
    forms.into_iter().find(|text| text.len() <= usize::from(width)).unwrap_or_else(|| "…".to_owned())
}

/// The cell of a number, which may not be known.
pub fn cell(value: Option<f64>, width: u16) -> Text<'static> {
    Text::raw(value.map_or(String::new(), |value| number(value, width))).right_aligned()
}

/// A message in place of what there is not.
pub fn say(frame: &mut Frame<'_>, area: Rect, message: &str) {
    frame.render_widget(Paragraph::new(escape(message, 1000)).wrap(Wrap { trim: false }), area);
}

/// Phrases in lines of at most `width` columns.
pub fn flow(phrases: &[String], width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for phrase in phrases {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + phrase.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(phrase);
            }
            _ => lines.push(phrase.clone()),
        }
    }
    lines.into_iter().map(Line::raw).collect()
}

/// A column: its head, its width, and the narrowest table that shows it.
pub type Column = (&'static str, u16, u16);

/// The columns that a table of this width shows, and the width that is left for the name, which is the one of width 0.
pub fn columns(all: &[Column], width: u16) -> (Vec<Column>, usize) {
    let shown: Vec<Column> = all.iter().filter(|(_, _, least)| width >= *least).copied().collect();
    let taken: u16 = shown.iter().map(|(_, own, _)| own + 1).sum();
    (shown, usize::from((width + 1).saturating_sub(taken)))
}

/// Draws a table whose selected line is on the screen; `row` is asked for the lines on the screen only.
pub fn table<'r>(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: &[Column],
    cursor: &mut Cursor,
    len: usize,
    theme: Theme,
    mut row: impl FnMut(usize) -> Row<'r>,
) {
    let lines = cursor.visible(usize::from(area.height.saturating_sub(1)), len);
    let mut state = TableState::new().with_selected(cursor.at.checked_sub(lines.start));
    let widths = columns.iter().map(|(_, width, _)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let head = Row::new(columns.iter().map(|(head, ..)| *head)).style(theme.head());
    let rows: Vec<Row<'r>> = lines.map(&mut row).collect();
    let table = Table::new(rows, widths).header(head).row_highlight_style(theme.selected());
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle_and_show_no_control_characters() {
        assert_eq!(cut("blk.0.attn_q.weight", 10), "blk…weight");
        assert_eq!(["ab", "", "é"].map(|text| cut(text, 1)), ["…", "", "é"]);
        assert_eq!(cut("ab", 0), "");
        assert_eq!(name("a\u{1b}[31m\u{202e}b", 40), "a\\u{1b}[31m\\u{202e}b");
    }

    #[test]
    fn a_number_that_does_not_fit_has_fewer_digits() {
        let of = |value| [11, 9, 8, 7, 4].map(|width| number(value, width));
        assert_eq!(of(-4.115_54e-4), ["-4.11554e-4", "-4.116e-4", "-4.1e-4", "-4.1e-4", "…"]);
        assert_eq!(of(0.5), ["0.50000", "0.50000", "0.50000", "0.50000", "5e-1"]);
        assert_eq!(of(-123_456.0), ["-1.235e5", "-1.235e5", "-1.235e5", "-1.2e5", "-1e5"]);
    }

    #[test]
    fn narrow_tables_have_fewer_columns() {
        let all = [("tensor", 0, 0), ("type", 8, 0), ("bytes", 9, 40)];
        assert_eq!(columns(&all, 60).1, 41);
        assert_eq!(columns(&all, 30), (all[..2].to_vec(), 21));
        assert_eq!(columns(&all, 3).1, 0);
    }
}
