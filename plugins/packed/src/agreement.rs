//! Settings that are stated twice, in several files or under several names of one: they say the same, or neither is followed.

use crate::model::{Config, Model};
use crate::scheme::SCHEMES;
use apr_sdk::{Error, Result, escape};
use serde_json::Value as Json;

/// The names of each setting that values depend on.
const SETTINGS: [&[&str]; 6] = [
    &["bits", "w_bit"],
    &["group_size", "q_group_size"],
    &["quant_algo"],
    &["weight_block_size"],
    &["fmt"],
    &["mode"],
];

/// A setting where it is stated.
pub struct Statement<'m> {
    /// The announcement.
    pub config: &'m Config<'m>,
    /// The setting's name there.
    pub key: &'m str,
    /// Its value.
    pub value: String,
}

/// Fails for a setting that announcements of one scheme state differently.
///
/// # Errors
/// Malformed, with both statements.
pub fn check(model: &Model<'_>) -> Result<()> {
    for scheme in SCHEMES {
        let configs: Vec<&Config<'_>> =
            model.configs.iter().filter(|config| scheme.states.holds_of(config)).collect();
        for names in SETTINGS {
            let all = configs.iter().flat_map(|config| {
                names.iter().filter_map(|key| {
                    Some(Statement { config, key, value: comparable(config.setting(key)?)? })
                })
            });
            same(all, |statement| statement.value.clone())?;
        }
    }
    Ok(())
}

/// Fails for statements that mean different things.
///
/// # Errors
/// Malformed, with the first and one that differs.
pub fn same<'m, M: PartialEq>(
    all: impl IntoIterator<Item = Statement<'m>>,
    meaning: impl Fn(&Statement<'m>) -> M,
) -> Result<()> {
    let mut all = all.into_iter();
    let Some(first) = all.next() else { return Ok(()) };
    let Some(other) = all.find(|other| meaning(other) != meaning(&first)) else { return Ok(()) };
    let message = format!("{}, but {}", first.shown(), other.shown());
    let hint = "keep the statement that the weights were packed by, and remove the other";
    Err(Error::malformed(message).in_file(first.config.file).hint(hint))
}

impl Statement<'_> {
    /// `` `quantization_config.bits` in config.json is 4 ``.
    fn shown(&self) -> String {
        format!("{} is {}", self.config.place(self.key), escape(&self.value, 80))
    }
}

/// A number, a text or a list, as it is compared; `None` for anything else, which states nothing.
fn comparable(value: &Json) -> Option<String> {
    match value {
        Json::Number(number) => Some(number.as_f64()?.to_string()),
        Json::String(text) => Some(text.to_ascii_lowercase()),
        Json::Array(_) => Some(value.to_string()),
        _ => None,
    }
}
