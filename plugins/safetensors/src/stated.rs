//! Weights that a file's own metadata describes: tools that store a weight in several tensors say there how, since the format
//! itself has no place for it.
//!
//! ```text
//! "tensor_names": "[\"a.weight\", \"a.bias\"]"
//! "a.weight":     "{\"_type\": \"Int8Tensor\", \"_data\": {...}, \"_tensor_data_names\": [\"qdata\", \"scale\"]}"
//! "a.bias":       "{\"_type\": \"Tensor\"}"
//! ```
//! What the words mean, schemes of packed weights know.
//!
//! Source: `is_metadata_torchao` in `prototype/safetensors/safetensors_utils.py` of torchao 0.18, which other tools look for, too.

use apr_sdk::{Derived, DerivedStated};
use serde_json::Value as Json;
use std::collections::HashMap;

/// The key of the list of names.
const NAMES: &str = "tensor_names";

/// The member of a description that says what the weight is.
const TYPE: &str = "_type";

/// What an ordinary tensor is called, which is stored under its own name.
const PLAIN: &str = "Tensor";

/// What the metadata says of weights; `None` if it describes none. Every shard may repeat it for the whole model.
pub fn stated(metadata: &[(String, String)]) -> Option<Derived> {
    let all: HashMap<&str, &str> = metadata.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    let names: Vec<String> = serde_json::from_str(all.get(NAMES)?).ok()?;
    let type_of = |text: &str| {
        let json = serde_json::from_str::<Json>(text).ok()?;
        json.get(TYPE)?.as_str().map(str::to_owned)
    };
    let said = |name: String| {
        let json = all.get(name.as_str()).copied().unwrap_or_default().to_owned();
        DerivedStated { by: type_of(&json).unwrap_or_default(), name, json }
    };
    let mut derived = Derived { keys: vec![NAMES.to_owned()], ..Derived::default() };
    derived.keys.extend(names.iter().filter(|name| all.contains_key(name.as_str())).cloned());
    derived.stated = names.into_iter().map(said).filter(|one| one.by != PLAIN).collect();
    // Others may call a list of theirs the same.
    derived.stated.iter().any(|one| !one.by.is_empty()).then_some(derived)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metadata: &[(&str, &str)]) -> Option<Derived> {
        let owned: Vec<_> = metadata.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
        stated(&owned)
    }

    #[test]
    fn weights_are_described_under_their_names() {
        let int8 = r#"{"_type": "Int8Tensor", "_data": {}}"#;
        let plain = r#"{"_type": "Tensor"}"#;
        let list = r#"["a.weight", "a.bias", "lost"]"#;
        let derived = of(&[("format", "pt"), ("a.weight", int8), ("a.bias", plain), (NAMES, list)]).unwrap();
        let stated = |name: &str, by: &str, json: &str| DerivedStated {
            name: name.into(),
            by: by.into(),
            json: json.into(),
        };
        assert_eq!(derived.stated, [stated("a.weight", "Int8Tensor", int8), stated("lost", "", "")]);
        assert_eq!(derived.keys, [NAMES, "a.weight", "a.bias"]);
    }

    #[test]
    fn other_metadata_describes_none() {
        let plain = r#"{"_type": "Tensor"}"#;
        for metadata in [
            &[][..],
            &[("format", "pt")],
            &[(NAMES, "a, b"), ("a", "1")],
            &[(NAMES, r#"["a"]"#)],
            &[(NAMES, r#"["a"]"#), ("a", "a matrix")],
            &[(NAMES, r#"["a"]"#), ("a", plain)],
            &[("a", r#"{"_type": "Int8Tensor"}"#)],
        ] {
            assert_eq!(of(metadata), None, "{metadata:?}");
        }
    }
}
