//! The tokenizers of two models side by side: those that they hold, and those that their readers build.

use crate::crew::map;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::wording::n_of;
use apr_sdk::manifest::DialectRule;
use apr_sdk::tokenizer::{Difference, Differences, Kind, Tokenizer};
use apr_sdk::{Bytes, ErrorKind, Result};

/// The comparison of two tokenizers.
#[derive(Clone, Debug, Default)]
pub struct Tokenizers {
    /// A word on each, where not both are there and understood; `None` for a model without one.
    pub words: [Option<String>; 2],
    /// True if one of them is there, and not understood.
    pub is_open: bool,
    /// True if both are.
    pub is_open_twice: bool,
    /// Differences in what both models could have stated.
    pub counted: Vec<Difference>,
    /// Fields with more of them, and how many more.
    pub more: Vec<(&'static str, usize)>,
    /// Other differences, between two formats of which one has no place for what a definition says.
    pub uncounted: Vec<Difference>,
}

/// One model's tokenizer.
enum Side {
    None,
    Known(Box<Tokenizer>),
    /// It is not understood, for this reason.
    Unknown(String),
}

impl Tokenizers {
    /// Compares the tokenizers of two models: whole, or where one format knows steps by their names only, the part that
    /// every format keeps, and how a text is cut.
    ///
    /// # Errors
    /// Any error from reading, except for a tokenizer that is not understood.
    pub fn compared(engine: &Engine, a: &OpenedModel, b: &OpenedModel) -> Result<Tokenizers> {
        let both = [a, b];
        let mut json = map(engine.crew.as_ref(), 2, &|_, side| Side::json(engine, both[side]))?.into_iter();
        let one = json.next().unwrap_or(Ok(None));
        let two = json.next().unwrap_or(Ok(None));
        if let (Ok(Some(one)), Ok(Some(two))) = (&one, &two)
            && one.inline() == two.inline()
        {
            return Ok(Tokenizers::default());
        }
        let [one, two] = [one, two].map(Side::of);
        if let (Side::Unknown(_), Side::Unknown(_)) = (&one, &two)
            && a.format == b.format
            && both.iter().all(|opened| opened.model.tokenizer.is_none())
        {
            // What they are made of is compared as it is.
            return Ok(Tokenizers::default());
        }
        let (Side::Known(of_a), Side::Known(of_b)) = (&one, &two) else {
            let n_open = [&one, &two].iter().filter(|side| matches!(side, Side::Unknown(_))).count();
            return Ok(Tokenizers {
                words: [one.words(), two.words()],
                is_open: n_open > 0,
                is_open_twice: n_open > 1,
                ..Tokenizers::default()
            });
        };
        let names = [names_steps(engine, a, of_a), names_steps(engine, b, of_b)];
        if a.format == b.format || names == [false, false] {
            return Ok(Tokenizers::of(&of_a.differences(of_b)));
        }
        // Either may have been made from the other.
        let turned = names[0] && !names[1];
        let [whole, named] = if turned { [of_b, of_a] } else { [of_a, of_b] };
        let mut differences = whole.core_differences(named);
        if named.core_differences(whole).is_empty() {
            differences = Differences::default();
        }
        let mut tokenizers = Tokenizers::of(&differences);
        if turned {
            for difference in &mut tokenizers.counted {
                std::mem::swap(&mut difference.planned, &mut difference.written);
            }
        }
        let cuts = of_a.cut_differences(of_b);
        tokenizers.counted.extend(cuts.listed().iter().cloned());
        tokenizers.more.extend(cuts.unlisted());
        let is_counted = |field: &str| tokenizers.counted.iter().any(|counted| counted.field == field);
        let beyond = of_a.differences_beyond_core(of_b);
        tokenizers.uncounted =
            beyond.listed().iter().filter(|difference| !is_counted(difference.field)).cloned().collect();
        Ok(tokenizers)
    }

    fn of(differences: &Differences) -> Tokenizers {
        let mut counted = differences.listed().to_vec();
        // Last: most follow from other differences.
        counted.sort_by_key(|difference| difference.field.starts_with("score"));
        Tokenizers { counted, more: differences.unlisted().collect(), ..Tokenizers::default() }
    }
}

/// Returns whether a tokenizer may know its steps by their names only, as its format's dialect does.
fn names_steps(engine: &Engine, opened: &OpenedModel, tokenizer: &Tokenizer) -> bool {
    let format = engine.registry.format(&opened.format);
    tokenizer.pre.is_some()
        || format.is_ok_and(|format| matches!(format.manifest.dialect, DialectRule::Always(_)))
}

/// Kinds of errors of a tokenizer that is read and not understood.
const NOT_UNDERSTOOD: [ErrorKind; 3] =
    [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::LimitExceeded];

impl Side {
    /// The tokenizer's JSON, in memory; the inner error says why it is not understood.
    fn json(engine: &Engine, opened: &OpenedModel) -> Result<Result<Option<Bytes>>> {
        match opened.tokenizer(engine) {
            Ok(json) => Ok(Ok(json.map(|json| opened.fetch(&json)).transpose()?)),
            Err(error) if NOT_UNDERSTOOD.contains(&error.kind()) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    fn of(json: Result<Option<Bytes>>) -> Side {
        let tokenizer = json.and_then(|json| {
            json.map(|json| Tokenizer::from_json(json.inline().unwrap_or_default())).transpose()
        });
        match tokenizer {
            Ok(None) => Side::None,
            Ok(Some(tokenizer)) => Side::Known(Box::new(tokenizer)),
            Err(error) => {
                let file = error.file().map(|file| format!("{file}: ")).unwrap_or_default();
                Side::Unknown(format!("{file}{}", error.message()))
            }
        }
    }

    fn words(&self) -> Option<String> {
        match self {
            Side::None => None,
            Side::Known(tokenizer) => {
                let kind = match tokenizer.kind {
                    Kind::Bpe => "BPE",
                    Kind::Unigram => "unigram",
                    Kind::WordPiece => "WordPiece",
                };
                Some(format!("{kind}, {}", n_of(tokenizer.tokens.len(), "token")))
            }
            Side::Unknown(why) => Some(format!("not supported: {why}")),
        }
    }
}
