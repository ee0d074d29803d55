//! What a model's own configuration says about packed weights.

use super::schemes::{FILES, NAMES, OBJECTS, TOP};
use crate::open::OpenedModel;
use apr_sdk::{Bytes, Model, Value};
use serde_json::Value as Json;

/// A place that announces packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The scheme, if named there.
    pub scheme: Option<String>,
    /// The file or the format that contains it.
    pub file: String,
    /// The key of the announcing object; `None` for a whole companion file.
    pub key: Option<String>,
}

/// Bytes of a companion file that is read for the scheme's name. 1 MiB: a list of all of a model's layers
/// takes a tenth.
const LONGEST: u64 = 1 << 20;

/// Every announcement in an opened model, in model order.
pub fn announcements(source: &OpenedModel) -> Vec<Announcement> {
    let mut found = in_keys(&source.model);
    for asset in &source.model.assets {
        let name = asset.name.rsplit('/').next().unwrap_or_default();
        if FILES.contains(&name) {
            // A file that cannot be read or is not JSON counts as an announcement all the same.
            let short = asset.bytes.len() <= LONGEST;
            let held = short.then(|| source.fetch(&asset.bytes).ok()).flatten();
            let json = held.as_ref().and_then(Bytes::inline).and_then(|b| serde_json::from_slice(b).ok());
            let scheme = json.as_ref().and_then(named);
            found.push(Announcement { scheme, file: asset.name.clone(), key: None });
        }
    }
    found
}

/// The announcements among a model's metadata keys.
fn in_keys(model: &Model) -> Vec<Announcement> {
    let mut found: Vec<Announcement> = Vec::new();
    for foreign in &model.foreign {
        for file in &foreign.files {
            let shown = if file.name.is_empty() { &foreign.format } else { &file.name };
            for (key, value) in &file.typed {
                let Some((object, member)) = split(key).filter(|_| !is_empty_object(value)) else { continue };
                let at = found.iter().position(|f| f.file == *shown && f.key.as_deref() == Some(object));
                let at = at.unwrap_or_else(|| {
                    let (file, key) = (shown.clone(), Some(object.to_owned()));
                    found.push(Announcement { scheme: None, file, key });
                    found.len() - 1
                });
                if found[at].scheme.is_none() && NAMES.contains(&member) {
                    found[at].scheme = value.as_str().map(str::to_owned);
                }
            }
        }
    }
    found
}

/// Whether a model still has an announcement.
pub fn still_says(model: &Model, place: &Announcement) -> bool {
    match &place.key {
        None => model.assets.iter().any(|asset| asset.name == place.file),
        Some(object) => {
            let keys = model.foreign.iter().flat_map(|f| &f.files).flat_map(|file| &file.typed);
            keys.filter_map(|(key, _)| split(key)).any(|(other, _)| other == object)
        }
    }
}

/// The announcing object that a key is in, and the key's name within it.
fn split(key: &str) -> Option<(&str, &str)> {
    let (top, members) = TOP;
    if let Some(member) = key.strip_prefix(top).and_then(|rest| rest.strip_prefix('.')) {
        return members.contains(&member).then_some((top, member));
    }
    let mut begin = 0;
    for name in key.split('.') {
        let end = begin + name.len();
        if OBJECTS.contains(&name) {
            return Some((&key[..end], key.get(end + 1..).unwrap_or_default()));
        }
        begin = end + 1;
    }
    None
}

/// The scheme that a JSON object names, directly or in a nested object.
fn named(json: &Json) -> Option<String> {
    let object = json.as_object()?;
    let own = NAMES.iter().find_map(|name| object.get(*name)?.as_str().map(str::to_owned));
    own.or_else(|| object.values().find_map(|inner| inner.is_object().then(|| named(inner))?))
}

/// Whether a value is an object without members, which announces nothing.
fn is_empty_object(value: &Value) -> bool {
    value.array_head().is_some_and(|(_, n)| n == 1)
        && value.items().first().and_then(Value::as_str) == Some("{}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_announce_wherever_the_object_stands() {
        for (key, want) in [
            ("quantization_config.quant_method", Some(("quantization_config", "quant_method"))),
            ("text_config.quantization_config.bits", Some(("text_config.quantization_config", "bits"))),
            ("quantization_config", Some(("quantization_config", ""))),
            ("quantization.bits", Some(("quantization", "bits"))),
            ("quantization.note", None),
            ("general.quantization_version", None),
            ("my_quantization_config", None),
        ] {
            assert_eq!(split(key), want, "{key}");
        }
    }
}
