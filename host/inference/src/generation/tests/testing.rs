//! Tokenizers and a model for the tests of generation.

use super::super::Model;
use crate::tokens::Tokens;
use apr_sdk::tokenizer::{AddedToken, Kind, Parts, Spelling, TokenType, Tokenizer, byte_of};
use apr_sdk::{Error, Result};
use serde_json::json;

/// A tokenizer whose ids are bytes; 256 ends a text.
pub fn bytes() -> Tokens {
    let mut of_bytes: Vec<(u8, char)> =
        (0..0x144).filter_map(char::from_u32).filter_map(|c| Some((byte_of(c)?, c))).collect();
    of_bytes.sort_unstable();
    let mut tokens: Vec<Option<String>> = of_bytes.iter().map(|(_, c)| Some(c.to_string())).collect();
    tokens.push(Some("<end>".to_owned()));
    let mut types = vec![TokenType::Normal; 256];
    types.push(TokenType::Control);
    let parts = Parts {
        kind: Kind::Bpe,
        spelling: Spelling::Bytes,
        tokens,
        types,
        added: vec![AddedToken { id: 256, special: true, ..AddedToken::default() }],
        special: vec![("eos".to_owned(), 256)],
        pre_tokenizer: Some(
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
        ),
        decoder: Some(
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        ),
        ..Parts::default()
    };
    Tokens::new(Tokenizer::new(parts).unwrap()).unwrap()
}

/// A tokenizer like Llama 2's, of a few pieces.
pub fn sentencepiece() -> Tokens {
    let pieces =
        ["<unk>", "<s>", "</s>", "<0xC3>", "<0x9F>", "s", "\u{2581}", "\u{2581}Hello", "\u{2581}world"];
    let kind = |n: usize| match n {
        0 => TokenType::Unknown,
        1 | 2 => TokenType::Control,
        3 | 4 => TokenType::Byte,
        _ => TokenType::Normal,
    };
    let parts = Parts {
        kind: Kind::Bpe,
        spelling: Spelling::SentencePiece,
        tokens: pieces.iter().map(|piece| Some((*piece).to_owned())).collect(),
        types: (0..pieces.len()).map(kind).collect(),
        added: (0..3).map(|id| AddedToken { id, special: true, ..AddedToken::default() }).collect(),
        special: vec![("bos".to_owned(), 1), ("eos".to_owned(), 2)],
        unk: Some(0),
        byte_fallback: true,
        decoder: Some(json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})),
        ..Parts::default()
    };
    Tokens::new(Tokenizer::new(parts).unwrap()).unwrap()
}

/// A model that says a fixed text after any prompt.
pub struct Parrot {
    /// What it says, by how many tokens it has seen since the prompt.
    pub says: Vec<u32>,
    /// How many ids it knows.
    pub vocabulary: usize,
    /// How many tokens it can see.
    pub context: u32,
    /// Every list of tokens that it was fed.
    pub fed: Vec<Vec<u32>>,
    /// After how many tokens of the answer its output is not a number.
    pub breaks: Option<usize>,
    /// Whether it can forget a part.
    pub trims: bool,
    position: u32,
    said: usize,
    logits: Vec<f32>,
}

impl Parrot {
    /// A model with room for 100 tokens.
    pub fn saying(text: &str, end: &[u32]) -> Parrot {
        let says = text.bytes().map(u32::from).chain(end.iter().copied()).collect();
        Parrot {
            says,
            vocabulary: 257,
            context: 100,
            fed: Vec::new(),
            breaks: None,
            trims: true,
            position: 0,
            said: 0,
            logits: Vec::new(),
        }
    }
}

impl Model for Parrot {
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        assert!(!ids.is_empty());
        self.position += u32::try_from(ids.len()).unwrap();
        assert!(self.position <= self.context);
        self.fed.push(ids.to_vec());
        self.logits = vec![0.0; self.vocabulary];
        let says = self.says[self.said % self.says.len()];
        self.logits[usize::try_from(says).unwrap()] = 10.0;
        if self.breaks == Some(self.said) {
            self.logits[3] = f32::NAN;
        }
        self.said += 1;
        Ok(&self.logits)
    }

    fn trim(&mut self, position: u32) -> Result<()> {
        self.said = 0;
        if position > 0 && !self.trims {
            return Err(Error::unsupported("this model only forgets everything"));
        }
        self.position = self.position.min(position);
        Ok(())
    }

    fn position(&self) -> u32 {
        self.position
    }

    fn context(&self) -> u32 {
        self.context
    }
}
