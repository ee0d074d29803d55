//! The summary of an answer: for people with `-v`, and as JSON.

use super::args::Bound;
use apr_host::sizes::show_number_of;
use apr_inference::generation::{Answer, End, Timings};
use serde::Serialize;
use std::time::Duration;

/// The figures of an answer, all measured; as JSON they are part of `apr.run/1`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    prompt_tokens: usize,
    known_tokens: usize,
    tokens: usize,
    seconds_to_load: f64,
    seconds_to_first_token: Option<f64>,
    prompt_tokens_per_second: Option<f64>,
    tokens_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl Summary {
    /// The figures of these times.
    pub fn of(timings: &Timings, load: Duration, bytes_per_token: u64) -> Summary {
        let rate = timings.decode_rate();
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let bytes = bytes_per_token as f64;
        Summary {
            prompt_tokens: timings.prompt_tokens + timings.known_tokens,
            known_tokens: timings.known_tokens,
            tokens: timings.tokens,
            seconds_to_load: load.as_secs_f64(),
            seconds_to_first_token: timings.first_token.map(|time| time.as_secs_f64()),
            prompt_tokens_per_second: timings.prompt_rate(),
            tokens_per_second: rate,
            bytes_per_second: rate.map(|rate| rate * bytes).filter(|_| bytes > 0.0),
        }
    }

    /// The figures in words; `floor` is how many bytes per second memory delivers.
    pub fn lines(&self, floor: Option<f64>) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(seconds) = self.seconds_to_first_token {
            let rate =
                self.prompt_tokens_per_second.map_or(String::new(), |rate| format!(", {}/s", tokens(rate)));
            let known = match self.known_tokens {
                0 => String::new(),
                known => format!(" ({known} cached)"),
            };
            lines.push(format!(
                "first token after {}; prompt: {} tokens{known}{rate}",
                show_time(Duration::from_secs_f64(seconds)),
                self.prompt_tokens
            ));
        }
        if let Some(rate) = self.tokens_per_second {
            let share = match (self.bytes_per_second, floor) {
                (Some(bytes), Some(floor)) if floor > 0.0 => format!(
                    ", {:.1} of {:.1} GB/s: {:.0} % of the memory bandwidth",
                    bytes / 1e9,
                    floor / 1e9,
                    100.0 * bytes / floor
                ),
                _ => String::new(),
            };
            lines.push(format!("answer: {} tokens, {}/s{share}", self.tokens, tokens(rate)));
        }
        lines
    }

    /// Returns whether there is a rate to compare with what memory delivers.
    pub fn reads_memory(&self) -> bool {
        self.bytes_per_second.is_some()
    }
}

/// `12.3 tokens`.
fn tokens(rate: f64) -> String {
    match rate {
        ..100.0 => format!("{rate:.1} tokens"),
        _ => format!("{rate:.0} tokens"),
    }
}

/// `340 ms`, `1.25 s`.
pub fn show_time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds @ ..0.01 => format!("{:.2} ms", seconds * 1e3),
        seconds @ 0.01..1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// The reason why an answer ended, as JSON has it.
pub fn word_of(end: &End) -> &'static str {
    match end {
        End::EndOfText(_) => "end_of_text",
        End::Stop(_) => "stop",
        End::MaxTokens => "max_tokens",
        End::Context => "context",
        End::Cancelled => "cancelled",
    }
}

/// The note for the user about why it ended.
pub fn said_of(answer: &Answer, context: u32, bound: Bound) -> Option<String> {
    match (&answer.end, bound) {
        (End::Context, _) => Some(format!(
            "the answer was truncated because the context of {context} tokens is full: increase `--context` \
             for a longer one"
        )),
        (End::MaxTokens, Bound { setting: Some(setting), .. }) => Some(format!(
            "the answer was truncated after {} by the model's own `{setting}`: pass `--max-tokens` for a \
             longer one",
            show_number_of(answer.ids.len(), "token")
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        let mut timings = Timings::of_prompt(8, 2);
        for seconds in [4, 6, 8] {
            timings.token(Duration::from_secs(seconds));
        }
        Summary::of(&timings, Duration::ZERO, 2_000_000_000)
    }

    #[test]
    fn figures_are_said() {
        assert_eq!(
            summary().lines(Some(2e9)),
            [
                "first token after 4.00 s; prompt: 10 tokens (2 cached), 2.0 tokens/s",
                "answer: 3 tokens, 0.5 tokens/s, 1.0 of 2.0 GB/s: 50 % of the memory bandwidth",
            ]
        );
        assert_eq!(summary().lines(None)[1], "answer: 3 tokens, 0.5 tokens/s");
    }

    #[test]
    fn times_are_short() {
        let shown = [0.001234, 0.34, 1.254].map(|seconds| show_time(Duration::from_secs_f64(seconds)));
        assert_eq!(shown, ["1.23 ms", "340 ms", "1.25 s"]);
    }
}
