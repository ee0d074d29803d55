//! Progress on stderr: a bar on a terminal, lines for machines, and what plugins say.

use crate::cli::output::terminal::{Terminal, json_line};
use apr_engine::progress::Progress;
use apr_sdk::{LogLevel, escape};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Short work shows nothing.
const SILENT_FOR: Duration = Duration::from_millis(500);
/// Interval at which a machine hears of the work.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The form of progress. JSON: of `--progress json`, one object per line on stderr: `done` and `total`, in bytes;
/// `seconds_left`, or null; `tensor`, the name of the one that is being worked on.
enum Form {
    Bar(ProgressBar),
    Lines { json: bool },
    None,
}

/// Shows progress and passes on what plugins say.
pub struct Shown {
    terminal: Terminal,
    form: Form,
    pace: Mutex<Pace>,
    lowest: Lowest,
}

/// The pace of the work.
#[derive(Default)]
struct Pace {
    /// When it began, and how much was done by then.
    began: Option<(Instant, u64)>,
    /// When a line was last printed.
    printed: Option<Instant>,
    /// The work that is shown where nothing is counted.
    stage: Option<String>,
}

impl Pace {
    /// Time left at the pace so far: of all of it, so that the estimate is steady.
    fn left(&self, now: Instant, done: u64, total: u64) -> Option<Duration> {
        let (began, first) = self.began?;
        let elapsed = now.duration_since(began);
        let done_since = done.checked_sub(first)?;
        let rest = total.saturating_sub(done);
        let nanos = elapsed.as_nanos().checked_mul(rest.into())?.checked_div(done_since.into())?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }
}

/// `2 m 05 s`, to the second.
fn show_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The least important message that is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lowest {
    Debug,
    Note,
    Warning,
    Nothing,
}

/// Progress in the wanted form: `json`, `plain`, `none`, or `auto` for a bar on a terminal; `level` is the setting
/// `log.level`.
pub fn shown(form: &str, level: &str, terminal: &Terminal) -> Arc<dyn Progress> {
    let form = match form {
        "json" => Form::Lines { json: true },
        "plain" => Form::Lines { json: false },
        "auto" if !terminal.quiet && !terminal.json && io::stderr().is_terminal() => Form::Bar(bar()),
        _ => Form::None,
    };
    let lowest = match level {
        _ if terminal.verbose > 0 => Lowest::Debug,
        "debug" => Lowest::Debug,
        "info" => Lowest::Note,
        "warn" => Lowest::Warning,
        _ => Lowest::Nothing,
    };
    Arc::new(Shown { terminal: terminal.clone(), form, pace: Mutex::default(), lowest })
}

/// What shows how much is done.
const BAR: &str =
    "{percent:>3} %  {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}  {wide_msg}";
/// What shows that something is done.
const SPINNER: &str = "{spinner} {msg}";

fn bar() -> ProgressBar {
    ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
}

/// Shows the bar on stderr in another form, from the beginning.
fn show(bar: &ProgressBar, template: &str) {
    bar.disable_steady_tick();
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.reset();
    bar.set_draw_target(ProgressDrawTarget::stderr());
}

/// Shows something that moves beside a name, or nothing.
fn spin(bar: &ProgressBar, what: Option<&str>) {
    let Some(what) = what else {
        bar.disable_steady_tick();
        return bar.finish_and_clear();
    };
    show(bar, SPINNER);
    bar.set_message(escape(what, 60));
    bar.enable_steady_tick(Duration::from_millis(100));
}

impl Progress for Shown {
    fn bytes(&self, done: u64, total: u64, what: &str) {
        if matches!(self.form, Form::None) {
            return;
        }
        let now = Instant::now();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, _) = *pace.began.get_or_insert((now, done));
        if now.duration_since(began) < SILENT_FOR {
            return;
        }
        let left = pace.left(now, done, total);
        match &self.form {
            Form::Bar(bar) => {
                if pace.printed.replace(now).is_none() {
                    show(bar, BAR);
                }
                bar.set_length(total);
                bar.set_position(done);
                let left = left.map_or(String::new(), |left| format!("{} left  ", show_duration(left)));
                bar.set_message(format!("{left}{}", escape(what, 60)));
                if done >= total {
                    // More may come, with a pace of its own.
                    *pace = Pace { stage: pace.stage.take(), ..Pace::default() };
                    spin(bar, pace.stage.as_deref());
                }
            }
            Form::Lines { json }
                if pace.printed.is_none_or(|last| now.duration_since(last) >= LINE_EVERY) =>
            {
                pace.printed = Some(now);
                let percent = u128::from(done) * 100 / u128::from(total.max(1));
                let line = match *json {
                    true => json_line(&json!({
                        "schema": "apr.progress/1",
                        "done": done,
                        "total": total,
                        "seconds_left": left.map(|left| left.as_secs()),
                        "tensor": what,
                    })),
                    false => {
                        let left =
                            left.map_or(String::new(), |left| format!(", {} left", show_duration(left)));
                        format!("{percent} %, {done} of {total} bytes{left}, {}\n", escape(what, 200))
                    }
                };
                let _ = io::stderr().lock().write_all(line.as_bytes());
            }
            _ => {}
        }
    }

    fn stage(&self, what: Option<&str>) {
        if let Form::Bar(bar) = &self.form {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            *pace = Pace { stage: what.map(str::to_owned), ..Pace::default() };
            spin(bar, what);
        }
    }

    fn warn(&self, message: &str) {
        match &self.form {
            Form::Bar(bar) => bar.suspend(|| self.terminal.warn_of_answer(message)),
            _ => self.terminal.warn_of_answer(message),
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        let level = match level {
            LogLevel::Debug => Lowest::Debug,
            LogLevel::Note => Lowest::Note,
            LogLevel::Warning => Lowest::Warning,
        };
        if level < self.lowest {
            return;
        }
        let tell = if level == Lowest::Warning { Terminal::warn } else { Terminal::note };
        match &self.form {
            Form::Bar(bar) => bar.suspend(|| tell(&self.terminal, message)),
            _ => tell(&self.terminal, message),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // Work that failed half-way leaves no bar behind.
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_at_the_pace_so_far() {
        let began = Instant::now();
        let pace = Pace { began: Some((began, 100)), ..Pace::default() };
        let now = began + Duration::from_secs(10);
        assert_eq!(pace.left(now, 200, 400), Some(Duration::from_secs(20)));
        assert_eq!(pace.left(now, 100, 400), None);
        assert_eq!(pace.left(now, 400, 400), Some(Duration::ZERO));
        assert_eq!(Pace::default().left(began, 1, 2), None);
    }

    #[test]
    fn durations_are_short() {
        let shown = [5, 65, 3599, 3600, 7384].map(|seconds| show_duration(Duration::from_secs(seconds)));
        assert_eq!(shown, ["5 s", "1 m 05 s", "59 m 59 s", "1 h 00 m", "2 h 03 m"]);
    }
}
