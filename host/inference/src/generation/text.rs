//! Turns tokens into text as they come, without ever giving half a character.

use super::Decoder;
use apr_sdk::Result;

/// Tokens of the prompt that the text continues. 8: decoders look back one token, and a character has 4 bytes.
const BEFORE: usize = 8;
/// Tokens without a finished character after which their text is given as it is: a character has 4 bytes.
const UNFINISHED: usize = 8;
/// Tokens at most of a character that has not ended: all of its bytes but the last.
const UNENDED: usize = 3;
/// Replacement for bytes that are no character, and for those of a character that has not ended yet.
const REPLACEMENT: char = '\u{fffd}';

/// The text of a growing list of tokens.
///
/// Decoders treat the beginning of a text differently (SentencePiece drops a space there) and need several tokens
/// for a character, so a token has no text of its own. What is given is by how much the text of the last few tokens
/// grows with the new ones.
pub struct Text<'t> {
    tokens: &'t dyn Decoder,
    /// The tokens that the next text continues, then those whose text has not been given.
    ids: Vec<u32>,
    /// Number of `ids` that are given.
    given: usize,
    /// Their text, once it was needed.
    before: Option<String>,
}

impl<'t> Text<'t> {
    /// The text that follows a prompt.
    pub fn after(tokens: &'t dyn Decoder, prompt: &[u32]) -> Text<'t> {
        let ids: Vec<u32> = prompt.iter().copied().filter(|id| tokens.knows(*id)).collect();
        let ids = ids.get(ids.len().saturating_sub(BEFORE)..).unwrap_or_default().to_vec();
        Text { tokens, given: ids.len(), ids, before: None }
    }

    /// The text that a token completes; empty while a character is not finished, and for special tokens.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn push(&mut self, id: u32) -> Result<String> {
        if !self.tokens.knows(id) {
            return Ok(String::new());
        }
        self.ids.push(id);
        let mut grown = self.growth(self.ids.len())?;
        let mut end = self.ids.len();
        if grown.ends_with(REPLACEMENT) {
            if self.ids.len() - self.given < UNFINISHED {
                return Ok(String::new());
            }
            end = self.last_boundary(&grown)?;
            grown = self.growth(end)?;
        }
        if grown.is_empty() {
            return Ok(grown);
        }
        // What was just given is what the next text continues.
        self.ids.drain(..self.given);
        self.given = end - self.given;
        self.before = None;
        Ok(grown)
    }

    /// The number of tokens whose text will not change: of a character that has not ended, at most the last three are a part.
    fn last_boundary(&mut self, grown: &str) -> Result<usize> {
        let all = self.ids.len();
        for end in all.saturating_sub(UNENDED)..all {
            // A character that ends behind the boundary shows otherwise here.
            if end > self.given && grown.starts_with(&self.growth(end)?) {
                return Ok(end);
            }
        }
        Ok(all)
    }

    /// The text of what is left at the end: bytes that did not become a character.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn finish(&mut self) -> Result<String> {
        let rest = self.growth(self.ids.len())?;
        (self.given, self.before) = (self.ids.len(), None);
        Ok(rest)
    }

    /// The text that the tokens not yet given, up to the one at `end`, add to that of those before.
    fn growth(&mut self, end: usize) -> Result<String> {
        if self.before.is_none() {
            let given = self.ids.get(..self.given).unwrap_or_default();
            self.before = Some(self.tokens.decode(given, true)?);
        }
        let before = self.before.as_deref().unwrap_or_default();
        let mut whole = self.tokens.decode(self.ids.get(..end).unwrap_or_default(), true)?;
        if whole.starts_with(before) {
            return Ok(whole.split_off(before.len()));
        }
        // Bytes that are no character can change how those before them look, but not how many characters they are.
        Ok(whole.chars().skip(before.chars().count()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::testing::{bytes, sentencepiece};
    use super::*;
    use crate::tokens::Tokens;

    fn pushed(tokens: &Tokens, prompt: &[u32], ids: &[u32]) -> Vec<String> {
        let mut text = Text::after(tokens, prompt);
        let mut all: Vec<String> = ids.iter().map(|id| text.push(*id).unwrap()).collect();
        all.push(text.finish().unwrap());
        all
    }

    #[test]
    fn a_character_of_several_tokens_comes_whole() {
        let tokens = bytes();
        let ids: Vec<u32> = "aß語😀.".bytes().map(u32::from).collect();
        let given = pushed(&tokens, &[u32::from(b'x')], &ids);
        assert_eq!(given, ["a", "", "ß", "", "", "語", "", "", "", "😀", ".", ""]);
    }

    #[test]
    fn bytes_that_are_no_character_are_shown_and_hold_nothing_up() {
        let tokens = bytes();
        let given = pushed(&tokens, &[], &[0xff, u32::from(b'a'), 0xc3]);
        assert_eq!(given, ["", "\u{fffd}a", "", "\u{fffd}"]);
        let given = pushed(&tokens, &[], &[0xff; 20]);
        assert_eq!(given.concat(), "\u{fffd}".repeat(20));
        assert!(given[..10].concat().chars().count() >= 5);
    }

    #[test]
    fn a_character_after_bytes_that_are_none_comes_whole() {
        let tokens = bytes();
        for n_odd in 0..20 {
            let mut ids = vec![0xc6; n_odd];
            ids.extend("\u{1abc}a😀".bytes().map(u32::from));
            let given = pushed(&tokens, &[u32::from(b'x')], &ids).concat();
            assert_eq!(given, "\u{fffd}".repeat(n_odd) + "\u{1abc}a😀", "{n_odd}");
        }
    }

    #[test]
    fn sentencepiece_keeps_its_spaces() {
        let tokens = sentencepiece();
        let hello = ids(&tokens, ["\u{2581}Hello"]);
        let words = ids(&tokens, ["\u{2581}world", "s", "\u{2581}", "\u{2581}world"]);
        // After text, the space is text; at the beginning it is not.
        assert_eq!(pushed(&tokens, &hello, &words).concat(), " worlds  world");
        assert_eq!(pushed(&tokens, &[], &words).concat(), "worlds  world");
        // A special token in the middle does not make a new beginning.
        let words = ids(&tokens, ["s", "</s>", "\u{2581}world"]);
        assert_eq!(pushed(&tokens, &hello, &words).concat(), "s world");
        // Bytes of a character between pieces.
        let bytes = ids(&tokens, ["<0xC3>", "<0x9F>", "<0xC3>", "<0x9F>", "s"]);
        assert_eq!(pushed(&tokens, &hello, &bytes), ["", "ß", "", "ß", "s", ""]);
    }

    fn ids<const N: usize>(tokens: &Tokens, pieces: [&str; N]) -> [u32; N] {
        pieces.map(|piece| tokens.tokenizer().each().find(|(_, text)| *text == piece).unwrap().0)
    }

    #[test]
    fn an_id_without_a_token_has_no_text() {
        assert_eq!(pushed(&bytes(), &[9999], &[9999, u32::from(b'a')]), ["", "a", ""]);
    }
}
