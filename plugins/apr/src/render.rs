//! Builds the text of the metadata section, with holes, and moves what is too long to hidden tensors.

use crate::layout::HIDDEN;
use crate::metadata::{FOREIGN, place};
use apr_sdk::{Asset, Bytes, Error, Foreign, Result, Value, escape, json};
use serde_json::{Map, Value as Json, json, value::RawValue};

/// What is known about the inputs when a provenance record is created.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Names and versions of program and plugins.
    pub versions: &'a [(String, String)],
    /// The size of each input in bytes.
    pub inputs: &'a [u64],
    /// What whoever gave the model says of it.
    pub source: &'a [(String, String)],
    /// Further entries of the record: a JSON object, or nothing.
    pub more: &'a str,
}

/// A piece of the section's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Final text.
    Text(String),
    /// Eight digits: the CRC-32 of this input's payload.
    InputCrc(u32),
}

/// The section's text, and what is too long for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text in pieces.
    pub pieces: Vec<Piece>,
    /// Names and contents of the hidden tensors, in the order of the text.
    pub hidden: Vec<(String, Bytes)>,
}

impl Piece {
    /// Digits of a CRC-32.
    pub const CRC_LEN: usize = 8;

    /// Its bytes.
    pub fn len(&self) -> usize {
        match self {
            Piece::Text(text) => text.len(),
            Piece::InputCrc(_) => Piece::CRC_LEN,
        }
    }
}

impl Rendered {
    /// Bytes of the section.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Whether the text has no holes and is exactly `text`.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Text(own)] if own == text)
    }

    pub(crate) fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn key(&mut self, key: &str) {
        self.text(if self.pieces.is_empty() { "{" } else { "," });
        self.text(&Json::from(key).to_string());
        self.text(":");
    }

    pub fn entry(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text(value);
    }

    fn hide(&mut self, bytes: &Bytes) -> String {
        let name = format!("{HIDDEN}{}", self.hidden.len());
        self.hidden.push((name.clone(), bytes.clone()));
        name
    }

    /// The reference to a hidden tensor for `bytes`, if they are too long for the text.
    fn elsewhere(&mut self, bytes: &Bytes) -> Option<Json> {
        (bytes.len() > Bytes::INLINE_LIMIT).then(|| Json::from(self.hide(bytes)))
    }

    /// JSON that is only carried: unchanged, unless it is too long or would not be restored exactly.
    pub fn carried(&mut self, bytes: &Bytes, fetch: Fetch<'_>) -> Result<String> {
        if bytes.len() <= Bytes::INLINE_LIMIT {
            let held = fetch(bytes)?;
            let text = held.inline().and_then(|held| std::str::from_utf8(held).ok());
            if let Some(text) = text.filter(|text| is_bare_json(text)) {
                return Ok(text.to_owned());
            }
        }
        Ok(json!({ "at": self.hide(bytes) }).to_string())
    }
}

/// Reads bytes of the model that are in a file.
pub type Fetch<'a> = &'a mut dyn FnMut(&Bytes) -> Result<Bytes>;

/// Whether `text` is a single JSON value without surrounding space that cannot be mistaken for a reference to
/// a hidden tensor.
fn is_bare_json(text: &str) -> bool {
    let parsed: serde_json::Result<&RawValue> = serde_json::from_str(text);
    parsed.is_ok_and(|raw| raw.get().len() == text.len()) && place(text).is_none()
}

impl Rendered {
    pub fn assets(&mut self, assets: &[Asset], fetch: Fetch<'_>) -> Result<()> {
        self.key("assets");
        for (n, asset) in assets.iter().enumerate() {
            let value = self.byte_string(&asset.bytes, fetch)?;
            self.member(n, &asset.name, &value);
        }
        self.text("}");
        Ok(())
    }

    /// Another format's metadata, as in [`json::foreign_to_json`], but one value at a time, so that memory is
    /// bounded by the text.
    pub fn foreign(&mut self, foreign: &Foreign, fetch: Fetch<'_>) -> Result<()> {
        self.key(&format!("{FOREIGN}{}", foreign.format));
        self.text("{\"files\":[");
        for (n, file) in foreign.files.iter().enumerate() {
            self.text(if n == 0 { "{" } else { ",{" });
            if !file.name.is_empty() {
                self.text(&format!("\"name\":{},", Json::from(file.name.as_str())));
            }
            self.text(&format!("\"n_tensors\":{},\"typed\":", file.n_tensors));
            if file.typed.is_empty() {
                self.text("{");
            }
            for (n, (key, value)) in file.typed.iter().enumerate() {
                let value = self.typed(value, fetch)?;
                self.member(n, key, &value);
            }
            self.text("}");
            if let Some(verbatim) = &file.verbatim {
                let verbatim = self.byte_string(verbatim, fetch)?;
                self.text(&format!(",\"verbatim\":{verbatim}"));
            }
            self.text("}");
        }
        self.text("]}");
        Ok(())
    }

    /// Member number `n` of an object; the first one opens it.
    fn member(&mut self, n: usize, key: &str, value: &Json) {
        self.text(if n == 0 { "{" } else { "," });
        self.text(&format!("{}:{value}", Json::from(key)));
    }

    fn typed(&mut self, value: &Value, fetch: Fetch<'_>) -> Result<Json> {
        match self.elsewhere(&value.bytes) {
            Some(place) => Ok(json!({ "t": value.kind.name(), "at": place })),
            None => json::value_to_json(value.kind, fetch(&value.bytes)?.inline().unwrap_or_default()),
        }
    }

    fn byte_string(&mut self, bytes: &Bytes, fetch: Fetch<'_>) -> Result<Json> {
        match self.elsewhere(bytes) {
            Some(place) => Ok(json!({ "at": place })),
            None => Ok(json::bytes_to_json(fetch(bytes)?.inline().unwrap_or_default())),
        }
    }

    /// The provenance record, with a hole for each input's CRC-32.
    pub fn provenance(&mut self, origin: Origin<'_>) -> Result<()> {
        let versions: Map<_, _> = origin.versions.iter().map(|(id, v)| (id.clone(), json!(v))).collect();
        self.entry("provenance", &format!("{{\"versions\":{},\"inputs\":[", Json::Object(versions)));
        for (n, bytes) in origin.inputs.iter().enumerate() {
            let number = u32::try_from(n).map_err(|_| Error::unsupported("more than 2^32 inputs"))?;
            self.text(if n == 0 { "" } else { "," });
            self.text(&format!("{{\"bytes\":{bytes},\"crc32\":\""));
            self.pieces.push(Piece::InputCrc(number));
            self.text("\"}");
        }
        self.text("]");
        if !origin.source.is_empty() {
            let facts: Map<_, _> =
                origin.source.iter().map(|(name, fact)| (name.clone(), json!(fact))).collect();
            self.text(&format!(",\"source\":{}", Json::Object(facts)));
        }
        let more =
            if origin.more.is_empty() { "{}" } else { raw_json("provenance", origin.more.as_bytes())? };
        let entries = more.trim().strip_prefix('{').and_then(|more| more.strip_suffix('}'));
        match entries.map(str::trim) {
            Some("") => {}
            Some(entries) => self.text(&format!(",{entries}")),
            None => return Err(Error::invalid_argument("more of the provenance record is no JSON object")),
        }
        self.text("}");
        Ok(())
    }
}

/// JSON that must be in the text whatever its length.
///
/// # Errors
/// InvalidArgument for anything but JSON.
pub fn raw_json<'a>(key: &str, bytes: &'a [u8]) -> Result<&'a str> {
    let text = std::str::from_utf8(bytes).ok();
    let parsed = text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    parsed.map(RawValue::get).ok_or_else(|| {
        Error::invalid_argument(format!("the value of metadata key `{}` is not JSON", escape(key, 120)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_json_that_looks_like_a_place_is_hidden() {
        for (text, bare) in [
            (r#"{"at":"__apr__/0"}"#, false),
            (r#"{ "at" : "__apr__/0" }"#, false),
            (r#"{"at":"x"}"#, true),
            (r#"{"at":"__apr__/0","b":1}"#, true),
            ("nonsense", false),
            ("", false),
            ("1 ", false),
        ] {
            assert_eq!(is_bare_json(text), bare, "{text}");
        }
    }
}
