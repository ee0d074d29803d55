//! Signs that something is wrong with an answer, as they can be seen from its tokens alone.

/// Equal tokens in a row that are a sign. 24: rulers and tables repeat a token, but hardly as often.
const REPEATED: u32 = 24;

/// Something that an answer should not look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    }

    /// The signs seen.
    pub fn signs(&self) -> Vec<Sign> {
        let repeated = self.longest.filter(|(_, times)| *times >= REPEATED);
        let repeated = repeated.map(|(id, times)| Sign::Repeated { id, times });
        let no_token = self.no_token.map(|id| Sign::NoToken { id });
        repeated.into_iter().chain(no_token).collect()
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
}
