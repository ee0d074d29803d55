//! Durations of an answer, as measured.

use std::time::Duration;

/// The times of an answer. Rates are `None` where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Tokens of the prompt that were computed.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that the model had seen before.
    pub known_tokens: usize,
    /// The time until the first token was chosen: all of the prompt's computation.
    pub first_token: Option<Duration>,
    /// Tokens that were chosen, including the one that ended the answer.
    pub tokens: usize,
    /// The time from the first chosen token to the last.
    pub rest: Duration,
}

impl Timings {
    /// Before anything is computed.
    pub fn of_prompt(prompt_tokens: usize, known_tokens: usize) -> Timings {
        Timings { prompt_tokens, known_tokens, ..Timings::default() }
    }

    /// Notes a token that was chosen, and the time since the beginning.
    pub fn token(&mut self, since: Duration) {
        self.tokens += 1;
        let first = *self.first_token.get_or_insert(since);
        self.rest = since.saturating_sub(first);
    }

    /// Tokens of the prompt per second.
    pub fn prompt_rate(&self) -> Option<f64> {
        rate(self.prompt_tokens, self.first_token?)
    }

    /// Tokens of the answer per second, the first one not counted: its time is the prompt's.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.tokens.checked_sub(1)?, self.rest)
    }
}

/// Number per second.
fn rate(count: usize, time: Duration) -> Option<f64> {
    let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
    (!time.is_zero()).then(|| f64::from(count) / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_measured() {
        let mut timings = Timings::of_prompt(10, 3);
        assert_eq!((timings.prompt_rate(), timings.decode_rate()), (None, None));
        timings.token(Duration::from_secs(2));
        assert_eq!((timings.prompt_rate(), timings.decode_rate()), (Some(5.0), None));
        timings.token(Duration::from_secs(3));
        timings.token(Duration::from_secs(6));
        assert_eq!(timings.decode_rate(), Some(0.5));
    }
}
