//! `apr tokenizer A --check B --text T`: do two models read a text alike?

use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::{show_count, show_number_of};
use apr_inference::tokens::Comparison;
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Comparison of two tokenizers' readings of a text. JSON: `same`, for `one` and `two` their `path` and how many
/// `tokens`, and with a difference `first`: `token` (from 0), `line` (from 1), `byte`, and of `one` and `two` the `id`
/// and the `piece`, or null.
#[derive(Debug, Serialize)]
pub struct Checked {
    same: bool,
    one: Side,
    two: Side,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<First>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Side {
    path: String,
    tokens: u64,
}

#[derive(Debug, Serialize)]
struct First {
    token: u64,
    line: u64,
    byte: usize,
    one: Option<Token>,
    two: Option<Token>,
}

#[derive(Debug, Serialize)]
struct Token {
    id: u32,
    piece: String,
}

impl Checked {
    /// The report of a comparison of the models of these names.
    pub fn new(
        compared: (Comparison, [Option<String>; 2]),
        names: [String; 2],
        warnings: Vec<String>,
    ) -> Checked {
        let (Comparison { one, two, first }, [piece, other]) = compared;
        let first = first.map(|at| First {
            token: at.token,
            line: at.line,
            byte: at.byte,
            one: at.one.map(|id| Token { id, piece: piece.unwrap_or_default() }),
            two: at.two.map(|id| Token { id, piece: other.unwrap_or_default() }),
        });
        let [path, other] = names;
        Checked {
            same: first.is_none(),
            one: Side { path, tokens: one },
            two: Side { path: other, tokens: two },
            first,
            warnings,
        }
    }
}

impl Report for Checked {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tokenizer.check/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn verdict(&self) -> Result<()> {
        match self.same {
            true => Ok(()),
            false => Err(Error::failed("the tokenizers encode the text differently").hint(
                "compare the two with `apr tokenizer FILE`: the usual causes are added tokens and \
                 special tokens around a text",
            )),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(First { token, line, byte, one, two }) = &self.first else {
            let n = usize::try_from(self.one.tokens).unwrap_or(usize::MAX);
            return writeln!(f, "the same {}", show_number_of(n, "token"));
        };
        writeln!(f, "first difference: token {token}, line {line}, byte {byte}")?;
        for (side, found) in [(&self.one, one), (&self.two, two)] {
            let shown = match found {
                Some(Token { id, piece }) => format!("{id}  {}", escape(piece, 200)),
                None => "no more tokens".to_owned(),
            };
            writeln!(f, "  {}: {shown}", escape(&side.path, 200))?;
        }
        writeln!(
            f,
            "{} and {} tokens in total",
            show_count(self.one.tokens.into()),
            show_count(self.two.tokens.into())
        )
    }
}
