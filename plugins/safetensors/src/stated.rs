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
use std::collections::{HashMap, HashSet};

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
    let mut derived = Derived { keys: vec![NAMES.to_owned()], ..Derived::default() };
    // A name that is listed again describes nothing more, and would cost its description again.
    let mut known = HashSet::new();
    for name in names.iter().filter(|name| known.insert(name.as_str())) {
        let text = all.get(name.as_str()).copied();
        derived.keys.extend(text.is_some().then(|| name.clone()));
        let json = text.unwrap_or_default();
        let by = type_of(json).unwrap_or_default();
        if by != PLAIN {
            derived.stated.push(DerivedStated { name: name.clone(), by, json: json.to_owned() });
        }
    }
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
    fn a_name_that_is_listed_again_is_described_once() {
        let int8 = r#"{"_type": "Int8Tensor"}"#;
        let derived = of(&[("a", int8), (NAMES, r#"["a", "a", "lost", "lost", "a"]"#)]).unwrap();
        assert_eq!((derived.stated.len(), derived.keys.len()), (2, 2));
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
