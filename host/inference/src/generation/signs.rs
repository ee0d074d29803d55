//! Signs that something is wrong with an answer, as they can be seen from its tokens alone.

use std::collections::VecDeque;

/// Equal tokens in a row that are a sign. 24: rulers and tables repeat a token, but hardly as often.
const REPEATED: u32 = 24;

/// The longest sequence whose repetition is a sign, in tokens.
const LONGEST: usize = 64;
/// Repetitions of a sequence that are a sign; a refrain comes less often.
const REPETITIONS: usize = 4;
/// Tokens that repetitions must fill, so that short ones are no sign.
const FILLED: usize = 64;

/// Something that an answer should not look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// The same token so many times in a row.
    Repeated {
        /// The token.
        id: u32,
        /// Number of times.
        times: u32,
    },
    /// The first token ended the text.
    EndedAtOnce {
        /// The token.
        id: u32,
        /// True if the prompt ends in a token that ends a text: the tokenizer added it, or the template.
        prompt_ended: bool,
    },
    /// A sequence of tokens came several times in a row.
    Loop {
        /// Its length.
        tokens: usize,
        /// Number of times.
        times: usize,
    },
    /// The token that ends the text was more probable than all others, but was not chosen.
    WantedToEnd {
        /// Its probability.
        probability: f64,
    },
    /// So many characters of the answer are replacements for bytes that are none.
    NotText {
        /// Their number.
        characters: usize,
    },
    /// The model chose an id for which the tokenizer has no token.
    NoToken {
        /// The id.
        id: u32,
    },
}

/// Watches the tokens of an answer.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    last: Option<u32>,
    run: u32,
    longest: Option<(u32, u32)>,
    no_token: Option<u32>,
    /// The last tokens, as many as a loop can have that is told.
    recent: VecDeque<u32>,
    looped: Option<(usize, usize)>,
}

impl Watch {
    /// Takes the next token; `known` is whether the tokenizer has it.
    pub fn push(&mut self, id: u32, known: bool) {
        self.run = if self.last == Some(id) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(id);
        if self.longest.is_none_or(|(_, times)| self.run > times) {
            self.longest = Some((id, self.run));
        }
        if !known {
            self.no_token.get_or_insert(id);
        }
        self.recent.push_back(id);
        if self.recent.len() > LONGEST * REPETITIONS {
            self.recent.pop_front();
        }
        if self.looped.is_none() {
            self.looped = self.repetition();
        }
    }

    /// The length of the sequence that the last tokens repeat, and how often.
    fn repetition(&self) -> Option<(usize, usize)> {
        let recent = &self.recent;
        // A single token is another sign.
        for tokens in 2..=LONGEST {
            let wanted = (tokens * REPETITIONS).max(FILLED.next_multiple_of(tokens));
            if recent.len() < wanted {
                continue;
            }
            let first = recent.len() - wanted;
            if (first + tokens..recent.len()).all(|at| recent[at] == recent[at - tokens]) {
                let is_one_token = (first + 1..recent.len()).all(|at| recent[at] == recent[at - 1]);
                return (!is_one_token).then_some((tokens, wanted / tokens));
            }
        }
        None
    }

    /// The signs seen.
    pub fn signs(&self) -> Vec<Sign> {
        let repeated = self.longest.filter(|(_, times)| *times >= REPEATED);
        let repeated = repeated.map(|(id, times)| Sign::Repeated { id, times });
        let no_token = self.no_token.map(|id| Sign::NoToken { id });
        let looped = self.looped.map(|(tokens, times)| Sign::Loop { tokens, times });
        repeated.into_iter().chain(looped).chain(no_token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_seen_and_short_ones_are_not() {
        let mut watch = Watch::default();
        (0..23).for_each(|_| watch.push(7, true));
        watch.push(8, true);
        assert_eq!(watch.signs(), []);
        (0..30).for_each(|_| watch.push(7, true));
        watch.push(9, false);
        assert_eq!(watch.signs(), [Sign::Repeated { id: 7, times: 30 }, Sign::NoToken { id: 9 }]);
    }

    #[test]
    fn sequences_that_come_again_and_again_are_seen() {
        let signs = |period: u32, count: u32| {
            let mut watch = Watch::default();
            (0..count).for_each(|at| watch.push(at % period, true));
            watch.signs()
        };
        assert_eq!(signs(2, 63), []);
        assert_eq!(signs(2, 64), [Sign::Loop { tokens: 2, times: 32 }]);
        assert_eq!(signs(64, 255), []);
        assert_eq!(signs(64, 256), [Sign::Loop { tokens: 64, times: 4 }]);
        assert_eq!(signs(65, 1000), []);
        // A refrain of three verses.
        assert_eq!(signs(40, 120), []);
    }
}
