//! The list of all keys, in place of a view.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

const KEYS: &[(&str, &str)] = &[
    ("t", "list the tensors"),
    ("s", "summarize, measure every tensor"),
    ("h Enter", "measure the selected tensor"),
    ("g", "group the names; like layers once"),
    ("c", "compare with the other model"),
    ("/", "filter the names; Esc shows all"),
    ("Esc", "stop measuring, go back"),
    ("j k ↓ ↑", "next, previous"),
    ("PgDn PgUp", "a screen on, back"),
    ("Home End", "first, last"),
    ("q Ctrl-C", "quit"),
];

/// Draws them.
pub fn draw(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = KEYS.iter().map(|(key, what)| Line::raw(format!("{key:<10}{what}"))).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
