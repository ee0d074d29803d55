//! The index of a sharded model: which file holds which tensor, and further metadata.

use crate::json::{Forgotten, Text, first_time, place};
use apr_sdk::strict_json::Strict;
use apr_sdk::{Error, Limits, Result, Value, ValueType, escape};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::fmt;

/// Bytes of an index: the same limit as for headers.
pub const MAX_LEN: u64 = crate::layout::MAX_HEADER_LEN;

/// Memory for a tensor in the map besides its name.
const RECORD_COST: u64 = 128;

/// Whether this is the name of an index (`model.safetensors.index.json`, `….index.fp16.json`).
pub fn is_name(name: &str) -> bool {
    name.contains(".safetensors.index.") && name.ends_with(".json")
}

/// A parsed index.
#[derive(Debug, Default)]
pub struct Index {
    /// The members of `metadata`, in order.
    pub members: Vec<(String, Value)>,
    /// The map from tensor to file, in order; files by their index in [`Index::files`].
    pub map: Vec<(String, usize)>,
    /// The files, sorted by name.
    pub files: Vec<String>,
}

impl Index {
    /// Parses the text of an index.
    ///
    /// # Errors
    /// Malformed or LimitExceeded, with the offset.
    pub fn parse(text: &str, limits: &Limits) -> Result<Index> {
        // Names, indices and the tree of the few members: a quarter of what reading the text earned.
        limits.budget.charge(text.len() as u64 * 4)?;
        let mut walk = Walk { limits, problem: None, members: None, map: None };
        let mut json = serde_json::Deserializer::from_str(text);
        if let Err(error) = json.deserialize_map(&mut walk).and_then(|()| json.end()) {
            let placed = place(&error, text, 0, "the index's JSON");
            return Err(match walk.problem {
                Some(problem) => problem.at(placed.offset().unwrap_or(0)),
                None => placed,
            });
        }
        let map = walk.map.ok_or_else(|| Error::malformed("the index has no `weight_map`").at(0))?;
        let mut files: Vec<_> = map.iter().map(|(_, file)| file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        let at = |file: &str| files.binary_search(&file).unwrap_or_default();
        let places: Vec<_> = map.iter().map(|(_, file)| at(file)).collect();
        let files = files.into_iter().map(str::to_owned).collect();
        let map = map.into_iter().map(|(name, _)| name).zip(places).collect();
        Ok(Index { members: walk.members.unwrap_or_default(), map, files })
    }

    /// The text that common tools write for this index: indented by two spaces, the map sorted, all ASCII.
    pub fn canonical(&self) -> String {
        let mut map: Vec<_> =
            self.map.iter().map(|(name, file)| (name.as_str(), self.files[*file].as_str())).collect();
        map.sort_unstable();
        let members = self.members.iter().map(|(key, value)| (key.as_str(), to_json(value).to_string()));
        let mut out = String::from("{\n  \"metadata\": ");
        push_map(&mut out, members);
        out.push_str(",\n  \"weight_map\": ");
        push_map(&mut out, map.into_iter().map(|(name, file)| (name, Json::from(file).to_string())));
        out.push_str("\n}\n");
        out
    }
}

fn push_map<'a>(out: &mut String, entries: impl Iterator<Item = (&'a str, String)>) {
    let mut before = "{\n    ";
    for (key, json) in entries {
        out.push_str(before);
        push_ascii(out, &Json::from(key).to_string());
        out.push_str(": ");
        push_ascii(out, &json);
        before = ",\n    ";
    }
    out.push_str(if before.starts_with(',') { "\n  }" } else { "{}" });
}

/// Appends JSON, escaping everything but printable ASCII; such characters only occur in strings.
fn push_ascii(out: &mut String, json: &str) {
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

/// A member as a typed value. A value without a type (a list, a map, null) becomes a list of one string, its
/// JSON.
pub fn from_json(json: Json) -> Value {
    match &json {
        Json::Bool(value) => Value::from_bool(*value),
        Json::String(text) => Value::from_string(text),
        Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), ..) => Value::from_u64(whole),
            (_, Some(whole), _) => Value::from_i64(whole),
            (.., float) => Value::from_f64(float.unwrap_or_default()),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => Value::from_strings(&[json.to_string()]),
    }
}

/// A typed value as JSON, wherever it comes from.
pub fn to_json(value: &Value) -> Json {
    if let Some(whole) = value.as_unsigned() {
        return Json::from(whole);
    }
    match value.kind {
        ValueType::STRING => {
            Json::from(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
        }
        ValueType::BOOL => Json::from(value.as_bool().unwrap_or_default()),
        ValueType::F32 => Json::from(value.as_f32()),
        ValueType::F64 => Json::from(value.as_f64()),
        ValueType::I8 => Json::from(value.as_i8()),
        ValueType::I16 => Json::from(value.as_i16()),
        ValueType::I32 => Json::from(value.as_i32()),
        ValueType::I64 => Json::from(value.as_i64()),
        _ => {
            let items = value.items();
            let wrapped = match &items[..] {
                [one] => one.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok()),
                _ => None,
            };
            let is_wrapped = |json: &Json| matches!(json, Json::Null | Json::Array(_) | Json::Object(_));
            wrapped.filter(is_wrapped).unwrap_or_else(|| Json::Array(items.iter().map(to_json).collect()))
        }
    }
}

/// A byte count in any spelling: some tools write a float or a string.
pub fn byte_count(value: &Value) -> Option<u64> {
    let text = match value.kind {
        ValueType::F64 => value.as_f64()?.to_string(),
        ValueType::STRING => value.as_str()?.to_owned(),
        _ => return value.as_unsigned(),
    };
    text.parse().ok()
}

/// The state of the one pass.
struct Walk<'l> {
    limits: &'l Limits,
    /// An error of our own, whose kind serde cannot carry.
    problem: Option<Error>,
    members: Option<Vec<(String, Value)>>,
    map: Option<Vec<(String, String)>>,
}

impl<'de> Visitor<'de> for &mut Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `weight_map`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key_seed(Text("a key"))? {
            first_time(&mut seen, key.clone())?;
            match &*key {
                "metadata" => self.members = map.next_value_seed(Members)?,
                "weight_map" => self.map = Some(map.next_value_seed(WeightMap(self))?),
                // Kept in the verbatim form.
                _ => map.next_value_seed(Forgotten)?,
            }
        }
        Ok(())
    }
}

/// The value of `metadata`: a map, or null for none.
struct Members;

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Option<Vec<(String, Value)>>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        match Strict::deserialize(deserializer)?.0 {
            Json::Null => Ok(None),
            Json::Object(map) => {
                Ok(Some(map.into_iter().map(|(key, json)| (key, from_json(json))).collect()))
            }
            _ => Err(serde::de::Error::custom("`metadata` is not a map")),
        }
    }
}

/// Reads the object under `weight_map`: tensor names to file names.
struct WeightMap<'a, 'l>(&'a mut Walk<'l>);

impl<'de> DeserializeSeed<'de> for WeightMap<'_, '_> {
    type Value = Vec<(String, String)>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap<'_, '_> {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`weight_map` as a map from tensor names to file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let (mut seen, mut entries) = (HashSet::new(), Vec::new());
        let limits = self.0.limits;
        while let Some(name) = map.next_key_seed(Text("a tensor name"))? {
            first_time(&mut seen, name.clone())?;
            let file = map.next_value_seed(Text("a file name"))?;
            let problem = if entries.len() as u64 >= limits.tensors {
                Some(Error::limit(format!("the index has more than {} tensors", limits.tensors)))
            } else if file.is_empty() {
                Some(Error::malformed("the index maps it to an empty file name"))
            } else {
                limits.budget.charge(2 * (name.len() + file.len()) as u64 + RECORD_COST).err()
            };
            if let Some(problem) = problem {
                self.0.problem = Some(problem.tensor(escape(&name, 400)));
                return Err(serde::de::Error::custom(""));
            }
            entries.push((name.into_owned(), file.into_owned()));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_every_kind_come_back() {
        let text = "{\n  \"metadata\": {\n    \"a\": 18446744073709551615,\n    \"b\": -1,\n    \"c\": 16060522496.0,\n    \
                    \"d\": \"\\u00e9\\ud83d\\ude00\\u007f\\n\",\n    \"e\": true,\n    \"f\": null,\n    \"g\": [1,\"[]\"],\n    \
                    \"h\": {\"x\":[]},\n    \"i\": \"[1]\"\n  },\n  \"weight_map\": {}\n}\n";
        let index = Index::parse(text, &Limits::default()).unwrap();
        assert_eq!(index.canonical(), text);
        assert_eq!(index.members[0].1, Value::from_u64(u64::MAX));
        assert_eq!(index.members[6].1, Value::from_strings(&[r#"[1,"[]"]"#]));
    }

    #[test]
    fn sizes_are_numbers_in_every_spelling() {
        let counts = [Value::from_u64(7), Value::from_f64(7.0), Value::from_string("7"), Value::from_i64(7)];
        assert!(counts.iter().all(|value| byte_count(value) == Some(7)));
        assert_eq!(byte_count(&Value::from_f64(7.5)), None);
        assert_eq!(byte_count(&Value::from_string("x")), None);
    }
}
