//! Progress on stderr: a bar on a terminal, lines for machines, and what plugins say.

use crate::cli::terminal::{Terminal, json_line};
use apr_engine::progress::Progress;
use apr_sdk::{LogLevel, escape};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Short work shows nothing.
const SILENT_FOR: Duration = Duration::from_millis(500);
/// How often a machine hears of the work.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What form progress takes.
enum Form {
    Bar(ProgressBar),
    Lines { json: bool },
    None,
}

/// Shows progress and passes on what plugins say.
pub struct Shown {
    terminal: Terminal,
    form: Form,
    /// When the work began and when a line was last printed.
    times: Mutex<(Option<Instant>, Option<Instant>)>,
    lowest: Lowest,
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
    Arc::new(Shown { terminal: terminal.clone(), form, times: Mutex::new((None, None)), lowest })
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let template =
        "{decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left  {wide_msg}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Progress for Shown {
    fn bytes(&self, done: u64, total: u64, what: &str) {
        if matches!(self.form, Form::None) {
            return;
        }
        let now = Instant::now();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let began = *times.0.get_or_insert(now);
        if now.duration_since(began) < SILENT_FOR {
            return;
        }
        match &self.form {
            Form::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(escape(what, 60));
                if times.1.replace(now).is_none() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                if done >= total {
                    bar.finish_and_clear();
                }
            }
            Form::Lines { json } if times.1.is_none_or(|last| now.duration_since(last) >= LINE_EVERY) => {
                times.1 = Some(now);
                let line = match *json {
                    true => json_line(
                        &json!({"schema": "apr.progress/1", "done": done, "total": total, "tensor": what}),
                    ),
                    false => format!("{done} of {total} bytes, {}\n", escape(what, 200)),
                };
                let _ = io::stderr().lock().write_all(line.as_bytes());
            }
            _ => {}
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
        let tell = || match level {
            Lowest::Warning => self.terminal.warn(message),
            _ => self.terminal.note(message),
        };
        match &self.form {
            Form::Bar(bar) => bar.suspend(tell),
            _ => tell(),
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
