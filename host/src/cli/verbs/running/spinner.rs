//! Something that moves on a terminal while a model is loading.

use crate::cli::output::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A spinner on stderr that is gone when this is dropped.
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Shows what is being done, if stderr is a terminal and nothing forbids it.
    pub fn showing(what: &str, progress: &str, terminal: &Terminal) -> Spinner {
        let wanted = progress == "auto" && !terminal.quiet && !terminal.json && io::stderr().is_terminal();
        Spinner(wanted.then(|| {
            let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let spinner = match ProgressStyle::with_template("{spinner} {msg}") {
                Ok(style) => spinner.with_style(style),
                Err(_) => spinner,
            };
            spinner.set_message(what.to_owned());
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        }))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}
