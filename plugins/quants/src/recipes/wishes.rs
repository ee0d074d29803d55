//! What the user asked for besides a recipe.

use super::table::WRITABLE;
use apr_sdk::{DType, Error, Options, Result, escape};
use regex_lite::Regex;

/// What the user asked for besides a recipe.
#[derive(Default)]
pub struct Wishes {
    /// Every tensor in the base type.
    pub pure: bool,
    /// The output matrix as it is.
    pub leave_output: bool,
    /// The type of the output matrix.
    pub output: Option<DType>,
    /// The type of the embedding.
    pub embedding: Option<DType>,
    /// Types of the tensors whose names have a pattern; the first that is found counts.
    pub patterns: Vec<(Regex, DType)>,
}

impl Wishes {
    /// # Errors
    /// InvalidArgument, naming the option, for one that there is not, a type that there is not, or no regular expression.
    pub fn of(options: &Options) -> Result<Wishes> {
        let mut wishes = Wishes::default();
        for (name, value) in options.iter() {
            match name {
                "pure" => wishes.pure = value == "true",
                "leave-output-tensor" => wishes.leave_output = value == "true",
                "output-tensor-type" => wishes.output = Some(named(name, value)?),
                "token-embedding-type" => wishes.embedding = Some(named(name, value)?),
                "tensor-type" => {
                    let lines = value.lines().filter(|line| !line.trim().is_empty());
                    wishes.patterns = lines.map(|line| pattern(name, line)).collect::<Result<_>>()?;
                }
                other => {
                    let message = format!("unknown recipe option `{}`", escape(other, 80));
                    return Err(Error::invalid_argument(message).hint(
                        "use one of pure, leave-output-tensor, output-tensor-type, token-embedding-type and \
                         tensor-type",
                    ));
                }
            }
        }
        Ok(wishes)
    }

    /// Fails for a pattern that is in none of the tensors' names.
    ///
    /// # Errors
    /// InvalidArgument, naming the pattern.
    pub fn refuse_unmatched(&self, names: &[&str]) -> Result<()> {
        match self.patterns.iter().find(|(pattern, _)| !names.iter().any(|name| pattern.is_match(name))) {
            Some((pattern, _)) => {
                let message = format!("--tensor-type `{}` matches no tensor", escape(pattern.as_str(), 200));
                Err(Error::invalid_argument(message).hint(
                    "correct it: names are GGUF's, such as `blk.0.attn_v.weight`, and a part is enough",
                ))
            }
            None => Ok(()),
        }
    }

    /// The type that the first pattern in a name asks for.
    pub fn for_name(&self, name: &str) -> Option<DType> {
        self.patterns.iter().find(|(pattern, _)| pattern.is_match(name)).map(|(_, dtype)| *dtype)
    }
}

/// `PATTERN=TYPE`. Patterns are in lower case, as all names are.
fn pattern(option: &str, line: &str) -> Result<(Regex, DType)> {
    let shown = escape(line, 200);
    let Some((pattern, dtype)) = line.split_once('=').filter(|(pattern, _)| !pattern.is_empty()) else {
        return Err(Error::invalid_argument(format!("--{option}: expected PATTERN=TYPE, found `{shown}`")));
    };
    let regex = Regex::new(&pattern.to_ascii_lowercase()).map_err(|e| {
        Error::invalid_argument(format!(
            "--{option}: the pattern of `{shown}` is not a valid regular expression: {e}"
        ))
        .hint(
            "escape literal [ ( { . * + ? with a backslash; look-around and backreferences are not supported",
        )
    })?;
    Ok((regex, named(option, dtype)?))
}

/// The type of a name, in any case.
fn named(option: &str, name: &str) -> Result<DType> {
    let found = WRITABLE.iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name.trim()));
    // Another plugin's block type, which its quantizer writes.
    let brought =
        || DType::from_name(&name.trim().to_ascii_uppercase()).filter(|of| of.block_type().is_some());
    found.copied().or_else(brought).ok_or_else(|| {
        let names: Vec<_> = WRITABLE.iter().map(|dtype| dtype.name()).collect();
        let message = format!("--{option}: no tensor can be written in `{}`", escape(name, 80));
        Error::invalid_argument(message).hint(format!("use one of {}", names.join(", ")))
    })
}
