//! Computes, from a format's manifest alone, what must become of a model in that format.

use crate::rosetta::specimens::{Extra, Specimen};
use apr_sdk::manifest::ForeignCarrier;
use apr_sdk::{Error, ForeignPolicy, FormatManifest, Model, Obstacle, Value};
use apr_testkit::metadata_carried;

/// The reason why a format cannot hold a model's tensors, or `None` if it can.
pub fn obstacle(format: &FormatManifest, model: &Model) -> Option<String> {
    match format.carries.check(model) {
        Err(refusal) => Some(words(&refusal.obstacle)),
        Ok(()) => metadata_carried(format, model).err().map(|error| short(format, &error)),
    }
}

/// An obstacle in words, for a table cell.
fn words(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Count(have) => format!("{have} tensors, limit 1"),
        Obstacle::DType(dtype) => format!("dtype {dtype}"),
        Obstacle::Dims { have, limit } => format!("{have} dimensions, limit {limit}"),
        Obstacle::NameBytes { have, limit } => format!("a name of {have} bytes, limit {limit}"),
        Obstacle::NameControls => "a name with these characters".to_owned(),
        Obstacle::ZeroSize(_) => "a dimension of size 0".to_owned(),
        Obstacle::Scalar => "a tensor without dimensions".to_owned(),
        other => other.to_string(),
    }
}

/// The reason why a specimen cannot be written in a format as a source, or `None` if it can.
pub fn obstacle_at_source(format: &FormatManifest, specimen: &Specimen) -> Option<String> {
    let carries = &format.carries;
    match &specimen.extra {
        Extra::Metadata(entries) => {
            let odd = entries.iter().find(|(_, value)| !holds(format, value));
            odd.map(|(_, value)| format!("metadata of type {}", type_words(value)))
        }
        Extra::Tokenizer if !carries.tokenizer => Some("a tokenizer".to_owned()),
        Extra::Assets if !carries.assets => Some("companion files".to_owned()),
        _ => None,
    }
}

fn holds(format: &FormatManifest, value: &Value) -> bool {
    type_words(value).split(' ').all(|word| format.carries.metadata_type(word))
}

/// The type in words: `u8`, or `arr u8` for a list.
fn type_words(value: &Value) -> String {
    let kind = value.kind.name().unwrap_or("?");
    match value.array_head().and_then(|(item, _)| item.name()) {
        Some(item) => format!("{kind} {item}"),
        None => kind.to_owned(),
    }
}

/// An error without the format's name, which is shown beside it.
pub fn short(format: &FormatManifest, error: &Error) -> String {
    let text = error.message();
    for name in [format!("`{}` cannot hold ", format.id), format!("{} ", format.name)] {
        if let Some(rest) = text.strip_prefix(&name) {
            return rest.to_owned();
        }
    }
    text.to_owned()
}

/// The parts of its source besides tensors that a model still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Metadata that only the source's format can express.
    pub metadata: bool,
    /// True if it still has the tokenizer.
    pub tokenizer: bool,
    /// True if it still has the companion files.
    pub companions: bool,
}

impl Fate {
    /// Everything, as at the source.
    pub const WHOLE: Fate = Fate { metadata: true, tokenizer: true, companions: true };

    /// The fate after a conversion to `to`, for a model that began in `source`.
    pub fn after(self, source: &FormatManifest, to: &FormatManifest, policy: ForeignPolicy) -> Fate {
        let carried = match to.carries.foreign {
            ForeignCarrier::None => false,
            ForeignCarrier::Keep => policy == ForeignPolicy::Keep,
            _ => policy != ForeignPolicy::Drop,
        };
        Fate {
            metadata: self.metadata && (carried || to.id == source.id),
            tokenizer: self.tokenizer && to.carries.tokenizer,
            companions: self.companions && to.carries.assets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: &str, foreign: ForeignCarrier) -> FormatManifest {
        let mut format = FormatManifest::default();
        format.id = id.to_owned();
        format.carries.foreign = foreign;
        format
    }

    #[test]
    fn what_is_lost_stays_lost() {
        let a = named("a", ForeignCarrier::None);
        let all = named("all", ForeignCarrier::All);
        let none = named("none", ForeignCarrier::None);
        let keep = named("keep", ForeignCarrier::Keep);
        let go = |route: &[&FormatManifest], policy| {
            route.iter().fold(Fate::WHOLE, |fate, to| fate.after(&a, to, policy)).metadata
        };
        assert!(go(&[&all, &a], ForeignPolicy::Default));
        assert!(!go(&[&none, &a], ForeignPolicy::Default));
        assert!(!go(&[&all, &none, &all, &a], ForeignPolicy::Default));
        assert!(!go(&[&keep, &a], ForeignPolicy::Default) && go(&[&keep, &a], ForeignPolicy::Keep));
        assert!(!go(&[&all], ForeignPolicy::Drop));
    }
}
