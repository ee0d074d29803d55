//! The flags that every verb takes, before or after its name.

use clap::ValueEnum;
use std::path::PathBuf;

/// Global flags. Values left out are filled in from the environment and the configuration (see `settings`).
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Print the result as one JSON document, and errors as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only the result
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more; repeat for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<ColorWhen>,
    /// Show progress on stderr in this form, even if it is not a terminal
    #[arg(long, global = true, value_name = "FORM")]
    pub progress: Option<ProgressForm>,
    /// Never prompt; fail if an answer is needed
    #[arg(long, global = true)]
    pub no_input: bool,
    /// Number of threads; 0 uses one per CPU core
    #[arg(short = 'j', short_alias = 't', long, global = true, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Load this plugin library before all others; may be repeated
    #[arg(long = "plugin", global = true, value_name = "FILE")]
    pub plugins: Vec<PathBuf>,
    /// Read the configuration from FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A number of threads; more than any machine has is a mistake.
fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| *threads <= 4096);
    threads.ok_or_else(|| format!("invalid number of threads `{text}`: expected an integer from 0 to 4096"))
}

/// When to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// When writing to a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorWhen {
    /// The meaning of a word from a flag, a variable or the configuration.
    pub fn from_word(word: &str) -> Option<ColorWhen> {
        match word.to_ascii_lowercase().as_str() {
            "auto" | "true" | "1" => Some(ColorWhen::Auto),
            "always" => Some(ColorWhen::Always),
            "never" | "false" | "0" => Some(ColorWhen::Never),
            _ => None,
        }
    }

    /// The environment's choice: `APR_COLOR`, then `NO_COLOR`, then `CLICOLOR_FORCE`; empty means unset.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Option<ColorWhen> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(when) = set("APR_COLOR").and_then(|word| ColorWhen::from_word(&word)) {
            return Some(when);
        }
        if set("NO_COLOR").is_some() {
            return Some(ColorWhen::Never);
        }
        set("CLICOLOR_FORCE").filter(|value| value != "0").map(|_| ColorWhen::Always)
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressForm {
    /// One JSON object per line
    Json,
    /// A line of text every few seconds
    Plain,
    /// No progress
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(vars: &[(&str, &str)]) -> Option<ColorWhen> {
        ColorWhen::from_env(&|name| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn color_variables_have_an_order() {
        assert_eq!(wanted(&[]), None);
        assert_eq!(wanted(&[("NO_COLOR", "")]), None);
        assert_eq!(wanted(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), Some(ColorWhen::Never));
        assert_eq!(wanted(&[("NO_COLOR", "1"), ("APR_COLOR", "always")]), Some(ColorWhen::Always));
        assert_eq!(wanted(&[("CLICOLOR_FORCE", "0")]), None);
        assert_eq!(wanted(&[("CLICOLOR_FORCE", "1")]), Some(ColorWhen::Always));
    }
}
