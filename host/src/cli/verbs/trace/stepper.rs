//! A trace on the terminal, an operation at a time.

use super::anomalies::in_words;
use super::document::shape;
use super::figures::{milliseconds, number, number_or_dash, percent};
use super::subject::Trace;
use crate::cli::context::Context;
use crate::cli::signals;
use crate::cli::verbs::tui;
use crate::cli::verbs::tui::keys::Key;
use crate::cli::verbs::tui::screen::{Screen, give_back_on_panic};
use crate::cli::verbs::tui::views::Theme;
use apr_host::sizes::show_size;
use apr_inference::trace::{Anomaly, Traced, TracedResult};
use apr_sdk::{Error, Result, escape};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Text};
use std::sync::atomic::Ordering;

/// Blocks of rising height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Operations that are shown before and behind the selected one.
const AROUND: usize = 2;
/// The keys.
const KEYS: &str = "[←/→] step  [↑/↓] layer  [Enter] tokens  [n]ext anomaly  [q]uit";

/// Refuses what is no terminal, before anything is loaded.
///
/// # Errors
/// InvalidArgument.
pub fn check_terminal(context: &Context) -> Result<()> {
    tui::check_terminal("apr trace --interactive", "leave out --interactive to print the trace", context)
}

/// Shows a trace until the user leaves.
///
/// # Errors
/// Io from the terminal; Cancelled for Ctrl-C.
pub fn step_through(trace: &Trace, anomalies: &[Anomaly], context: &Context) -> Result<()> {
    give_back_on_panic();
    let stopped = signals::flag();
    signals::watch_terminal(&stopped);
    let theme = Theme { color: context.terminal.color };
    let mut stepper = Stepper { trace, anomalies, at: 0, shows_tokens: false, first: 0 };
    let mut screen = Screen::take()?;
    let mut is_stale = true;
    loop {
        if stopped.load(Ordering::Relaxed) {
            return Err(Error::cancelled("stopped"));
        }
        if is_stale {
            screen.draw(&mut |frame| stepper.draw(frame, theme))?;
        }
        is_stale = false;
        for event in screen.events()? {
            is_stale = true;
            match event {
                Some(Key::Char('q') | Key::Esc) => return Ok(()),
                Some(Key::Interrupt) => return Err(Error::cancelled("stopped")),
                Some(key) => stepper.press(key),
                None => {}
            }
        }
    }
}

/// The selected operation of a trace.
struct Stepper<'t> {
    trace: &'t Trace,
    anomalies: &'t [Anomaly],
    at: usize,
    /// True if the rows of its first result are listed.
    shows_tokens: bool,
    /// The first of them on the screen.
    first: usize,
}

impl Stepper<'_> {
    fn operations(&self) -> &[Traced] {
        &self.trace.prompt.operations
    }

    fn press(&mut self, key: Key) {
        let last = self.operations().len().saturating_sub(1);
        let before = self.at;
        match key {
            Key::Right | Key::Char('l') => self.at = (self.at + 1).min(last),
            Key::Left | Key::Char('h') => self.at = self.at.saturating_sub(1),
            Key::Down | Key::Char('j') => self.at = self.layer_after().unwrap_or(last),
            Key::Up | Key::Char('k') => self.at = self.layer_before(),
            Key::Home => self.at = 0,
            Key::End => self.at = last,
            Key::Char('n') => self.at = self.next_anomaly().unwrap_or(self.at),
            Key::Enter => self.shows_tokens = !self.shows_tokens,
            Key::PageDown => self.first += 10,
            Key::PageUp => self.first = self.first.saturating_sub(10),
            _ => {}
        }
        if self.at != before {
            self.first = 0;
        }
    }

    /// The first operation of the next layer.
    fn layer_after(&self) -> Option<usize> {
        let operations = self.operations();
        let layer = operations.get(self.at)?.layer;
        let rest = operations.get(self.at..)?.iter();
        rest.clone().position(|one| one.layer != layer).map(|further| self.at + further)
    }

    /// The first operation of this layer, or that of the layer before.
    fn layer_before(&self) -> usize {
        let operations = self.operations();
        let Some(before) = self.at.checked_sub(1) else { return 0 };
        let layer = operations[before].layer;
        let same = operations[..before].iter().rev().take_while(|one| one.layer == layer).count();
        before - same
    }

    fn next_anomaly(&self) -> Option<usize> {
        let later = self.anomalies.iter().find(|anomaly| anomaly.operation > self.at);
        later.or(self.anomalies.first()).map(|anomaly| anomaly.operation)
    }

    fn has_anomaly(&self, operation: usize) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.operation == operation)
    }

    fn draw(&self, frame: &mut Frame<'_>, theme: Theme) {
        let [above, pipeline, body, below] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(3),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let title = format!(
            "trace: {}, {} tokens, operation {} of {}",
            escape(&self.trace.model.path, 200),
            self.trace.prompt.ids.len(),
            self.at + 1,
            self.operations().len()
        );
        let width = usize::from(above.width);
        frame.render_widget(Line::styled(format!("{title:width$}"), theme.title()), above);
        frame.render_widget(Text::from(self.pipeline(theme)), pipeline);
        let lines =
            if self.shows_tokens { self.tokens(usize::from(body.height)) } else { self.details(width) };
        frame.render_widget(Text::from(lines), body);
        frame.render_widget(Line::raw(KEYS), below);
    }

    /// The operations around the selected one, each with whether something is unusual.
    fn pipeline(&self, theme: Theme) -> Vec<Line<'static>> {
        let from = self.at.saturating_sub(AROUND);
        let to = (self.at + AROUND + 1).min(self.operations().len());
        let mut spans = Vec::new();
        for operation in &self.operations()[from..to] {
            let mark = if self.has_anomaly(operation.number) { '!' } else { '✓' };
            let style = match operation.number == self.at {
                true => theme.selected(),
                false if self.has_anomaly(operation.number) => theme.bad(),
                false => theme.good(),
            };
            spans.push(ratatui::text::Span::styled(format!(" {mark} {} ", operation.name), style));
            spans.push(" ▶ ".into());
        }
        spans.pop();
        vec![Line::raw(""), Line::from(spans), Line::raw("")]
    }

    /// The figures of the selected operation.
    fn details(&self, width: usize) -> Vec<Line<'static>> {
        let Some(operation) = self.operations().get(self.at) else { return Vec::new() };
        let mut lines = vec![
            Line::raw(format!("operation  {} ({})", operation.name, operation.kind)),
            Line::raw(format!("time       {}", milliseconds(operation.nanoseconds))),
            Line::raw(format!("read       {}", show_size(operation.bytes))),
        ];
        for result in &operation.results {
            lines.extend(figures(result, width));
        }
        for anomaly in self.anomalies.iter().filter(|anomaly| anomaly.operation == operation.number) {
            lines.push(Line::raw(""));
            lines.push(Line::raw(format!("! {}: {}", anomaly.result, in_words(&anomaly.fault))));
        }
        lines
    }

    /// The rows of the selected operation's first result.
    fn tokens(&self, height: usize) -> Vec<Line<'static>> {
        let Some(result) = self.operations().get(self.at).and_then(|one| one.results.first()) else {
            return vec![Line::raw("it only stores: there is nothing to see")];
        };
        let mut lines = vec![Line::raw(format!(
            "{:>9}  {:20}  {:>10}  {:>10}  {:>10}  {:>7}  {:>5}",
            "position", "token", "min", "max", "rms", "zeros", "nan"
        ))];
        let first = self.first.min(result.rows.len().saturating_sub(1));
        for row in result.rows.iter().skip(first).take(height.saturating_sub(1)) {
            let token = usize::try_from(row.position).ok().and_then(|at| self.trace.tokens.get(at));
            let text = token.and_then(|token| token.text.as_deref()).unwrap_or_default();
            lines.push(Line::raw(format!(
                "{:>9}  {:20}  {:>10}  {:>10}  {:>10}  {:>7}  {:>5}",
                row.position,
                escape(text, 20),
                number(f64::from(row.figures.least)),
                number(f64::from(row.figures.greatest)),
                number_or_dash(row.figures.rms()),
                percent(row.figures.share_of_zeros()),
                row.figures.not_finite
            )));
        }
        lines
    }
}

/// The lines about a result.
fn figures(result: &TracedResult, width: usize) -> Vec<Line<'static>> {
    let [rows, columns] = shape(result);
    let of = &result.figures;
    let values: Vec<String> = result.sample.iter().map(|x| number(f64::from(*x))).collect();
    vec![
        Line::raw(""),
        Line::raw(format!("{}  {rows}x{columns}", result.name)),
        Line::raw(format!(
            "  min {}  max {}  mean {}  rms {}  zeros {}  nan {}",
            number(f64::from(of.least)),
            number(f64::from(of.greatest)),
            number_or_dash(of.mean()),
            number_or_dash(of.rms()),
            percent(of.share_of_zeros()),
            of.not_finite
        )),
        Line::raw(format!("  rms by token  {}", bars(result, width.saturating_sub(16)))),
        Line::raw(format!("  last token    [{}]", values.join(", "))),
    ]
}

/// The root mean square of each row as a bar: rows that do not fit are left out at the end.
fn bars(result: &TracedResult, width: usize) -> String {
    let shown = result.rows.iter().take(width);
    let levels: Vec<f64> = shown.map(|row| row.figures.rms().unwrap_or(0.0).ln_1p()).collect();
    let most = levels.iter().copied().fold(0.0, f64::max);
    levels.iter().map(|level| BARS[step_of(*level, most)]).collect()
}

/// The number of the bar for a level.
fn step_of(level: f64, most: f64) -> usize {
    let share = if most > 0.0 { level / most } else { 0.0 };
    (1..BARS.len()).rev().find(|step| share * 8.0 > f64::from(u32::try_from(*step).unwrap_or(0))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_rise_from_the_first_to_the_last() {
        let steps = [0.0, 0.1, 0.5, 0.99, 1.0].map(|level| step_of(level, 1.0));
        assert_eq!(steps, [0, 0, 3, 7, 7]);
        assert_eq!(step_of(0.0, 0.0), 0);
    }
}
