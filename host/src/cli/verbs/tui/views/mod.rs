//! The frame around every view: what is shown above it, and the keys below it.

mod compare;
mod graph;
mod help;
mod histogram;
mod parts;
mod stats;
mod tensors;
#[cfg(test)]
mod tests;

use super::state::{App, View};
use super::worker::Task;
use apr_host::sizes::show_count;
use apr_sdk::escape;
use parts::cut;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

/// Styles: colors only where they are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// True if colors are wanted.
    pub color: bool,
}

impl Theme {
    /// Of the first line.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Of the heads of columns.
    pub fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Of what is selected.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Of what is as it should be.
    pub fn good(self) -> Style {
        self.colored(Color::Green)
    }

    /// Of what is not.
    pub fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Of bars.
    pub fn bar(self) -> Style {
        self.colored(Color::Blue)
    }

    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }
}

/// Draws the explorer. Only what is on the screen costs anything, however many tensors there are.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let [above, body, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let width = usize::from(above.width);
    let doing = doing(app);
    let gap = width.saturating_sub(doing.chars().count());
    let name = cut(&title(app), gap.saturating_sub(1));
    frame.render_widget(Line::styled(format!("{name:gap$}{doing}"), theme.title()), above);
    match app.view {
        _ if app.help => help::draw(frame, body),
        View::Tensors => tensors::draw(frame, body, app, theme),
        View::Stats => stats::draw(frame, body, app, theme),
        View::Histogram => histogram::draw(frame, body, app, theme),
        View::Graph => graph::draw(frame, body, app, theme),
        View::Compare => compare::draw(frame, body, app, theme),
    }
    frame.render_widget(Line::raw(keys(app)), below);
}

fn title(app: &App) -> String {
    let view = match app.view {
        _ if app.help => "keys",
        View::Tensors => "tensors",
        View::Stats => "statistics",
        View::Histogram => "histogram",
        View::Graph => "graph",
        View::Compare => "comparison",
    };
    let path = std::path::Path::new(&app.contents.path);
    let name = path.file_name().map_or(app.contents.path.as_str().into(), |name| name.to_string_lossy());
    format!("{view}: {} ({})", escape(&name, 200), app.contents.format)
}

/// The task at work, or else the place in the list.
fn doing(app: &App) -> String {
    match (app.running, app.progress) {
        (Some(_), _) if app.stopping => "stopping ...".to_owned(),
        (Some(Task::All), _) => {
            let done = show_count(app.measured.len() as u128);
            format!("measured {done} of {}", show_count(app.contents.rows.len() as u128))
        }
        (Some(Task::Compare), Some((done, total))) if total > 0 => {
            format!("comparing, {} %", u128::from(done.min(total)) * 100 / u128::from(total))
        }
        (Some(Task::Compare), _) => "comparing ...".to_owned(),
        (Some(Task::Tensor(_)), _) => "measuring ...".to_owned(),
        (Some(Task::Graph), _) => "grouping ...".to_owned(),
        (None, _) => {
            let (at, len) = match (app.view, &app.graph, &app.compared) {
                (View::Graph, Some(Ok(lines)), _) => (app.tree.at, lines.len()),
                (View::Compare, _, Some(Ok(found))) => (app.pairs.at, found.tensors.len()),
                (View::Graph | View::Compare, ..) => return String::new(),
                _ => (app.list.at, app.shown.len()),
            };
            match len {
                0 => String::new(),
                len => format!("{} of {}", show_count(at as u128 + 1), show_count(len as u128)),
            }
        }
    }
}

fn keys(app: &App) -> String {
    match app.view {
        _ if app.editing => format!("/{}_", escape(&app.filter, 200)),
        _ if app.help => "any key: back".to_owned(),
        View::Tensors | View::Stats if !app.filter.is_empty() => {
            format!("[?]help [q]uit  names with `{}`, Esc: all", escape(&app.filter, 200))
        }
        _ => "[?]help [q]uit [t]ensors [s]tats [h]istogram [g]raph [c]ompare [/]filter".to_owned(),
    }
}
