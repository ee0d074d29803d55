//! `apr tokenizer FILE`: what a model's tokenizer is.

use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::open::OpenedModel;
use apr_host::sizes::{show_count, show_number_of};
use apr_sdk::tokenizer::{Kind, Spelling, Tokenizer};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;

/// Added tokens and templates that people see.
const SHOWN: usize = 12;

/// The description of a tokenizer. JSON: the fields below; ids come with the token's `piece`.
#[derive(Debug, Serialize)]
pub struct Said {
    /// The path as typed.
    path: String,
    /// The format's id.
    format: String,
    /// The algorithm that cuts a text into tokens: `bpe`, `unigram` or `wordpiece`.
    kind: &'static str,
    /// The spelling of tokens: `bytes`, `sentencepiece` or `plain`.
    spelling: &'static str,
    /// Number of ids that the model has.
    vocabulary: u32,
    /// Number of ids with a token.
    tokens: usize,
    /// Number of merges.
    merges: usize,
    /// The pre-tokenizer's name, in a format that has names for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pre: Option<String>,
    /// Special tokens, by role: `bos`, `eos`, `unk`, ...
    special: BTreeMap<String, Token>,
    /// Tokens that end a text besides `eos`.
    ends: Vec<Token>,
    /// True or false, by role, for each special token of which the source states whether it is added to every text.
    add: BTreeMap<String, bool>,
    /// Tokens that are cut out of a text before anything else.
    added_tokens: Vec<Added>,
    /// The chat templates.
    chat_templates: Vec<Template>,
    /// Warnings for the user.
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Token {
    id: u32,
    piece: String,
}

#[derive(Debug, Serialize)]
struct Added {
    #[serde(flatten)]
    token: Token,
    special: bool,
}

#[derive(Debug, Serialize)]
struct Template {
    name: String,
    bytes: usize,
}

impl Said {
    /// The description of a model's tokenizer.
    pub fn of(opened: &OpenedModel, tokenizer: &Tokenizer, warnings: Vec<String>) -> Said {
        let templates = tokenizer.chat_templates.iter();
        let templates = templates.map(|(name, text)| Template { name: name.clone(), bytes: text.len() });
        Said {
            path: opened.path.display().to_string(),
            format: opened.format.clone(),
            kind: match tokenizer.kind {
                Kind::Bpe => "bpe",
                Kind::Unigram => "unigram",
                Kind::WordPiece => "wordpiece",
            },
            spelling: match tokenizer.spelling {
                Spelling::Plain => "plain",
                Spelling::Bytes => "bytes",
                Spelling::SentencePiece => "sentencepiece",
            },
            vocabulary: tokenizer.vocab_size,
            tokens: tokenizer.each().count(),
            merges: tokenizer.merges.len(),
            pre: tokenizer.pre.clone(),
            special: tokenizer
                .special
                .iter()
                .map(|(name, id)| (name.clone(), token(tokenizer, *id)))
                .collect(),
            ends: tokenizer.ends.iter().map(|id| token(tokenizer, *id)).collect(),
            add: tokenizer.add.iter().cloned().collect(),
            added_tokens: tokenizer
                .added
                .iter()
                .map(|added| Added { token: token(tokenizer, added.id), special: added.special })
                .collect(),
            chat_templates: templates.collect(),
            warnings,
        }
    }

    /// The kind in the words that people know it by.
    fn kind_for_people(&self) -> String {
        match (self.kind, self.spelling) {
            ("bpe", "bytes") => "byte-level BPE".to_owned(),
            ("bpe", "sentencepiece") => "BPE of pieces (SentencePiece)".to_owned(),
            ("bpe", _) => "BPE".to_owned(),
            ("unigram", _) => "Unigram (SentencePiece)".to_owned(),
            _ => "WordPiece".to_owned(),
        }
    }
}

impl Report for Said {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tokenizer/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn token(tokenizer: &Tokenizer, id: u32) -> Token {
    Token { id, piece: tokenizer.token(id).unwrap_or_default().to_owned() }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:<16}{text}")
}

fn shown(token: &Token) -> String {
    format!("{} {}", token.id, escape(&token.piece, 60))
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "kind", &self.kind_for_people())?;
        let all = show_count(u128::from(self.vocabulary));
        let holes = usize::try_from(self.vocabulary).unwrap_or(usize::MAX).saturating_sub(self.tokens);
        let of = match holes {
            0 => String::new(),
            holes => format!(", {} of them without a token", show_count(holes as u128)),
        };
        line(f, "vocabulary", &format!("{all} ids{of}"))?;
        if self.merges > 0 {
            line(f, "merges", &show_count(self.merges as u128))?;
        }
        if let Some(pre) = &self.pre {
            line(f, "pre-tokenizer", &escape(pre, 60))?;
        }
        for (name, token) in &self.special {
            let added = if self.add.get(name) == Some(&true) { "  (added to every text)" } else { "" };
            line(f, &escape(name, 12), &format!("{}{added}", shown(token)))?;
        }
        for token in &self.ends {
            line(f, "end", &shown(token))?;
        }
        let n = self.added_tokens.len();
        if n > 0 {
            let some: Vec<String> =
                self.added_tokens.iter().take(SHOWN).map(|added| shown(&added.token)).collect();
            let more = if n > SHOWN { format!(", … {} more", n - SHOWN) } else { String::new() };
            line(f, "added", &format!("{}{more}", some.join(", ")))?;
        }
        let templates = self.chat_templates.iter().take(SHOWN);
        let templates: Vec<String> = templates
            .map(|t| format!("{} ({})", escape(&t.name, 60), show_number_of(t.bytes, "byte")))
            .collect();
        let more = self.chat_templates.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(", … {more} more") } else { String::new() };
        let text =
            if templates.is_empty() { "none".to_owned() } else { format!("{}{more}", templates.join(", ")) };
        line(f, "chat templates", &text)
    }
}
